--
-- predicate.sql
--	move_predicate: SQL that selects exactly what moving_keys lists, and that
--	CREATE PUBLICATION accepts.  That it works on a server without the
--	extension is a TAP test.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
SET client_min_messages = error;
CREATE EXTENSION shardring;

-- 1: three groups of 4 slots on two shards each; 2: one more; 3: slots change
-- hands inside a group; 4: a group with another number of slots, a pin
SELECT shardring.create_ring('r', 20), shardring.create_ring('tags', 20, hash_tags => true), shardring.create_ring('murmur3', 20, 'murmur3');
SELECT shardring.add_group(ring, name, ARRAY[name || 0, name || 1], slots => 4)
FROM unnest('{r,tags,murmur3}'::text[]) AS ring, unnest('{a,b,c}'::text[]) AS name;
SELECT shardring.activate(ring) FROM unnest('{r,tags,murmur3}'::text[]) AS ring;
SELECT shardring.draft_version(ring, 1), shardring.add_group(ring, 'd', '{d0,d1}', slots => 4, version => 2),
	shardring.draft_version(ring, 2), shardring.assign_slots(ring, 'a', '{[1,2)}', 'a1', 3), shardring.assign_slots(ring, 'a', '{[3,4)}', 'a0', 3),
	shardring.draft_version(ring, 3), shardring.remove_group(ring, 'b', 4), shardring.add_group(ring, 'e', '{e0,a0,d1}', slots => 6, version => 4),
	shardring.pin_key(ring, '42', 'e', 4)
FROM unnest('{r,tags,murmur3}'::text[]) AS ring;
CREATE TABLE versions (f int, t int);
INSERT INTO versions VALUES (1, 2), (2, 3), (1, 4), (4, 1);
-- rows with keys of every type; names hold what one may put into a name
CREATE TABLE orders (id bigint PRIMARY KEY, small smallint, name text, short varchar(40), code uuid, key_position bigint, other_position bigint);
INSERT INTO orders
SELECT i, i, name, name, md5(name)::uuid, shardring.key_position(name), shardring.key_position(name, 'murmur3')
FROM generate_series(-200, 599) AS i,
	LATERAL (SELECT CASE abs(i) % 8 WHEN 0 THEN 'user:' || i WHEN 1 THEN i::text WHEN 2 THEN 'é日本' || i || ''''
		WHEN 3 THEN 'x{' || i || '}y' WHEN 4 THEN '{}' || i WHEN 5 THEN '{' || i WHEN 6 THEN '}{' || i || '}{z}' ELSE i || E'{a\\\nb}' END) AS n (name);
UPDATE orders SET name = '' WHERE id = 0;
UPDATE orders SET key_position = shardring.key_position(''), other_position = shardring.key_position('', 'murmur3') WHERE id = 0;

-- what it looks like
SELECT shardring.move_predicate('r', 2, 3, 'a0', 'a1', 'name') ~ '^\(.*\)$' AS one,
	replace(shardring.move_predicate('r', 2, 3, 'a0', 'a1', 'name', position_expression => 'pos'), positions::text, '(positions)') AS predicate
FROM shardring.move_plan('r', 2, 3) WHERE from_shard = 'a0';
SELECT shardring.move_predicate('r', 1, 4, 'b0', 'a0', 'name', position_expression => 'pos') LIKE '% OR %' AS "several";

-- the ids that a predicate selects
CREATE FUNCTION selected(predicate text) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[];
BEGIN
	EXECUTE 'SELECT array_agg(id ORDER BY id) FROM orders WHERE ' || predicate INTO ids;
	RETURN ids;
END $$;
-- for every pair of shards: the rows it selects, and the rows that move
CREATE FUNCTION compare(ring text, key text, position_expression text, key_type text, key_text text)
RETURNS TABLE (f int, t int, pairs bigint, moving bigint, wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
	SELECT v.f, v.t, count(*), sum(cardinality(m.ids))::bigint,
		count(*) FILTER (WHERE m.ids IS DISTINCT FROM selected(shardring.move_predicate(%1$L, v.f, v.t, x.shard, y.shard, %2$L, %4$L, %3$L)))
	FROM versions AS v
		CROSS JOIN LATERAL (SELECT DISTINCT shard FROM shardring.shard_map WHERE ring = %1$L AND version = v.f) AS x
		CROSS JOIN LATERAL (SELECT DISTINCT shard FROM shardring.shard_map WHERE ring = %1$L AND version = v.t) AS y
		LEFT JOIN LATERAL (
			SELECT array_agg(o.id ORDER BY o.id) AS ids
			FROM orders AS o
			WHERE x.shard <> y.shard AND shardring.shard_for(%1$L, %5$s, v.f) = x.shard AND shardring.shard_for(%1$L, %5$s, v.t) = y.shard) AS m ON true
	GROUP BY 1, 2 ORDER BY 1, 2$q$, ring, key, position_expression, key_type, key_text);
END $$;
SELECT * FROM compare('r', 'name', NULL, 'text', 'name');
SELECT sum(n) AS "as moving_keys" FROM versions, LATERAL (SELECT count(*) AS n FROM shardring.moving_keys('r', f, t, 'orders', 'name')) AS m;
SELECT * FROM compare('r', 'short', NULL, 'text', 'short');
SELECT * FROM compare('r', 'id', NULL, 'bigint', 'id');
SELECT sum(n) AS "as moving_keys" FROM versions, LATERAL (SELECT count(*) AS n FROM shardring.moving_keys('r', f, t, 'orders', 'id')) AS m;
SELECT * FROM compare('r', 'small', NULL, 'bigint', 'small');
SELECT * FROM compare('r', 'code', NULL, 'uuid', 'code');
SELECT sum(n) AS "as moving_keys" FROM versions, LATERAL (SELECT count(*) AS n FROM shardring.moving_keys('r', f, t, 'orders', 'code')) AS m;
SELECT * FROM compare('r', NULL, 'key_position', 'text', 'name');
SELECT * FROM compare('r', 'name || ''x''', NULL, 'text', 'name || ''x''');
SELECT * FROM compare('tags', 'name', NULL, 'text', 'name');
SELECT sum(n) AS "as moving_keys" FROM versions, LATERAL (SELECT count(*) AS n FROM shardring.moving_keys('tags', f, t, 'orders', 'name')) AS m;
SELECT * FROM compare('tags', 'id', NULL, 'bigint', 'id');
SELECT * FROM compare('murmur3', 'name', 'other_position', 'text', 'name');
-- it does not depend on how the session reads strings or finds names
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT * FROM compare('tags', 'name', NULL, 'text', 'name') WHERE wrong > 0;
RESET standard_conforming_strings;

