--
-- moves.sql
--	What moves between two versions, on rings whose moves are known from
--	other implementations.  Random versions are in moves_random.sql.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;

-- what moves where, as a table of numbers
CREATE FUNCTION moved(ring text, from_version int, to_version int,
	OUT from_group text, OUT to_group text, OUT ranges bigint, OUT positions numeric)
RETURNS SETOF record LANGUAGE sql AS $$
	SELECT m.from_group, m.to_group, count(*), sum(upper(r) - lower(r))
	FROM shardring.moved_ranges(moved.ring, moved.from_version, moved.to_version) AS m, unnest(m.positions) AS r
	GROUP BY 1, 2 ORDER BY 1, 2
$$;
CREATE TABLE keys AS SELECT i, 'user:' || i AS key FROM generate_series(0, 19999) AS i;

-- a group joins (B45)
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', name, ARRAY[name]) FROM unnest('{node-a,node-b,node-c}'::text[]) AS name;
SELECT shardring.activate('r');
SELECT shardring.draft_version('r'), shardring.add_group('r', 'node-d', '{node-d}');
SELECT * FROM moved('r', 1, 2);
SELECT sum(ranges) AS ranges, sum(positions) AS positions FROM moved('r', 1, 2);
(SELECT r, from_group, to_group FROM shardring.moved_ranges('r', 1, 2), unnest(positions) AS r ORDER BY r LIMIT 1)
UNION ALL
(SELECT r, from_group, to_group FROM shardring.moved_ranges('r', 1, 2), unnest(positions) AS r ORDER BY r DESC LIMIT 1);
SELECT from_group, (share * 4294967296)::numeric AS positions FROM shardring.moved_ranges('r', 1, 2) ORDER BY 1;
-- of 10000 keys: the group before and after, and who says so
SELECT o.group_name AS before, n.group_name AS after, count(*),
	count(*) FILTER (WHERE shardring.moves('r', 1, 2, key)) AS moves
FROM keys, shardring.locate('r', key, 1) AS o, shardring.locate('r', key, 2) AS n
WHERE i < 10000 GROUP BY 1, 2 ORDER BY 1, 2;
SELECT from_group, to_group, count(*)
FROM shardring.moving_keys('r', 1, 2, array(SELECT key FROM keys WHERE i < 10000))
GROUP BY 1, 2 ORDER BY 1, 2;
-- groups of one slot: the plan is the ranges
SELECT count(*) AS rows, count(*) FILTER (WHERE m IS DISTINCT FROM
	(p.from_group, p.to_group, p.positions, p.share)) AS wrong
FROM shardring.move_plan('r', 1, 2) AS p
	LEFT JOIN shardring.moved_ranges('r', 1, 2) AS m USING (from_group, to_group)
WHERE (p.from_shard, p.to_shard, p.from_slots, p.to_slots) = (p.from_group, p.to_group, '{[0,1)}', '{[0,1)}');
-- nothing moves to where it is, and back is there in the mirror
SELECT count(*) FROM shardring.moved_ranges('r', 1, 1);
SELECT count(*) FROM shardring.moved_ranges('r', 2, 2);
SELECT count(*) FROM shardring.move_plan('r', 2, 2);
SELECT count(*) FROM shardring.moving_keys('r', 2, 2, array(SELECT key FROM keys));
SELECT count(*) AS rows FROM (
	SELECT from_group, to_group, positions, share FROM shardring.moved_ranges('r', 1, 2)
	INTERSECT
	SELECT to_group, from_group, positions, share FROM shardring.moved_ranges('r', 2, 1)) AS m;
SELECT count(*) AS rows FROM (
	SELECT from_shard, to_shard, from_group, to_group, from_slots, to_slots, positions, share FROM shardring.move_plan('r', 1, 2)
	INTERSECT
	SELECT to_shard, from_shard, to_group, from_group, to_slots, from_slots, positions, share FROM shardring.move_plan('r', 2, 1)) AS m;

-- a group becomes heavier, and lighter again (B17)
SELECT shardring.draft_version('r', 1), shardring.set_weight('r', 'node-b', 2, 3);
SELECT * FROM moved('r', 1, 3);
SELECT sum(ranges) AS ranges, sum(positions) AS positions FROM moved('r', 1, 3);
SELECT from_group, to_group, count(*)
FROM shardring.moving_keys('r', 1, 3, array(SELECT key FROM keys WHERE i < 10000))
GROUP BY 1, 2 ORDER BY 1, 2;
SELECT shardring.draft_version('r', 3), shardring.set_weight('r', 'node-b', 1, 4);
SELECT * FROM moved('r', 3, 4);
SELECT * FROM moved('r', 1, 4);

