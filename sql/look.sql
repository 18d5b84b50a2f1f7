--
-- look.sql
--	points, arcs, shares and shard_shares against twins in SQL that know the
--	rules of a ring and nothing of the extension but its tables.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
SET client_min_messages = error;
CREATE EXTENSION shardring;

-- Rings of many shapes: hashes, weights, groups that share shards, slots of
-- one shard in pieces, drained groups, pins at both ends and beside points,
-- one point, one group, names in another order than they were added.
SELECT shardring.create_ring('plain', 3), shardring.create_ring('murmur3', 5, 'murmur3'), shardring.create_ring('fnv1a', 40, 'fnv1a'),
	shardring.create_ring('one', 1), shardring.create_ring('crc16', 50, 'crc16'), shardring.create_ring('pins', 4),
	shardring.create_ring('drained', 10), shardring.create_ring('empty');
SELECT shardring.add_group(ring, 'z', '{s1,s2}', slots => 7), shardring.add_group(ring, 'Ä', '{s2,s3,s4}', slots => 16, weight => 2.5),
	shardring.add_group(ring, 'a', '{s5,s1}', slots => 3, weight => 0.4), shardring.add_group(ring, 'none', '{s1,s6}', slots => 64, weight => 0),
	shardring.assign_slots(ring, 'Ä', '{[0,1),[3,4),[15,16)}', 's1'), shardring.assign_slots(ring, 'none', '{[10,60)}', 's7')
FROM unnest('{plain,murmur3,fnv1a,pins}'::text[]) AS ring;
SELECT shardring.add_group('one', 'g', '{s}', slots => 1000), shardring.add_group('crc16', 'g', '{s1,s2,s3}', slots => 1000),
	shardring.add_group('drained', 'g', '{s}', weight => 0), shardring.add_group('drained', 'h', '{s,t}', weight => 0);
SELECT shardring.pin('pins', p, g)
FROM (VALUES (0, 'none'), (1, 'a'), (4294967295, 'none'), (2147483648, 'z'), (77, 'Ä')) AS v (p, g);
-- a pin on each point of z, and on either side of each point of a
SELECT count(shardring.pin('pins', p, 'none')) FROM shardring.shard_group, unnest(points) AS p WHERE (ring, version, group_name) = ('pins', 1, 'z');
SELECT count(shardring.pin('pins', (p + d + 4294967296) % 4294967296, 'none')) FROM shardring.shard_group, unnest(points) AS p, unnest('{-1,1}'::int[]) AS d WHERE (ring, version, group_name) = ('pins', 1, 'a');
-- version 2 of each is active, version 3 another draft
SELECT shardring.seal(ring), shardring.draft_version(ring, 1) FROM unnest('{plain,murmur3,fnv1a,pins,one,crc16}'::text[]) AS ring;
SELECT shardring.set_weight(ring, 'a', 3) FROM unnest('{plain,murmur3,fnv1a,pins}'::text[]) AS ring;
SELECT shardring.activate(ring, 2), shardring.draft_version(ring) FROM unnest('{plain,murmur3,fnv1a,pins,one,crc16}'::text[]) AS ring;
SELECT shardring.set_weight(ring, 'z', 0) FROM unnest('{plain,murmur3,fnv1a,pins}'::text[]) AS ring;

-- The rules: a position belongs to the first point at or after it, or else to
-- the first point of all; pins come before that.
CREATE FUNCTION owner_of(ring text, version int, pos bigint) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(
		(SELECT p.group_name FROM shardring.shard_pin AS p
		 WHERE (p.ring, p.version, p.key_position) = (owner_of.ring, owner_of.version, pos)),
		(SELECT g.group_name FROM shardring.shard_group AS g, unnest(g.points) AS p
		 WHERE (g.ring, g.version) = (owner_of.ring, owner_of.version)
		 ORDER BY p < pos, p LIMIT 1))
$$;
-- so owners change only behind a point or a pin, and before a pin
CREATE TABLE twins AS
	SELECT v.ring, v.version, b.lo, lead(b.lo, 1, 4294967296) OVER (PARTITION BY v.ring, v.version ORDER BY b.lo) AS hi,
		owner_of(v.ring, v.version, b.lo) AS group_name
	FROM shardring.ring_version AS v
		CROSS JOIN LATERAL (
			SELECT 0::bigint AS lo
			UNION SELECT p + 1 FROM shardring.shard_group AS g, unnest(g.points) AS p WHERE (g.ring, g.version) = (v.ring, v.version)
			UNION SELECT p.key_position + d FROM shardring.shard_pin AS p, generate_series(0, 1) AS d WHERE (p.ring, p.version) = (v.ring, v.version)) AS b
	WHERE b.lo < 4294967296;
