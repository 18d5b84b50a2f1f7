/*
 * 40-look.sql
 *		Points, arcs and shares of a version.
 */

CREATE FUNCTION shardring.points(ring text, version integer DEFAULT NULL)
RETURNS TABLE (key_position bigint, group_name text, salt integer)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_points';
COMMENT ON FUNCTION shardring.points(text, integer) IS
	'the points of a version, ascending, with the number of the candidate';

CREATE FUNCTION shardring.arcs(ring text, version integer DEFAULT NULL)
RETURNS TABLE (positions int8range, group_name text)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_arcs';
COMMENT ON FUNCTION shardring.arcs(text, integer) IS
	'which group owns which positions, ascending, pins included';

CREATE FUNCTION shardring.shares(ring text, version integer DEFAULT NULL)
RETURNS TABLE (group_name text, weight numeric, points integer,
	share double precision, expected double precision,
	ratio double precision)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_shares';
COMMENT ON FUNCTION shardring.shares(text, integer) IS
	'the exact share of each group, and what its weight would give it';

CREATE FUNCTION shardring.shard_shares(
	ring text, version integer DEFAULT NULL)
RETURNS TABLE (shard text, groups integer, slots bigint,
	share double precision)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_shard_shares';
COMMENT ON FUNCTION shardring.shard_shares(text, integer) IS
	'the exact share of each shard, over all groups it serves';

