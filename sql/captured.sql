--
-- captured.sql
--	Texts that others run, superusers among them, mean the same whatever
--	stands in their search_path: everything that such a text uses is planted
--	in a schema before pg_catalog, and nothing of it is taken.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
SET client_min_messages = error;
CREATE EXTENSION shardring;
CREATE SCHEMA trap;

SELECT shardring.create_ring('r', 20), shardring.create_ring('tags', 20, hash_tags => true);
SELECT shardring.add_group(ring, name, ARRAY[name || 0, name || 1], slots => 4)
FROM unnest('{r,tags}'::text[]) AS ring, unnest('{a,b,c}'::text[]) AS name;
SELECT shardring.activate(ring) FROM unnest('{r,tags}'::text[]) AS ring;
SELECT shardring.draft_version(ring), shardring.add_group(ring, 'e', '{e0,a0,c1}', slots => 6)
FROM unnest('{r,tags}'::text[]) AS ring;
CREATE TABLE orders (id bigint PRIMARY KEY, name text, short varchar(40), code uuid, pos bigint);
INSERT INTO orders
SELECT i, n, n, md5(n)::uuid, shardring.key_position(n)
FROM generate_series(1, 600) AS i, LATERAL (SELECT CASE i % 4 WHEN 0 THEN 'x{' || i || '}y' WHEN 1 THEN '{}{' || i || '}' WHEN 2 THEN 'é{' || i
	ELSE i || '{' || i / 5 || E'\n}' END) AS k (n);

