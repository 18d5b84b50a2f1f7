/*
 * 85-status.sql
 *		Which shards have what they should: in short, and in full.
 */

CREATE FUNCTION shardring.shard_status(ring text)
RETURNS TABLE (shard text, in_sync boolean, version integer, problem text,
	router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT d.shard, d.in_sync, d.active_version, d.problem,
			CASE WHEN d.shard IS NULL THEN d.server END
		FROM shardring.shard_details(ring) AS d;
END
$body$;
COMMENT ON FUNCTION shardring.shard_status(text) IS
	'asks all shards and routers at once which version they have active';
REVOKE EXECUTE ON FUNCTION shardring.shard_status(text) FROM PUBLIC;

/* Leftovers do no harm: a shard that has some is in sync all the same. */
CREATE FUNCTION shardring.shard_details(ring text)
RETURNS TABLE (shard text, server text, reachable boolean, error text,
	server_version text, in_sync boolean, problem text, hint text,
	active_version integer, fingerprint text, leftovers integer[],
	guards integer, system_identifier bigint, database text,
	round_trip interval)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	RETURN QUERY
		SELECT a.shard, a.server, a.server_version IS NOT NULL, a.error,
			a.server_version, p.problem IS NULL,
			coalesce(p.problem, CASE WHEN cardinality(l.leftovers) > 0
				THEN 'not on the map: version '
					|| array_to_string(l.leftovers[:4], ', ', '')
					|| CASE WHEN cardinality(l.leftovers) > 4
						THEN ' ...' ELSE '' END END),
			a.hint, a.active_version, a.fingerprint, l.leftovers, a.guards,
			a.system_identifier, a.database,
			date_trunc('milliseconds', a.round_trip)
		FROM shardring_internal.ask_shards(
				ring, ARRAY(SELECT s.shard
							FROM shardring.live_shards(ring) AS s),
				true, true) AS a
			CROSS JOIN LATERAL (SELECT CASE WHEN a.error IS NULL THEN ARRAY(
				SELECT v.version FROM unnest(a.versions) AS v (version)
				WHERE NOT EXISTS (SELECT FROM shardring.ring_version AS k
								  WHERE k.ring = ours.ring
									  AND k.version = v.version)
				ORDER BY v.version) END) AS l (leftovers)
			CROSS JOIN LATERAL (SELECT shardring_internal.shard_problem(
				a.error, a.hint, a.active_version, a.fingerprint,
				ours.active_version, ours.fingerprint)) AS p (problem)
		ORDER BY a.number, a.server;
END
$body$;
COMMENT ON FUNCTION shardring.shard_details(text) IS
	'asks all shards and routers, and returns everything they answer';
REVOKE EXECUTE ON FUNCTION shardring.shard_details(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.shard_problem(
	error text, hint text, active_version integer, fingerprint text,
	our_version integer, our_fingerprint text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN CASE
		WHEN error IS NOT NULL THEN shardring_internal.short_error(error, 35)
		WHEN hint IS NOT NULL THEN 'shardring.shard is not set'
		WHEN active_version IS DISTINCT FROM our_version THEN
			coalesce('the map has version ' || our_version,
					 'the map has no active version')
		WHEN fingerprint IS DISTINCT FROM our_fingerprint COLLATE "C"
			THEN format('version %s was altered', active_version) END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.shard_problem(
	text, text, integer, text, integer, text) IS
	'why a shard is not in sync, in few words; NULL when it is';
REVOKE EXECUTE ON FUNCTION shardring_internal.shard_problem(
	text, text, integer, text, integer, text) FROM PUBLIC;

/* For a line of 80 columns; libpq says where before it says why. */
CREATE FUNCTION shardring_internal.short_error(error text, width integer)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	why text := regexp_replace(
		error COLLATE "C",
		'^connection to server .* failed: (FATAL: +)?', '');
BEGIN
	RETURN CASE WHEN length(why) > width THEN left(why, width - 3) || '...'
		ELSE why END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.short_error(text, integer) IS
	'what another server says, cut to a number of characters';
