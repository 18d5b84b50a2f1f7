--
-- privileges.sql
--	Who may do what, and that names planted in front of the search path
--	capture nothing.
--
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE ROLE regress_shardring_user;
CREATE ROLE regress_shardring_operator;

-- A schema of that name was there first, whoever made it: no extension.
SELECT format('GRANT CREATE ON DATABASE %I TO regress_shardring_user', current_database()) AS grant,
	format('REVOKE CREATE ON DATABASE %I FROM regress_shardring_user', current_database()) AS revoke \gset
:grant;
SET ROLE regress_shardring_user;
CREATE SCHEMA shardring;
CREATE EXTENSION shardring;
RESET ROLE;
CREATE EXTENSION shardring;
CREATE EXTENSION shardring SCHEMA shardring;
CREATE EXTENSION shardring CASCADE;
DROP SCHEMA shardring;

-- Somebody planted what is called like the things of pg_catalog, before the
-- extension was there: functions and aggregates of every name that stands in
-- our sources, operators, types.  All of them raise.
CREATE EXTENSION shardring;
CREATE TABLE words AS
	SELECT DISTINCT w[1] AS word
	FROM pg_proc AS p, LATERAL regexp_matches(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc), '[a-z_0-9]+', 'g') AS w
	WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	UNION SELECT unnest('{md5,bit_in,textin,textout,int8out,uuid_out,texteq,int8,int4,text}'::text[]);
DROP EXTENSION shardring;
GRANT SELECT ON words TO regress_shardring_user;
SET ROLE regress_shardring_user;
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE TABLE evil.types AS SELECT unnest('{text,integer,bigint,numeric,boolean,name,double precision,interval,timestamptz,jsonb,
	uuid,bytea,text[],bigint[],integer[],int4range,int8range,int4multirange,int8multirange}'::regtype[]) AS t;
