--
-- collations.sql
--	Names are bytes, whatever collation an argument carries: every function
--	with an argument of type text, text[] or name, as pg_proc has them, does the
--	same with it under a collation as without.
--
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE EXTENSION shardring;
CREATE SCHEMA collations;
SET search_path = collations;

-- One collation that tells all strings apart and one that tells as few apart
-- as ICU can: "R" is "r", "s!" is "s" and "01" is "1".  Where there is no ICU,
-- POSIX stands for both.
DO $$
BEGIN
	CREATE COLLATION exact (PROVIDER = icu, LOCALE = 'und');
	CREATE COLLATION alike (PROVIDER = icu, DETERMINISTIC = false,
		LOCALE = 'und-u-ka-shifted-kn-ks-level1');
EXCEPTION WHEN feature_not_supported THEN
	CREATE COLLATION exact FROM "POSIX";
	CREATE COLLATION alike FROM "POSIX";
END $$;

-- ---------- what the calls find ----------

CREATE FOREIGN DATA WRAPPER plproxy;
CREATE FOREIGN DATA WRAPPER nowhere;
DO $$
DECLARE
	name text;
	old text;
BEGIN
	FOREACH name IN ARRAY '{s,t,u,v,p,q}'::text[] LOOP
		EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER nowhere OPTIONS '
			'(host %L, port %L)', name, '/nowhere/' || name, '1');
	END LOOP;
	PERFORM shardring.create_ring('r', 8);
	PERFORM shardring.add_group('r', 'g', '{s,t}', 4, zone => 'z');
	PERFORM shardring.add_group('r', 'h', '{u}');
	PERFORM shardring.activate('r');
	PERFORM shardring.draft_version('r');
	PERFORM shardring.add_group('r', 'i', '{v}');
	PERFORM shardring.remove_group('r', 'h');
	PERFORM shardring.activate('r');
	PERFORM shardring.draft_version('r');
	PERFORM shardring.pin('r', 42, 'g');
	PERFORM shardring.add_group('r', 'k', '{w}');
	PERFORM shardring.add_router('r', 'q');
	FOR i IN 1 .. 3 LOOP
		PERFORM shardring.probe('r');
	END LOOP;
	-- an address that is not the same: its host is in capitals
	PERFORM shardring.plproxy_sync('r');
	EXECUTE format('ALTER SERVER r OPTIONS (SET p0 %L)', (
		SELECT replace(option_value, 'nowhere', 'NOWHERE')
		FROM pg_foreign_server, pg_options_to_table(srvoptions)
		WHERE srvname = 'r' AND option_name = 'p0'));
END $$;
SET shardring.shard = 's';
CREATE TABLE keys (k text, n int);
INSERT INTO keys SELECT chr(i), i FROM generate_series(33, 126) AS i;

-- ---------- what they pass ----------

