--
-- route.sql
--	shard_for, shard_at, locate, active_version and require_version: the
--	overloads, NULL, errors, plans, and the session around them.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;

-- version 1: R(node-a, node-b, node-c); version 2: the same plus node-d
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', name, ARRAY[name || '.0', name || '.1'], slots => 4)
FROM unnest('{node-a,node-b,node-c}'::text[]) AS name;
-- nothing is active yet (B19)
SELECT shardring.active_version('r') IS NULL AS none;
SELECT shardring.shard_for('r', 'user:42');
SELECT shardring.require_version('r', 1);
SELECT shardring.activate('r');
SELECT shardring.draft_version('r'),
	shardring.add_group('r', 'node-d', '{node-d.0,node-d.1}', slots => 4);
SELECT shardring.active_version('r'), shardring.require_version('r', 1);

-- one key by every overload: 'user:42' is 1457184536, group node-b, slot 0
SELECT shardring.shard_for('r', 'user:42'), shardring.shard_for('r', 'user:42', 1),
	shardring.shard_at('r', 1457184536), shardring.shard_at('r', 1457184536, 1);
SELECT * FROM shardring.locate('r', 'user:42');
SELECT * FROM shardring.locate('r', 'user:42', 1);
SELECT (shardring.locate('r', 'user:42')).*;
SELECT shardring.shard_for(ring => 'r', key => 'user:42', version => 1),
	shardring.shard_at(ring => 'r', key_position => 1457184536, version => 1);
-- all key types and overloads agree with each other and with the arcs
SELECT count(*) AS keys, count(*) FILTER (WHERE
	(l.version, l.key_position, l.group_name, l.slot, l.shard) IS DISTINCT FROM
	(v.version, shardring.key_position(k.key), a.group_name,
	 (shardring.key_position(k.key) % 4)::int, s.shard)
	OR l.shard IS DISTINCT FROM shardring.shard_for('r', k.key, v.version)
	OR l.shard IS DISTINCT FROM shardring.shard_at('r', l.key_position, v.version)
	OR v.version = 1 AND (
		l IS DISTINCT FROM shardring.locate('r', k.key)
		OR l.shard IS DISTINCT FROM shardring.shard_for('r', k.key)
		OR l.shard IS DISTINCT FROM shardring.shard_at('r', l.key_position)))
	AS wrong
FROM (SELECT 'user:' || i AS key FROM generate_series(0, 99) AS i
	  UNION ALL SELECT '') AS k
	CROSS JOIN (VALUES (1), (2)) AS v (version)
	CROSS JOIN LATERAL shardring.locate('r', k.key, v.version) AS l
	LEFT JOIN shardring.arcs('r', 1) AS a1 ON v.version = 1 AND a1.positions @> shardring.key_position(k.key)
	LEFT JOIN shardring.arcs('r', 2) AS a2 ON v.version = 2 AND a2.positions @> shardring.key_position(k.key)
	CROSS JOIN LATERAL (SELECT coalesce(a1.group_name, a2.group_name)) AS a (group_name)
	LEFT JOIN shardring.shard_slot AS s ON s.ring = 'r' AND s.version = v.version
		AND s.group_name = a.group_name AND s.slot = shardring.key_position(k.key) % 4;
SELECT count(*) AS keys, count(*) FILTER (WHERE
	shardring.locate('r', i) IS DISTINCT FROM shardring.locate('r', i::text)
	OR shardring.locate('r', i, 2) IS DISTINCT FROM shardring.locate('r', i::text, 2)
	OR shardring.shard_for('r', i) IS DISTINCT FROM shardring.shard_for('r', i::text)
	OR shardring.shard_for('r', i, 2) IS DISTINCT FROM shardring.shard_for('r', i::text, 2)
	OR shardring.locate('r', u) IS DISTINCT FROM shardring.locate('r', u::text)
	OR shardring.locate('r', u, 2) IS DISTINCT FROM shardring.locate('r', u::text, 2)
	OR shardring.shard_for('r', u) IS DISTINCT FROM shardring.shard_for('r', u::text)
	OR shardring.shard_for('r', u, 2) IS DISTINCT FROM shardring.shard_for('r', u::text, 2))
	AS wrong
FROM generate_series(-50, 50) AS n,
	LATERAL (SELECT n * 92233720368547758, md5(n::text)::uuid) AS k (i, u);
