--
-- guard.sql
--	A shard refuses what belongs elsewhere: the trigger, require_here, and
--	the setting that says which shard this is.
--
CREATE EXTENSION shardring;

-- before the first push
SET shardring.shard = 'here';
SELECT shardring.add_guard('orders', 'pg_class', 'relname');
RESET shardring.shard;
SELECT shardring.add_guard('orders', 'pg_class', 'relname');

SELECT shardring.create_ring('orders', vnodes => 40);
SELECT shardring.add_group('orders', 'g', ARRAY['here', 'the "other"'], 8);
SELECT shardring.add_group('orders', 'h "1"', ARRAY['third'], 2);
SELECT shardring.activate('orders');

CREATE TABLE orders (
	customer integer, item text, wide bigint GENERATED ALWAYS AS (customer)
	STORED);
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON orders
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');

-- nobody said which shard this is
INSERT INTO orders VALUES (1);
SELECT shardring.require_here('orders', 1);

-- the library is loaded by now; a shard that is in no ring owns nothing
SET shardring.shard = 'spare';
SELECT count(*) FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('orders', i) = 'spare';
INSERT INTO orders VALUES (1);

-- a server that joins has nothing active; rows come in without the guard
SELECT shardring.create_ring('young');
CREATE TABLE young (k text);
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON young
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('young', 'k');
INSERT INTO young VALUES ('a');
SELECT shardring.require_here('young', 'a'::text);
SET session_replication_role = replica;
INSERT INTO young VALUES ('a');
RESET session_replication_role;
DROP TABLE young;

-- of a thousand keys, those get in that live here
SET shardring.shard = 'here';
CREATE FUNCTION pg_temp.try(command text, key integer) RETURNS text
LANGUAGE plpgsql AS $body$
BEGIN
	EXECUTE command USING key;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END
$body$;
SELECT r.result, count(*) > 100 AS many,
	bool_and((shardring.shard_for('orders', i) = 'here')
			 = (r.result = 'done')) AS right
FROM generate_series(1, 1000) AS i
	CROSS JOIN LATERAL pg_temp.try(
		'INSERT INTO orders VALUES ($1)', i) AS r (result)
GROUP BY r.result ORDER BY r.result;
SELECT count(*) FROM orders AS o
WHERE shardring.shard_for('orders', o.customer) <> 'here';

-- the error names the place in a form that programs can read
INSERT INTO orders SELECT i FROM generate_series(1, 1000) AS i
WHERE shardring.shard_for('orders', i) = 'the "other"' ORDER BY i LIMIT 1;
INSERT INTO orders SELECT i FROM generate_series(1, 1000) AS i
WHERE shardring.shard_for('orders', i) = 'third' ORDER BY i LIMIT 1;
SELECT shardring.require_here('orders', i) FROM generate_series(1, 1000) AS i
WHERE shardring.shard_for('orders', i) = 'third' ORDER BY i LIMIT 1;
DO $body$
DECLARE
	detail text;
	in_table text;
	fields text[];
BEGIN
	INSERT INTO orders SELECT i FROM generate_series(1, 1000) AS i
	WHERE shardring.shard_for('orders', i) = 'the "other"'
	ORDER BY i LIMIT 1;
EXCEPTION WHEN SQLSTATE 'SR001' THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL,
		in_table = TABLE_NAME;
	fields := regexp_match(detail, '^version=(\d+) group="((?:[^"]|"")*)" '
		'slot=(\d+) shard="((?:[^"]|"")*)"$');
	RAISE NOTICE 'table %, version %, group %, slot %, shard %',
		in_table, fields[1],
		replace(fields[2], '""', '"'), fields[3],
		replace(fields[4], '""', '"');
END
$body$;

-- old and new key of an update, old key of a delete
CREATE TEMP TABLE somewhere AS
	SELECT (SELECT min(i) FROM generate_series(1, 1000) AS i
			WHERE shardring.shard_for('orders', i) = 'here') AS here,
		(SELECT min(i) FROM generate_series(1, 1000) AS i
		 WHERE shardring.shard_for('orders', i) = 'third') AS third;