-- publications accept all of them
DO $$
DECLARE
	n int := 0;
	p record;
	e record;
BEGIN
	ALTER TABLE orders REPLICA IDENTITY FULL;
	FOR p IN SELECT m.ring, v.f, v.t, q.from_shard, q.to_shard
		FROM versions AS v, unnest('{r,tags}'::text[]) AS m (ring), LATERAL (SELECT DISTINCT from_shard, to_shard FROM shardring.move_plan(m.ring, v.f, v.t)) AS q
		WHERE (v.f, v.t) IN ((1, 4), (2, 3))
	LOOP
		FOR e IN SELECT * FROM (VALUES ('name', NULL, 'text'), ('short', NULL, 'text'), ('id', NULL, 'bigint'), ('code', NULL, 'uuid'), (NULL, 'key_position', 'text'))
			AS e (key, pos, type)
		LOOP
			EXECUTE format('CREATE PUBLICATION p FOR TABLE orders WHERE (%s)',
				shardring.move_predicate(p.ring, p.f, p.t, p.from_shard, p.to_shard, e.key, e.type, e.pos));
			DROP PUBLICATION p;
			n := n + 1;
		END LOOP;
	END LOOP;
	ASSERT n > 100, n;
END $$;
CREATE PUBLICATION p FOR TABLE orders WHERE (false);
-- also with thousands of ranges
SELECT shardring.create_ring('big', 20000), shardring.add_group('big', 'a', '{a}'), shardring.add_group('big', 'b', '{b}'), shardring.activate('big');
SELECT shardring.draft_version('big'), shardring.add_group('big', 'c', '{c}');
DO $$
BEGIN
	EXECUTE format('ALTER PUBLICATION p SET TABLE orders WHERE (%s)', shardring.move_predicate('big', 1, 2, 'a', 'c', 'name'));