-- what the caller writes as a key
SELECT shardring.shard_for('r', 42) AS "int", shardring.shard_for('r', 42::smallint) AS "smallint",
	shardring.shard_for('r', 42::bigint) AS "bigint", shardring.shard_for('r', '42') AS literal,
	shardring.shard_for('r', '42'::varchar) AS "varchar", shardring.shard_for('r', '42'::char(4)) AS "char",
	shardring.shard_for('r', '42'::name) AS name, shardring.shard_for('r', 42, 1) AS "int, 1",
	shardring.shard_for('r', '42', 1) AS "literal, 1";
SELECT (shardring.locate('r', 42)).key_position AS "int", (shardring.locate('r', '42')).key_position AS literal,
	(shardring.locate('r', 42::smallint, 2)).key_position AS "smallint, 2";
\set VERBOSITY sqlstate
SELECT shardring.shard_for('r', 42.0);
SELECT shardring.shard_for('r', 42::numeric, 1);
SELECT shardring.locate('r', 42::numeric);
SELECT shardring.locate('r', 42::oid::regclass);
SELECT shardring.shard_for('r', '2020-02-02'::date);
SELECT shardring.shard_for('r', '\x42'::bytea);
SELECT shardring.shard_at('r', 1.5);
\set VERBOSITY default
-- unknown literals everywhere, and untyped parameters
PREPARE untyped AS SELECT shardring.shard_for($1, $2), pg_typeof($1), pg_typeof($2);
EXECUTE untyped ('r', 'user:42');
DEALLOCATE untyped;
PREPARE untyped AS SELECT shardring.shard_at($1, $2, $3), pg_typeof($2), pg_typeof($3);
EXECUTE untyped ('r', '1457184536', '2');
DEALLOCATE untyped;

-- NULL in, NULL out, in every place (B28)
SELECT num_nulls(
	shardring.shard_for(NULL, 'a'), shardring.shard_for('r', NULL), shardring.shard_for('r', NULL::bigint),
	shardring.shard_for('r', NULL::uuid), shardring.shard_for(NULL, 1), shardring.shard_for(NULL, md5('')::uuid),
	shardring.shard_for(NULL, 'a', 1), shardring.shard_for('r', NULL, 1), shardring.shard_for('r', 'a', NULL),
	shardring.shard_for('r', 1, NULL), shardring.shard_for('r', NULL::bigint, 1), shardring.shard_for(NULL, 1, 1),
	shardring.shard_for('r', NULL::uuid, 1), shardring.shard_for('r', md5('')::uuid, NULL),
	shardring.shard_at(NULL, 1), shardring.shard_at('r', NULL), shardring.shard_at('r', 1, NULL),
	shardring.shard_at('r', NULL, 1), shardring.shard_at(NULL, 1, 1),
	shardring.active_version(NULL), shardring.require_version(NULL, 1), shardring.require_version('r', NULL)) AS shards,
	num_nulls(shardring.locate(NULL, 'a'), shardring.locate('r', NULL), shardring.locate('r', NULL::bigint),
	shardring.locate('r', NULL::uuid), shardring.locate(NULL, 'a', 1), shardring.locate('r', NULL, 1),
	shardring.locate('r', 'a', NULL), shardring.locate('r', 1, NULL), shardring.locate('r', NULL::uuid, 1)) AS locations;
SELECT * FROM shardring.locate('r', NULL);
SELECT key_position, group_name FROM shardring.locate('r', '');

-- errors
SELECT shardring.shard_for('nowhere', 'a');
SELECT shardring.shard_for('r', 'a', 3);
SELECT shardring.shard_at('r', -1);
SELECT shardring.shard_at('r', 4294967296);
SELECT shardring.require_version('r', 2);
SELECT shardring.require_version('r', 77);
\set VERBOSITY sqlstate
SELECT shardring.shard_for('', 'a');
SELECT shardring.shard_for('R', 'a');
SELECT shardring.shard_for('r ', 'a');
SELECT shardring.shard_for(repeat('r', 1000), 'a');
SELECT shardring.shard_for(repeat('r', 100000), 'a');
SELECT shardring.shard_for('nowhere', 1);
SELECT shardring.shard_for('nowhere', md5('')::uuid);
SELECT shardring.shard_for('nowhere', 'a', 1);
SELECT shardring.shard_at('nowhere', 1);
SELECT shardring.locate('nowhere', 'a');
SELECT shardring.active_version('nowhere');
SELECT shardring.require_version('nowhere', 1);
SELECT shardring.shard_for('r', 'a', 0);
SELECT shardring.shard_for('r', 'a', -1);
SELECT shardring.shard_for('r', 'a', 2147483647);
SELECT shardring.shard_for('r', 'a', -2147483648);
SELECT shardring.shard_for('r', 'a', 2147483648);
SELECT shardring.locate('r', 'a', 0);
SELECT shardring.shard_at('r', 1, 0);
SELECT shardring.shard_at('r', 9223372036854775807);
SELECT shardring.shard_at('r', (-9223372036854775808)::bigint, 1);
SELECT shardring.require_version('r', 0);
SELECT shardring.require_version('r', -1);
\set VERBOSITY default