\set VERBOSITY sqlstate
UPDATE orders AS o SET item = 'x' FROM somewhere AS s
WHERE o.customer = s.here;
UPDATE orders AS o SET customer = s.third FROM somewhere AS s
WHERE o.customer = s.here;
SET session_replication_role = replica;
INSERT INTO orders SELECT s.third, 'moved' FROM somewhere AS s;
RESET session_replication_role;
UPDATE orders AS o SET customer = s.here FROM somewhere AS s
WHERE o.customer = s.third;
DELETE FROM orders AS o USING somewhere AS s WHERE o.customer = s.third;
DELETE FROM orders AS o USING somewhere AS s WHERE o.customer = s.here;
SELECT count(*) FROM orders AS o JOIN somewhere AS s ON o.customer = s.third;

-- NULL has no shard
INSERT INTO orders VALUES (NULL);
SET session_replication_role = replica;
INSERT INTO orders VALUES (NULL);
RESET session_replication_role;
UPDATE orders SET customer = 5 WHERE customer IS NULL;
DELETE FROM orders WHERE customer IS NULL;
\set VERBOSITY default

-- COPY, ON CONFLICT and MERGE go through it as well
CREATE TABLE customers (customer bigint PRIMARY KEY, hits integer);
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON customers
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');
SELECT string_agg(s.i::text, ' ' ORDER BY s.i) AS here
FROM generate_series(1, 20) AS s (i)
WHERE shardring.shard_for('orders', s.i) = 'here';
\set VERBOSITY sqlstate
COPY customers FROM STDIN;
1	1
2	1
3	1
4	1
5	1
6	1
7	1
8	1
\.
INSERT INTO customers SELECT i, 1 FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('orders', i) = 'here';
INSERT INTO customers AS c SELECT s.here, 1 FROM somewhere AS s
ON CONFLICT (customer) DO UPDATE SET hits = c.hits + 1;
INSERT INTO customers AS c SELECT s.here, 1 FROM somewhere AS s
ON CONFLICT (customer) DO UPDATE
SET customer = (SELECT s.third FROM somewhere AS s);
MERGE INTO customers AS c USING somewhere AS s ON c.customer = s.third
WHEN NOT MATCHED THEN INSERT VALUES (s.third, 1);
SELECT c.hits, count(*) FROM customers AS c GROUP BY 1 ORDER BY 1;

-- every type of key, and a domain
CREATE DOMAIN user_name AS varchar(40);
CREATE TABLE keys (
	small smallint, uid uuid, t text, padded char(20), n name,
	dom user_name, num numeric);
CREATE FUNCTION pg_temp.guarded(key_column text) RETURNS TABLE (
	result text, agrees boolean)
LANGUAGE plpgsql AS $body$
BEGIN
	EXECUTE format('CREATE TRIGGER zz_guard BEFORE INSERT ON keys '
				   'FOR EACH ROW EXECUTE FUNCTION '
				   'shardring.guard(''orders'', %L)', key_column);
	RETURN QUERY SELECT r.result, bool_and((r.result = 'done')
		= (CASE key_column
			WHEN 'small' THEN shardring.shard_for('orders', i::smallint)
			WHEN 'uid' THEN shardring.shard_for('orders', md5(i::text)::uuid)
			ELSE shardring.shard_for('orders', 'user ' || i) END = 'here'))
	FROM generate_series(1, 100) AS i CROSS JOIN LATERAL pg_temp.try(
		'INSERT INTO keys VALUES ($1, md5($1::text)::uuid, ''user '' || $1,
			''user '' || $1, ''user '' || $1, ''user '' || $1, $1)',
		i) AS r (result)
	GROUP BY r.result ORDER BY r.result;
	DROP TRIGGER zz_guard ON keys;
END
$body$;
SELECT c.key_column, g.* FROM unnest(ARRAY['small', 'uid', 't', 'padded',
	'n', 'dom', 'num', 'none']) WITH ORDINALITY AS c (key_column, i)
	CROSS JOIN LATERAL pg_temp.guarded(c.key_column) AS g
ORDER BY c.i, g.result;

-- partitions, with the column at another place
CREATE TABLE parts (customer integer, y integer) PARTITION BY LIST (y);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE part_2 (y integer, gone integer, customer integer);
ALTER TABLE part_2 DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION part_2 FOR VALUES IN (2);
CREATE TRIGGER zz_guard BEFORE INSERT ON parts
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');
SELECT r.result, bool_and((shardring.shard_for('orders', i) = 'here')
	= (r.result = 'done')) AS right