DELETE FROM twins WHERE group_name IS NULL;
ANALYZE twins;

CREATE TABLE arcs AS SELECT v.ring, v.version, a.* FROM shardring.ring_version AS v, shardring.arcs(v.ring, v.version) WITH ORDINALITY AS a;
-- arcs: the twins, joined where neighbours belong together
SELECT ring, version, group_name
FROM (SELECT ring, version, group_name, range_agg(int8range(lo, hi)) AS positions FROM twins GROUP BY 1, 2, 3) AS t
	FULL JOIN (SELECT ring, version, group_name, range_agg(positions) AS positions, count(*) AS n FROM arcs GROUP BY 1, 2, 3) AS a USING (ring, version, group_name)
WHERE t.positions IS DISTINCT FROM a.positions OR a.n <> (SELECT count(*) FROM unnest(t.positions));
-- ascending, from 0 to 2^32, without gap or overlap, neighbours differ
SELECT ring, version, ordinality
FROM (SELECT *, lag(upper(positions), 1, 0) OVER w AS before, lag(group_name) OVER w AS neighbour,
		  lead(lower(positions), 1, 4294967296) OVER w AS after
	  FROM arcs WINDOW w AS (PARTITION BY ring, version ORDER BY ordinality)) AS a
WHERE lower(positions) <> before OR upper(positions) <> after OR group_name = neighbour;
SELECT ring, version, count(*) AS arcs FROM arcs GROUP BY 1, 2 ORDER BY 1, 2;

-- points: those of the table, ascending, with the number of the candidate
SELECT v.ring, v.version, p.key_position, p.salt
FROM shardring.ring_version AS v JOIN shardring.ring AS r USING (ring)
	CROSS JOIN LATERAL shardring.points(v.ring, v.version) AS p
WHERE p.key_position IS DISTINCT FROM shardring.key_position(p.group_name || '#' || p.salt, r.hash)
	OR NOT EXISTS (SELECT FROM shardring.shard_group AS g WHERE (g.ring, g.version, g.group_name) = (v.ring, v.version, p.group_name)
				   AND array_position(g.points, p.key_position) = 1 + (
					SELECT count(*) FROM shardring.points(v.ring, v.version) AS q WHERE q.group_name = p.group_name AND q.salt < p.salt));
SELECT v.ring, v.version
FROM shardring.ring_version AS v
WHERE (SELECT array_agg(p.key_position) FROM shardring.points(v.ring, v.version) AS p)
	IS DISTINCT FROM (SELECT array_agg(p ORDER BY p) FROM shardring.shard_group AS g, unnest(g.points) AS p WHERE (g.ring, g.version) = (v.ring, v.version));

-- shares: lengths of arcs over 2^32; every group is listed, by name
SELECT v.ring, v.version, g.group_name
FROM shardring.ring_version AS v
	JOIN shardring.shard_group AS g USING (ring, version)
	LEFT JOIN LATERAL shardring.shares(v.ring, v.version) AS s USING (group_name)
WHERE s.share * 4294967296 IS DISTINCT FROM coalesce((SELECT sum(hi - lo)::float8 FROM twins AS t
		WHERE (t.ring, t.version, t.group_name) = (v.ring, v.version, g.group_name)), 0)
	OR (s.weight, s.points) IS DISTINCT FROM (g.weight, cardinality(g.points))
	OR (abs(s.expected - coalesce(g.weight / (SELECT nullif(sum(weight), 0) FROM shardring.shard_group AS o
		WHERE (o.ring, o.version) = (v.ring, v.version)), 0)) < 1e-15) IS NOT TRUE
	OR s.ratio IS DISTINCT FROM s.share / nullif(s.expected, 0);
SELECT v.ring, v.version, count(*), sum(s.share) AS share, round(sum(s.expected)::numeric, 12) AS expected, array_agg(s.group_name)
FROM shardring.ring_version AS v, shardring.shares(v.ring, v.version) AS s GROUP BY 1, 2 ORDER BY 1, 2;
SELECT group_name, weight, points, share * 4294967296 AS positions FROM shardring.shares('pins', 1);

-- shard_shares: counted by remainders; every shard of the map is listed
CREATE TABLE slots AS
	SELECT ring, version, group_name, g.slots AS l, s.slot, s.shard
	FROM shardring.shard_group AS g JOIN shardring.shard_slot AS s USING (ring, version, group_name);