END $$;
SELECT prattrs IS NULL AS "all columns", length(pg_get_expr(prqual, prrelid)) > 100000 AS "long filter" FROM pg_publication_rel;
SELECT cardinality(selected(shardring.move_predicate('big', 1, 2, 'a', 'c', 'name'))) = (
	SELECT count(*) FROM shardring.moving_keys('big', 1, 2, 'orders', 'name') WHERE from_group = 'a') AS same;
DROP PUBLICATION p;

-- ranges can be joined to an index on the same expression instead
CREATE INDEX ON orders (((pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(name), 1, 8)), 0, 32))::pg_catalog.int8));
SET enable_seqscan = off;
SELECT array_agg(o.id ORDER BY o.id) = selected(shardring.move_predicate('big', 1, 2, 'a', 'c', 'name')) AS same
FROM shardring.move_plan('big', 1, 2) AS m, unnest(m.positions) AS r
	JOIN orders AS o ON (pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(o.name), 1, 8)), 0, 32))::pg_catalog.int8 >= lower(r)
		AND (pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(o.name), 1, 8)), 0, 32))::pg_catalog.int8 < upper(r)
WHERE m.from_shard = 'a';
-- and so for every type of key
CREATE INDEX ON orders (((pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(pg_catalog.textin(pg_catalog.int8out(id))), 1, 8)), 0, 32))::pg_catalog.int8));
CREATE INDEX ON orders (((pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(pg_catalog.textin(pg_catalog.uuid_out(code))), 1, 8)), 0, 32))::pg_catalog.int8));
CREATE FUNCTION uses_index(key text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT o.* FROM shardring.move_plan(''big'', 1, 2) AS m CROSS JOIN unnest(m.positions) AS r
		JOIN orders AS o ON (pg_catalog.bit_in(pg_catalog.textout(''x'' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(%1$s), 1, 8)), 0, 32))::pg_catalog.int8 >= lower(r)
			AND (pg_catalog.bit_in(pg_catalog.textout(''x'' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(%1$s), 1, 8)), 0, 32))::pg_catalog.int8 < upper(r)', key)
	LOOP
		IF line LIKE '%Index%' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT uses_index('o.name') AS text, uses_index('pg_catalog.textin(pg_catalog.int8out(o.id))') AS "bigint", uses_index('pg_catalog.textin(pg_catalog.uuid_out(o.code))') AS uuid, uses_index('o.short') AS other;
DROP FUNCTION uses_index;
RESET enable_seqscan;

-- nothing moves
SELECT shardring.move_predicate('r', 1, 1, 'a0', 'a1', 'name') AS "same version", shardring.move_predicate('r', 1, 2, 'a0', 'b0', 'name') AS "not these",
	shardring.move_predicate('r', 1, 2, 'a0', 'a0', 'name') AS "same shard", shardring.move_predicate('r', 2, 1, 'a0', 'a1', 'name') AS backwards;
-- a NULL key is selected by none
INSERT INTO orders (id) VALUES (3000);
SELECT count(*) FROM unnest(selected('(' || shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name') || ') IS NOT FALSE AND id = 3000')) AS id;
SELECT count(*) FROM unnest(selected('(' || shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name') || ') AND id = 3000')) AS id;

-- NULL and errors
SELECT num_nulls(shardring.move_predicate(NULL, 1, 2, 'a0', 'd0', 'name'), shardring.move_predicate('r', NULL, 2, 'a0', 'd0', 'name'),
	shardring.move_predicate('r', 1, NULL, 'a0', 'd0', 'name'), shardring.move_predicate('r', 1, 2, NULL, 'd0', 'name'),
	shardring.move_predicate('r', 1, 2, 'a0', NULL, 'name'), shardring.move_predicate('r', 1, 2, 'a0', 'd0', NULL),
	shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name', NULL, NULL)) AS nulls;
SELECT shardring.move_predicate('r', 1, 2, 'd0', 'a0', 'name');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'nowhere', 'name');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name', key_type => 'numeric');
-- what stands after the key is its type, not an expression
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'id', 'bigint') = shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'id', key_type => 'bigint') AS "its type";
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'id', 'shardring.key_position(id)');
SELECT shardring.move_predicate('murmur3', 1, 2, 'a0', 'd0', 'name');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', '');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name', position_expression => '');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', E' \n', position_expression => 'key_position');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name', 'numeric', 'key_position');
\set VERBOSITY sqlstate
SELECT shardring.move_predicate('nowhere', 1, 2, 'a0', 'd0', 'name');
SELECT shardring.move_predicate('r', 1, 9, 'a0', 'd0', 'name');
SELECT shardring.move_predicate('r', 9, 1, 'a0', 'd0', 'name');
SELECT shardring.move_predicate('r', 1, 2, '', 'd0', 'name');
SELECT shardring.move_predicate('r', 1, 2, 'A0', 'd0', 'name');
SELECT shardring.move_predicate('r', 1, 2, 'a0', 'd0', 'name', key_type => '');

