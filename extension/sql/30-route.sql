/*
 * 30-route.sql
 *		Where a key lives, and which version says so.
 */

CREATE TYPE shardring.location AS
(
	version integer,
	key_position bigint,
	group_name text,
	slot integer,
	shard text
);
COMMENT ON TYPE shardring.location IS 'where a key lives, step by step';
COMMENT ON COLUMN shardring.location.version IS
	'the version that was used';
COMMENT ON COLUMN shardring.location.key_position IS 'the hash of the key';
COMMENT ON COLUMN shardring.location.group_name IS
	'the group that owns the position';
COMMENT ON COLUMN shardring.location.slot IS 'key_position % slots';
COMMENT ON COLUMN shardring.location.shard IS 'the shard that holds the slot';

CREATE FUNCTION shardring.key_position(
	key text, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_text';
COMMENT ON FUNCTION shardring.key_position(text, text, boolean) IS
	'the position of a text key: the hash of its UTF-8 bytes';

CREATE FUNCTION shardring.key_position(
	key bigint, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_int8';
COMMENT ON FUNCTION shardring.key_position(bigint, text, boolean) IS
	'the position of an integer key: the hash of its decimal text';

CREATE FUNCTION shardring.key_position(
	key uuid, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_uuid';
COMMENT ON FUNCTION shardring.key_position(uuid, text, boolean) IS
	'the position of a uuid key: the hash of its lower-case text';

CREATE FUNCTION shardring.bytes_position(
	bytes bytea, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_bytes_position';
COMMENT ON FUNCTION shardring.bytes_position(bytea, text, boolean) IS
	'the position of bytes as they are: their hash';

CREATE FUNCTION shardring.shard_for(ring text, key text)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_text';
COMMENT ON FUNCTION shardring.shard_for(text, text) IS
	'the shard of a text key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key bigint)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_int8';
COMMENT ON FUNCTION shardring.shard_for(text, bigint) IS
	'the shard of an integer key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key uuid)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_uuid';
COMMENT ON FUNCTION shardring.shard_for(text, uuid) IS
	'the shard of a uuid key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key text, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_text';
COMMENT ON FUNCTION shardring.shard_for(text, text, integer) IS
	'the shard of a text key in a version';

CREATE FUNCTION shardring.shard_for(ring text, key bigint, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_int8';
COMMENT ON FUNCTION shardring.shard_for(text, bigint, integer) IS
	'the shard of an integer key in a version';

CREATE FUNCTION shardring.shard_for(ring text, key uuid, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_uuid';
COMMENT ON FUNCTION shardring.shard_for(text, uuid, integer) IS
	'the shard of a uuid key in a version';

CREATE FUNCTION shardring.shard_at(ring text, key_position bigint)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_at';
COMMENT ON FUNCTION shardring.shard_at(text, bigint) IS
	'the shard of a position in the active version';

CREATE FUNCTION shardring.shard_at(
	ring text, key_position bigint, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_at';
COMMENT ON FUNCTION shardring.shard_at(text, bigint, integer) IS
	'the shard of a position in a version';

CREATE FUNCTION shardring.locate(ring text, key text)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_text';
COMMENT ON FUNCTION shardring.locate(text, text) IS
	'where a text key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key bigint)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_int8';
COMMENT ON FUNCTION shardring.locate(text, bigint) IS
	'where an integer key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key uuid)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_uuid';
COMMENT ON FUNCTION shardring.locate(text, uuid) IS
	'where a uuid key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key text, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_text';
COMMENT ON FUNCTION shardring.locate(text, text, integer) IS
	'where a text key lives in a version';

CREATE FUNCTION shardring.locate(ring text, key bigint, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_int8';
COMMENT ON FUNCTION shardring.locate(text, bigint, integer) IS
	'where an integer key lives in a version';

CREATE FUNCTION shardring.locate(ring text, key uuid, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_uuid';
COMMENT ON FUNCTION shardring.locate(text, uuid, integer) IS
	'where a uuid key lives in a version';

CREATE FUNCTION shardring.replicas_for(
	ring text, key text, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_text';
COMMENT ON FUNCTION shardring.replicas_for(text, text, integer) IS
	'where n copies of a text key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key bigint, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_int8';
COMMENT ON FUNCTION shardring.replicas_for(text, bigint, integer) IS
	'where n copies of an integer key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key uuid, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_uuid';
COMMENT ON FUNCTION shardring.replicas_for(text, uuid, integer) IS
	'where n copies of a uuid key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key text, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_text';
COMMENT ON FUNCTION shardring.replicas_for(text, text, integer, integer) IS
	'where n copies of a text key go in a version: new groups and zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key bigint, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_int8';
COMMENT ON FUNCTION shardring.replicas_for(text, bigint, integer, integer) IS
	'where n copies of a bigint key go in a version: new groups, zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key uuid, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_uuid';
COMMENT ON FUNCTION shardring.replicas_for(text, uuid, integer, integer) IS
	'where n copies of a uuid key go in a version: new groups and zones first';

CREATE FUNCTION shardring.active_version(ring text)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_active_version';
COMMENT ON FUNCTION shardring.active_version(text) IS
	'the active version of a ring; NULL when there is none yet';

CREATE FUNCTION shardring.require_version(ring text, version integer)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_require_version';
COMMENT ON FUNCTION shardring.require_version(text, integer) IS
	'returns the version, or raises SR002 when it is not the active one';

CREATE FUNCTION shardring.version_at(
	ring text, moment timestamp with time zone)
RETURNS integer
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 100
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	RETURN (SELECT a.version
			FROM shardring.activation AS a
			WHERE a.ring = version_at.ring COLLATE "C"
				AND a.activated_at <= moment
			ORDER BY a.version DESC
			LIMIT 1);
END
$body$;
COMMENT ON FUNCTION
	shardring.version_at(text, timestamp with time zone) IS
	'the version active at a moment; NULL before the first activation';