ANALYZE slots;
SELECT ring, version, shard, t.n, s.n
FROM (SELECT m.ring, m.version, m.shard, count(DISTINCT m.group_name)::int AS groups, count(DISTINCT (m.group_name, m.slot))::int AS slots,
		  coalesce(sum((t.hi - 1 - m.slot + m.l) / m.l - (t.lo - 1 - m.slot + m.l) / m.l), 0)::float8 AS n
	  FROM slots AS m LEFT JOIN twins AS t USING (ring, version, group_name)
	  GROUP BY 1, 2, 3) AS t
	FULL JOIN (SELECT v.ring, v.version, s.*, s.share * 4294967296 AS n
			   FROM shardring.ring_version AS v, shardring.shard_shares(v.ring, v.version) AS s) AS s USING (ring, version, shard)
WHERE (t.groups, t.slots, t.n) IS DISTINCT FROM (s.groups, s.slots, s.n);
SELECT shard, groups, slots, share * 4294967296 AS positions FROM shardring.shard_shares('pins', 1);
SELECT v.ring, v.version, sum(s.share) AS share, array_agg(s.shard)
FROM shardring.ring_version AS v, shardring.shard_shares(v.ring, v.version) AS s GROUP BY 1, 2 ORDER BY 1, 2;

-- without a version: of the active one; of drafts as well
SELECT 'arcs' AS look, count(*) FROM (SELECT * FROM shardring.arcs('plain') EXCEPT SELECT * FROM shardring.arcs('plain', 2)) AS d
UNION ALL SELECT 'points', count(*) FROM (SELECT * FROM shardring.points('plain', NULL) EXCEPT SELECT * FROM shardring.points('plain', 2)) AS d
UNION ALL SELECT 'shares', count(*) FROM (SELECT * FROM shardring.shares('plain') EXCEPT SELECT * FROM shardring.shares('plain', 2)) AS d
UNION ALL SELECT 'shard_shares', count(*) FROM (SELECT * FROM shardring.shard_shares('plain') EXCEPT SELECT * FROM shardring.shard_shares('plain', 2)) AS d
UNION ALL SELECT 'draft', count(*) FROM (SELECT * FROM shardring.arcs('plain', 3) EXCEPT SELECT * FROM shardring.arcs('plain', 2)) AS d;
-- without points: nobody owns anything
SELECT * FROM shardring.points('drained', 1);
SELECT * FROM shardring.arcs('drained', 1);
SELECT * FROM shardring.shares('drained', 1);
SELECT * FROM shardring.shard_shares('drained', 1);
SELECT * FROM shardring.shares('empty', 1);
SELECT * FROM shardring.shard_shares('empty', 1);
-- NULL, and what is not there
SELECT (SELECT count(*) FROM shardring.points(NULL)) AS a, (SELECT count(*) FROM shardring.points(NULL, 1)) AS b, (SELECT count(*) FROM shardring.arcs(NULL)) AS c,
	(SELECT count(*) FROM shardring.shares(NULL, 1)) AS d, (SELECT count(*) FROM shardring.shard_shares(NULL)) AS e;
SELECT * FROM shardring.arcs('nowhere');
SELECT * FROM shardring.arcs('empty');
SELECT * FROM shardring.arcs('plain', 9);
\set VERBOSITY sqlstate
SELECT * FROM shardring.points('nowhere');
SELECT * FROM shardring.points('empty');
SELECT * FROM shardring.points('plain', 0);
SELECT * FROM shardring.shares('nowhere');
SELECT * FROM shardring.shares('empty');
SELECT * FROM shardring.shares('plain', -1);
SELECT * FROM shardring.shard_shares('nowhere', 1);
SELECT * FROM shardring.shard_shares('empty');
SELECT * FROM shardring.shard_shares('plain', 9);
\set VERBOSITY default
-- one shard with more slots than an integer can count
SELECT shardring.create_ring('slots');
INSERT INTO shardring.shard_group SELECT 'slots', 1, 'g' || i, 0, 65536, NULL, '{}' FROM generate_series(1, 32769) AS i;
INSERT INTO shardring.shard_map SELECT 'slots', 1, 'g' || i, 's', '{[0,65536)}' FROM generate_series(1, 32769) AS i;
SELECT * FROM shardring.shard_shares('slots', 1);
-- a draft that is no ring yet
DELETE FROM shardring.shard_map WHERE ring = 'plain' AND version = 3 AND shard = 's1';
SELECT * FROM shardring.arcs('plain', 3);
SELECT * FROM shardring.points('plain', 3);

DROP EXTENSION shardring;
DROP TABLE twins, arcs, slots;
DROP FUNCTION owner_of;
