/*
 * 98-find-capacity.sql
 *		On the map: whether shards have room for the streams of a move.
 *
 * Every pair of shards is a stream there, later one back.  While its tables are
 * copied, a stream has more slots, senders and workers than one.  What is
 * short here does not fail: it waits for ever, so it is looked at before.
 */

/* Settings that are too small, each with the value that suffices. */
CREATE FUNCTION shardring_internal.capacity_problems(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (shard text, problem text, command text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH streams AS MATERIALIZED (
			SELECT s.shard, s.server, s.leaving, s.coming
			FROM shardring_internal.streams_by_shard(
				ring, from_version, to_version) AS s),
		answer AS MATERIALIZED (
			SELECT a.server, a.error, a.answer[1]::jsonb AS facts
			FROM shardring_internal.ask_servers(
				ARRAY(SELECT DISTINCT s.server FROM streams AS s),
				'SELECT shardring_internal.replication_facts()', '{}') AS a)
		SELECT s.shard, coalesce(a.error, n.problem), n.command
		FROM streams AS s
			JOIN answer AS a ON a.server = s.server
			LEFT JOIN LATERAL shardring_internal.capacity_needs(
				a.facts, s.leaving::integer, s.coming::integer) AS n ON true
		WHERE a.error IS NOT NULL OR n.problem IS NOT NULL
		ORDER BY s.shard, n.command COLLATE "C";
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.capacity_problems(text, integer, integer) IS
	'settings of shards that are too small for a move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.capacity_problems(text, integer, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.streams_by_shard(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (shard text, server text, leaving bigint, coming bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH pair AS MATERIALIZED (
			SELECT DISTINCT p.from_shard COLLATE "C" AS from_shard,
				p.to_shard COLLATE "C" AS to_shard
			FROM shardring.move_plan(ring, from_version, to_version) AS p)
		SELECT e.shard, max(coalesce(s.server, e.shard)),
			sum(e.leaving), sum(e.coming)
		FROM pair AS p
			CROSS JOIN LATERAL (VALUES
				(p.from_shard, 1, 0), (p.to_shard, 0, 1))
				AS e (shard, leaving, coming)
			LEFT JOIN shardring.shard AS s
				ON s.ring = streams_by_shard.ring COLLATE "C"
					AND s.shard = e.shard
		GROUP BY e.shard;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.streams_by_shard(text, integer, integer) IS
	'how many streams a move begins and ends on each of its shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.streams_by_shard(text, integer, integer) FROM PUBLIC;

/*
 * A subscriber needs one worker for each stream, and one more that copies.  The
 * launcher is a worker process, too.
 */
CREATE FUNCTION shardring_internal.capacity_needs(
	facts jsonb, leaving integer, coming integer)
RETURNS TABLE (problem text, command text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
	WITH settings AS (
		SELECT s.*, s.max_sync_workers_per_subscription AS copying,
			greatest(coming + 1, leaving) AS workers
		FROM jsonb_to_record(facts -> 'settings') AS s (
			max_replication_slots integer, max_wal_senders integer,
			max_logical_replication_workers integer,
			max_sync_workers_per_subscription integer,
			max_worker_processes integer))
	SELECT 'wal_level is not logical', 'ALTER SYSTEM SET wal_level = logical;'
	WHERE facts #>> '{settings,wal_level}' <> 'logical'
	UNION ALL
	SELECT format('%s leaves %s for this move, which takes %s', n.name,
				  n.free, n.need),
		format('ALTER SYSTEM SET %s = %s;', n.name, n.most + n.need - n.free)
	FROM settings AS s
		CROSS JOIN LATERAL (VALUES
			('max_replication_slots', s.max_replication_slots,
			 s.max_replication_slots - (facts ->> 'slots_used')::integer,
			 leaving * (1 + s.copying) + coming),
			('max_wal_senders', s.max_wal_senders,
			 s.max_wal_senders - (facts ->> 'senders_used')::integer,
			 leaving * (1 + s.copying) + coming),
			('max_logical_replication_workers',
			 s.max_logical_replication_workers,
			 s.max_logical_replication_workers
				- (facts ->> 'workers_used')::integer, s.workers),
			('max_worker_processes', s.max_worker_processes,
			 s.max_worker_processes - (facts ->> 'workers_used')::integer,
			 s.workers + 1))
			AS n (name, most, free, need)
	WHERE n.free < n.need;
END;
COMMENT ON FUNCTION
	shardring_internal.capacity_needs(jsonb, integer, integer) IS
	'settings of a shard that are too small for so many streams';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.capacity_needs(jsonb, integer, integer) FROM PUBLIC;
