--
-- servers.sql
--	Asking a server, which is this one: its address, what it may say and what
--	is asked.  What other servers can do wrong is a TAP test.
--
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE EXTENSION shardring;
CREATE FOREIGN DATA WRAPPER wrapper;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER self FOREIGN DATA WRAPPER wrapper OPTIONS (host %L, port %L, dbname %L, application_name %L, batch_size %L)',
		split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database(), 'it''s \me', '10');
	-- the first is no standby, so the second one is taken all the same
	EXECUTE format('CREATE SERVER twice FOREIGN DATA WRAPPER wrapper OPTIONS (host %L, port %L, dbname %L, target_session_attrs %L)',
		replace('D,D', 'D', split_part(current_setting('unix_socket_directories'), ',', 1)), current_setting('port'), current_database(), 'prefer-standby');
END $$;

-- as libpq reads it: quoted, and without what only the wrapper knows
SELECT regexp_replace(shardring_internal.connect_string('self'), '(host|port|dbname)=''[^'']*''', '\1', 'g');
SELECT shardring_internal.connect_string('nobody');
CREATE ROLE regress_shardring_stranger;
GRANT EXECUTE ON FUNCTION shardring_internal.connect_string(text) TO regress_shardring_stranger;
SET ROLE regress_shardring_stranger;
SELECT shardring_internal.connect_string('self');
RESET ROLE;

-- a ring that is not there
SELECT shardring.live_shards('nope');
SELECT shardring.suspects('nope');
SELECT shardring.suspects('');
SELECT shardring.suspects(NULL);
SELECT shardring.pgbouncer_databases('nope');
SELECT shardring.pgbouncer_databases(NULL);
SELECT shardring.plproxy_sync('nope');
SELECT shardring.plproxy_sync(NULL);
SELECT * FROM shardring.shard_status('nope');
SELECT * FROM shardring.probe('nope');
SELECT * FROM shardring.push_version('nope', 1);
SELECT * FROM shardring.drop_version_on_shards('nope', 1);
SELECT * FROM shardring.prune_on_shards('nope', 1);
SELECT * FROM shardring.on_shards('nope', 'SELECT 1');
SELECT * FROM shardring.misplaced('nope');
SELECT * FROM shardring.misplaced_keys('nope', 'x');
SELECT * FROM shardring.receive_drop('nope', '{1,NULL,-1,2147483647}');
-- and NULL, nothing, much and what is not ASCII
DO $$
DECLARE
	call text;