-- from 8 to 9 groups, and what plain modulo would do
SELECT shardring.create_ring('ring'), shardring.create_ring('modulo', 1);
SELECT shardring.add_group('ring', 'node-' || i, ARRAY['node-' || i]) FROM generate_series(0, 7) AS i;
SELECT shardring.add_group('modulo', 'all', array(SELECT 'node-' || i FROM generate_series(0, 7) AS i));
SELECT shardring.activate(ring) FROM unnest('{ring,modulo}'::text[]) AS ring;
SELECT shardring.draft_version(ring) FROM unnest('{ring,modulo}'::text[]) AS ring;
SELECT shardring.add_group('ring', 'node-8', '{node-8}'), shardring.remove_group('modulo', 'all'),
	shardring.add_group('modulo', 'all', array(SELECT 'node-' || i FROM generate_series(0, 8) AS i));
SELECT ring.*, round(100.0 * moved / 20000, 3) AS percent
FROM (SELECT 'ring' AS scheme, count(*) AS moved, count(*) FILTER (WHERE to_group = 'node-8') AS "to node-8"
	  FROM shardring.moving_keys('ring', 1, 2, array(SELECT key FROM keys))
	  UNION ALL
	  SELECT 'modulo', count(*), count(*) FILTER (WHERE to_shard = 'node-8')
	  FROM shardring.moving_keys('modulo', 1, 2, array(SELECT key FROM keys))
	  UNION ALL
	  SELECT 'modulo by hand', count(*), count(*) FILTER (WHERE p % 9 = 8)
	  FROM keys, shardring.key_position(key) AS p WHERE p % 8 <> p % 9) AS ring;
SELECT to_group, count(*), sum(share) FROM shardring.moved_ranges('ring', 1, 2) GROUP BY 1;

-- slots change hands inside a group that stays
SELECT shardring.create_ring('slots', 2);
SELECT shardring.add_group('slots', name, ARRAY[name || '.0', name || '.1'], slots => 8)
FROM unnest('{node-a,node-b}'::text[]) AS name;
SELECT shardring.activate('slots');
SELECT shardring.draft_version('slots'), shardring.assign_slots('slots', 'node-a', '{[1,2),[3,6)}', 'node-a.2');
SELECT * FROM shardring.moved_ranges('slots', 1, 2);
SELECT from_shard, to_shard, from_group, to_group, from_slots, to_slots, positions FROM shardring.move_plan('slots', 1, 2);
-- R2(node-a, node-b): node-a owns [0,970208099), [1188510211,1931263049) and
-- [3583446865,4294967296); so many of its positions have these remainders
SELECT p.from_shard, p.from_slots, (p.share * 4294967296)::numeric AS positions, sum((upper(r) - s - 1 + 8) / 8 - (lower(r) - s - 1 + 8) / 8) AS wanted
FROM shardring.move_plan('slots', 1, 2) AS p, unnest(p.positions) AS r, generate_series(0, 7) AS s
WHERE p.from_slots @> s GROUP BY 1, 2, 3 ORDER BY 1;
SELECT key, key_position % 8 AS remainder, from_slot, from_shard, to_slot, to_shard
FROM shardring.moving_keys('slots', 1, 2, array(SELECT key FROM keys WHERE i < 15));
-- a group and its neighbour on the same shard: the group changes, no key moves
SELECT shardring.draft_version('slots'), shardring.assign_slots('slots', 'node-a', '{[0,8)}', 'one', 3), shardring.assign_slots('slots', 'node-b', '{[0,8)}', 'one', 3);
SELECT shardring.draft_version('slots', 3), shardring.set_weight('slots', 'node-b', 3, 4);
SELECT * FROM moved('slots', 3, 4);
SELECT count(*) FROM shardring.move_plan('slots', 3, 4);
SELECT count(*) FROM shardring.moving_keys('slots', 3, 4, array(SELECT key FROM keys));
SELECT bool_or(shardring.moves('slots', 3, 4, key)) FROM keys;

