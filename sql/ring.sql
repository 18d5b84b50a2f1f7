--
-- ring.sql
--	From group names to points, arcs and owners.  All numbers were computed
--	by other implementations; a query that compares lists what is wrong.
--
-- Rings are called R(...) after their groups in the order they were added,
-- 160 points each unless said.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;

-- a draft with these groups, each on a shard of its own name
CREATE FUNCTION make_ring(ring text, groups text[], vnodes int DEFAULT 160,
						  weights numeric[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.create_ring(ring, vnodes);
	FOR i IN 1 .. cardinality(groups) LOOP
		PERFORM shardring.add_group(ring, groups[i], groups[i:i],
									weight => coalesce(weights[i], 1));
	END LOOP;
END $$;

-- the numbers of the candidates that a group left out, and its last one
CREATE FUNCTION salts(ring text, group_name text, version int DEFAULT 1,
					  OUT points bigint, OUT skipped int[], OUT last int)
LANGUAGE sql AS $$
	SELECT count(*),
		array(SELECT generate_series(0, max(p.salt))
			  EXCEPT SELECT unnest(array_agg(p.salt)) ORDER BY 1), max(p.salt)
	FROM shardring.points(salts.ring, salts.version) AS p
	WHERE p.group_name = salts.group_name
$$;

CREATE FUNCTION owner_at(ring text, pos bigint, version int DEFAULT 1)
RETURNS text LANGUAGE sql AS $$
	SELECT a.group_name FROM shardring.arcs(owner_at.ring, owner_at.version) AS a
	WHERE a.positions @> pos
$$;

-- where two versions differ, or how much of that there is
CREATE FUNCTION ranges(ring text, from_version int, to_version int)
RETURNS TABLE (lo bigint, hi bigint, from_group text, to_group text)
LANGUAGE sql AS $$
	SELECT lower(r), upper(r) - 1, m.from_group, m.to_group
	FROM shardring.moved_ranges(ranges.ring, ranges.from_version,
								ranges.to_version) AS m, unnest(m.positions) AS r
	ORDER BY 1
$$;
CREATE FUNCTION differences(ring text, from_version int, to_version int,
							OUT ranges bigint, OUT positions numeric)
LANGUAGE sql AS $$
	SELECT count(*), sum(hi - lo + 1)
	FROM ranges(differences.ring, differences.from_version,
				differences.to_version)
$$;

-- R(node-a, node-b, node-c)
SELECT make_ring('abc', '{node-a,node-b,node-c}');
SELECT group_name, points, skipped, last
FROM unnest('{node-a,node-b,node-c}'::text[]) AS group_name, salts('abc', group_name);
(SELECT * FROM shardring.points('abc', 1) ORDER BY key_position LIMIT 1)
UNION ALL
(SELECT * FROM shardring.points('abc', 1) ORDER BY key_position DESC LIMIT 1);
-- every point is the MD5 that PostgreSQL itself computes, and nothing else is
SELECT count(*) AS points, count(*) FILTER (WHERE p.key_position IS DISTINCT FROM
	('x' || left(md5(p.group_name || '#' || p.salt), 8))::bit(32)::bigint)
	AS wrong
FROM shardring.points('abc', 1) AS p;
-- points come in ascending order, as numbers without a sign (B13)
SELECT count(*) FILTER (WHERE p.key_position <= p.previous) AS unordered,
	min(p.key_position), max(p.key_position)
FROM (SELECT p.key_position, lag(p.key_position) OVER () AS previous
	  FROM shardring.points('abc', 1) AS p) AS p;
-- the same ring as everywhere (B39)
SELECT encode(sha256(convert_to(string_agg(p.key_position || ':' || p.group_name,
										   E'\n'), 'UTF8')), 'hex')
	= '7c21ddb8cdcb4fadfa782dcd5a6ea9dc53d19c8c448ea0806a786bd95192f5da' AS same
FROM shardring.points('abc', 1) AS p;
SELECT count(*) AS arcs, min(lower(positions)), max(upper(positions)),
	sum(upper(positions) - lower(positions)) AS positions
FROM shardring.arcs('abc', 1);
SELECT group_name, sum(upper(positions) - lower(positions)) AS positions
FROM shardring.arcs('abc', 1) GROUP BY group_name ORDER BY group_name;
SELECT group_name, weight, points, (share * 4294967296)::numeric AS positions
FROM shardring.shares('abc', 1) ORDER BY group_name;
-- who owns which key
SELECT v.key, v.wanted, v.owner, l.*
FROM (VALUES
	('', 3558706393, 'node-a'), ('a', 214005177, 'node-c'),
	('user:1', 3182550288, 'node-a'), ('user:42', 1457184536, 'node-b'),
	('é', 1725812119, 'node-a'), ('日本語', 1116920, 'node-b'),
	('node-a#17', 3751750457, 'node-a'), ('node-b#0', 3583446864, 'node-b'),
	('node-c#159', 2328394040, 'node-c'), ('node-a#160', 360849324, 'node-b'),
	('order-1001', 2459046385, 'node-a'), ('0', 3486326916, 'node-a'),
	-- exactly on a point of node-a (B10)
	('node-a#1', 970208098, 'node-a'), ('node-a#8', 3384699008, 'node-a'),
	('node-a#13', 1167705202, 'node-a'),
	-- above 2^31 (B13)
	('user:0', 4126259432, 'node-b'), ('user:2', 4223113410, 'node-b'),
	('user:4', 3329008949, 'node-b'), ('user:6', 2831291736, 'node-c'))
	AS v (key, wanted, owner)
	CROSS JOIN LATERAL shardring.locate('abc', v.key, 1) AS l
WHERE (l.version, l.key_position, l.group_name, l.slot, l.shard)
	IS DISTINCT FROM (1, v.wanted, v.owner, 0, v.owner);
-- arcs, points and lookups tell the same, by the rule as it is written
WITH keys AS (
	SELECT 'user:' || i AS key, shardring.key_position('user:' || i) AS pos
	FROM generate_series(0, 999) AS i)
SELECT count(*) AS keys, count(*) FILTER (WHERE
	owner_at('abc', k.pos) IS DISTINCT FROM l.group_name) AS "wrong arcs",
	count(*) FILTER (WHERE l.group_name IS DISTINCT FROM coalesce(
	(SELECT p.group_name FROM shardring.points('abc', 1) AS p
	 WHERE p.key_position >= k.pos ORDER BY p.key_position LIMIT 1), 'node-b'))
	AS "wrong points"
FROM keys AS k, shardring.locate('abc', k.key, 1) AS l;

-- past the last point comes the first one (B09)
SELECT make_ring('123', '{shard1,shard2,shard3}');
SELECT min(key_position), max(key_position) FROM shardring.points('123', 1);
SELECT key, l.key_position, l.group_name
FROM unnest('{user:212,user:686}'::text[]) AS key, shardring.locate('123', key, 1) AS l;
-- a point owns the arc that ends at it (B11)
SELECT make_ring('ab', '{node-a,node-b}', 2);
SELECT * FROM shardring.points('ab', 1);
SELECT * FROM shardring.arcs('ab', 1);
SELECT p.pos, shardring.shard_at('ab', p.pos, 1)
FROM (VALUES (0), (970208098), (970208099), (1188510210), (1188510211),
			 (1931263048), (1931263049), (3583446864), (3583446865),
			 (4294967295)) AS p (pos);
-- one point owns the whole circle (B12)
SELECT make_ring('one', '{node-a}', 1);
SELECT * FROM shardring.points('one', 1);
SELECT *, upper(positions) - lower(positions) AS length FROM shardring.arcs('one', 1);
SELECT group_name, share FROM shardring.shares('one', 1);
SELECT shardring.shard_at('one', 0, 1), shardring.shard_at('one', 4294967295, 1);

-- points that collide: first come, first served, and nobody loses one
SELECT make_ring('pg', '{pg-1,pg-89,pg-97}');
SELECT count(*), count(DISTINCT key_position) FROM shardring.points('pg', 1);
SELECT owner_at('pg', 3766252915), s.* FROM salts('pg', 'pg-97') AS s;
-- the one who goes takes only its own points along (B01)
SELECT shardring.draft_version('pg', 1), shardring.remove_group('pg', 'pg-97', 2);
SELECT count(*) FROM shardring.points('pg', 2);
SELECT owner_at('pg', 3766252915, 2), s.* FROM salts('pg', 'pg-89', 2) AS s;
-- the one who had to step aside still has 160 (B02)
SELECT make_ring('node', '{node1,node356,node380}');
SELECT * FROM salts('node', 'node380');
SELECT key_position FROM shardring.points('node', 1)
WHERE group_name = 'node380' AND salt = 160;
SELECT group_name FROM shardring.locate('node', 'node380#160', 1);
-- a group that collides with itself (B04)
SELECT make_ring('self', '{node-71341}');
SELECT count(DISTINCT key_position) FROM shardring.points('self', 1);
SELECT * FROM salts('self', 'node-71341');
SELECT make_ring('self 2', '{node-1,node-71341}');
SELECT group_name, key_position FROM shardring.locate('self 2', 'node-71341#160', 1);

-- the order in which groups were added decides who has a point that two of
-- them want; the order of their names does not (B03, B05)
CREATE TABLE pairs (third text, first text, second text, pos bigint,
					second_skips int, first_skips int);
INSERT INTO pairs VALUES
	('pg-1', 'pg-89', 'pg-97', 3766252915, 141, 13),
	('node1', 'node356', 'node380', 553273401, 32, 72),
	('db1', 'db712', 'db732', 2490588315, 8, 101),
	('group-1', 'group-309', 'group-317', 2592291438, 99, 159),
	('mid-1', 'alpha-4', 'Zeta-646', 3195943442, 21, 25);
SELECT make_ring('1 ' || third, ARRAY[third, first, second]),
	make_ring('2 ' || third, ARRAY[third, second, first])
FROM pairs;
SELECT p.first, owner_at('1 ' || third, pos) AS owner, s.skipped, s.last, s.points,
	p.second, owner_at('2 ' || third, pos) AS owner, t.skipped, t.last, t.points
FROM pairs AS p, salts('1 ' || third, second) AS s, salts('2 ' || third, first) AS t
WHERE owner_at('1 ' || third, pos) <> p.first OR s.skipped <> ARRAY[second_skips]
	OR s.last <> 160 OR s.points <> 160
	OR owner_at('2 ' || third, pos) <> p.second OR t.skipped <> ARRAY[first_skips]
	OR t.last <> 160 OR t.points <> 160;
SELECT p.third, a.group_name AS "1", b.group_name AS "2", r.lo, r.hi - 1 AS hi
FROM pairs AS p, shardring.arcs('1 ' || third, 1) AS a, shardring.arcs('2 ' || third, 1) AS b,
	LATERAL (SELECT lower(a.positions * b.positions), upper(a.positions * b.positions)) AS r (lo, hi)
WHERE a.positions && b.positions AND a.group_name <> b.group_name
ORDER BY p.third, r.lo;
-- and one ring says so of itself
SELECT make_ring('order', '{pg-89,pg-97}');
SELECT shardring.draft_version('order', 1), shardring.remove_group('order', 'pg-89', 2),
	shardring.remove_group('order', 'pg-97', 2), shardring.add_group('order', 'pg-97', '{s}', version => 2),
	shardring.add_group('order', 'pg-89', '{s}', version => 2);
SELECT * FROM ranges('order', 1, 2);
-- two rings made in the same way are the same
SELECT make_ring('pg again', '{pg-1,pg-89,pg-97}');
SELECT count(*) FROM (
	SELECT * FROM shardring.points('pg', 1) EXCEPT
	SELECT * FROM shardring.points('pg again', 1)) AS d;

-- a higher weight appends points, a lower one drops them (B06)
SELECT make_ring('w', '{shard-0044,shard-0486}');
SELECT g.name, s.* FROM unnest('{shard-0044,shard-0486}'::text[]) AS g (name), salts('w', g.name) AS s;
SELECT shardring.draft_version('w', 1), shardring.set_weight('w', 'shard-0486', 2, 2);
SELECT g.name, s.* FROM unnest('{shard-0044,shard-0486}'::text[]) AS g (name), salts('w', g.name, 2) AS s;
SELECT owner_at('w', 2019534522, 1), owner_at('w', 2019534522, 2);
SELECT shardring.draft_version('w', 2), shardring.set_weight('w', 'shard-0486', 1, 3);
SELECT differences('w', 1, 3);
SELECT DISTINCT from_group, to_group FROM ranges('w', 1, 2);
-- the same by vnodes; round() takes halves away from zero
SELECT make_ring('v', '{x,y}', 10, '{0.25,0.24}');
SELECT group_name, weight, points FROM shardring.shares('v', 1) ORDER BY 1;
SELECT shardring.set_vnodes('v', 1000, 1);
SELECT group_name, weight, points FROM shardring.shares('v', 1) ORDER BY 1;
SELECT group_name, s.* FROM unnest('{x,y}'::text[]) AS group_name, salts('v', group_name) AS s;
SELECT shardring.set_vnodes('v', 10, 1);
SELECT make_ring('v again', '{x,y}', 10, '{0.25,0.24}');
SELECT count(*) FROM (
	SELECT * FROM shardring.points('v', 1) EXCEPT
	SELECT * FROM shardring.points('v again', 1)) AS d;

-- a known name comes back to its own points (B08)
SELECT shardring.activate('1 db1', 1);
SELECT shardring.draft_version('1 db1'), shardring.remove_group('1 db1', 'db712', 2),
	shardring.activate('1 db1', 2);
SELECT shardring.draft_version('1 db1'),
	shardring.add_group('1 db1', 'db712', '{db712}', force => true),
	shardring.activate('1 db1', 3);
SELECT differences('1 db1', 1, 3);
SELECT fingerprint = first_value(fingerprint) OVER (ORDER BY version) AS same
FROM shardring.ring_version WHERE ring = '1 db1' ORDER BY version;

-- small and large weights (B15)
SELECT make_ring('weights', '{big,small}', 160, '{1000,1}');
SELECT group_name, s.points, cardinality(s.skipped) AS skipped
FROM unnest('{big,small}'::text[]) AS group_name, salts('weights', group_name) AS s;
-- what others weigh changes no points (B16)
SELECT shardring.draft_version('abc', 1), shardring.add_group('abc', 'node-d', '{node-d}', weight => 5, version => 2);
SELECT g.name, s.* FROM unnest('{node-a,node-b,node-c,node-d}'::text[]) AS g (name), salts('abc', g.name, 2) AS s;
SELECT DISTINCT to_group FROM ranges('abc', 1, 2);

-- long names (B20)
SELECT shardring.create_ring('long', 1);
SELECT shardring.add_group('long', repeat('n', v.n) || v.suffix, '{s}')
FROM (VALUES (86, '1'), (86, '2'), (255, '')) AS v (n, suffix);
SELECT left(group_name, 3) || '...' || right(group_name, 3) AS group_name,
	octet_length(group_name), key_position
FROM shardring.points('long', 1) ORDER BY group_name;
\set VERBOSITY sqlstate
SELECT shardring.add_group('abc', repeat('n', 256), '{s}', version => 1);
SELECT shardring.add_group('abc', repeat('n', 1000), '{s}', version => 1);
SELECT shardring.add_group('abc', repeat('é', 128), '{s}', version => 1);
\set VERBOSITY default

-- the same in ten new sessions
CREATE TABLE sessions (pid int, positions bigint[]);
SELECT $$
DO $do$ BEGIN
	PERFORM shardring.create_ring('again', 3);
	PERFORM shardring.add_group('again', repeat('n', v.n) || v.suffix, '{s}')
	FROM (VALUES (86, '1'), (86, '2'), (255, '')) AS v (n, suffix);
	INSERT INTO sessions
	SELECT pg_backend_pid(), array_agg(p.key_position ORDER BY p.group_name, p.salt)
	FROM shardring.points('again', 1) AS p;
	PERFORM shardring.drop_ring('again');
END $do$
$$ AS again \gset
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
\c
:again;
SET client_encoding = 'UTF8';
SELECT count(DISTINCT pid) AS sessions, count(DISTINCT positions) AS answers,
	min(ARRAY[positions[1], positions[4], positions[7]]) AS first
FROM sessions;

-- there is no rename: what it costs to go and to come as another (B21)
SELECT shardring.draft_version('abc', 1), shardring.remove_group('abc', 'node-b', 3),
	shardring.add_group('abc', 'node-B', '{node-B}', version => 3);
SELECT differences('abc', 1, 3);
-- while the shard of a group may change, and no group with it
SELECT shardring.draft_version('abc', 1), shardring.assign_slots('abc', 'node-b', '{[0,1)}', 'elsewhere', 4);
SELECT differences('abc', 1, 4);

-- slots are remainders of positions, without a sign (B36)
SELECT shardring.create_ring(slots || ' slots'),
	shardring.add_group(slots || ' slots', 'g', '{s}', slots => slots)
FROM unnest('{7,12}'::int[]) AS slots;
SELECT v.slots, v.key, v.wanted, l.slot
FROM (VALUES (7, 'user:1', 1), (7, 'user:2', 5), (7, '0', 2), (7, '', 4),
			 (12, 'user:2', 6), (12, '', 1)) AS v (slots, key, wanted)
	CROSS JOIN LATERAL shardring.locate(v.slots || ' slots', v.key, 1) AS l;
-- slot s goes to shards[floor(s * n / slots)]
SELECT shardring.create_ring('blocks');
SELECT count(*) AS combinations FROM (
	SELECT shardring.add_group('blocks', slots || '/' || n,
		array(SELECT 's' || i FROM generate_series(1, n) AS i), slots => slots)
	FROM generate_series(1, 18) AS slots, generate_series(1, slots) AS n) AS added;
SELECT count(*) AS slots, count(*) FILTER (WHERE s.shard IS DISTINCT FROM
	's' || s.slot * split_part(s.group_name, '/', 2)::int / split_part(s.group_name, '/', 1)::int + 1)
	AS wrong
FROM shardring.shard_slot AS s WHERE s.ring = 'blocks';

-- rows of a map have no order; a slot that is missing, outside or on two
-- shards is named (B38)
SELECT make_ring('map', '{}'), make_ring('map in order', '{}');
SELECT shardring.add_group(ring, 'g', '{s0,s1,s2,s3}') FROM unnest('{map,map in order}'::text[]) AS ring;
DELETE FROM shardring.shard_map WHERE ring = 'map';
INSERT INTO shardring.shard_map VALUES ('map', 1, 'g', 's3', '{[3,4)}');
INSERT INTO shardring.shard_map VALUES ('map', 1, 'g', 's0', '{[0,1)}');
INSERT INTO shardring.shard_map VALUES ('map', 1, 'g', 's1', '{[1,2)}');
SELECT shardring.activate('map');
INSERT INTO shardring.shard_map VALUES ('map', 1, 'g', 's2', '{[2,3),[4,5)}');
SELECT shardring.activate('map');
UPDATE shardring.shard_map SET slots = '{[1,3)}' WHERE ring = 'map' AND shard = 's2';
SELECT shardring.activate('map');
\set VERBOSITY sqlstate
UPDATE shardring.shard_map SET slots = '{[-1,0),[2,3)}' WHERE ring = 'map' AND shard = 's2';
INSERT INTO shardring.shard_map VALUES ('map', 1, 'g', 's2', '{[2,3)}');
\set VERBOSITY default
UPDATE shardring.shard_map SET slots = '{[2,3)}' WHERE ring = 'map' AND shard = 's2';
SELECT shardring.activate(ring) FROM unnest('{map,map in order}'::text[]) AS ring;
SELECT count(DISTINCT fingerprint) AS fingerprints FROM shardring.ring WHERE ring LIKE 'map%';
SELECT p, shardring.shard_at('map', p), shardring.shard_at('map in order', p)
FROM generate_series(4294967292, 4294967295) AS p;

-- a group is there once (B07)
SELECT make_ring('twice', '{node-a}');
\set VERBOSITY sqlstate
SELECT shardring.add_group('twice', 'node-a', '{node-a}');
SELECT make_ring('twice at once', '{node-a,node-a}');
\set VERBOSITY default
SELECT points, skipped, last FROM salts('twice', 'node-a');
SELECT shardring.remove_group('twice', 'node-a');
SELECT count(*) FROM shardring.points('twice', 1);

-- more points than a version may have, and weights whose sum has more than 32
-- bits (B14)
\set VERBOSITY sqlstate
SELECT make_ring('heavy', '{a,b}', 160, '{2147483648,2147483648}');
SELECT make_ring('heavy', '{a,b,c,d}', 1, '{1073741824,1073741824,1073741824,1073741824}');
SELECT make_ring('heavy', '{a}', 160, '{1e300}');
SELECT shardring.add_group('abc', 'huge', '{s}', weight => 26215, version => 1);
SELECT shardring.set_weight('abc', 'node-a', 26215, version => 1);
SELECT shardring.set_vnodes('abc', 1398102, version => 1);
SELECT shardring.create_ring('many', 1);
INSERT INTO shardring.shard_group (ring, version, group_name, weight, slots, points)
SELECT 'many', 1, 'g' || i, 1, 1, '{}' FROM generate_series(1, 1024) AS i;
\set VERBOSITY terse
SELECT shardring.set_vnodes('many', 4194304);
\set VERBOSITY default
SELECT count(*) FROM shardring.points('abc', 1);

-- hash crc16: one group of at most 4096 points (B18)
SELECT shardring.create_ring('crc 4096', 4096, 'crc16');
SELECT shardring.add_group('crc 4096', 'node-0', '{s}');
SELECT points, cardinality(skipped) AS skipped, last FROM salts('crc 4096', 'node-0');
\set VERBOSITY sqlstate
SELECT shardring.add_group('crc 4096', 'node-1', '{s}');
SELECT shardring.create_ring('crc 4097', 4097, 'crc16');
SELECT shardring.add_group('crc 4097', 'node-0', '{s}');
\set VERBOSITY default

-- three special cases of a ring
-- 1. plain modulo: one group
SELECT shardring.create_ring('modulo', 1);
SELECT shardring.add_group('modulo', 'all', '{s0,s1,s2,s3,s4,s5,s6,s7}');
SELECT count(*) AS keys, count(*) FILTER (WHERE
	shardring.shard_for('modulo', 'user:' || i, 1) IS DISTINCT FROM
	's' || shardring.key_position('user:' || i) % 8) AS wrong
FROM generate_series(0, 9999) AS i;
-- 2. fixed slots, as Redis has them (B31, B32)
SELECT shardring.create_ring('redis', 1, 'crc16', true);
SELECT shardring.add_group('redis', 'all', '{r0,r1,r2}', slots => 16384);
SELECT * FROM shardring.shard_map WHERE ring = 'redis' ORDER BY shard;
SELECT v.key, v.wanted, l.*
FROM (VALUES
	('{}{a}', 13650), ('foo{}{bar}', 8363), ('a{}b{c}', 7353), ('{}', 15257),
	('{}a', 10875), ('a{}', 6082), ('{a', 10276), ('a}', 5921), ('}{', 12793),
	('A}B{C', 7939), ('123456789', 12739), ('foo', 12182),
	('{user1000}.following', 3443), ('{user1000}.followers', 3443),
	('user1000', 3443), ('foo{bar}{zap}', 5061), ('bar', 5061), ('', 0))
	AS v (key, wanted)
	CROSS JOIN LATERAL shardring.locate('redis', v.key, 1) AS l
WHERE l.slot IS DISTINCT FROM v.wanted
	OR l.shard IS DISTINCT FROM 'r' || v.wanted * 3 / 16384;
-- 3. a plain ring: groups of one slot
SELECT count(*) AS keys, count(*) FILTER (WHERE l.shard <> l.group_name OR l.slot <> 0) AS wrong
FROM generate_series(0, 999) AS i, shardring.locate('123', 'user:' || i, 1) AS l;

-- fingerprints, of the canonical byte string as it is documented: whatever
-- changes one of these loses everybody's sealed versions
\set VERBOSITY terse
SELECT make_ring('plain', '{node-a,node-b,node-c}');
SELECT shardring.create_ring('murmur3', hash => 'murmur3', hash_tags => true),
	shardring.add_group('murmur3', 'b', '{s1,s2,s3}', slots => 64, weight => 2, zone => 'east'),
	shardring.add_group('murmur3', 'a', '{s1}', slots => 8),
	shardring.assign_slots('murmur3', 'b', '{[0,1),[9,10),[18,19),[27,28),[36,37),[45,46),[54,55),[63,64)}', 'moved'),
	shardring.assign_slots('murmur3', 'a', '{[0,2),[7,8)}', 's4');
SELECT make_ring('pins', '{x,y,zz}', 16, '{1,1,0}');
SELECT shardring.pin('pins', 2147483648, 'zz'), shardring.pin('pins', 0, 'zz'),
	shardring.pin('pins', 4294967295, 'x');
SELECT shardring.create_ring('names', 10, 'fnv1a');
SELECT shardring.add_group('names', 'grün', '{grün}', weight => 4),
	shardring.add_group('names', 'Z', '{Z}', weight => 2),
	shardring.add_group('names', '日本', '{東京,大阪}', slots => 4, weight => 3);
SELECT make_ring('empty', '{}');
SELECT shardring.seal(ring) FROM unnest('{plain,murmur3,redis,pins,names,empty}'::text[]) AS ring;
SELECT v.ring, v.wanted, r.fingerprint
FROM (VALUES
	('plain', 'ba8de723acae2c1f26c1806aef9c10bfe9fa0c6f0410fceb5c956127a3f9c6cb'),
	('murmur3', 'c68c10c117e84f0746a1409b7e8b5cc12f9b019bdc42d79985d8e42d30da0cb6'),
	('redis', '438117cba2b3c8fccfca66270afde38085d0b642f505247fc5d0d3ca449d98a3'),
	('pins', '629a3fa4f6dc843141bae3fa87cda200ca78e636935c0578bddebb473a322378'),
	('names', '799fa1f0619b4a90fe9f917482a6d29a91e9a2e2c61c9c9150fdd06ef11e6da5'),
	('empty', '5348e04076425e5d72b13d6caa1e2e48e96c3ddbd36db3e41ee05060882bd80f'))
	AS v (ring, wanted)
	LEFT JOIN shardring.ring_version AS r ON r.ring = v.ring AND r.version = 1
WHERE r.fingerprint IS DISTINCT FROM v.wanted;
\set VERBOSITY default

DROP EXTENSION shardring;
DROP TABLE pairs;
DROP FUNCTION make_ring, salts, owner_at, differences, ranges;
