--
-- moves_random.sql
--	moved_ranges, move_plan, moves and moving_keys of random pairs of versions
--	against a comparison of both versions by brute force, written in SQL from
--	arcs and shard_slot alone.
--
-- Another run: SHARDRING_SEED=0.123 make test-regress REGRESS=moves_random,
-- where all is the same but the seed that is printed.
--
\set SHOW_CONTEXT never
\set seed 0.42
\getenv seed SHARDRING_SEED
\echo seed :seed
CREATE EXTENSION shardring;
SELECT setseed(:seed);

-- a number from lo to hi
CREATE FUNCTION pick(lo int, hi int) RETURNS int VOLATILE LANGUAGE sql AS
	'SELECT lo + floor(random() * (hi - lo + 1))::int';

-- a group of 1 to 12 slots on some of six shards, which groups may share
CREATE FUNCTION add_any(ring text, name text, version int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	slots int := pick(1, 12);
BEGIN
	PERFORM shardring.add_group(ring, name,
		array(SELECT 's' || pick(1, 6) FROM generate_series(1, pick(1, slots))),
		slots => slots, weight => pick(1, 12) / 4.0, version => version);
END $$;

-- one random edit of a draft
CREATE FUNCTION edit_any(ring text, version int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	g shardring.shard_group;
	p bigint;
BEGIN
	SELECT * INTO g FROM shardring.shard_group AS s
	WHERE s.ring = edit_any.ring AND s.version = edit_any.version
	ORDER BY random() LIMIT 1;
	CASE pick(1, 8)
	WHEN 1 THEN
		PERFORM add_any(ring, 'g' || n, version) FROM generate_series(1, 20) AS n
		WHERE NOT EXISTS (SELECT FROM shardring.shard_group AS s WHERE s.ring = edit_any.ring
			AND s.version = edit_any.version AND s.group_name = 'g' || n)
		LIMIT 1;
	WHEN 2 THEN		-- gone; or back under its name, with other slots
		IF EXISTS (SELECT FROM shardring.shard_group AS s WHERE s.ring = edit_any.ring
			AND s.version = edit_any.version AND s.weight > 0 AND s.group_name <> g.group_name)
		THEN
			DELETE FROM shardring.shard_pin AS s WHERE s.ring = edit_any.ring
				AND s.version = edit_any.version AND s.group_name = g.group_name;
			PERFORM shardring.remove_group(ring, g.group_name, version);
			IF random() < 0.5 THEN
				PERFORM add_any(ring, g.group_name, version);
			END IF;
		END IF;
	WHEN 3, 4 THEN
		PERFORM shardring.set_weight(ring, g.group_name, pick(1, 12) / 4.0, version);
	WHEN 5 THEN
		PERFORM shardring.assign_slots(ring, g.group_name,
			(SELECT range_agg(int4range(s, s + 1)) FROM generate_series(0, g.slots - 1) AS s
			 WHERE random() < 0.5 OR s = g.slots - 1), 's' || pick(1, 7), version);
	WHEN 6 THEN		-- anywhere, at the ends, or beside a point
		p := CASE pick(1, 4) WHEN 1 THEN 0 WHEN 2 THEN 4294967295
			WHEN 3 THEN floor(random() * 4294967296)
			ELSE (coalesce(g.points[1], 7) + pick(-1, 1) + 4294967296) % 4294967296 END;
		PERFORM shardring.pin(ring, p, g.group_name, version);
	WHEN 7 THEN
		DELETE FROM shardring.shard_pin AS s WHERE s.ring = edit_any.ring
			AND s.version = edit_any.version AND random() < 0.5;
	WHEN 8 THEN
		IF EXISTS (SELECT FROM shardring.shard_group AS s WHERE s.ring = edit_any.ring
			AND s.version = edit_any.version AND s.weight > 0 AND s.group_name <> g.group_name)
		THEN
			PERFORM shardring.set_weight(ring, g.group_name, 0, version);
		ELSE
			PERFORM shardring.set_vnodes(ring, pick(4, 8), version);
		END IF;
	END CASE;
END $$;

-- ring i: 12 versions from one another in a line and in forks; the last two
-- stay drafts
CREATE FUNCTION make_versions(ring text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	version int := 1;
BEGIN
	PERFORM shardring.create_ring(ring, 4);
	PERFORM add_any(ring, 'g' || n, 1) FROM generate_series(1, pick(1, 5)) AS n;
	FOR i IN 2 .. 12 LOOP
		version := shardring.draft_version(ring, greatest(i - pick(1, 3), 1));
		PERFORM edit_any(ring, version) FROM generate_series(1, pick(1, 5));
		IF i <= 10 THEN
			PERFORM shardring.seal(ring, version);
		END IF;
	END LOOP;
	PERFORM shardring.seal(ring, 1);
END $$;
SELECT count(*) AS rings FROM (SELECT make_versions('ring ' || i) FROM generate_series(1, 14) AS i) AS made;

-- whatever the statistics are, each join below goes by pairs
SET enable_nestloop = off;

-- neighbours, and any two
CREATE TABLE pairs AS
	SELECT row_number() OVER () AS id, p.*
	FROM (SELECT 'ring ' || i AS ring, v AS f, v + 1 AS t
		  FROM generate_series(1, 14) AS i, generate_series(1, 11) AS v
		  UNION ALL
		  SELECT 'ring ' || i, pick(1, 12), pick(1, 12)
		  FROM generate_series(1, 14) AS i, generate_series(1, 15)) AS p;
ANALYZE pairs;

-- brute force: who owned what before, and who does after
CREATE TABLE arcs AS
	SELECT v.ring, v.version, a.* FROM shardring.ring_version AS v, shardring.arcs(v.ring, v.version) AS a;
ANALYZE arcs;
CREATE TABLE segments AS
	SELECT p.id, a.positions * b.positions AS positions, a.group_name AS from_group, b.group_name AS to_group
	FROM pairs AS p
		JOIN arcs AS a ON (a.ring, a.version) = (p.ring, p.f)
		JOIN arcs AS b ON (b.ring, b.version) = (p.ring, p.t) AND a.positions && b.positions;
ANALYZE segments;
SELECT id FROM segments GROUP BY id HAVING sum(upper(positions) - lower(positions)) <> 4294967296;

-- how many of these positions have which remainder of the product of both
-- numbers of slots
CREATE FUNCTION count_residue(positions int8range, q int, l int) RETURNS bigint IMMUTABLE LANGUAGE sql AS
	'SELECT (upper(positions) - 1 - q + l) / l - (lower(positions) - 1 - q + l) / l';
CREATE TABLE residues AS
	SELECT s.id, s.from_group, s.to_group, x.slots AS x, y.slots AS y, q, sum(count_residue(s.positions, q, x.slots * y.slots)) AS n
	FROM pairs AS p JOIN segments AS s USING (id)
		JOIN shardring.shard_group AS x ON (x.ring, x.version, x.group_name) = (p.ring, p.f, s.from_group)
		JOIN shardring.shard_group AS y ON (y.ring, y.version, y.group_name) = (p.ring, p.t, s.to_group),
		LATERAL generate_series(0, x.slots * y.slots - 1) AS q
	GROUP BY 1, 2, 3, 4, 5, 6;
ANALYZE residues;
-- and which shards these lie on
CREATE TABLE slots AS
	SELECT * FROM shardring.shard_slot;
ANALYZE slots;
CREATE TABLE cells AS
	SELECT r.id, r.from_group, r.to_group, x.shard AS from_shard, y.shard AS to_shard, sum(r.n) AS n
	FROM pairs AS p JOIN residues AS r USING (id)
		JOIN slots AS x ON (x.ring, x.version, x.group_name, x.slot) = (p.ring, p.f, r.from_group, r.q % r.x)
		JOIN slots AS y ON (y.ring, y.version, y.group_name, y.slot) = (p.ring, p.t, r.to_group, r.q % r.y)
	WHERE x.shard <> y.shard
	GROUP BY 1, 2, 3, 4, 5 HAVING sum(r.n) > 0;
ANALYZE cells;

-- the answers
CREATE TABLE ranges AS
	SELECT p.id, m.*, (m.share * 4294967296)::numeric AS n FROM pairs AS p, shardring.moved_ranges(p.ring, p.f, p.t) AS m;
ANALYZE ranges;
CREATE TABLE plan AS
	SELECT p.id, m.*, (m.share * 4294967296)::numeric AS n FROM pairs AS p, shardring.move_plan(p.ring, p.f, p.t) AS m;
ANALYZE plan;

-- every query from here on lists what is wrong
-- moved_ranges
SELECT id, from_group, to_group
FROM (SELECT id, from_group, to_group, range_agg(positions) AS positions, sum(upper(positions) - lower(positions)) AS n
	  FROM segments WHERE from_group <> to_group GROUP BY 1, 2, 3) AS s
	FULL JOIN ranges AS m USING (id, from_group, to_group)
WHERE (s.positions, s.n) IS DISTINCT FROM (m.positions, m.n);
-- move_plan: a row for each two groups and shards, with the exact number
SELECT id, from_group, to_group, from_shard, to_shard, p.rows, c.n, p.n
FROM (SELECT id, from_group, to_group, from_shard, to_shard, sum(n) AS n, count(*) AS rows FROM plan GROUP BY 1, 2, 3, 4, 5) AS p
	FULL JOIN cells AS c USING (id, from_group, to_group, from_shard, to_shard)
WHERE p.rows IS DISTINCT FROM 1 OR c.n IS DISTINCT FROM p.n;
SELECT id FROM (SELECT id, sum(n) AS n FROM cells GROUP BY id) AS c
	FULL JOIN (SELECT id, (sum(share) * 4294967296)::numeric AS n FROM plan GROUP BY id) AS p USING (id)
WHERE c.n IS DISTINCT FROM p.n;
-- it describes only positions of its groups and shards, and as many of them
-- as it says: so it describes all of them
SELECT id, m.from_group, m.to_group, m.from_shard, m.to_shard
FROM pairs AS p JOIN plan AS m USING (id)
	LEFT JOIN (SELECT id, from_group, to_group, range_agg(positions) AS positions FROM segments GROUP BY 1, 2, 3)
		AS s USING (id, from_group, to_group)
	LEFT JOIN shardring.shard_map AS x ON (x.ring, x.version, x.group_name, x.shard) = (p.ring, p.f, m.from_group, m.from_shard)
	LEFT JOIN shardring.shard_map AS y ON (y.ring, y.version, y.group_name, y.shard) = (p.ring, p.t, m.to_group, m.to_shard)
WHERE m.positions IS DISTINCT FROM s.positions OR m.from_shard = m.to_shard
	OR (m.from_slots <@ x.slots AND m.to_slots <@ y.slots) IS NOT TRUE;
SELECT id, m.from_group, m.to_group, m.from_shard, m.to_shard, m.n, sum(r.n)
FROM plan AS m JOIN residues AS r USING (id, from_group, to_group)
WHERE m.from_slots @> r.q % r.x AND m.to_slots @> r.q % r.y
GROUP BY 1, 2, 3, 4, 5, 6 HAVING m.n <> sum(r.n);

-- shard_at at lo - 1, lo, hi - 1 and hi of every range of either, of arcs too
CREATE TABLE probes AS
	SELECT b.*, s.from_group, s.to_group,
		shardring.shard_at(p.ring, b.p, p.f) AS from_shard, shardring.shard_at(p.ring, b.p, p.t) AS to_shard
	FROM (SELECT DISTINCT u.id, unnest(ARRAY[lower(r) - 1, lower(r), upper(r) - 1, upper(r)]) AS p
		  FROM (SELECT id, positions FROM ranges UNION SELECT id, positions FROM plan
				UNION SELECT id, int8multirange(positions) FROM segments) AS u, unnest(u.positions) AS r
		  ORDER BY 1, 2) AS b
		JOIN pairs AS p USING (id)
		LEFT JOIN segments AS s ON s.id = b.id AND s.positions @> b.p
	WHERE b.p BETWEEN 0 AND 4294967295;
ANALYZE probes;
SELECT b.id, b.p
FROM pairs AS p JOIN probes AS b USING (id)
	LEFT JOIN residues AS r ON (r.id, r.from_group, r.to_group) = (b.id, b.from_group, b.to_group) AND r.q = b.p % (r.x * r.y)
	LEFT JOIN slots AS x ON (x.ring, x.version, x.group_name, x.slot) = (p.ring, p.f, b.from_group, r.q % r.x)
	LEFT JOIN slots AS y ON (y.ring, y.version, y.group_name, y.slot) = (p.ring, p.t, b.to_group, r.q % r.y)
WHERE (b.from_shard, b.to_shard) IS DISTINCT FROM (x.shard, y.shard);
SELECT b.id, b.p
FROM probes AS b LEFT JOIN ranges AS m ON m.id = b.id AND m.positions @> b.p
WHERE (m.from_group, m.to_group) IS DISTINCT FROM (nullif(b.from_group, b.to_group), nullif(b.to_group, b.from_group));
SELECT b.id, b.p, count(m.id) AS rows
FROM probes AS b
	LEFT JOIN (plan AS m JOIN (SELECT DISTINCT id, from_group, to_group, x, y FROM residues) AS r USING (id, from_group, to_group))
		ON m.id = b.id AND m.positions @> b.p
		AND m.from_slots @> (b.p % r.x)::int AND m.to_slots @> (b.p % r.y)::int
GROUP BY b.id, b.p, b.from_group, b.to_group, b.from_shard, b.to_shard
HAVING count(m.id) <> (b.from_shard <> b.to_shard)::int
	OR min(m.from_shard) <> b.from_shard OR min(m.to_shard) <> b.to_shard
	OR min(m.from_group) <> b.from_group OR min(m.to_group) <> b.to_group;

-- keys, by moves, moving_keys, shard_for and locate
CREATE TABLE keys AS
	SELECT p.id, k.key, o.key_position, o.group_name AS from_group, o.slot AS from_slot, o.shard AS from_shard,
		n.group_name AS to_group, n.slot AS to_slot, n.shard AS to_shard
	FROM pairs AS p, (SELECT 'key ' || i FROM generate_series(1, 40) AS i) AS k (key),
		shardring.locate(p.ring, k.key, p.f) AS o, shardring.locate(p.ring, k.key, p.t) AS n
	ORDER BY 1, 2;
ANALYZE keys;
SELECT k.id, k.key
FROM pairs AS p JOIN keys AS k USING (id)
WHERE shardring.moves(p.ring, p.f, p.t, k.key) IS DISTINCT FROM (k.from_shard <> k.to_shard)
	OR shardring.shard_for(p.ring, k.key, p.f) IS DISTINCT FROM k.from_shard
	OR shardring.shard_for(p.ring, k.key, p.t) IS DISTINCT FROM k.to_shard;
SELECT k.id, k.key
FROM keys AS k LEFT JOIN plan AS m
	ON (m.id, m.from_group, m.to_group, m.from_shard, m.to_shard) = (k.id, k.from_group, k.to_group, k.from_shard, k.to_shard)
	AND m.positions @> k.key_position AND m.from_slots @> k.from_slot AND m.to_slots @> k.to_slot
WHERE (k.from_shard <> k.to_shard) <> (m.id IS NOT NULL);
SELECT id, key
FROM (SELECT * FROM keys WHERE from_shard <> to_shard) AS k
	FULL JOIN (SELECT p.id, m.* FROM pairs AS p,
			   shardring.moving_keys(p.ring, p.f, p.t, array(SELECT 'key ' || i FROM generate_series(1, 40) AS i)) AS m) AS m USING (id, key)
WHERE (k.key_position, k.from_group, k.from_slot, k.from_shard, k.to_group, k.to_slot, k.to_shard)
	IS DISTINCT FROM (m.key_position, m.from_group, m.from_slot, m.from_shard, m.to_group, m.to_slot, m.to_shard);

-- there and back, and a version and itself
SELECT id
FROM ranges AS a
	FULL JOIN (SELECT p.id, m.to_group AS from_group, m.from_group AS to_group, m.positions, m.share
			   FROM pairs AS p, shardring.moved_ranges(p.ring, p.t, p.f) AS m) AS b USING (id, from_group, to_group)
WHERE (a.positions, a.share) IS DISTINCT FROM (b.positions, b.share);
SELECT id
FROM plan AS a
	FULL JOIN (SELECT p.id, m.to_group AS from_group, m.from_group AS to_group, m.to_shard AS from_shard, m.from_shard AS to_shard,
				   m.to_slots AS from_slots, m.from_slots AS to_slots, m.positions, m.share
			   FROM pairs AS p, shardring.move_plan(p.ring, p.t, p.f) AS m) AS b USING (id, from_group, to_group, from_shard, to_shard)
WHERE (a.positions, a.from_slots, a.to_slots, a.share) IS DISTINCT FROM (b.positions, b.from_slots, b.to_slots, b.share);
SELECT v.ring, v.version FROM shardring.ring_version AS v, shardring.moved_ranges(v.ring, v.version, v.version) AS m;
SELECT v.ring, v.version FROM shardring.ring_version AS v, shardring.move_plan(v.ring, v.version, v.version) AS m;

-- that this was no empty exercise
SELECT count(*) AS pairs, count(*) FILTER (WHERE f > t) > 20 AS backwards, count(*) FILTER (WHERE t - f > 3) > 20 AS "many steps",
	count(*) FILTER (WHERE EXISTS (SELECT FROM shardring.ring_version AS v WHERE v.ring = p.ring AND v.version IN (f, t) AND v.sealed_at IS NULL)) > 20 AS drafts,
	count(*) FILTER (WHERE EXISTS (SELECT FROM shardring.shard_pin AS v WHERE v.ring = p.ring AND v.version IN (f, t))) > 20 AS pins,
	count(*) FILTER (WHERE EXISTS (SELECT FROM plan AS m WHERE m.id = p.id AND from_group = to_group)) > 20 AS "inside groups",
	count(*) FILTER (WHERE EXISTS (SELECT FROM plan AS m WHERE m.id = p.id AND from_group = to_group AND from_slots <> to_slots)) > 20 AS "slots changed"
FROM pairs AS p;
SELECT (SELECT count(*) FROM segments) > 5000 AS segments, (SELECT count(*) FROM plan) > 2000 AS rows,
	(SELECT count(*) FROM probes) > 10000 AS probes, (SELECT count(*) FROM keys WHERE from_shard <> to_shard) > 1000 AS keys;

DROP EXTENSION shardring;
DROP TABLE pairs, arcs, segments, residues, slots, cells, ranges, plan, probes, keys;
DROP FUNCTION pick, add_any, edit_any, make_versions, count_residue;