-- groups of different numbers of slots
SELECT shardring.create_ring('mixed', 2);
SELECT shardring.add_group('mixed', 'node-a', '{a0,a1,a2}');
SELECT shardring.activate('mixed');
SELECT shardring.draft_version('mixed'), shardring.add_group('mixed', 'node-b', '{b0,a1}', slots => 8);
SELECT from_shard, to_shard, from_slots, to_slots, (share * 4294967296)::numeric AS positions
FROM shardring.move_plan('mixed', 1, 2) ORDER BY 1, 2;
SELECT from_shard, to_shard, count(*) FROM shardring.moving_keys('mixed', 1, 2, array(SELECT key FROM keys)) GROUP BY 1, 2 ORDER BY 1, 2;
SELECT 'a' || p % 3 AS from_shard, CASE WHEN p % 8 < 4 THEN 'b0' ELSE 'a1' END AS to_shard, count(*)
FROM keys, shardring.key_position(key) AS p
WHERE (p BETWEEN 970208099 AND 1188510210 OR p BETWEEN 1931263049 AND 3583446864)
	AND 'a' || p % 3 <> CASE WHEN p % 8 < 4 THEN 'b0' ELSE 'a1' END
GROUP BY 1, 2 ORDER BY 1, 2;
-- and of so many that their least common multiple is above 2^20; these were
-- counted position by position
SELECT shardring.draft_version('mixed', 2), shardring.remove_group('mixed', 'node-a', 3), shardring.remove_group('mixed', 'node-b', 3),
	shardring.add_group('mixed', 'node-a', '{a0,a1}', slots => 4099, version => 3);
SELECT shardring.draft_version('mixed', 3), shardring.remove_group('mixed', 'node-a', 4),
	shardring.add_group('mixed', 'node-a', '{a0,a1}', slots => 65536, version => 4), shardring.add_group('mixed', 'node-b', '{b0,b1,b2}', slots => 65521, version => 4);
SELECT from_group, to_group, from_shard, to_shard, (share * 4294967296)::numeric AS positions
FROM shardring.move_plan('mixed', 3, 4) ORDER BY 1, 2, 3, 4;
SELECT sum(share) = (SELECT sum(share) FROM shardring.move_plan('mixed', 4, 3)) AS mirrored FROM shardring.move_plan('mixed', 3, 4);

-- what it would cost to change the slots of a group: it is planned in full
-- and cannot be activated (B37)
SELECT shardring.create_ring(s.before || ' to ' || s.after, 1),
	shardring.add_group(s.before || ' to ' || s.after, 'g', array(SELECT 's' || i FROM generate_series(1, s.before) AS i)),
	shardring.activate(s.before || ' to ' || s.after), shardring.draft_version(s.before || ' to ' || s.after),
	shardring.remove_group(s.before || ' to ' || s.after, 'g'),
	shardring.add_group(s.before || ' to ' || s.after, 'g', array(SELECT 's' || i FROM generate_series(1, s.after) AS i))
FROM (VALUES (16, 17), (4, 8), (16, 32)) AS s (before, after);
SELECT ring, count(*) FROM unnest('{16 to 17,4 to 8,16 to 32}'::text[]) AS ring,
	shardring.moving_keys(ring, 1, 2, array(SELECT key FROM keys WHERE i < 10000)) GROUP BY 1 ORDER BY 1;
SELECT shardring.activate('4 to 8');

-- pins are planned like everything else
SELECT shardring.draft_version('r', 1), shardring.add_group('r', 'own', '{own}', weight => 0, version => 5),
	shardring.pin('r', 0, 'own', 5), shardring.pin('r', 1, 'own', 5), shardring.pin('r', 4294967295, 'own', 5),
	shardring.pin_key('r', 'user:42', 'own', 5), shardring.pin('r', 5, 'node-b', 5);
SELECT from_group, to_group, positions FROM shardring.moved_ranges('r', 1, 5);
SELECT from_shard, to_shard, positions, (share * 4294967296)::numeric AS share FROM shardring.move_plan('r', 1, 5);
SELECT * FROM shardring.moving_keys('r', 1, 5, array(SELECT key FROM keys));
SELECT from_group, to_group, positions FROM shardring.moved_ranges('r', 5, 1);

-- keys of other types, tags
SELECT count(*) FILTER (WHERE shardring.moves('r', 1, 2, i::bigint)) AS bigints,
	count(*) FILTER (WHERE shardring.moves('r', 1, 2, i::text)) AS texts,
	count(*) FILTER (WHERE shardring.moves('r', 1, 2, md5(key)::uuid)) AS uuids,
	count(*) FILTER (WHERE shardring.moves('r', 1, 2, md5(key)::uuid::text)) AS uuid_texts,
	count(*) FILTER (WHERE shardring.moves('r', 1, 2, i) <> shardring.moves('r', 1, 2, i::text)) AS wrong