BEGIN
	FOREACH call IN ARRAY ARRAY[
		'shard_status(NULL)', 'shard_details(NULL)', 'probe(NULL)', 'push_version(NULL, 1)', 'push_version(''r'', NULL)',
		'push_version(''r'', 1, activate => NULL)', 'drop_version_on_shards(NULL, 1)', 'drop_version_on_shards(''empty'', NULL)',
		'prune_on_shards(NULL, 1)', 'prune_on_shards(''empty'', NULL)', 'receive_drop(NULL, ''{1}'')', 'receive_drop(''r'', NULL)',
		'receive_version(NULL, true)', 'receive_version(''{}'', NULL)', 'receive_version(''{}'', true, 1, ''null'')', 'receive_drop(''r'', ''{}'', ''[1]'')',
		'shard_status('''')', 'shard_details(repeat(''x'', 100000))', 'shard_details(''größe'')', 'probe(''größe'')',
		'drop_version_on_shards(''größe'', 1)', 'prune_on_shards('''', 2147483647)', 'drop_version_on_shards(''empty'', 0)',
		'drop_version_on_shards(''empty'', 2)', 'drop_version_on_shards(''empty'', 2147483647)', 'prune_on_shards(''empty'', -1)', 'push_version(''empty'', 1)',
		'on_shards(NULL, ''SELECT 1'')', 'on_shards(''r'', NULL)', 'on_shards('''', ''SELECT 1'')', 'on_shards(''größe'', ''größe'')',
		'on_shards(''empty'', ''größe'')', 'on_shards(''empty'', ''SELECT 1'', ''{größe}'')', 'on_shards(''empty'', repeat(''x'', 100000))',
		'misplaced(NULL)', 'misplaced('''')', 'misplaced(''größe'', ''größe'')', 'misplaced(''empty'')', 'misplaced(''empty'', NULL)',
		'misplaced_keys(NULL, ''x'')', 'misplaced_keys(''r'', NULL)', 'misplaced_keys(''größe'', ''größe'')', 'misplaced_keys(''empty'', ''x'')',
		'misplaced_here(NULL, 1)', 'misplaced_here(''r'', NULL)', 'misplaced_here(''r'', 1, ''x'', ''null'')', 'misplaced_here(''r'', 1, ''x'', ''{}'')',
		'misplaced_keys_here(NULL, 1, ''x'', 1)', 'misplaced_keys_here(''r'', NULL, ''x'', 1)', 'misplaced_keys_here(''r'', 1, NULL, 1)', 'misplaced_keys_here(''r'', 1, ''x'', NULL)',
		'misplaced_keys_here(''empty'', 1, ''größe'', 1)', 'misplaced_keys_here(''empty'', 1, '''', 1)', 'misplaced_keys_here(''empty'', 1, ''x.y'', 1)', 'misplaced_keys_here(''empty'', 1, repeat(''x'', 100000), 1)',
		'rows_here(NULL, ''x'', ''{}'')', 'rows_here(''r'', NULL, ''{}'')', 'rows_here(''r'', ''x'', NULL)', 'rows_here(''empty'', ''größe'', ''{}'')',
		'rows_here(''empty'', ''pg_class'', ''{}'', ''[1]'')',
		'on_shards(''empty'', ''SELECT 1'')', 'drop_version_on_shards(''empty'', 1)', 'prune_on_shards(''empty'', 0)', 'shard_status(''empty'')', 'receive_drop(''empty'', ''{}'')',
		'guard_table(NULL, ''a.b'', ''k'')', 'guard_table(''r'', NULL, ''k'')', 'guard_table(''r'', ''a.b'', NULL)', 'guard_table(''r'', ''b'', ''k'')',
		'guard_table(''r'', '''', ''k'')', 'guard_table(''r'', repeat(''x'', 100000), ''k'')', 'guard_table(''größe'', ''a.größe'', ''k'')',
		'guard_table(''empty'', ''a."größe"'', '''')', 'check_guard(NULL, ''a.b'', ''k'')', 'check_guard(''r'', NULL, ''k'')', 'check_guard(''r'', ''a.b'', NULL)',
		'receive_guard(NULL, ''a.b'', ''k'', true, ''{}'')', 'receive_guard(''r'', NULL, ''k'', true, ''{}'')', 'receive_guard(''r'', ''a.b'', NULL, true, ''{}'')',
		'receive_guard(''r'', ''a.b'', ''k'', NULL, ''{}'')', 'receive_guard(''r'', ''a.b'', ''k'', true, NULL)', 'receive_guard(''r'', ''a.b'', ''k'', true, ''[1]'')',
		'drop_guard(NULL)', 'drop_guard(0)', 'tables(NULL)', 'tables('''')', 'tables(repeat(''x'', 100000))', 'tables(''größe'')', 'tables(''empty'')',
		'add_router(''empty'', repeat(''ö'', 100000))', 'remove_router(''empty'', ''größe'')', 'guarded_tables(NULL)', 'guarded_tables(repeat(''größe'', 100000))']
	LOOP
		BEGIN
			IF call ~ 'empty' THEN
				PERFORM shardring.create_ring('empty');
			END IF;
			EXECUTE 'SELECT * FROM shardring.' || call;
			RAISE EXCEPTION 'no error';
		EXCEPTION WHEN OTHERS THEN
			RAISE INFO '%: % %', call, sqlstate, regexp_replace(regexp_replace(sqlerrm, 'x{100}', '', 'g'), 'database "[^"]*"', 'this database');
		END;
	END LOOP;