-- versions without points, whatever they are (B19)
SELECT shardring.create_ring('empty');
SELECT shardring.seal('empty');
SELECT shardring.shard_for('empty', 'a', 1);
SELECT shardring.create_ring('drained'), shardring.add_group('drained', 'g', '{s}', weight => 0);
\set VERBOSITY sqlstate
SELECT shardring.shard_for('empty', 'a');
SELECT shardring.shard_for('drained', 'a');
SELECT shardring.shard_for('drained', 'a', 1);
SELECT shardring.shard_for('drained', 1, 1);
SELECT shardring.shard_for('drained', md5('')::uuid, 1);
SELECT shardring.shard_at('drained', 1, 1);
SELECT shardring.locate('drained', 'a', 1);
SELECT shardring.activate('empty');
SELECT shardring.activate('drained');
\set VERBOSITY default
SELECT shardring.active_version('empty') IS NULL AS none;
SELECT * FROM shardring.points('empty', 1);
SELECT * FROM shardring.moved_ranges('empty', 1, 1);
SELECT shardring.shard_for('r', 'user:42') AS "and the backend lives";

-- names in any script, and of any length that is allowed
SELECT shardring.create_ring('Kreis „Süd“');
SELECT shardring.add_group('Kreis „Süd“', 'grüne Gruppe', '{東京,大阪}', slots => 64);
SELECT shardring.activate('Kreis „Süd“');
SELECT * FROM shardring.locate('Kreis „Süd“', '日本語');
SELECT shardring.shard_for('Kreis „Süd“', 'é');
SELECT shardring.shard_for('Kreis „Nord“', 'é');
SELECT shardring.create_ring(repeat('é', 31) || 'e'), shardring.add_group(repeat('é', 31) || 'e', repeat('ü', 127), ARRAY[repeat('ö', 31)]);
SELECT shardring.activate(repeat('é', 31) || 'e');
SELECT length(group_name), octet_length(shard) FROM shardring.locate(repeat('é', 31) || 'e', 'a');

-- a ring with hash tags, one with another hash
SELECT shardring.create_ring('tags', hash_tags => true), shardring.create_ring('murmur3', hash => 'murmur3');
SELECT shardring.add_group(ring, name, ARRAY[name])
FROM unnest('{tags,murmur3}'::text[]) AS ring, unnest('{node-a,node-b,node-c}'::text[]) AS name;
SELECT shardring.activate(ring) FROM unnest('{tags,murmur3}'::text[]) AS ring;
SELECT count(*) AS keys, count(*) FILTER (WHERE
	t.key_position IS DISTINCT FROM shardring.key_position(i::text)
	OR t.shard IS DISTINCT FROM shardring.shard_for('tags', i)
	OR m.key_position IS DISTINCT FROM shardring.key_position('{' || i || '}:name', 'murmur3')) AS wrong
FROM generate_series(1, 100) AS i, shardring.locate('tags', '{' || i || '}:name') AS t,
	shardring.locate('murmur3', '{' || i || '}:name') AS m;

-- what reads tables may not be frozen into an index or a column (B43)
CREATE TABLE orders (id bigint, name text);
CREATE INDEX ON orders (shardring.shard_for('r', name));
CREATE INDEX ON orders (shardring.shard_at('r', id));
\set VERBOSITY sqlstate
CREATE INDEX ON orders ((shardring.shard_for('r', id, 1)));
CREATE INDEX ON orders ((shardring.locate('r', id)));
CREATE INDEX ON orders ((shardring.moves('r', 1, 2, id)));
CREATE INDEX ON orders (id) WHERE shardring.shard_for('r', id) = 'node-a.0';
ALTER TABLE orders ADD shard text GENERATED ALWAYS AS (shardring.shard_for('r', id)) STORED;
\set VERBOSITY default
ALTER TABLE orders ADD key_position bigint GENERATED ALWAYS AS (shardring.key_position(id)) STORED;
-- a default may be
ALTER TABLE orders ADD shard text DEFAULT shardring.shard_for('r', 'user:42');
INSERT INTO orders (id) VALUES (1);
SELECT * FROM orders;
DROP TABLE orders;