-- The values of an argument by its type and name; those for no name are for
-- what has none of its own.
CREATE TABLE value AS
SELECT row_number() OVER () AS n, l.type::regtype, l.argument, v.value
FROM (VALUES
	('text', NULL, '{x}'::text[]),
	('text', 'ring', '{r,R}'),
	('text', 'cluster', '{r,R,NULL}'),
	('text', 'group_name', '{g,G}'),
	('text', 'shard', '{s,S}'),
	('text', 'from_shard', '{s,S}'),
	('text', 'to_shard', '{v,V}'),
	('text', 'server', '{s,S,p,q,Q}'),
	('text', 'relation', '{collations.keys,collations.KEYS}'),
	('text', 'key', '{a,A}'),
	('text', 'key_column', '{k,K}'),
	('text', 'hash', '{md5,MD5,fnv1a}'),
	('text', 'key_type', '{text,TEXT}'),
	('text', 'step', '{take,TAKE,set}'),
	('text', 'position_expression', '{NULL}'),
	('text', 'field', '{groups,GROUPS,shards,ring,version,hash_tags}'),
	('text', 'kind', '{object,string,STRING}'),
	('text', 'fingerprint', (
		SELECT ARRAY[fingerprint, upper(fingerprint)] FROM shardring.ring)),
	('text[]', NULL, '{"{s,t}","{s,S}"}'),
	('text[]', 'group_names', '{"{g}","{G}"}'),
	('text[]', 'keys', '{"{a,A,b,B,c,C}"}'),
	('text[]', 'options', '{"{p0=a,P1=b,host=c}"}'),
	('name', 'key_column', '{k,K}'),
	('name', 'load_column', '{n,N,!}'),
	('integer', NULL, '{4}'),
	('integer', 'version', '{3,2,4}'),
	('integer', 'from_version', '{1}'),
	('integer', 'to_version', '{2}'),
	('integer', 'source', '{2}'),
	('integer', 'active_version', '{2}'),
	('integer', 'expected_active', '{2}'),
	('integer', 'keep', '{0}'),
	('integer', 'failures', '{3}'),
	('integer[]', NULL, '{"{3}"}'),
	('bigint', NULL, '{42}'),
	('bigint', 'lowest', '{1}'),
	('numeric', NULL, '{1}'),
	('numeric', 'highest', '{9}'),
	('double precision', NULL, '{1}'),
	('boolean', NULL, '{false,true}'),
	('uuid', NULL, '{00000000-0000-0000-0000-000000000042}'),
	('bytea', NULL, '{a}'),
	('interval', NULL, '{1 s}'),
	('timestamp with time zone', NULL, '{infinity}'),
	('int4multirange', NULL, '{"{[0,2)}"}'),
	('regclass', NULL, '{collations.keys}'),
	('jsonb', NULL, ARRAY[shardring.export_version('r')::text]),
	('jsonb', 'groups',
		ARRAY['[{"group_name": "j", "shards": ["s", "x"], "zone": "z"}]']),
	('jsonb', 'imported',
		ARRAY[shardring.export_version('r') #>> '{groups,0}']),
	('jsonb', 'expected_shards', '{NULL}'),
	('shardring_internal.shard_answer[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, i, s, ARRAY[s], '15', NULL, NULL, 1, NULL,
			'{1}', 1, 7, i, s, '1 s')::shardring_internal.shard_answer)::text
		FROM unnest('{s,t,u,v}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('shardring_internal.guard_answer[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, i, s, false, NULL)::shardring_internal.guard_answer)::text
		FROM unnest('{s,t,u,v}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('shardring_internal.pair_count[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, s, 't', 1, 2, 3, nullif(s, 's'))::shardring_internal.pair_count)::text
		FROM unnest('{s,t}'::text[]) AS u (s))]),
	('shardring_internal.table_answer[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, i, true, NULL, 'collations.keys', s, true, false, false, i, NULL)
			::shardring_internal.table_answer)::text
		FROM unnest('{s,S,k}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('shardring_internal.shard_answer', NULL, ARRAY[
		ROW('s', 1, 's', '{s}', '15', NULL, NULL, 1, NULL, '{1}', 1, 7, 1, 's', '1 s')::text]),
	('shardring_internal.shard_fact[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, i, s, NULL, shardring.shard_facts('r'))::shardring_internal.shard_fact)::text
		FROM unnest('{s,S,t}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('shardring_internal.finding[]', NULL, ARRAY[(
		SELECT array_agg(ROW('error', s, i, s, s, s, s)::shardring_internal.finding)::text
		FROM unnest('{s,S,t}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('oid', NULL, ARRAY['collations.keys'::regclass::oid::text]),
	('pg_lsn', NULL, '{0/0}'),
	('shardring_internal.ddl_answer[]', NULL, ARRAY[(
		SELECT array_agg(ROW(s, i, s, 'x', 'prepared', NULL)::shardring_internal.ddl_answer)::text
		FROM unnest('{s,S,t}'::text[]) WITH ORDINALITY AS u (s, i))]),
	('shardring.ring', NULL, ARRAY[(SELECT r::text FROM shardring.ring AS r)]),
	('shardring_internal.row_move', NULL, ARRAY[
		(jsonb_populate_record(NULL::shardring_internal.row_move, jsonb_build_object(
			'ring', 'r', 'move', 1, 'program', 'move', 'from_version', 1, 'to_version', 2,
			'state', 'new', 'phase', 'push', 'wanted', 'ready', 'token', 1,
			'options', '{}'::jsonb, 'attempts', 0, 'failures', 0, 'stuck', false)))::text])
	) AS l (type, argument, list), unnest(l.list) AS v (value);

-- The ways to pass them: as literals and from columns of a table, as they are
-- and under a collation.
CREATE TABLE way AS
SELECT k.kind, c.name AS "collation", format('%s %s', k.kind, coalesce(c.name, 'plain')) AS way
FROM unnest('{literal,column}'::text[]) AS k (kind), unnest('{NULL,POSIX,exact,alike}'::text[]) AS c (name);
SELECT format('CREATE TABLE %I (n bigint, text text COLLATE %2$I, "text[]" text[] COLLATE %2$I, name name COLLATE %2$I)', way, coalesce("collation", 'default')),
	format('INSERT INTO %I SELECT n, value, CASE type WHEN ''text[]''::regtype THEN value::text[] END, value FROM value '
		'WHERE type IN (''text'', ''text[]'', ''name'')', way)
FROM way WHERE kind = 'column' \gexec

CREATE VIEW argument AS
SELECT p.oid AS function, p.proname, a.n, p.pronargs, a.type::regtype,
	a.type::regtype::text = ANY ('{text,text[],name}') AS collatable,
	CASE WHEN p.provariadic <> 0 AND a.n = p.pronargs THEN 'VARIADIC ' ELSE '' END AS prefix, p.proargnames[a.n] AS name
FROM pg_proc AS p, unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (type, n)
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	-- SQL has no value of that type: only aggregates call them
	AND 'internal'::regtype <> ALL (p.proargtypes)
	-- they commit, and no rollback undoes what makes or reads the WAL
	AND p.prokind <> 'p' AND p.proname NOT IN ('make_slot', 'sent_to_all');
CREATE VIEW choice AS
SELECT a.*, v.n AS value, w.way, a.prefix || CASE
	WHEN a.collatable AND w.kind = 'column' THEN format('(SELECT w.%I FROM %I AS w WHERE w.n = %s)', a.type, w.way, v.n)
	ELSE format('%L::%s', v.value, a.type)
		|| CASE WHEN a.collatable AND w."collation" IS NOT NULL THEN format(' COLLATE %I', w."collation") ELSE '' END END AS expression
FROM way AS w, argument AS a JOIN value AS v
	ON v.type = a.type AND (v.argument = a.name OR v.argument IS NULL AND NOT EXISTS (
		SELECT FROM value AS o WHERE o.type = a.type AND o.argument = a.name));

-- All calls, in every way.
CREATE TABLE call AS
WITH RECURSIVE combination AS (
	SELECT function, 0::bigint AS n, '{}'::bigint[] AS values
	FROM argument WHERE collatable GROUP BY function
	UNION ALL
	SELECT c.function, v.n, c.values || v.value
	FROM combination AS c JOIN choice AS v ON v.function = c.function AND v.n = c.n + 1 AND v.way = 'literal plain'
)
SELECT c.function, c.values, v.way,
	format(CASE WHEN c.function IN (SELECT p.oid FROM pg_proc AS p WHERE p.prokind = 'a') THEN 'SELECT %s(%s)' ELSE 'SELECT * FROM %s(%s)' END, c.function::regproc, string_agg(v.expression, ', ' ORDER BY v.n)) AS call
FROM combination AS c JOIN choice AS v ON v.function = c.function AND v.value = c.values[v.n]
WHERE c.n = v.pronargs
GROUP BY c.function, c.values, v.way, v.proname;

-- ---------- what they do ----------

-- What there is afterwards, in our tables and of foreign servers.
CREATE VIEW state AS
SELECT string_agg(l.line::text, E'\n' ORDER BY l.line) AS state
FROM (SELECT to_jsonb(t) FROM shardring.ring AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.ring_version AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.shard_group AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.shard_map AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.shard_pin AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.shard AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.activation AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.shard_probe AS t
	UNION ALL SELECT to_jsonb(t) FROM shardring.router AS t
	UNION ALL SELECT to_jsonb(t) - 'found_at' FROM shardring.finding AS t
	UNION ALL SELECT to_jsonb(t) FROM (SELECT srvname, srvoptions FROM pg_foreign_server) AS t
	) AS r (row), LATERAL (SELECT r.row - '{created_at,sealed_at,activated_at,failed_at}'::text[]) AS l (line);

-- What a call returned and left behind, or its error; it is undone.
CREATE FUNCTION outcome(call text, OUT result text, OUT state text)
LANGUAGE plpgsql SET search_path = collations AS $$
BEGIN
	EXECUTE format('SELECT regexp_replace(jsonb_agg(to_jsonb(c) - ''{created_at,sealed_at,failed_at,round_trip,started_at,state_since,token}''::text[])::text, ''"round_trip": "[^"]*"'', '''', ''g'') FROM (%s) AS c', call)
	INTO result;
	SELECT s.state INTO state FROM state AS s;
	RAISE EXCEPTION USING ERRCODE = 'UNDO0';
EXCEPTION
	WHEN SQLSTATE 'UNDO0' THEN RETURN;
	WHEN OTHERS THEN result := format('%s: %s', SQLSTATE, SQLERRM);
END $$;
CREATE TABLE done AS
SELECT c.*, o.* FROM call AS c, LATERAL outcome(c.call) AS o;

-- no function was forgotten
SELECT DISTINCT a.function::regprocedure AS not_called FROM argument AS a
WHERE a.collatable AND NOT EXISTS (SELECT FROM done AS d WHERE d.function = a.function);
-- only what raises always did not come to its end
SELECT function::regprocedure AS always_raised FROM done WHERE way LIKE '% plain'
GROUP BY function HAVING bool_and(state IS NULL) ORDER BY function::regprocedure::text COLLATE "C";
-- and what differs under a collation
SELECT d.function::regprocedure, d.way, d.call, p.result AS plain, d.result, p.state IS NOT DISTINCT FROM d.state AS same_state
FROM done AS d JOIN way AS w ON w.way = d.way JOIN done AS p ON p.function = d.function AND p.values = d.values AND p.way = w.kind || ' plain'
WHERE d.result IS DISTINCT FROM p.result OR d.state IS DISTINCT FROM p.state
ORDER BY d.function::regprocedure::text COLLATE "C", d.values, d.way COLLATE "C";

-- ---------- columns of keys ----------

-- Keys are bytes too, in whatever column they are.
SELECT shardring.create_ring('tags', 8, hash_tags => true), shardring.add_group('tags', 's', '{s}'), shardring.activate('tags'),
	shardring.draft_version('tags'), shardring.add_group('tags', 'v', '{v}'), shardring.seal('tags');
CREATE TABLE held AS SELECT k AS plain, k AS posix, k AS exact, k AS alike, n AS load
FROM (SELECT p || k, n FROM keys, unnest('{"","{a}{","{A}","{!}"}'::text[]) AS p) AS k (k, n);
ALTER TABLE held ALTER posix TYPE text COLLATE "POSIX", ALTER exact TYPE text COLLATE exact, ALTER alike TYPE text COLLATE alike;
CREATE FUNCTION seen(name) RETURNS jsonb LANGUAGE plpgsql SET search_path = collations AS $$
DECLARE
	seen jsonb;
	kept bigint := 0;
	one record;
BEGIN
	EXECUTE format('SELECT jsonb_build_array(
		(SELECT array_agg(m.key ORDER BY m.key COLLATE "C") FROM shardring.moving_keys(''tags'', 1, 2, ''held'', %1$L) AS m),
		(SELECT array_agg(r) FROM shardring.rehearse(''tags'', 1, 2, ''held'', %1$L, ''load'') AS r),
		(SELECT sum(h.load) FROM held AS h WHERE shardring.moves(''tags'', 1, 2, h.%1$I)),
		(SELECT sum(h.load) FROM held AS h WHERE %2$s))', $1,
		shardring.move_predicate('tags', 1, 2, 's', 'v', format('h.%I COLLATE "C"', $1))) INTO seen;
	EXECUTE format('CREATE TRIGGER guard BEFORE UPDATE ON held FOR EACH ROW EXECUTE FUNCTION shardring.guard(''r'', %L)', $1);
	FOR one IN SELECT ctid, held.* FROM held LOOP
		BEGIN
			UPDATE held SET load = load WHERE ctid = one.ctid;
			kept := kept + one.load;
		EXCEPTION WHEN SQLSTATE 'SR001' THEN
			NULL;
		END;
	END LOOP;
	DROP TRIGGER guard ON held;
	RETURN seen || to_jsonb(kept);
END $$;
CREATE TABLE result AS SELECT c, (seen(c)) AS seen FROM unnest('{plain,posix,exact}'::name[]) AS c;
-- where one row of the application is two keys of ours, none of them goes on
CREATE FUNCTION state_of(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE TRIGGER guard BEFORE UPDATE ON held FOR EACH ROW EXECUTE FUNCTION shardring.guard('r', 'alike');
SELECT command, state_of(command) FROM unnest(ARRAY[
	$$SELECT FROM shardring.moving_keys('tags', 1, 2, 'held', 'alike')$$,
	$$SELECT FROM shardring.rehearse('tags', 1, 2, 'held', 'alike', 'load')$$,
	'UPDATE held SET load = load',
	$$SELECT shardring_internal.require_guardable('held', 'alike')$$]) AS c (command)
WHERE state_of(command) <> '42P22' AND NOT (SELECT collisdeterministic FROM pg_collation WHERE oid = 'alike'::regcollation);
DROP TRIGGER guard ON held;
SELECT seen -> 2 AS moving, seen -> 2 = seen -> 3 AS predicate, seen -> 4 AS kept FROM result WHERE c = 'plain';
SELECT r.c FROM result AS r, result AS p WHERE p.c = 'plain' AND r.seen <> p.seen;

DROP SCHEMA collations CASCADE;
DROP EXTENSION shardring;
DROP FOREIGN DATA WRAPPER plproxy, nowhere CASCADE;