END $$;
-- who this is, also for PUBLIC
SET shardring.shard = 'größe';
SET ROLE regress_shardring_stranger;
SELECT i.shard, i.system_identifier > 0 AS system, i.database_oid = (SELECT oid FROM pg_database WHERE datname = current_database()) AS oid,
	i.database = current_database() AS database, i.in_recovery FROM shardring.shard_identity() AS i;
RESET ROLE;
RESET shardring.shard;
SELECT shard FROM shardring.shard_identity();
-- what a shard says when it is asked whether a table could be guarded
SELECT r, left(n, 30) AS n, c.guarded, left(c.problem, 60) AS problem, c.hint FROM (VALUES ('nope', ''), ('nope', '.'), ('nope', 'größe'), ('nope', 'a.b.c.d'), ('größe', 'a."größe"'),
	('', repeat('x', 100000)), ('nope', 'pg_catalog.pg_class')) AS v (r, n)
	CROSS JOIN LATERAL shardring.check_guard(r, n, 'relname') AS c;
-- and what it could say when it is asked for its tables
SELECT a, shardring_internal.read_tables(a) FROM unnest(ARRAY[NULL, '', '{}', '[]', '[1]', 'null', '[{"relation": "a.b"}]', '[{"relation": "a.b", "key_column": "k", "enabled": true, "statement_guard": true}]',
	'[{"relation": "a.b", "key_column": "k\n", "enabled": true, "statement_guard": true, "truncate_guard": true, "rows": 1, "bytes": null}]', '[{"relation": "a.b", "key_column": "k", "enabled": 7, "statement_guard": true, "truncate_guard": true}]',
	'[{"relation": "a.b", "key_column": "k", "enabled": true, "statement_guard": true, "truncate_guard": true, "rows": -1}]', '[{"relation": "a.b", "key_column": "k", "enabled": true, "statement_guard": true, "truncate_guard": true, "bytes": 1e15}]',
	'[{"relation": "a.b", "key_column": "k", "enabled": true, "statement_guard": true, "truncate_guard": true, "bytes": 1e30}]']) AS a;
SELECT length(shardring_internal.read_tables(jsonb_build_array(jsonb_build_object('relation', repeat('ö', 1000), 'key_column', repeat('ö', 1000), 'enabled', true, 'statement_guard', false, 'truncate_guard', false))::text)::text);
-- in a line of 80 columns
SELECT shardring_internal.shard_problem(e, h, a, f, 2, 'f') FROM (VALUES
	(NULL, NULL, 2, 'f'), ('connection to server on socket "/x/y" failed: FATAL:  no', NULL, NULL, NULL), (repeat('é', 50), NULL, NULL, NULL),
	(NULL, 'h', 2, 'f'), (NULL, NULL, NULL, NULL), (NULL, NULL, 1, 'f'), (NULL, NULL, 2, 'g'), (NULL, NULL, 2, NULL)) AS v (e, h, a, f);
SELECT shardring_internal.shard_problem(NULL, NULL, a, NULL, NULL, NULL) FROM unnest('{NULL,1}'::int[]) AS a;
-- and one that has nothing sealed yet
SELECT shardring.create_ring('empty');
SELECT shardring.live_shards('empty');
SELECT shardring.suspects('empty');
SELECT shardring.pgbouncer_databases('empty');
SELECT shardring.plproxy_sync('empty');
SELECT shardring.drop_ring('empty');

-- what is asked, and said
CREATE FUNCTION ask(server text, statement text, VARIADIC arguments text[] DEFAULT '{}')
RETURNS TABLE (error text, answer text[]) LANGUAGE sql AS $$
	SELECT a.error, a.answer FROM shardring_internal.ask_servers(ARRAY[server], statement, arguments) AS a
