/*
 * 99-cluster-status.sql
 *		The cluster in one line, which a person looks at first.
 */

CREATE FUNCTION shardring.cluster_status(ring text)
RETURNS TABLE (version integer, sealed text, drafts text, shards text,
	routers text, under_way text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 1
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	m shardring_internal.row_move := shardring_internal.current_move(ring);
BEGIN
	RETURN QUERY
		SELECT ours.active_version,
			shardring_internal.newer_versions(ours, true),
			shardring_internal.newer_versions(ours, false),
			format('%s of %s',
				   count(*) FILTER (WHERE d.shard IS NOT NULL AND d.in_sync),
				   count(d.shard)),
			format('%s of %s',
				   count(*) FILTER (WHERE d.shard IS NULL AND d.in_sync),
				   count(*) FILTER (WHERE d.shard IS NULL)),
			CASE WHEN m.ring IS NOT NULL
				THEN format('%s to %s: %s', m.program, m.to_version, m.state)
				WHEN max(d.active_version) > coalesce(ours.active_version, 0)
				THEN format('switch to %s: %s of %s', max(d.active_version),
					count(*) FILTER (WHERE d.shard IS NOT NULL
									 AND d.active_version = d.newest),
					count(d.shard)) END
		FROM (SELECT s.*, max(s.active_version) OVER () AS newest
			  FROM shardring.shard_details(ring) AS s) AS d;
END
$body$;
COMMENT ON FUNCTION shardring.cluster_status(text) IS
	'asks all shards and routers at once, and sums up what they answer';
REVOKE EXECUTE ON FUNCTION shardring.cluster_status(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.newer_versions(
	ours shardring.ring, is_sealed boolean)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN shardring_internal.few_names(nullif(ARRAY(
		SELECT v.version::text FROM shardring.ring_version AS v
		WHERE v.ring = ours.ring AND (v.sealed_at IS NOT NULL) = is_sealed
			AND v.version > coalesce(ours.active_version, 0)
		ORDER BY v.version), '{}'));
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.newer_versions(shardring.ring, boolean) IS
	'the first versions after the active one, sealed or drafts';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.newer_versions(shardring.ring, boolean) FROM PUBLIC;
