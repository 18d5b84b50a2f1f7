/*
 * 81-addresses.sql
 *		Shards and the servers they are on.
 */

CREATE FUNCTION shardring.live_shards(ring text)
RETURNS TABLE (shard text, number integer, server text)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	RETURN QUERY
		SELECT s.shard, s.number, coalesce(s.server, s.shard)
		FROM shardring.shard AS s
		WHERE s.ring = ours.ring
			AND EXISTS (
				SELECT FROM shardring.ring_version AS v
					JOIN shardring.shard_map AS m
						ON m.ring = v.ring AND m.version = v.version
				WHERE v.ring = s.ring AND v.sealed_at IS NOT NULL
					AND v.version >= coalesce(ours.active_version, 1)
					AND m.shard = s.shard)
		ORDER BY s.number;
END
$body$;
COMMENT ON FUNCTION shardring.live_shards(text) IS
	'shards of the active version and of sealed newer ones, with servers';

CREATE FUNCTION shardring_internal.connect_string(server text) RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_connect_string';
COMMENT ON FUNCTION shardring_internal.connect_string(text) IS
	'the address of a foreign server, without secrets';
REVOKE EXECUTE ON FUNCTION shardring_internal.connect_string(text) FROM PUBLIC;

