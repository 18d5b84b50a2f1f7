--
-- simulate.sql
--	simulate: what four ways to share keys out move and how even they are,
--	against the same by brute force; how shares get even with vnodes.
--
CREATE EXTENSION shardring;
SET search_path = shardring;
SET extra_float_digits = 0;

-- the two numbers to know: eight groups become nine
SELECT scheme, moved, largest, smallest, round(stddev::numeric, 5) AS stddev
FROM simulate(8, 9);

-- the ring: a real one, with the same keys
SELECT create_ring('r');
SELECT count(add_group('r', 'node-' || i, ARRAY['s' || i]))
FROM generate_series(0, 7) AS g (i);
SELECT activate('r'), draft_version('r');
SELECT add_group('r', 'node-8', ARRAY['s8']);
CREATE TEMP TABLE placed AS
	SELECT (locate('r', 'user:' || i, 1)).group_name AS before,
		(locate('r', 'user:' || i, 2)).group_name AS after,
		key_position('user:' || i) AS position
	FROM generate_series(0, 19999) AS k (i);
SELECT avg((before <> after)::int)::float8 AS moved,
	bool_and(before = after OR after = 'node-8') AS to_the_new_one_only,
	avg((position % 8 <> position % 9)::int)::float8 AS modulo_moved
FROM placed;
SELECT max(n) / 20000.0 AS largest, min(n) / 20000.0 AS smallest,
	round(stddev_pop(n / 20000.0), 5) AS stddev
FROM (SELECT count(*) AS n FROM placed GROUP BY after) AS g;

-- modulo: the same
SELECT max(n) / 20000.0 AS largest, min(n) / 20000.0 AS smallest,
	round(stddev_pop(n / 20000.0), 5) AS stddev
FROM (SELECT count(*) AS n FROM placed GROUP BY position % 9) AS g;

-- slots: 1820 of 16384 go to the new group, and no other does
SELECT round(1820 / 16384.0, 3) AS of_slots, round(moved::numeric, 3) AS of_keys
FROM simulate(8, 9, keys => 200000) WHERE scheme = 'slots';

-- slots over when there are few groups more than before
SELECT scheme, round(moved::numeric, 3) AS moved, round(largest::numeric, 3) AS largest
FROM simulate(3, 5) WHERE scheme = 'slots';

-- taking a group away moves what adding it moved; nothing changes, nothing
-- moves; one group has it all
SELECT a.scheme, a.moved = b.moved AS same
FROM simulate(8, 9) AS a JOIN simulate(9, 8) AS b USING (scheme);
SELECT * FROM simulate(5, 5, keys => 1000);
SELECT * FROM simulate(1, 1, vnodes => 1, keys => 1);

-- the share that must move, whatever the numbers: keys of groups that leave,
-- or of groups that come
SELECT n.b, n.a, s.scheme, round(s.moved::numeric, 2) AS moved,
	round(abs(n.a - n.b) / greatest(n.a, n.b)::numeric, 2) AS ideal
FROM (VALUES (1, 2), (4, 6), (6, 4), (20, 21), (100, 101)) AS n (b, a)
	CROSS JOIN LATERAL simulate(n.b, n.a, vnodes => 500) AS s
WHERE s.scheme IN ('ring', 'slots')
ORDER BY n.b, n.a, s.scheme;

-- the other hashes; with crc16 a slot is what Redis calls so
SELECT h.hash, s.scheme, s.moved
FROM (VALUES ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash)
	CROSS JOIN LATERAL simulate(8, 9, hash => h.hash) AS s
ORDER BY h.hash, s.scheme;

-- more groups than slots: the slots go to some, and few of them move
SELECT scheme, round(moved::numeric, 4) AS moved
FROM simulate(16384, 16385, vnodes => 1) WHERE scheme = 'slots';
SELECT scheme, round(moved::numeric, 4) AS moved
FROM simulate(10000, 10001, vnodes => 1) WHERE scheme = 'slots';

-- how shares get even: exact, of real rings
SELECT count(create_ring('v' || v, v))
FROM unnest(ARRAY[1, 10, 50, 160, 500]) AS v (v);
SELECT count(add_group('v' || v, 'node-' || i, ARRAY['s' || i]))
FROM unnest(ARRAY[1, 10, 50, 160, 500]) AS v (v), generate_series(0, 7) AS g (i);
SELECT v AS vnodes, round(100 * max(s.share)::numeric, 1) AS largest,
	round(100 * min(s.share)::numeric, 1) AS smallest
FROM unnest(ARRAY[1, 10, 50, 160, 500]) AS v (v)
	CROSS JOIN LATERAL shares('v' || v, 1) AS s
GROUP BY v ORDER BY v;

-- NULL, nonsense, too much
SELECT * FROM simulate(NULL, 9);
SELECT * FROM simulate(8, 9, hash => NULL);
\set VERBOSITY sqlstate
SELECT * FROM simulate(0, 9);
SELECT * FROM simulate(8, -1);
SELECT * FROM simulate(8, 9, vnodes => 0);
SELECT * FROM simulate(8, 9, keys => 0);
SELECT * FROM simulate(8, 9, hash => 'sha1');
SELECT * FROM simulate(8, 9, vnodes => 600000);
SELECT * FROM simulate(2147483647, 2147483647, vnodes => 2147483647);
SELECT * FROM simulate(30, 31, hash => 'crc16');
SET statement_timeout = '300ms';
SELECT * FROM simulate(8, 9, keys => 2147483647);
RESET statement_timeout;

RESET search_path;
DROP EXTENSION shardring;
