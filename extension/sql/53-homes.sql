
/*
 * 53-homes.sql
 *		The aggregate homes: how many keys of a table live where.
 *
 * An array of shards and numbers, in turns; the shard is NULL for keys that
 * are.  All rows of a group are counted on the ring of its first one.
 */

CREATE FUNCTION shardring_internal.homes_names(state internal) RETURNS text[]
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_homes_names';
COMMENT ON FUNCTION shardring_internal.homes_names(internal) IS
	'final function of homes';

CREATE FUNCTION shardring_internal.homes_combine(
	state internal, other_state internal)
RETURNS internal
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_homes_combine';
COMMENT ON FUNCTION shardring_internal.homes_combine(internal, internal) IS
	'combine function of homes';

CREATE FUNCTION shardring_internal.homes_serialize(state internal)
RETURNS bytea
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_homes_serialize';
COMMENT ON FUNCTION shardring_internal.homes_serialize(internal) IS
	'serialization function of homes';

CREATE FUNCTION shardring_internal.homes_deserialize(
	bytes bytea, state internal)
RETURNS internal
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_homes_deserialize';
COMMENT ON FUNCTION shardring_internal.homes_deserialize(bytea, internal) IS
	'deserialization function of homes';

CREATE FUNCTION shardring_internal.homes_add(
	state internal, ring text, version integer, key text)
RETURNS internal
LANGUAGE C STABLE PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_homes_add_text';
COMMENT ON FUNCTION shardring_internal.homes_add(
	internal, text, integer, text) IS
	'transition function of homes, for text keys';

CREATE AGGREGATE shardring_internal.homes(
	ring text, version integer, key text)
(
	SFUNC = shardring_internal.homes_add,
	STYPE = internal,
	SSPACE = 131072,
	FINALFUNC = shardring_internal.homes_names,
	COMBINEFUNC = shardring_internal.homes_combine,
	SERIALFUNC = shardring_internal.homes_serialize,
	DESERIALFUNC = shardring_internal.homes_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE shardring_internal.homes(text, integer, text) IS
	'counts text keys by the shards they live on in a version';

CREATE FUNCTION shardring_internal.homes_add(
	state internal, ring text, version integer, key bigint)
RETURNS internal
LANGUAGE C STABLE PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_homes_add_int8';
COMMENT ON FUNCTION shardring_internal.homes_add(
	internal, text, integer, bigint) IS
	'transition function of homes, for integer keys';

CREATE AGGREGATE shardring_internal.homes(
	ring text, version integer, key bigint)
(
	SFUNC = shardring_internal.homes_add,
	STYPE = internal,
	SSPACE = 131072,
	FINALFUNC = shardring_internal.homes_names,
	COMBINEFUNC = shardring_internal.homes_combine,
	SERIALFUNC = shardring_internal.homes_serialize,
	DESERIALFUNC = shardring_internal.homes_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE shardring_internal.homes(text, integer, bigint) IS
	'counts integer keys by the shards they live on in a version';

CREATE FUNCTION shardring_internal.homes_add(
	state internal, ring text, version integer, key uuid)
RETURNS internal
LANGUAGE C STABLE PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_homes_add_uuid';
COMMENT ON FUNCTION shardring_internal.homes_add(
	internal, text, integer, uuid) IS
	'transition function of homes, for uuid keys';

CREATE AGGREGATE shardring_internal.homes(
	ring text, version integer, key uuid)
(
	SFUNC = shardring_internal.homes_add,
	STYPE = internal,
	SSPACE = 131072,
	FINALFUNC = shardring_internal.homes_names,
	COMBINEFUNC = shardring_internal.homes_combine,
	SERIALFUNC = shardring_internal.homes_serialize,
	DESERIALFUNC = shardring_internal.homes_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE shardring_internal.homes(text, integer, uuid) IS
	'counts uuid keys by the shards they live on in a version';