$$;
SELECT * FROM ask('self', 'SELECT $1, $2::int + 1, NULL', 'é', '41');
SELECT * FROM ask('self', 'SELECT current_setting(''application_name'')');
SELECT * FROM ask('self', 'SELECT 1 WHERE false');
SELECT * FROM ask('self', 'SELECT');
SELECT * FROM ask('self', 'DO $x$BEGIN RAISE WARNING ''not for us''; END$x$');
SELECT * FROM ask('self', 'SELECT 1/0');
SELECT * FROM ask('twice', 'SELECT 1');
SELECT * FROM ask('nobody', 'SELECT 1');
SELECT * FROM ask('self', NULL);
SELECT shardring_internal.ask_servers('{self,NULL}', 'SELECT 1', '{}');
SELECT shardring_internal.ask_servers('{self}', 'SELECT $1', '{NULL}');
SELECT count(*) FROM shardring_internal.ask_servers('{}', 'SELECT 1', '{}');
SELECT * FROM shardring_internal.ask_rows('{self,nobody,self}', 'SELECT $1 AS é, i, true AS b FROM generate_series(1, $2::int) AS i', '{ü,2}');
SELECT * FROM shardring_internal.ask_rows('{self}', 'SELECT 1/0', '{}');
SELECT * FROM shardring_internal.ask_rows('{self}', 'CREATE TABLE made ()', '{}');
SELECT * FROM shardring_internal.ask_rows('{self}', 'SELECT ' || repeat('1,', 1663) || '1', '{}');
SELECT shardring_internal.ask_rows('{self,NULL}', 'SELECT 1', '{}');
SELECT count(*) FROM shardring_internal.ask_rows('{}', 'SELECT 1', '{}');

-- the number of a shard for PL/Proxy, without PL/Proxy: by a server that looks
-- like one of its own
CREATE FOREIGN DATA WRAPPER plproxy;
SELECT shardring.create_ring('n');
SELECT shardring.add_group('n', 'g', '{x,y,z}', slots => 30);
SELECT shardring.activate('n');
SELECT shardring.plproxy_partition('n', 'k');
CREATE SERVER n FOREIGN DATA WRAPPER wrapper OPTIONS (p0 '', p1 '', p2 '');
SELECT shardring.plproxy_partition('n', 'k');
DROP SERVER n;
CREATE SERVER n FOREIGN DATA WRAPPER plproxy OPTIONS (p0 '', p1 '', p2 '');
SELECT bool_and(shardring.plproxy_partition('n', k) = s.number) AS text,
	bool_and(shardring.plproxy_partition('n', k::bigint) = s.number) AS bigint,
	bool_and(shardring.plproxy_partition('n', md5(k)::uuid) = u.number) AS uuid,
	count(DISTINCT s.number) AS numbers
FROM generate_series(1, 200) AS i, LATERAL (SELECT i::text) AS t (k),
	shardring.shard AS s, shardring.shard AS u
WHERE s.ring = 'n' AND s.shard = shardring.shard_for('n', k)
	AND u.ring = 'n' AND u.shard = shardring.shard_for('n', md5(k)::uuid);
-- no server has so long a name, and no ring
SELECT shardring.plproxy_partition(repeat('r', 64), 'k');