CREATE TABLE evil.planted (kind text, what text);
CREATE FUNCTION evil.plant(what text, VARIADIC args text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	made text := format(what, VARIADIC args);
BEGIN
	IF made ~ '^CREATE FUNCTION' THEN
		made := made || $q$ LANGUAGE plpgsql AS 'BEGIN RAISE ''captured'' USING ERRCODE = ''EVIL0''; END'$q$;
	END IF;
	EXECUTE made;
	INSERT INTO evil.planted VALUES (split_part(made, ' ', 2), made);
EXCEPTION WHEN duplicate_function THEN
END $$;
SELECT count(evil.plant('CREATE FUNCTION evil.%I(%s) RETURNS %s', f.proname, pg_get_function_identity_arguments(f.oid), pg_get_function_result(f.oid))) > 100 AS functions
FROM pg_proc AS f JOIN words ON word = f.proname
WHERE f.pronamespace = 'pg_catalog'::regnamespace AND f.prokind = 'f'
	AND NOT EXISTS (SELECT FROM unnest(f.proargtypes::oid[] || f.prorettype) AS t WHERE t::regtype::text ~ 'internal|cstring|any|trigger|record');
SELECT count(evil.plant('CREATE FUNCTION evil.%I(%s) RETURNS %s', f.proname, t::text, CASE WHEN f.proretset THEN 'SETOF int' ELSE 'int' END)) > 100 AS "polymorphic functions"
FROM (SELECT DISTINCT f.proname, f.proretset FROM pg_proc AS f JOIN words ON word = f.proname
	  WHERE f.pronamespace = 'pg_catalog'::regnamespace AND f.prokind = 'f' AND f.pronargs = 1 AND f.proargtypes[0]::regtype::text ~ '^any') AS f, evil.types;
SELECT count(evil.plant('CREATE FUNCTION evil.%I(%s, %s) RETURNS int', f.proname, a.t::text, b.t::text)) > 10 AS "of two arguments"
FROM (SELECT DISTINCT f.proname FROM pg_proc AS f JOIN words ON word = f.proname
	  WHERE f.pronamespace = 'pg_catalog'::regnamespace AND f.prokind = 'f' AND f.pronargs = 2 AND f.proargtypes[0]::regtype::text ~ '^any') AS f, evil.types AS a, evil.types AS b
WHERE a.t::text ~ '\[\]|range';
SELECT count(evil.plant('CREATE FUNCTION evil.step(int, %s) RETURNS int', t::text)) AS steps FROM evil.types;
SELECT count(evil.plant('CREATE AGGREGATE evil.%I(%s) (SFUNC = evil.step, STYPE = int, INITCOND = 0)', f.proname, t::text)) > 50 AS aggregates
FROM (SELECT DISTINCT f.proname FROM pg_proc AS f JOIN words ON word = f.proname WHERE f.prokind = 'a' AND f.pronargs = 1) AS f, evil.types;
SELECT evil.plant('CREATE FUNCTION evil.step(int) RETURNS int');
SELECT evil.plant('CREATE AGGREGATE evil.count(*) (SFUNC = evil.step, STYPE = int, INITCOND = 0)');
SELECT count(evil.plant('CREATE FUNCTION evil.o%s(%s, %s) RETURNS %s', i::text, l, r, result)) > 200 AS functions,
	count(evil.plant('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.o%s)', name, l, r, i::text)) > 200 AS operators
FROM (SELECT row_number() OVER () AS i, o.*
	  FROM (SELECT o.oprname AS name, o.oprleft::regtype::text AS l, o.oprright::regtype::text AS r, o.oprresult::regtype::text AS result
			FROM pg_operator AS o WHERE o.oprleft IN (SELECT t FROM evil.types) AND o.oprright IN (SELECT t FROM evil.types)
			UNION SELECT n, t::text, t::text, CASE WHEN n IN ('+', '-', '*', '||') THEN t::text ELSE 'boolean' END
			FROM evil.types, unnest('{=,<>,<,<=,>,>=,&&,@>,<@,+,-,*,||}'::text[]) AS n WHERE t::text ~ 'range|\[\]'
			UNION SELECT '@>', t::text, replace(replace(replace(t::text, 'int4', 'integer'), 'int8', 'bigint'), 'multirange', ''), 'boolean'
			FROM evil.types WHERE t::text ~ 'multirange'
			UNION SELECT '||', 'text', t::text, 'text' FROM evil.types) AS o) AS o;
SELECT count(evil.plant('CREATE DOMAIN evil.%I AS pg_catalog.%1$I CHECK (false)', t)) AS domains
FROM unnest('{text,name,int2,int4,int8,bool,numeric,uuid,jsonb,int4multirange,int8multirange,regclass}'::text[]) AS t;
SELECT count(evil.plant('CREATE VIEW evil.%I AS SELECT 1 / pg_catalog.length('''') AS ring', t)) AS views
FROM unnest('{ring,ring_version,shard_group,shard_map,shard_pin,shard,activation,pg_proc,pg_class,pg_namespace,pg_locks,pg_stat_activity,pg_prepared_xacts}'::text[]) AS t;
RESET ROLE;
:revoke;

-- the session of whoever uses it finds these first
SET search_path = evil, pg_catalog, public;
SELECT upper('a');
SELECT 1 = 1;
SELECT count(*);
SELECT 'a'::text;
CREATE EXTENSION shardring;
CREATE FUNCTION public.run(call pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE call;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) sqlerrm;
END $$;
CREATE TABLE public.keys (id pg_catalog.int8, name pg_catalog.text, code pg_catalog.uuid, load pg_catalog.numeric);
INSERT INTO public.keys SELECT i, i OPERATOR(pg_catalog.||) 'k', NULL, 1 FROM pg_catalog.generate_series(1, 100) AS i;
UPDATE public.keys SET code = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';
-- everything that changes something, then everything that reads, then the
-- rest; what is listed was captured or failed
CREATE TABLE public.calls (n pg_catalog.int4 GENERATED ALWAYS AS IDENTITY, call pg_catalog.text);
INSERT INTO public.calls (call) VALUES
	($$SELECT shardring.create_ring('r', 20, 'md5', true, '1 min')$$), ($$SELECT shardring.create_ring('f', 20, 'fnv1a')$$),
	($$SELECT shardring.add_group('r', 'a', '{a0,a1,a2}', 16, 1.5, 'east')$$), ($$SELECT shardring.add_group('r', 'b', '{b0,b1}', 16)$$),
	($$SELECT shardring.assign_slots('r', 'a', '{[2,5)}', 'a9')$$), ($$SELECT shardring.set_weight('r', 'b', 2)$$), ($$SELECT shardring.set_weight('r', 'b', 0.5)$$),
	($$SELECT shardring.set_vnodes('r', 30)$$), ($$SELECT shardring.pin('r', 7, 'b')$$), ($$SELECT shardring.pin_key('r', 'k', 'b')$$), ($$SELECT shardring.unpin('r', 7)$$),
	($$UPDATE shardring.shard_group SET zone = 'west'$$), ($$DELETE FROM shardring.shard_pin WHERE false$$),
	($$SELECT shardring.seal('r')$$), ($$SELECT shardring.activate('r')$$),
	($$SELECT shardring.draft_version('r', NULL, 'note')$$), ($$SELECT shardring.add_group('r', 'c', '{c}')$$), ($$SELECT shardring.add_group('r', 'd', '{d}')$$),
	($$SELECT shardring.remove_group('r', 'd')$$), ($$SELECT shardring.activate('r', 2, 1, 0.9)$$), ($$SELECT shardring.draft_version('r')$$),
	($$INSERT INTO shardring.shard_pin VALUES ('r', 3, 9, 'a')$$), ($$SELECT shardring.draft_version('r', 1)$$), ($$SELECT shardring.drop_version('r', 4)$$),
	($$SELECT shardring.key_position('a'::pg_catalog.text), shardring.key_position(1), shardring.bytes_position('a')$$),
	($$SELECT shardring.shard_for('r', 'a'::pg_catalog.text), shardring.shard_for('r', 1), shardring.shard_for('r', 1, 1), shardring.shard_at('r', 1), shardring.shard_at('r', 1, 1)$$),
	($$SELECT * FROM shardring.locate('r', 'a'::pg_catalog.text)$$), ($$SELECT shardring.active_version('r'), shardring.require_version('r', 2)$$),
	($$SELECT * FROM shardring.replicas_for('r', 'a'::pg_catalog.text, 2)$$), ($$SELECT shardring.version_at('r', pg_catalog.now())$$),
	($$SELECT * FROM shardring.points('r')$$), ($$SELECT * FROM shardring.arcs('r')$$), ($$SELECT * FROM shardring.shares('r')$$), ($$SELECT * FROM shardring.shard_shares('r')$$),
	($$SELECT * FROM shardring.problems()$$), ($$SELECT * FROM shardring.problems('r')$$), ($$SELECT * FROM shardring.shard_slot$$), ($$SELECT * FROM shardring.ring$$),
	($$SELECT * FROM shardring.moved_ranges('r', 1, 2)$$), ($$SELECT * FROM shardring.move_plan('r', 1, 2)$$), ($$SELECT shardring.moves('r', 1, 2, 'a'::pg_catalog.text), shardring.moves('r', 1, 2, 1)$$),
	($$SELECT * FROM shardring.moving_keys('r', 1, 2, '{a,b}')$$), ($$SELECT * FROM shardring.moving_keys('r', 1, 2, 'public.keys', 'name')$$),
	($$SELECT * FROM shardring.moving_keys('r', 1, 2, 'public.keys', 'id')$$), ($$SELECT * FROM shardring.moving_keys('r', 1, 2, 'public.keys', 'code')$$),
	($$SELECT shardring.move_predicate('r', 1, 2, 'a0', 'c', 'name')$$), ($$SELECT * FROM shardring.simulate(2, 3, 10, 100)$$),
	($$SELECT * FROM shardring.rehearse('r', 1, 2, 'public.keys', 'name', 'load')$$), ($$SELECT * FROM shardring.rehearse('r', 1, 2, 'public.keys', 'id')$$),
	($$SELECT shardring.export_version('r', 1)$$),
	('DO $q$ DECLARE d pg_catalog.jsonb; BEGIN d := shardring.export_version(''r'', 2); PERFORM shardring.drop_ring(''r''); PERFORM shardring.import_version(d); END $q$'),
	($$SELECT shardring.prune('r', 0)$$), ($$SELECT shardring.drop_ring('f')$$), ($$SELECT shardring.drop_ring('r')$$);
CREATE TABLE public.results AS
	SELECT c.n, c.call, public.run(c.call) AS error FROM (SELECT * FROM public.calls ORDER BY n USING OPERATOR(pg_catalog.<)) AS c;
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 50 AS calls FROM public.results;
SELECT call, error FROM public.results WHERE error IS NOT NULL ORDER BY n USING OPERATOR(pg_catalog.<);
-- that it would have been seen: one function without its own path
BEGIN;
ALTER FUNCTION shardring.create_ring RESET search_path;
SELECT public.run($$SELECT shardring.create_ring('x')$$);
ROLLBACK;
-- index expressions, column defaults and plans that outlive the path
CREATE INDEX ON public.keys (shardring.key_position(name));
RESET search_path;
INSERT INTO keys VALUES (101, '101k');
SELECT count(*) FROM keys WHERE shardring.key_position(name) = shardring.key_position('101k');
-- nothing of ours refers to any of it
SELECT d.objid::regproc FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'shardring' AND d.classid = 'pg_proc'::regclass
	JOIN pg_depend AS r ON (r.classid, r.objid) = (d.classid, d.objid)
	JOIN pg_proc AS p ON p.oid = r.refobjid AND r.refclassid = 'pg_proc'::regclass
WHERE p.pronamespace = 'evil'::regnamespace;

-- What an ordinary role may do.  A ring for it to read:
SELECT shardring.create_ring('r'), shardring.add_group('r', 'a', '{a}'), shardring.add_group('r', 'b', '{b}'), shardring.activate('r');
SELECT shardring.draft_version('r'), shardring.add_group('r', 'c', '{c}');
-- no function runs with other rights than its caller's
SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[]) AND p.prosecdef;
-- it may read all of our tables and views, and do nothing else with them
SELECT c.oid::regclass, p.privilege
FROM pg_class AS c, unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS p (privilege)
WHERE c.relnamespace = 'shardring'::regnamespace AND c.relkind IN ('r', 'v')
	AND has_table_privilege('regress_shardring_user', c.oid, p.privilege) <> (p.privilege = 'SELECT');
SELECT has_schema_privilege('regress_shardring_user', 'shardring', 'USAGE') AS usage, has_schema_privilege('regress_shardring_user', 'shardring', 'CREATE') AS create;
-- of the functions, it may call those that read
SELECT p.proname, count(*) AS overloads, bool_and(has_function_privilege('regress_shardring_user', p.oid, 'EXECUTE')) AS may
FROM pg_proc AS p
WHERE p.pronamespace = 'shardring'::regnamespace AND p.prorettype <> 'trigger'::regtype
GROUP BY p.proname ORDER BY bool_and(has_function_privilege('regress_shardring_user', p.oid, 'EXECUTE')), p.proname;
-- and no function that writes to our tables
SELECT p.oid::regprocedure FROM pg_proc AS p
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[]) AND has_function_privilege('regress_shardring_user', p.oid, 'EXECUTE')
	AND coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) ~* '(insert\s+into|update|delete\s+from|truncate)\s+shardring\.';
-- of those that nobody calls by hand, what the ones it may call run with its
-- rights, and no other
SELECT p.oid::regprocedure AS internal FROM pg_proc AS p
WHERE p.pronamespace = 'shardring_internal'::regnamespace AND has_function_privilege('regress_shardring_user', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT has_schema_privilege('regress_shardring_user', 'shardring_internal', 'USAGE') AS usage, has_schema_privilege('regress_shardring_user', 'shardring_internal', 'CREATE') AS create;
GRANT SELECT ON keys TO regress_shardring_user;
SET ROLE regress_shardring_user;
SELECT call, run(call) FROM unnest(ARRAY[
	$$SELECT shardring.shard_for('r', 'a'), shardring.shard_for('r', 1), shardring.shard_for('r', 'a', 2), shardring.shard_at('r', 1), shardring.key_position('a')$$,
	$$SELECT shardring.locate('r', 'a'), shardring.active_version('r'), shardring.require_version('r', 1), shardring.version_at('r', now())$$,
	$$SELECT count(*) FROM shardring.points('r'), shardring.arcs('r'), shardring.shares('r'), shardring.shard_shares('r', 2)$$,
	$$SELECT 1 / (NOT EXISTS (SELECT FROM shardring.problems()))::int$$,
	$$SELECT 1 / count(*) FROM shardring.moved_ranges('r', 1, 2), shardring.move_plan('r', 1, 2)$$,
	$$SELECT shardring.moves('r', 1, 2, 'a'), shardring.move_predicate('r', 1, 2, 'a', 'c', 'k')$$,
	$$SELECT 1 / count(*) FROM shardring.moving_keys('r', 1, 2, 'keys', 'name') AS a, shardring.moving_keys('r', 1, 2, '{1k,2k,3k,4k,5k,6k,7k,8k}') AS b$$,
	$$SELECT * FROM shardring.ring, shardring.ring_version, shardring.shard_group, shardring.shard_map, shardring.shard_pin, shardring.shard, shardring.activation, shardring.shard_slot$$,
	$$SELECT shardring.create_ring('mine')$$, $$SELECT shardring.draft_version('r')$$, $$SELECT shardring.add_group('r', 'd', '{d}')$$, $$SELECT shardring.remove_group('r', 'c')$$,
	$$SELECT shardring.set_weight('r', 'c', 2)$$, $$SELECT shardring.set_vnodes('r', 2)$$, $$SELECT shardring.assign_slots('r', 'c', '{[0,1)}', 'd')$$,
	$$SELECT shardring.pin('r', 1, 'c')$$, $$SELECT shardring.pin_key('r', 'a', 'c')$$, $$SELECT shardring.unpin('r', 1)$$, $$SELECT shardring.seal('r')$$, $$SELECT shardring.activate('r')$$,
	$$SELECT shardring.drop_version('r', 2)$$, $$SELECT shardring.prune('r', 1)$$, $$SELECT shardring.drop_ring('r')$$, $$SELECT shardring_internal.erase_versions('r', NULL)$$,
	$$INSERT INTO shardring.shard_pin VALUES ('r', 2, 1, 'c')$$, $$UPDATE shardring.shard_group SET weight = 2$$, $$DELETE FROM shardring.ring$$, $$TRUNCATE shardring.activation$$,
	$$SELECT FROM shardring.ring FOR UPDATE$$, $$LOCK shardring.ring IN EXCLUSIVE MODE$$,
	$$CREATE FUNCTION shardring.mine() RETURNS int LANGUAGE sql RETURN 1$$, $$CREATE TABLE mine (r text REFERENCES shardring.ring)$$,
	$$CREATE TRIGGER mine AFTER INSERT ON shardring.ring EXECUTE FUNCTION shardring.guard('a')$$, $$ALTER TABLE shardring.ring DISABLE TRIGGER ALL$$, $$DROP EXTENSION shardring$$]) AS call;
-- not even with what it may set
SET shardring.dropping = on;
SELECT run('DELETE FROM shardring.ring_version'), run($$SELECT shardring_internal.erase_versions('r', NULL)$$);
RESET shardring.dropping;
RESET ROLE;
SELECT count(*) FROM shardring.ring_version;

-- A role that was granted the functions and the tables can run it all, without
-- being a superuser.
SELECT g AS grants FROM shardring.grants('regress_shardring_operator') AS g WHERE g NOT LIKE '% ON ROUTINE %';
SELECT count(run(g)) AS errors FROM shardring.grants('regress_shardring_operator') AS g;
-- What is not granted: what only other servers call.
SELECT p.oid::regprocedure AS not_granted FROM pg_proc AS p
WHERE p.pronamespace IN ('shardring'::regnamespace, 'shardring_internal'::regnamespace)
	AND p.prorettype <> 'trigger'::regtype AND NOT has_function_privilege('regress_shardring_operator', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT shardring.grants(NULL);
SELECT shardring.grants('regress_shardring_nobody');
SELECT shardring.grants('Größe "x"', '{seal}');
SELECT shardring.grants('regress_shardring_operator', '{seal,nothing}');
SELECT shardring.grants('regress_shardring_operator', '{seal,NULL}');
SELECT shardring.grants('regress_shardring_operator', '{}');
SELECT shardring.grants('regress_shardring_operator', '{shard_for}');
SET ROLE regress_shardring_operator;
SELECT call, run(call) AS error FROM unnest(ARRAY[
	$$SELECT shardring.create_ring('mine')$$, $$SELECT shardring.add_group('mine', 'a', '{a,b}')$$, $$SELECT shardring.set_weight('mine', 'a', 2)$$,
	$$SELECT shardring.set_vnodes('mine', 20)$$, $$SELECT shardring.assign_slots('mine', 'a', '{[0,1)}', 'b')$$, $$SELECT shardring.pin('mine', 1, 'a')$$,
	$$SELECT shardring.activate('mine')$$, $$SELECT shardring.draft_version('mine')$$, $$SELECT shardring.unpin('mine', 1)$$, $$SELECT shardring.add_group('mine', 'b', '{b}')$$,
	$$SELECT shardring.activate('mine', max_moved => 0.9)$$, $$SELECT shardring.prune('mine', 0)$$, $$SELECT shardring.drop_ring('mine')$$,
	$$UPDATE shardring.shard_group SET zone = 'z'$$]) AS call;
RESET ROLE;

DROP TABLE keys, calls, results, words;
DROP EXTENSION shardring;
DROP FUNCTION run;
DROP SCHEMA evil CASCADE;
DROP OWNED BY regress_shardring_user, regress_shardring_operator;
DROP ROLE regress_shardring_user, regress_shardring_operator;
