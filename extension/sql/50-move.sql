/*
 * 50-move.sql
 *		What moves between two versions.
 */

CREATE FUNCTION shardring.moved_ranges(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (from_group text, to_group text, positions int8multirange,
	share double precision)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_moved_ranges';
COMMENT ON FUNCTION shardring.moved_ranges(text, integer, integer) IS
	'the positions that change group, one row per pair of groups';

CREATE FUNCTION shardring.move_plan(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (from_shard text, to_shard text, from_group text,
	to_group text, from_slots int4multirange, to_slots int4multirange,
	positions int8multirange, share double precision)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_move_plan';
COMMENT ON FUNCTION shardring.move_plan(text, integer, integer) IS
	'what changes shard: positions, and slots in the group on each side';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key text)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_text';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, text) IS
	'whether a text key changes its shard between two versions';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key bigint)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_int8';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, bigint) IS
	'whether an integer key changes its shard between two versions';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key uuid)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_uuid';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, uuid) IS
	'whether a uuid key changes its shard between two versions';

CREATE FUNCTION shardring.moving_keys(
	ring text, from_version integer, to_version integer, keys text[])
RETURNS TABLE (key text, key_position bigint, from_group text,
	from_slot integer, from_shard text, to_group text, to_slot integer,
	to_shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_moving_keys_array';
COMMENT ON FUNCTION
	shardring.moving_keys(text, integer, integer, text[]) IS
	'which of these keys change shard, and from where to where';

CREATE FUNCTION shardring.moving_keys(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name)
RETURNS TABLE (key text, key_position bigint, from_group text,
	from_slot integer, from_shard text, to_group text, to_slot integer,
	to_shard text)
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100000 ROWS 10000
AS 'MODULE_PATHNAME', 'shardring_moving_keys_relation';
COMMENT ON FUNCTION
	shardring.moving_keys(text, integer, integer, regclass, name) IS
	'which keys of a table change shard, read with the rights of the caller';

CREATE FUNCTION shardring.move_predicate(
	ring text, from_version integer, to_version integer, from_shard text,
	to_shard text, key_expression text, key_type text DEFAULT 'text',
	position_expression text DEFAULT NULL, for_utf8 boolean DEFAULT false)
RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 10000
AS 'MODULE_PATHNAME', 'shardring_move_predicate';
COMMENT ON FUNCTION shardring.move_predicate(
	text, integer, integer, text, text, text, text, text, boolean) IS
	'SQL for a stock server: true for rows that move between two shards';

CREATE FUNCTION shardring.simulate(
	groups_before integer, groups_after integer,
	vnodes integer DEFAULT 160, keys integer DEFAULT 20000,
	hash text DEFAULT 'md5')
RETURNS TABLE (scheme text, moved double precision,
	largest double precision, smallest double precision,
	stddev double precision)
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100000 ROWS 4
AS 'MODULE_PATHNAME', 'shardring_simulate';
COMMENT ON FUNCTION
	shardring.simulate(integer, integer, integer, integer, text) IS
	'what four ways of distributing keys move, and how even they are';