-- the ring in whose cluster another is called
SELECT shardring.create_ring('é'), shardring.create_ring('m'), shardring.create_ring('k');
SELECT shardring.set_cluster(NULL, 'n');
SELECT shardring.set_cluster('', 'n');
SELECT shardring.set_cluster('nope', 'n');
SELECT shardring.set_cluster('m', 'nope');
SELECT shardring.set_cluster('m', '');
SELECT shardring.set_cluster('m', repeat('x', 64));
SELECT shardring.set_cluster('m', 'm');
SELECT shardring.set_cluster('m', NULL);
SELECT shardring.set_cluster('m', 'n');
SELECT shardring.set_cluster('m', 'n');
-- no chains, from neither end
SELECT shardring.set_cluster('k', 'm');
SELECT shardring.set_cluster('n', 'k');
SELECT shardring.drop_ring('n');
SELECT shardring.plproxy_sync('m');
-- nothing is routed to there yet, or not to this shard
SELECT shardring.add_group('m', 'g', '{z}'), shardring.activate('m');
SELECT shardring.plproxy_partition('m', 'k') AS z_in_n;
SELECT shardring.set_cluster('m', 'é');
SELECT shardring.plproxy_partition('m', 'k');
SELECT shardring.add_group('é', 'g', '{x}'), shardring.activate('é');
SELECT shardring.plproxy_partition('m', 'k');
SELECT shardring.draft_version('é');
SELECT shardring.add_group('é', 'h', '{z}'), shardring.activate('é');
SELECT shardring.plproxy_partition('m', 'k');
SELECT ring, cluster FROM shardring.ring WHERE cluster IS NOT NULL;
\set VERBOSITY sqlstate
UPDATE shardring.ring SET cluster = 'm' WHERE ring = 'm';
UPDATE shardring.ring SET cluster = '' WHERE ring = 'm';
\set VERBOSITY default
SELECT shardring.export_version('m') ? 'cluster' AS exported;
SELECT shardring.set_cluster('m', NULL);
SELECT shardring.plproxy_partition('m', 'k');
SELECT shardring.drop_ring(ring) FROM shardring.ring;
DROP SERVER n;

-- how many partitions PL/Proxy has
SELECT shardring.create_ring('parts'), shardring.add_group('parts', 'g', '{x,y,z}', slots => 3), shardring.activate('parts');
CREATE SERVER parts FOREIGN DATA WRAPPER plproxy OPTIONS (connection_lifetime '60', p0 'dbname=x', p1 'dbname=y', pool 'none', px '');
CREATE FUNCTION numbers() RETURNS TABLE (number int, keys bigint) LANGUAGE sql AS $$
	SELECT shardring.plproxy_partition('parts', i), count(*) FROM generate_series(1, 90) AS i GROUP BY 1 ORDER BY 1
$$;
SELECT * FROM numbers();
ALTER SERVER parts OPTIONS (ADD p2 'dbname=z');
SELECT * FROM numbers();
-- one call site, two rings in turns
CREATE SERVER single FOREIGN DATA WRAPPER plproxy OPTIONS (p0 '');
SELECT shardring.create_ring('single'), shardring.add_group('single', 'g', '{x}'), shardring.activate('single');
SELECT ring, number, count(*) AS keys
FROM (SELECT ring, shardring.plproxy_partition(ring, i) AS number
	FROM (SELECT ring, i FROM unnest('{single,parts}'::text[]) AS ring, generate_series(1, 90) AS i ORDER BY i, ring DESC) AS calls) AS numbers
GROUP BY ring, number ORDER BY ring, number;
DELETE FROM shardring.shard WHERE ring = 'parts' AND number = 2;
SET session_replication_role = replica;
DELETE FROM shardring.shard WHERE ring = 'parts' AND number = 2;
RESET session_replication_role;
SELECT * FROM numbers();
-- names that nobody has leave nothing behind
CREATE TEMP VIEW kept AS
	SELECT sum(c.total_bytes) AS bytes FROM pg_backend_memory_contexts AS c
	WHERE c.name = 'shardring partitions';
SELECT bytes AS kept_before FROM kept \gset
DO $$
BEGIN
	FOR i IN 1 .. 5000 LOOP
		BEGIN
			PERFORM shardring.plproxy_partition('nobody ' || i, 'k');
		EXCEPTION WHEN undefined_object THEN NULL;
		END;
	END LOOP;
END $$;
SELECT bytes - :kept_before AS added FROM kept;
DROP VIEW kept;
SELECT shardring.drop_ring('parts'), shardring.drop_ring('single');
DROP FUNCTION numbers;
DROP SERVER parts;
DROP SERVER single;
DROP FOREIGN DATA WRAPPER plproxy;

DROP FUNCTION ask;
DROP SERVER self;
DROP SERVER twice;
DROP FOREIGN DATA WRAPPER wrapper;
DROP EXTENSION shardring;
DROP ROLE regress_shardring_stranger;