FROM keys;
SELECT shardring.create_ring('tags', hash_tags => true);
SELECT shardring.add_group('tags', name, ARRAY[name]) FROM unnest('{node-a,node-b,node-c}'::text[]) AS name;
SELECT shardring.activate('tags');
SELECT shardring.draft_version('tags'), shardring.add_group('tags', 'node-d', '{node-d}');
SELECT count(*) AS moving, count(*) FILTER (WHERE m.key_position <> shardring.key_position(split_part(split_part(m.key, '{', 2), '}', 1))) AS wrong
FROM shardring.moving_keys('tags', 1, 2, array(SELECT i || '{' || key || '}' FROM keys WHERE i < 10000)) AS m;
SELECT count(*) FROM keys WHERE i < 10000 AND shardring.moves('tags', 1, 2, i || '{' || key || '}');

-- arrays of keys: in their order, each as often as it is there
SELECT key, key_position, to_group FROM shardring.moving_keys('r', 1, 2, '{user:2,a,user:3,user:2,"",é,user:5}');
SELECT key FROM shardring.moving_keys('r', 1, 2, '{{user:2,user:3},{user:5,user:2}}');
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, '{}');
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, NULL);
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, '{user:2,NULL,a,NULL}');

-- NULL and what does not exist
SELECT (SELECT count(*) FROM shardring.moved_ranges(NULL, 1, 2)) AS a, (SELECT count(*) FROM shardring.moved_ranges('r', NULL, 2)) AS b,
	(SELECT count(*) FROM shardring.moved_ranges('r', 1, NULL)) AS c, (SELECT count(*) FROM shardring.move_plan(NULL, 1, 2)) AS d,
	(SELECT count(*) FROM shardring.move_plan('r', NULL, 2)) AS e, (SELECT count(*) FROM shardring.move_plan('r', 1, NULL)) AS f,
	(SELECT count(*) FROM shardring.moving_keys(NULL, 1, 2, '{user:2}')) AS g, (SELECT count(*) FROM shardring.moving_keys('r', NULL, 2, '{user:2}')) AS h,
	(SELECT count(*) FROM shardring.moving_keys('r', 1, NULL, '{user:2}')) AS i;
SELECT shardring.moves(NULL, 1, 2, 'user:2') IS NULL AS a, shardring.moves('r', NULL, 2, 'user:2') IS NULL AS b,
	shardring.moves('r', 1, NULL, 'user:2') IS NULL AS c, shardring.moves('r', 1, 2, NULL) IS NULL AS d;
\set VERBOSITY sqlstate
SELECT * FROM shardring.moved_ranges('nowhere', 1, 2);
SELECT * FROM shardring.moved_ranges('r', 1, 99);
SELECT * FROM shardring.moved_ranges('r', 99, 1);
SELECT * FROM shardring.moved_ranges('r', 0, 1);
SELECT * FROM shardring.move_plan('nowhere', 1, 2);
SELECT * FROM shardring.move_plan('r', 1, 99);
SELECT * FROM shardring.move_plan('r', -1, 1);
SELECT shardring.moves('nowhere', 1, 2, 'a');
SELECT shardring.moves('r', 1, 99, 'a');
SELECT shardring.moves('r', 1, 2, 1.0);
SELECT * FROM shardring.moving_keys('nowhere', 1, 2, '{a}');
SELECT * FROM shardring.moving_keys('r', 99, 2, '{a}');
SELECT * FROM shardring.moving_keys('r', 99, 2, '{}');
\set VERBOSITY default
-- versions without points: nothing was there, so nothing moves
SELECT shardring.create_ring('new');
SELECT shardring.seal('new');
SELECT shardring.draft_version('new', 1), shardring.add_group('new', 'g', '{s}');
SELECT * FROM shardring.moved_ranges('new', 1, 2);
SELECT * FROM shardring.moved_ranges('new', 2, 1);
SELECT * FROM shardring.move_plan('new', 1, 2);
SELECT shardring.moves('new', 1, 2, 'a');

DROP EXTENSION shardring;
DROP TABLE keys;
DROP FUNCTION moved;