-- a prepared statement goes along with the active version (B34, B43); the
-- first key stays, the second is one of those that move (B45)
PREPARE fixed AS SELECT shardring.shard_for('r', 'user:42'), shardring.active_version('r');
PREPARE given (text) AS SELECT (shardring.locate('r', $1)).group_name;
SET plan_cache_mode = force_generic_plan;
EXECUTE fixed;
EXECUTE given ('user:42');
SELECT key AS moving FROM shardring.moving_keys('r', 1, 2,
	array(SELECT 'user:' || i FROM generate_series(0, 99) AS i)) LIMIT 1 \gset
EXECUTE given (:'moving');
BEGIN;
SELECT shardring.activate('r', 2);
EXECUTE fixed;
EXECUTE given (:'moving');
ROLLBACK;
EXECUTE fixed;
EXECUTE given (:'moving');
SELECT shardring.activate('r', 2);
EXECUTE fixed;
EXECUTE given ('user:42');
EXECUTE given (:'moving');
DEALLOCATE ALL;
RESET plan_cache_mode;
SELECT shardring.require_version('r', 1);
-- and so does an expression in plpgsql, within one transaction
DO $$
DECLARE
	before text;
	version int;
BEGIN
	FOR i IN 1 .. 2 LOOP
		before := shardring.shard_for('r', 'user:42');
		ASSERT before = 'node-b.0';
		ASSERT (shardring.locate('r', 'user:42')).version = i + 1;
		version := shardring.draft_version('r');
		ASSERT (shardring.locate('r', 'user:42')).version = i + 1;
		PERFORM shardring.assign_slots('r', 'node-b', '{[0,4)}', 'node-b.0');
		PERFORM shardring.activate('r');
		ASSERT shardring.require_version('r', version) = version;
	END LOOP;
END $$;

-- nothing is looked for in the search path (B41)
SET search_path = '';
SELECT shardring.shard_for('r', 'user:42'), shardring.shard_for('r', 42, 1),
	shardring.shard_at('r', 1), shardring.active_version('r'), shardring.require_version('r', 4),
	shardring.key_position('a'), shardring.bytes_position('a');
SELECT * FROM shardring.locate('r', 'user:42');
SELECT pg_catalog.count(*) FROM shardring.points('r');
SELECT pg_catalog.count(*) FROM shardring.arcs('r');
SELECT pg_catalog.count(*) FROM shardring.shares('r');
SELECT pg_catalog.count(*) FROM shardring.shard_shares('r');
SELECT pg_catalog.count(*) FROM shardring.problems();
SELECT pg_catalog.count(*) FROM shardring.moved_ranges('r', 1, 2);
SELECT pg_catalog.count(*) FROM shardring.move_plan('r', 1, 2);
SELECT pg_catalog.count(*) FROM shardring.moving_keys('r', 1, 2, '{a,b}');
SELECT shardring.moves('r', 1, 2, 'a');
SELECT pg_catalog.length(shardring.move_predicate('r', 1, 2, 'node-a.0', 'node-d.0', 'k')) > 0 AS predicate;
SELECT shardring.version_at('r', pg_catalog.now());
SELECT shardring.wait_for_drain('r', 4);
SELECT pg_catalog.count(*) FROM shardring.replicas_for('r', 'user:42', 2);
SELECT pg_catalog.count(*) FROM shardring.replicas_for('r', 42, 2, 1);
SELECT pg_catalog.count(*) FROM shardring.simulate(3, 4, 10, 100);
SELECT pg_catalog.length(shardring.ring_svg('r', 1, 2)) > 0 AS svg;
SELECT pg_catalog.count(*) > 0 AS bars FROM shardring.share_bars('r', 1, 2);
SELECT shardring.export_version('r', 2) OPERATOR(pg_catalog.->>) 'ring' AS document;
CREATE TABLE public.some AS SELECT i AS key FROM pg_catalog.generate_series(1, 10) AS i;
SELECT pg_catalog.sum(rows_before) FROM shardring.rehearse('r', 1, 2, 'public.some', 'key');
SELECT pg_catalog.count(*) > 0 AS moving FROM shardring.moving_keys('r', 1, 2, 'public.some', 'key');
DROP TABLE public.some;
SELECT shardring.create_ring('path'), shardring.add_group('path', 'a', '{a}'), shardring.add_group('path', 'b', '{b}'),
	shardring.set_weight('path', 'b', 2), shardring.set_vnodes('path', 100), shardring.assign_slots('path', 'b', '{[0,1)}', 'c'),
	shardring.pin('path', 1, 'a'), shardring.pin_key('path', 'k', 'b'), shardring.unpin('path', 1), shardring.remove_group('path', 'a'),
	shardring.activate('path');