-- all groups give to one shard, whole: one condition
SELECT shardring.create_ring('p', 2);
SELECT shardring.add_group('p', g, '{s}') FROM unnest('{a,b,c}'::text[]) AS g;
SELECT shardring.seal('p'), shardring.draft_version('p', 1);
SELECT shardring.add_group('p', 'n', '{t}'), shardring.set_weight('p', 'n', 20);
SELECT count(DISTINCT from_group) AS groups FROM shardring.move_plan('p', 1, 2);
SELECT shardring.move_predicate('p', 1, 2, 's', 't', 'k', position_expression => 'pos') LIKE '% OR %' AS several_conditions,
	count(*) FILTER (WHERE shardring.moves('p', 1, 2, k)) AS moving,
	count(*) FILTER (WHERE shardring.moves('p', 1, 2, k) IS DISTINCT FROM
		(substring(shardring.move_predicate('p', 1, 2, 's', 't', 'k', position_expression => 'pos') FROM '{.*}')::int8multirange @> shardring.key_position(k))) AS wrong
FROM (SELECT 'user:' || i AS k FROM generate_series(1, 2000) AS i) AS keys;

-- every pair of groups has slots of its own: thousands of terms take no more
-- than their share of time, and end when they are told to
SELECT shardring.create_ring('many', 160);
INSERT INTO shardring.shard (ring, shard, number) VALUES ('many', 'a', 0), ('many', 'b', 1);
CREATE FUNCTION add_groups(version int, prefix text, first int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO shardring.shard_group (ring, version, group_name, weight, slots, points)
	SELECT 'many', add_groups.version, r.group_name, 1, first + substr(r.group_name, 2)::int, r.points
	FROM shardring_internal.resize_groups('many', version, ARRAY(SELECT prefix || i FROM generate_series(1, 200) AS i), array_fill(160, ARRAY[200])) AS r;
	INSERT INTO shardring.shard_map (ring, version, group_name, shard, slots)
	SELECT g.ring, g.version, g.group_name, b.shard, b.slots
	FROM shardring.shard_group AS g, shardring_internal.slot_blocks('{a,b}', g.slots) AS b WHERE g.ring = 'many' AND g.version = add_groups.version;
END $$;
SET client_min_messages = error;
SELECT add_groups(1, 'g', 1);
SELECT shardring.activate('many'), shardring.draft_version('many');
DELETE FROM shardring.shard_map WHERE ring = 'many' AND version = 2;
DELETE FROM shardring.shard_group WHERE ring = 'many' AND version = 2;
SELECT add_groups(2, 'h', 5000);
SELECT shardring.seal('many');
RESET client_min_messages;
SELECT md5(shardring.move_predicate('many', 1, 2, 'a', 'b', 'k'));
-- the processor time of this session, which others do not change
CREATE FUNCTION ticks() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT f[14]::bigint + f[15]::bigint FROM string_to_array(pg_read_file('/proc/self/stat'), ' ') AS f
$$;
SELECT ticks() AS before \gset
SELECT count(*) AS moves FROM shardring.move_plan('many', 1, 2);
SELECT ticks() - :before AS plan, ticks() AS before, clock_timestamp() AS began \gset
SELECT md5(shardring.move_predicate('many', 1, 2, 'a', 'b', 'k'));
SELECT ticks() - :before AS predicate, (extract(epoch FROM clock_timestamp() - :'began') * 250)::int AS quarter \gset
SELECT :predicate < 3 * :plan AS "in time";
SELECT ticks() AS before \gset
SET statement_timeout = :quarter;
SELECT md5(shardring.move_predicate('many', 1, 2, 'a', 'b', 'k'));
RESET statement_timeout;
SELECT ticks() - :before < :predicate * 3 / 4 AS early;

DROP FUNCTION add_groups, ticks;
DROP EXTENSION shardring;
DROP TABLE orders, versions;
DROP FUNCTION selected, compare;