FROM generate_series(1, 100) AS i CROSS JOIN LATERAL pg_temp.try(
	'INSERT INTO parts VALUES ($1, $1 % 2 + 1)', i) AS r (result)
GROUP BY r.result ORDER BY r.result;

-- what cannot work
\set VERBOSITY default
\set SHOW_CONTEXT never
DROP TRIGGER zz_guard ON customers;
CREATE TRIGGER zz_guard AFTER INSERT ON customers
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');
INSERT INTO customers VALUES (5000, 1);
DROP TRIGGER zz_guard ON customers;
CREATE TRIGGER zz_guard BEFORE INSERT ON customers
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard('orders', 'customer');
INSERT INTO customers VALUES (1, 1);
DROP TRIGGER zz_guard ON customers;
CREATE TRIGGER zz_guard BEFORE INSERT ON customers
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders');
INSERT INTO customers VALUES (1, 1);
DROP TRIGGER zz_guard ON customers;
CREATE TRIGGER zz_guard BEFORE INSERT ON customers
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('none', 'customer');
INSERT INTO customers VALUES (1, 1);
DROP TRIGGER zz_guard ON customers;
CREATE TRIGGER zz_guard BEFORE INSERT ON customers
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'ctid');
INSERT INTO customers VALUES (1, 1);
DROP TRIGGER zz_guard ON orders;
CREATE TRIGGER zz_guard BEFORE INSERT ON orders
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'wide');
INSERT INTO orders VALUES (1);
SELECT shardring.guard();

-- reads
\set VERBOSITY sqlstate
SELECT shardring.require_here('orders', s.here) FROM somewhere AS s;
SELECT shardring.require_here('orders', s.third) FROM somewhere AS s;
SELECT shardring.require_here('orders', s.third::text) FROM somewhere AS s;
SELECT shardring.require_here('orders',
	'00000000-0000-0000-0000-000000000001'::uuid) IS NULL;
SELECT shardring.require_here('orders', NULL::text) IS NULL,
	shardring.require_here(NULL, 1) IS NULL;
SELECT shardring.require_here('none', 1);

-- which of the rows that are here live here
SELECT shardring.is_here('orders', s.here), shardring.is_here('orders', s.third),
	shardring.is_here('orders', s.here::text), shardring.is_here('orders', s.third::text) FROM somewhere AS s;
SELECT count(*), bool_and(shardring.is_here('orders', i) = (shardring.shard_for('orders', i) = 'here')),
	bool_and(shardring.is_here('orders', i || 'é') = (shardring.shard_for('orders', i || 'é') = 'here')),
	bool_and(shardring.is_here('orders', md5(i::text)::uuid) = (shardring.shard_for('orders', md5(i::text)::uuid) = 'here'))
FROM generate_series(1, 1000) AS i;
SELECT shardring.is_here('orders', NULL::text) IS NULL, shardring.is_here(NULL, 1) IS NULL;
SELECT shardring.is_here('orders', '') IS NULL, shardring.is_here('orders', repeat('x', 1000000)) IS NULL;
SELECT shardring.is_here('none', 1);
SELECT shardring.is_here('young', 1);
-- a name that no shard has would make every row one of elsewhere
SET shardring.shard = 'spare';
SELECT shardring.is_here('orders', 1);
SET shardring.shard = 'here';

-- the next statement knows of a switch
SELECT shardring.draft_version('orders');
SELECT shardring.assign_slots('orders', 'g', '{[0,8)}', 'the "other"');
TRUNCATE parts;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO parts SELECT s.here, 1 FROM somewhere AS s;
SELECT shardring.activate('orders');
SAVEPOINT before;
INSERT INTO parts SELECT s.here, 1 FROM somewhere AS s;
ROLLBACK;
INSERT INTO parts SELECT s.here, 1 FROM somewhere AS s;
SELECT count(*) FROM parts;
SELECT shardring.activate('orders');
INSERT INTO parts SELECT s.here, 1 FROM somewhere AS s;

