--
-- replicas.sql
--	replicas_for: distinct groups, clockwise, new zones first; rank 1 is
--	always what locate answers.
--
CREATE EXTENSION shardring;
SET search_path = shardring;

-- five groups in three zones, one of them without a zone, one drained
SELECT create_ring('r', vnodes => 20);
SELECT add_group('r', 'a1', ARRAY['a1x', 'a1y'], zone => 'a', slots => 4),
	add_group('r', 'a2', ARRAY['a2x', 'a2y', 'a2z'], zone => 'a'),
	add_group('r', 'b1', ARRAY['b1x'], zone => 'b'),
	add_group('r', 'b2', ARRAY['b2x'], zone => 'b'),
	add_group('r', 'n1', ARRAY['n1x']),
	add_group('r', 'n2', ARRAY['n2x']),
	add_group('r', 'idle', ARRAY['idlex'], zone => 'c', weight => 0);
SELECT activate('r');

SELECT * FROM replicas_for('r', 'user:1', 3);
SELECT * FROM replicas_for('r', 'user:1', 99);
SELECT * FROM replicas_for('r', 42, 2);
SELECT * FROM replicas_for('r', '00000000-0000-0000-0000-00000000002a'::uuid,
						   2);

-- the same by brute force: all points by their distance from the key
CREATE FUNCTION pg_temp.twin(ring text, key text, n integer, version integer)
RETURNS TABLE (rank bigint, group_name text, zone text, slot bigint,
	shard text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH here AS (
		SELECT l.* FROM shardring.locate(ring, key, version) AS l
	), met AS (
		SELECT p.group_name,
			min((p.key_position - h.key_position + 4294967296) % 4294967296)
				AS distance
		FROM shardring.points(ring, version) AS p, here AS h
		WHERE p.group_name <> h.group_name
		GROUP BY p.group_name
		UNION ALL SELECT h.group_name, -1 FROM here AS h
	), zoned AS (
		SELECT m.*, g.zone, g.slots,
			row_number() OVER (
				PARTITION BY coalesce('zone ' || g.zone,
									  'group ' || g.group_name)
				ORDER BY m.distance) > 1 AS again
		FROM met AS m
			JOIN shardring.shard_group AS g USING (group_name)
		WHERE g.ring = twin.ring AND g.version = twin.version
	), ranked AS (
		SELECT z.*, row_number() OVER (ORDER BY z.again, z.distance) AS rank
		FROM zoned AS z
	)
	SELECT r.rank, r.group_name, r.zone, h.key_position % r.slots, s.shard
	FROM ranked AS r, here AS h, shardring.shard_slot AS s
	WHERE r.rank <= n AND s.ring = twin.ring AND s.version = twin.version
		AND s.group_name = r.group_name
		AND s.slot = h.key_position % r.slots;
END;
CREATE FUNCTION pg_temp.differences(ring text, version integer,
	keys integer) RETURNS TABLE (compared bigint, differing bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT count(*), count(*) FILTER (WHERE t IS DISTINCT FROM r)
	FROM generate_series(1, keys) AS k (i)
		CROSS JOIN generate_series(1, 8) AS n (n)
		CROSS JOIN LATERAL (
			SELECT array_agg((t.rank, t.group_name, t.zone, t.slot, t.shard)
							 ORDER BY t.rank)::text
			FROM pg_temp.twin(ring, 'user:' || k.i, n.n, version) AS t) AS t (t)
		CROSS JOIN LATERAL (
			SELECT array_agg((r.rank, r.group_name, r.zone, r.slot, r.shard)
							 ORDER BY r.rank)::text
			FROM shardring.replicas_for(ring, 'user:' || k.i, n.n, version)
				AS r) AS r (r);
END;
SELECT * FROM pg_temp.differences('r', 1, 100);

-- a pin moves the first copy only, also to a group without points
SELECT draft_version('r');
SELECT pin_key('r', 'user:1', 'idle'), pin_key('r', 'user:2', 'b1'),
	pin_key('r', 'user:3', 'a1');
SELECT * FROM replicas_for('r', 'user:1', 4, 2);
SELECT * FROM replicas_for('r', 'user:1', 99, 2);
SELECT * FROM pg_temp.differences('r', 2, 100);

-- zones are not in the fingerprint, yet each version has its own
SELECT draft_version('r', 1);
UPDATE shard_group SET zone = 'everywhere' WHERE version = 3;
SELECT seal('r', 3);
SELECT count(DISTINCT fingerprint) FROM ring_version
WHERE version IN (1, 3);
SELECT v.version, array_agg(r.group_name ORDER BY r.rank),
	array_agg(r.zone ORDER BY r.rank)
FROM (VALUES (1), (3), (1), (3)) AS v (version)
	CROSS JOIN LATERAL replicas_for('r', 'user:7', 3, v.version) AS r
GROUP BY v.version ORDER BY v.version;
SELECT * FROM pg_temp.differences('r', 3, 50);

-- many zones, one point a group, weights that differ
SELECT create_ring('many', vnodes => 12);
SELECT count(add_group('many', 'g' || i, ARRAY['s' || i],
					   weight => 1 + i % 3, zone => 'z' || i % 5))
FROM generate_series(1, 40) AS g (i);
SELECT * FROM pg_temp.differences('many', 1, 50);

-- rank 1 is locate, everywhere; no group twice
SET client_min_messages = error;
SELECT activate('many');
RESET client_min_messages;
SELECT count(*) AS keys,
	bool_and(r.groups[1] = (l.l).group_name
			 AND r.shards[1] = (l.l).shard) AS first_is_locate,
	bool_and(r.distinct_groups = 40 AND cardinality(r.groups) = 40) AS all_once
FROM generate_series(1, 200) AS k (i)
	CROSS JOIN LATERAL (
		SELECT array_agg(r.group_name ORDER BY r.rank) AS groups,
			array_agg(r.shard ORDER BY r.rank) AS shards,
			count(DISTINCT r.group_name) AS distinct_groups
		FROM replicas_for('many', k.i, 1000) AS r) AS r
	CROSS JOIN LATERAL (SELECT locate('many', k.i) AS l) AS l;

-- a long search for the last group, which has one point of 81001: from a place
-- that is not far behind it
SET client_min_messages = error;
SELECT create_ring('w', 9000);
SELECT count(add_group('w', 'g' || i, '{s}')) FROM generate_series(1, 9) AS i;
SELECT add_group('w', 'least', '{l}', weight => 1.0 / 9000);
SELECT activate('w');
SELECT points, count(*) FROM shares('w') GROUP BY points ORDER BY points;
WITH least AS MATERIALIZED (
	SELECT upper(positions) AS position FROM arcs('w') WHERE group_name = 'least'
), near AS (
	SELECT i AS key FROM generate_series(1, 2000) AS i, least AS l
	ORDER BY (key_position(i) - l.position + 4294967296) % 4294967296 LIMIT 1
)
SELECT count(*) AS replicas, count(DISTINCT r.group_name) AS groups,
	bool_and((r.group_name = 'least') = (r.rank = 10)) AS the_least_comes_last
FROM near AS n, LATERAL replicas_for('w', n.key, 10) AS r;
RESET client_min_messages;

-- one group; NULL; nonsense
SELECT create_ring('one');
SELECT add_group('one', 'only', ARRAY['s']), activate('one');
SELECT * FROM replicas_for('one', 'k', 3);
SELECT * FROM replicas_for(NULL, 'k', 3);
SELECT * FROM replicas_for('one', NULL::text, 3);
SELECT * FROM replicas_for('one', 'k', NULL);
SELECT * FROM replicas_for('one', 'k', 3, NULL);
\set VERBOSITY sqlstate
SELECT * FROM replicas_for('one', 'k', 0);
SELECT * FROM replicas_for('one', 'k', -1);
SELECT * FROM replicas_for('one', 'k', 2147483647);
SELECT * FROM replicas_for('one', 'k', 1, 2);
SELECT * FROM replicas_for('none', 'k', 1);
SELECT create_ring('empty');
SELECT * FROM replicas_for('empty', 'k', 1);
SELECT * FROM replicas_for('empty', 'k', 1, 1);

DROP FUNCTION pg_temp.differences, pg_temp.twin;
RESET search_path;
DROP EXTENSION shardring;