-- Plants what a text has words for: operators and functions that are taken
-- raise, or are found in what a view depends on; so are domains for types.
-- An operator is there for every pair of types of the text too, because the
-- best match wins wherever it is.
CREATE FUNCTION plant(code text) RETURNS TABLE (kind text, words text) LANGUAGE plpgsql AS $plant$
DECLARE
	bare text := regexp_replace(regexp_replace(code, $$'[^']*'$$, '''''', 'g'), '"[^"]*"', ' ', 'g');
	word text;
	o record;
	n int := 0;
	types text[] := '{int2,int4,int8,oid,text,varchar,bit,cstring,bool,numeric,int4multirange,int8multirange}';
	functions text[] := ARRAY(SELECT DISTINCT m[1] FROM regexp_matches(bare, '([a-z_0-9]+)\s*\(', 'g') AS m
		WHERE EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.proname = m[1] AND p.pronamespace = 'pg_catalog'::regnamespace) ORDER BY 1);
	operators text[] := ARRAY(SELECT DISTINCT m[1] FROM regexp_matches(replace(bare, '::', ' '), '([-+*/<>=~!@#%^&|`?]+)', 'g') AS m
		WHERE EXISTS (SELECT FROM pg_catalog.pg_operator AS p WHERE p.oprname = m[1]) ORDER BY 1);
	names text[] := ARRAY(SELECT DISTINCT m[1] FROM regexp_matches(bare, '::\s*(?:pg_catalog\.)?([a-z_0-9]+)', 'g') AS m ORDER BY 1);
BEGIN
	FOR o IN SELECT p.oid, p.proname, p.prokind, pg_get_function_identity_arguments(p.oid) AS args FROM pg_catalog.pg_proc AS p
		WHERE p.proname = ANY (functions) AND p.pronamespace = 'pg_catalog'::regnamespace
	LOOP
		EXECUTE CASE o.prokind WHEN 'a' THEN format('CREATE AGGREGATE trap.%I(%s) (SFUNC = pg_catalog.int8inc%s, STYPE = int8, INITCOND = 0)', o.proname,
				coalesce(nullif(o.args, ''), '*'), CASE WHEN o.args <> '' THEN '_any' END)
			ELSE replace(pg_get_functiondef(o.oid), 'FUNCTION pg_catalog.', 'FUNCTION trap.') END;
	END LOOP;
	FOREACH word IN ARRAY operators LOOP
		FOR o IN SELECT l::text AS l, r::text AS r FROM (
			SELECT p.oprleft::regtype, p.oprright::regtype FROM pg_catalog.pg_operator AS p
			WHERE p.oprname = word AND p.oprleft <> 0 AND p.oprleft <> 'internal'::regtype
			UNION SELECT l::regtype, r::regtype FROM unnest(types) AS l, unnest(types) AS r WHERE 'cstring' <> ALL (ARRAY[l, r])) AS p (l, r)
		LOOP
			n := n + 1;
			EXECUTE format('CREATE FUNCTION trap.taken_%s(%s, %s) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE ''taken: %s''; END$$',
				n, o.l, o.r, replace(word, '%', '%%'));
			EXECUTE format('CREATE OPERATOR trap.%s (FUNCTION = trap.taken_%s, LEFTARG = %s, RIGHTARG = %s)', word, n, o.l, o.r);
		END LOOP;
	END LOOP;
	FOREACH word IN ARRAY names LOOP
		EXECUTE format('CREATE DOMAIN trap.%1$s AS pg_catalog.%1$s', word);
	END LOOP;
	RETURN QUERY VALUES ('functions', array_to_string(functions, ' ')), ('operators', array_to_string(operators, ' ')), ('types', array_to_string(names, ' '));
END $plant$;
-- What of the trap a query uses, and what it then finds.
CREATE FUNCTION taken(query text, OUT used bigint, OUT rows bigint) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL search_path = trap, public, pg_catalog;
	EXECUTE pg_catalog.concat('CREATE VIEW public.seen AS ', query);
	SELECT pg_catalog.count(*) INTO used FROM pg_catalog.pg_depend AS d, pg_catalog.pg_rewrite AS w,
		LATERAL (SELECT p.pronamespace FROM pg_catalog.pg_proc AS p WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid OPERATOR(pg_catalog.=) d.refobjid
			UNION ALL SELECT p.oprnamespace FROM pg_catalog.pg_operator AS p WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass AND p.oid OPERATOR(pg_catalog.=) d.refobjid
			UNION ALL SELECT p.typnamespace FROM pg_catalog.pg_type AS p WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass AND p.oid OPERATOR(pg_catalog.=) d.refobjid) AS n (nsp)
	WHERE w.ev_class OPERATOR(pg_catalog.=) 'public.seen'::pg_catalog.regclass AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
		AND d.objid OPERATOR(pg_catalog.=) w.oid AND n.nsp OPERATOR(pg_catalog.=) 'trap'::pg_catalog.regnamespace;
	SELECT pg_catalog.count(*) INTO rows FROM public.seen;
	DROP VIEW public.seen;
	RESET search_path;
END $$;

-- all that move_predicate writes: each type, hash tags, slots, thousands of rows
CREATE TEMP TABLE written AS
SELECT k.*, m.from_shard, m.to_shard, shardring.move_predicate(k.ring, 1, 2, m.from_shard, m.to_shard, k.key, k.type, k.pos) AS condition
FROM (VALUES ('r', 'name', 'text', NULL, 'name'), ('r', 'short', 'text', NULL, 'short'), ('r', 'id', 'bigint', NULL, 'id'), ('r', 'code', 'uuid', NULL, 'code'),
		('r', NULL, 'text', 'pos', 'name'), ('tags', 'name', 'text', NULL, 'name'), ('tags', 'short', 'text', NULL, 'short')) AS k (ring, key, type, pos, counted),
	LATERAL (SELECT DISTINCT p.from_shard, p.to_shard FROM shardring.move_plan(k.ring, 1, 2) AS p) AS m;
ALTER TABLE written ADD moving bigint;
DO $$
DECLARE
	w record;
	n bigint;
BEGIN
	FOR w IN SELECT * FROM written LOOP
		EXECUTE format('SELECT count(*) FROM shardring.moving_keys(%L, 1, 2, ''orders'', %L) WHERE (from_shard, to_shard) = (%L, %L)',
			w.ring, w.counted, w.from_shard, w.to_shard) INTO n;
		UPDATE written SET moving = n WHERE condition = w.condition AND ring = w.ring;
	END LOOP;
END $$;
SELECT kind, words FROM plant((SELECT string_agg(condition, ' ') FROM written));
-- the trap does catch: what was written before, a bare operator, a bare type
SELECT used FROM taken($$SELECT * FROM orders WHERE bit_in(textout('x' OPERATOR(pg_catalog.||) substr(md5(name), 1, 8)), 0, 32) IS NOT NULL LIMIT 0$$);
SELECT used FROM taken('SELECT id % 4 FROM orders LIMIT 0');
SELECT used FROM taken('SELECT id::int8 FROM orders LIMIT 0');
SELECT * FROM taken('SELECT * FROM orders WHERE pos % 4');
-- and takes nothing that we write
SELECT w.ring, w.counted, w.pos IS NOT NULL AS stored, count(*) AS conditions, sum(t.used) AS used, sum(w.moving) AS moving, count(*) FILTER (WHERE t.rows <> w.moving) AS wrong
FROM written AS w, LATERAL taken('SELECT * FROM public.orders WHERE ' || w.condition) AS t
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

DROP SCHEMA trap CASCADE;
CREATE SCHEMA trap;
-- the join that the reference shows instead
SELECT $$SELECT u.id
FROM shardring.move_plan('r', 1, 2) AS m CROSS JOIN pg_catalog.unnest(m.positions) AS r
	JOIN public.orders AS u
	ON (pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||)
		pg_catalog.substr(pg_catalog.md5(u.name), 1, 8)), 0, 32))::pg_catalog.int8
		OPERATOR(pg_catalog.>=) pg_catalog.lower(r)
	AND (pg_catalog.bit_in(pg_catalog.textout('x' OPERATOR(pg_catalog.||)
		pg_catalog.substr(pg_catalog.md5(u.name), 1, 8)), 0, 32))::pg_catalog.int8
		OPERATOR(pg_catalog.<) pg_catalog.upper(r)
WHERE m.from_shard OPERATOR(pg_catalog.=) 'a0' AND m.to_shard OPERATOR(pg_catalog.=) 'e0'$$ AS query \gset
SELECT kind, words FROM plant(:'query');
SELECT used, rows > 0 AS some FROM taken(:'query');

DROP SCHEMA trap CASCADE;
CREATE SCHEMA trap;
-- the query of rehearse
SELECT kind, words FROM plant(shardring.rehearse_query('tags', 1, 2, 'orders', 'name', 'id'));
SELECT t.used, t.rows = (SELECT count(*) FROM shardring.rehearse('tags', 1, 2, 'orders', 'name', 'id')) AS same
FROM taken(shardring.rehearse_query('tags', 1, 2, 'orders', 'name', 'id')) AS t;
SELECT used FROM taken(shardring.rehearse_query('r', 1, 2, 'orders', 'code'));

DROP SCHEMA trap CASCADE;
DROP EXTENSION shardring;
DROP TABLE orders;
DROP FUNCTION plant, taken;