-- deleting what has moved: foreign keys go on while the guards are disabled
CREATE TABLE parent (customer integer PRIMARY KEY);
CREATE TABLE child (customer integer REFERENCES parent ON DELETE CASCADE);
INSERT INTO parent SELECT s.here FROM somewhere AS s;
INSERT INTO child TABLE parent;
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON parent
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON child
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'customer');
DELETE FROM parent;
BEGIN;
ALTER TABLE parent DISABLE TRIGGER zz_guard;
DELETE FROM parent;
ROLLBACK;
BEGIN;
ALTER TABLE parent DISABLE TRIGGER zz_guard;
ALTER TABLE child DISABLE TRIGGER zz_guard;
DELETE FROM parent;
ALTER TABLE parent ENABLE TRIGGER zz_guard;
ALTER TABLE child ENABLE TRIGGER zz_guard;
COMMIT;
SELECT count(*) FROM child;
INSERT INTO parent SELECT s.here FROM somewhere AS s;
DROP TABLE parent, child;

-- ---------- add_guard ----------

-- it makes the guard, again and again, and lets it work
RESET session_replication_role;
SET shardring.shard = 'here';
SELECT shardring.create_ring('two'), shardring.add_group('two', 'a', '{here}'),
	shardring.add_group('two', 'b', '{there}'), shardring.activate('two');
CREATE SCHEMA "Odd schema";
CREATE TABLE "Odd schema"."Tür % _" ("Schlüssel \ %" text NOT NULL, n integer);
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
ALTER TABLE "Odd schema"."Tür % _" DISABLE TRIGGER zz_guard;
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
SELECT tgname, tgenabled FROM pg_trigger
WHERE tgrelid = '"Odd schema"."Tür % _"'::regclass ORDER BY tgname;
INSERT INTO "Odd schema"."Tür % _" SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here';
\set VERBOSITY sqlstate
INSERT INTO "Odd schema"."Tür % _" SELECT i FROM generate_series(1, 100) AS i;
\set VERBOSITY default
SELECT count(*) > 10 AS some FROM "Odd schema"."Tür % _";
-- it is dropped as often, but no trigger of others is
BEGIN;
SELECT shardring.drop_guard('"Odd schema"."Tür % _"'), shardring.drop_guard('"Odd schema"."Tür % _"');
SELECT count(*) FROM pg_trigger WHERE tgrelid = '"Odd schema"."Tür % _"'::regclass;
CREATE TRIGGER zz_guard BEFORE UPDATE ON "Odd schema"."Tür % _"
	FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
