/*
 * 80-guard.sql
 *		On a shard: refusing keys that live elsewhere.
 *
 * VOLATILE and PARALLEL UNSAFE: they look at what is active now, not at what
 * the statement sees.
 */

CREATE FUNCTION shardring.guard() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_guard';
COMMENT ON FUNCTION shardring.guard() IS
	'trigger (ring, key column): refuses rows whose key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key text) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_text';
COMMENT ON FUNCTION shardring.require_here(text, text) IS
	'returns this shard, or raises SR001 when a text key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key bigint) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_int8';
COMMENT ON FUNCTION shardring.require_here(text, bigint) IS
	'returns this shard, or raises SR001 when an integer key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key uuid) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_uuid';
COMMENT ON FUNCTION shardring.require_here(text, uuid) IS
	'returns this shard, or raises SR001 when a uuid key lives elsewhere';