SELECT shardring.draft_version('path'), shardring.seal('path'), shardring.activate('path');
SELECT shardring.prune('path', 0);
SELECT shardring.draft_version('path'), shardring.drop_version('path', 3);
SELECT shardring.drop_ring('path');
RESET search_path;

-- a snapshot with more transactions in progress than there was room for; those
-- before the last one that ended are in its list
CREATE TABLE public.t (i int);
CREATE FUNCTION pg_temp.subtransactions(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			INSERT INTO public.t VALUES (i);
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT shardring.create_ring('n'), shardring.add_group('n', 'g', '{x,y,z}', slots => 30), shardring.activate('n');
BEGIN;
SELECT pg_temp.subtransactions(60);
PREPARE TRANSACTION 'route one';
SELECT pg_current_xact_id() IS NOT NULL AS later;
SELECT count(DISTINCT shardring.shard_for('n', i)) AS shards FROM generate_series(1, 100) AS i;
BEGIN;
SELECT pg_temp.subtransactions(60);
PREPARE TRANSACTION 'route two';
SELECT pg_current_xact_id() IS NOT NULL AS later;
SELECT count(DISTINCT shardring.shard_for('n', i)) AS shards FROM generate_series(1, 100) AS i;
ROLLBACK PREPARED 'route one';
ROLLBACK PREPARED 'route two';
DROP TABLE public.t;
-- the first call of a backend reads the row of table ring once, whatever
-- version is asked for and whatever else is read of that version; and the next
-- calls do not read it (one snapshot: others may commit meanwhile)
CREATE VIEW public.reads AS
SELECT pg_catalog.pg_stat_get_xact_numscans('shardring.ring_pkey'::regclass) AS reads;
\c -
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shardring.shard_for('r', 'user:42') AS cold;
SELECT reads FROM public.reads;
SELECT shardring.shard_for('r', i::text) IS NULL AS none FROM generate_series(1, 100) AS i GROUP BY 1;
SELECT reads FROM public.reads;
COMMIT;
\c -
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM shardring.replicas_for('r', 'user:42', 2, 2);
SELECT reads FROM public.reads;
COMMIT;
\c -
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM shardring.points('r', 1);
SELECT reads FROM public.reads;
COMMIT;
\c -
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL shardring.shard = 'node-b.0';
SELECT shardring.require_here('r', 'user:42');
SELECT reads FROM public.reads;
COMMIT;
DROP VIEW public.reads;

-- the tables are found in schema shardring, wherever the function is
BEGIN ISOLATION LEVEL REPEATABLE READ;
CREATE SCHEMA elsewhere;
ALTER FUNCTION shardring.shard_for(text, text) SET SCHEMA elsewhere;
SELECT elsewhere.shard_for('r', 'user:42');
ALTER SCHEMA shardring RENAME TO lost;
SELECT elsewhere.shard_for('r', 'user:42');
ROLLBACK;
SELECT shardring.shard_for('r', 'user:42');

-- the extension can go and come back in one session (B33)
DROP EXTENSION shardring;
SELECT shardring.shard_for('r', 'user:42');
CREATE EXTENSION shardring;
\set VERBOSITY sqlstate
SELECT shardring.shard_for('r', 'user:42');
\set VERBOSITY default
SELECT shardring.create_ring('r'), shardring.add_group('r', 'node-z', '{node-z}'), shardring.activate('r');
SELECT shardring.shard_for('r', 'user:42');
SELECT * FROM shardring.locate('r', 'user:42');
-- within a transaction, too, and when that is rolled back
BEGIN ISOLATION LEVEL REPEATABLE READ;
DROP EXTENSION shardring;
CREATE EXTENSION shardring;
SELECT shardring.create_ring('r'), shardring.add_group('r', 'node-y', '{node-y}'), shardring.activate('r');
SELECT shardring.shard_for('r', 'user:42');
ROLLBACK;
SELECT shardring.shard_for('r', 'user:42');

DROP EXTENSION shardring;