SELECT shardring.drop_guard('"Odd schema"."Tür % _"');
SELECT tgname FROM pg_trigger WHERE tgrelid = '"Odd schema"."Tür % _"'::regclass;
ROLLBACK;
-- guards are what says which tables belong to a ring
SELECT relation, key_column, enabled, statement_guard, truncate_guard, rows, bytes >= 8192 AS bytes FROM shardring.guarded_tables('two');
ANALYZE "Odd schema"."Tür % _";
ALTER TABLE "Odd schema"."Tür % _" DISABLE TRIGGER zz_guard;
SELECT relation, key_column, enabled, statement_guard, rows > 10 AS rows FROM shardring.guarded_tables('two');
ALTER TABLE "Odd schema"."Tür % _" ENABLE REPLICA TRIGGER zz_guard;
SELECT relation, key_column, enabled FROM shardring.guarded_tables('two');
ALTER TABLE "Odd schema"."Tür % _" ENABLE TRIGGER zz_guard;
SELECT count(*) FROM shardring.guarded_tables('tw');
ALTER TABLE "Odd schema"."Tür % _" DISABLE TRIGGER zz_guard_statement;
SELECT enabled, statement_guard FROM shardring.guarded_tables('two');
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
SELECT enabled, statement_guard FROM shardring.guarded_tables('two');
-- what is missing is added, whichever it is
DROP TRIGGER zz_guard_truncate ON "Odd schema"."Tür % _";
SELECT enabled, statement_guard, truncate_guard FROM shardring.guarded_tables('two');
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
ALTER TABLE "Odd schema"."Tür % _" ENABLE REPLICA TRIGGER zz_guard_truncate;
SELECT truncate_guard FROM shardring.guarded_tables('two');
SELECT shardring.add_guard('two', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
SELECT truncate_guard FROM shardring.guarded_tables('two');
BEGIN;
TRUNCATE "Odd schema"."Tür % _";
ROLLBACK;
-- the guard of statements is nothing but that
BEGIN;
CREATE TABLE misused (k text);
SAVEPOINT s;
SELECT shardring.guard_statement();
ROLLBACK TO s;
CREATE TRIGGER t AFTER UPDATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_statement('two');
UPDATE misused SET k = 'a';
ROLLBACK TO s;
CREATE TRIGGER t BEFORE INSERT ON misused FOR EACH ROW EXECUTE FUNCTION shardring.guard_statement('two');
INSERT INTO misused VALUES ('a');
ROLLBACK TO s;
CREATE TRIGGER t BEFORE UPDATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_statement();
UPDATE misused SET k = 'a';
ROLLBACK TO s;
CREATE TRIGGER t BEFORE UPDATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_statement('größe');
UPDATE misused SET k = 'a';
CREATE TRIGGER zz_guard_statement BEFORE UPDATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_statement('two');
ALTER TABLE misused ALTER k SET NOT NULL;
SELECT shardring.add_guard('two', 'misused', 'k');
ROLLBACK;
BEGIN;
CREATE TABLE misused (k text NOT NULL);
SAVEPOINT s;
SELECT shardring.guard_truncate();
ROLLBACK TO s;
CREATE TRIGGER t AFTER TRUNCATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_truncate('two');
TRUNCATE misused;
ROLLBACK TO s;
CREATE TRIGGER t BEFORE TRUNCATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_truncate('two', 'k');
TRUNCATE misused;
ROLLBACK TO s;
CREATE TRIGGER t BEFORE TRUNCATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_truncate('größe');
TRUNCATE misused;
ROLLBACK TO s;
CREATE TRIGGER zz_guard_truncate BEFORE TRUNCATE ON misused FOR EACH STATEMENT EXECUTE FUNCTION shardring.guard_truncate('größe');
SELECT shardring.add_guard('two', 'misused', 'k');
ROLLBACK;
-- but not for another ring or column
SELECT shardring.create_ring('other'), shardring.add_group('other', 'a', '{here}'),
	shardring.activate('other');
SELECT shardring.add_guard('other', '"Odd schema"."Tür % _"', 'Schlüssel \ %');
-- what could not be guarded is refused before the first row comes
CREATE TABLE plain (k text NOT NULL, n integer, g integer NOT NULL
	GENERATED ALWAYS AS (coalesce(n, 0)) STORED, f double precision NOT NULL DEFAULT 0);
SELECT shardring.add_guard('two', 'plain', 'n');
SELECT shardring.add_guard('two', 'plain', 'g');
SELECT shardring.add_guard('two', 'plain', 'f');
SELECT shardring.add_guard('two', 'plain', 'nothing');
SELECT shardring.add_guard('two', 'plain', 'ctid');
SELECT shardring.add_guard('nothing', 'plain', 'k');
SELECT shardring.add_guard('two', 0, 'k');
SELECT shardring.add_guard('two', NULL, 'k');
SELECT shardring.add_guard(NULL, 'plain', 'k');
SELECT shardring.add_guard('two', 'plain', NULL);
CREATE TABLE split (k text NOT NULL) PARTITION BY HASH (k);
SELECT shardring.add_guard('two', 'split', 'k');
CREATE VIEW seen AS SELECT * FROM plain;
SELECT shardring.add_guard('two', 'seen', 'k');
CREATE TABLE child () INHERITS (plain);
SELECT shardring.add_guard('two', 'plain', 'k');
CREATE TRIGGER guarded BEFORE INSERT OR UPDATE ON plain
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('two', 'k');
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here' LIMIT 1;
DROP TABLE child;
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here' LIMIT 1;
SET shardring.shard = 'hier';
SELECT shardring.add_guard('two', 'plain', 'k');
RESET shardring.shard;
SELECT shardring.add_guard('two', 'plain', 'k');
SET shardring.shard = 'here';

-- a trigger that fires after the guard could set another key
CREATE FUNCTION pg_temp.other_key() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
	NEW.k := NEW.k || 'x';
	RETURN NEW;
END
$body$;
CREATE TRIGGER zzz BEFORE INSERT OR UPDATE ON plain
	FOR EACH ROW EXECUTE FUNCTION pg_temp.other_key();
SELECT shardring.add_guard('two', 'plain', 'k');
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here' LIMIT 1;
UPDATE plain SET n = 1;
DELETE FROM plain;
ALTER TABLE plain DISABLE TRIGGER zzz;
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here' LIMIT 1;
ALTER TABLE plain ENABLE REPLICA TRIGGER zzz;
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here' LIMIT 1;
DROP TRIGGER guarded ON plain;
SELECT shardring.add_guard('two', 'plain', 'k');
ALTER TABLE plain ENABLE TRIGGER zzz;
ALTER TRIGGER zzz ON plain RENAME TO a;
SELECT shardring.add_guard('two', 'plain', 'k');
\set VERBOSITY sqlstate
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i::text) = 'here'
	AND shardring.shard_for('two', i || 'x') <> 'here' LIMIT 1;
\set VERBOSITY default
INSERT INTO plain SELECT i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('two', i || 'x') = 'here' LIMIT 1;
SELECT count(*), bool_and(shardring.shard_for('two', k) = 'here') FROM plain;
DROP TABLE plain CASCADE;
DROP TABLE split;
DROP SCHEMA "Odd schema" CASCADE;

-- a session that was open before has what the database says, from its next
-- transaction on
RESET shardring.shard;
SELECT shardring.require_here('other', 1);
SELECT shardring.is_here('other', 1);
SELECT format('ALTER DATABASE %I SET shardring.shard = %L', current_database(), 'here') AS set_it,
	format('ALTER DATABASE %I RESET shardring.shard', current_database()) AS reset_it \gset
:set_it;
SHOW shardring.shard;
SELECT shardring.require_here('other', 1);
CREATE TABLE pooled (k integer NOT NULL);
SELECT shardring.add_guard('other', 'pooled', 'k');
INSERT INTO pooled VALUES (1);
SET shardring.shard = 'third';
SELECT shardring.require_here('other', 1);
RESET shardring.shard;
-- also one that began with another name, or with one that is taken back
\c -
SHOW shardring.shard;
SELECT format('ALTER DATABASE %I SET shardring.shard = %L', current_database(), 'hier') AS misspelt \gset
:misspelt;
INSERT INTO pooled VALUES (1);
:set_it;
INSERT INTO pooled VALUES (1);
BEGIN;
SAVEPOINT a;
:misspelt;
INSERT INTO pooled VALUES (1);
ROLLBACK TO a;
INSERT INTO pooled VALUES (1);
COMMIT;
SET shardring.shard = 'here';
:misspelt;
INSERT INTO pooled VALUES (1);
RESET shardring.shard;
INSERT INTO pooled VALUES (1);
-- a guard that works in replication workers goes on doing so
:set_it;
ALTER TABLE pooled ENABLE ALWAYS TRIGGER zz_guard;
SELECT shardring.add_guard('other', 'pooled', 'k');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'pooled'::regclass ORDER BY tgname;
SET standard_conforming_strings = off;
SELECT shardring.add_guard('other', 'pooled', 'k');
RESET standard_conforming_strings;
-- the owner of a table needs these functions to guard it
CREATE ROLE regress_shardring_owner;
ALTER TABLE pooled OWNER TO regress_shardring_owner;
DROP TRIGGER zz_guard ON pooled;
GRANT EXECUTE ON FUNCTION shardring.add_guard, shardring_internal.require_this_shard,
	shardring_internal.require_guardable, shardring_internal.make_guard,
	shardring_internal.guard_triggers, shardring_internal.refuse_other_trigger TO regress_shardring_owner;
SET ROLE regress_shardring_owner;
SELECT shardring.add_guard('other', 'pooled', 'k');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION shardring.add_guard, shardring_internal.require_this_shard,
	shardring_internal.require_guardable, shardring_internal.make_guard,
	shardring_internal.guard_triggers, shardring_internal.refuse_other_trigger FROM regress_shardring_owner;
ALTER TABLE pooled OWNER TO CURRENT_USER;
DROP ROLE regress_shardring_owner;
:reset_it;
SELECT shardring.require_here('other', 1);
INSERT INTO pooled VALUES (1);
DROP TABLE pooled;
SET shardring.shard = 'here';
\set VERBOSITY sqlstate

-- who may say which shard this is
CREATE ROLE regress_shardring_user;
SET ROLE regress_shardring_user;
SHOW shardring.shard;
SET shardring.shard = 'third';
RESET ROLE;
GRANT SET ON PARAMETER shardring.shard TO regress_shardring_user;
SET ROLE regress_shardring_user;
SET shardring.shard = 'third';
SHOW shardring.shard;
RESET ROLE;
REVOKE SET ON PARAMETER shardring.shard FROM regress_shardring_user;
DROP ROLE regress_shardring_user;

DROP TABLE orders, customers, keys, parts;
DROP DOMAIN user_name;
DROP EXTENSION shardring;
