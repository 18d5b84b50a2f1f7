--
-- moving_keys.sql
--	moving_keys of a relation: which relations and columns it reads, with whose
--	rights, and that it says what the array form says.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;

SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', name, ARRAY[name]) FROM unnest('{node-a,node-b,node-c}'::text[]) AS name;
SELECT shardring.activate('r');
SELECT shardring.draft_version('r'), shardring.add_group('r', 'node-d', '{node-d}');

CREATE DOMAIN user_id AS int CHECK (VALUE > -5000);
CREATE DOMAIN user_name AS varchar(30);
CREATE DOMAIN old_name AS user_name;
CREATE SCHEMA "Odd Schema";
CREATE TABLE "Odd Schema"."Order's" (
	"The Key" text, name_v varchar(30), name_c char(12), name_n name, name_d user_name, name_dd old_name, name_x text COLLATE "C",
	small smallint, "int" int, big bigint, id user_id, code uuid, num numeric, day date, bytes bytea, arr text[], flag bool);
INSERT INTO "Odd Schema"."Order's"
SELECT n, n, n, n, n, n, n, i, i, i, i, md5(n)::uuid, i, 'today', n::bytea, ARRAY[n], true
FROM generate_series(-200, 799) AS i, LATERAL (SELECT 'user:' || i) AS k (n);

-- every column type that is a key; the answer is what the array form says
CREATE FUNCTION by_column(name) RETURNS TABLE (n bigint, wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
	SELECT count(*), count(*) FILTER (WHERE a IS DISTINCT FROM b)
	FROM (SELECT row_number() OVER (ORDER BY m.key, m.key_position) AS i, m.* FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', %1$L) AS m) AS a
		FULL JOIN (SELECT row_number() OVER (ORDER BY m.key, m.key_position) AS i, m.*
				   FROM shardring.moving_keys('r', 1, 2, array(SELECT %1$I::text FROM "Odd Schema"."Order's")) AS m) AS b USING (i)$q$, $1);
END $$;
SELECT attname, c.*
FROM pg_attribute, by_column(attname) AS c
WHERE attrelid = '"Odd Schema"."Order''s"'::regclass AND attnum BETWEEN 1 AND 12 ORDER BY attnum;
-- and what two lookups say
SELECT count(*) FROM "Odd Schema"."Order's"
WHERE shardring.shard_for('r', "The Key", 1) <> shardring.shard_for('r', "The Key", 2);
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'int') ORDER BY key_position LIMIT 3;
-- rows, not keys: a key that is there twice comes twice
CREATE TABLE twice AS SELECT unnest('{user:2,user:2,a}'::text[]) AS key;
SELECT key, to_group FROM shardring.moving_keys('r', 1, 2, 'twice', 'key');
TRUNCATE twice;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'twice', 'key');

-- types that are none
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'num');
\set VERBOSITY sqlstate
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'day');
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'bytes');
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'arr');
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'flag');
-- columns and tables that are not there
\set VERBOSITY default
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'the key');
\set VERBOSITY sqlstate
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', '');
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', '"The Key"');
SELECT * FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', 'int; DROP TABLE twice');
SELECT * FROM shardring.moving_keys('r', 1, 2, 'nowhere', 'key');
SELECT * FROM shardring.moving_keys('r', 1, 2, 0, 'key');
ALTER TABLE twice ADD gone text;
ALTER TABLE twice DROP gone;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'twice', '........pg.dropped.2........');
CREATE TABLE dropped (key text);
SELECT 'dropped'::regclass::oid AS dropped \gset
DROP TABLE dropped;
SELECT * FROM shardring.moving_keys('r', 1, 2, :dropped, 'key');
CREATE INDEX twice_index ON twice (key);
SELECT * FROM shardring.moving_keys('r', 1, 2, 'twice_index', 'key');
CREATE SEQUENCE numbers;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'numbers', 'last_value');
-- system columns: ctid is no key
SELECT * FROM shardring.moving_keys('r', 1, 2, 'twice', 'ctid');
-- rings and versions
SELECT * FROM shardring.moving_keys('nowhere', 1, 2, 'twice', 'key');
SELECT * FROM shardring.moving_keys('r', 1, 9, 'twice', 'key');
\set VERBOSITY default
-- NULL arguments
SELECT (SELECT count(*) FROM shardring.moving_keys(NULL, 1, 2, '"Odd Schema"."Order''s"', 'int')) AS a, (SELECT count(*) FROM shardring.moving_keys('r', NULL, 2, '"Odd Schema"."Order''s"', 'int')) AS b,
	(SELECT count(*) FROM shardring.moving_keys('r', 1, NULL, '"Odd Schema"."Order''s"', 'int')) AS c, (SELECT count(*) FROM shardring.moving_keys('r', 1, 2, NULL, 'int')) AS d,
	(SELECT count(*) FROM shardring.moving_keys('r', 1, 2, '"Odd Schema"."Order''s"', NULL)) AS e;

-- NULL keys are counted, whether the others move or not (B28)
CREATE TABLE holes AS SELECT CASE WHEN i % 10 > 0 THEN 'user:' || i END AS key, CASE WHEN i % 4 > 0 THEN i END AS "Id" FROM generate_series(1, 100) AS i;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'holes', 'key');
SELECT * FROM shardring.moving_keys('r', 1, 2, 'holes', 'Id');
SELECT * FROM shardring.moving_keys('r', 1, 1, 'holes', 'key');
\set VERBOSITY sqlstate
SELECT * FROM shardring.moving_keys('r', 1, 2, 'holes', 'key');
\set VERBOSITY default
DELETE FROM holes WHERE key IS NULL AND "Id" <> 10;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'holes', 'key');
SELECT * FROM shardring.moving_keys('r', 1, 2, ARRAY['a', NULL]);
DELETE FROM holes WHERE key IS NULL;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'holes', 'key');

-- views, partitions, inheritance, temporary tables
CREATE VIEW picked AS SELECT "The Key" AS key FROM "Odd Schema"."Order's" WHERE "int" < 100;
CREATE MATERIALIZED VIEW same AS SELECT * FROM picked;
CREATE TABLE parts (key text, p int) PARTITION BY LIST (p);
CREATE TABLE part0 PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE part1 (p int, filler int, key text);
ALTER TABLE part1 DROP filler;
ALTER TABLE parts ATTACH PARTITION part1 FOR VALUES IN (1);
INSERT INTO parts SELECT key, row_number() OVER () % 2 FROM picked;
CREATE TABLE parent (key text);
CREATE TABLE child (more int) INHERITS (parent);
INSERT INTO parent SELECT key FROM part0;
INSERT INTO child SELECT key, 1 FROM part1;
CREATE TEMP TABLE passing AS SELECT * FROM picked;
SELECT relation, (SELECT count(*) FROM shardring.moving_keys('r', 1, 2, relation, 'key')) AS moving
FROM unnest('{picked,same,parts,parent,passing,part0,part1,child}'::regclass[]) AS relation;
-- a view whose key is an expression, and one over nothing
CREATE VIEW expr AS SELECT 'user:' || i AS key FROM generate_series(0, 99) AS i;
CREATE VIEW none AS SELECT NULL::text AS key WHERE false;
SELECT (SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'expr', 'key')) AS expr, (SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'none', 'key')) AS none;
-- an error in it stays one
CREATE VIEW broken AS SELECT (1 / (i - 50))::text AS key FROM generate_series(0, 99) AS i;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'broken', 'key');

-- in plpgsql, in a cursor, joined, limited; memory is spilled
DO $$
DECLARE
	m record;
	n int := 0;
	c CURSOR FOR SELECT * FROM shardring.moving_keys('r', 1, 2, 'picked', 'key');
BEGIN
	FOR m IN c LOOP
		n := n + 1;
	END LOOP;
	ASSERT n = (SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'picked', 'key'));
END $$;
SET work_mem = '64kB';
CREATE TABLE many AS SELECT i AS id FROM generate_series(1, 50000) AS i;
SELECT count(*) = (SELECT count(*) FROM many WHERE shardring.moves('r', 1, 2, id)) AS same FROM shardring.moving_keys('r', 1, 2, 'many', 'id');
RESET work_mem;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'picked', 'key') AS m JOIN picked USING (key)
WHERE NOT shardring.moves('r', 1, 2, key);
-- the caller's own changes are seen, and later ones of the statement are not
BEGIN;
INSERT INTO twice VALUES ('user:2');
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'twice', 'key');
WITH i AS (INSERT INTO twice VALUES ('user:2') RETURNING 1)
SELECT count(*) FROM i, shardring.moving_keys('r', 1, 2, 'twice', 'key');
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'twice', 'key');
ROLLBACK;
-- a statement_timeout ends it
CREATE VIEW endless AS SELECT i AS id FROM generate_series(1, 1000000000000) AS i;
SET statement_timeout = '50ms';
\set VERBOSITY sqlstate
SELECT * FROM shardring.moving_keys('r', 1, 2, 'endless', 'id');
\set VERBOSITY default
RESET statement_timeout;

-- it reads with the rights of whoever calls it
CREATE ROLE regress_shardring_reader;
GRANT USAGE ON SCHEMA "Odd Schema" TO regress_shardring_reader;
CREATE TABLE owned AS SELECT 'user:' || i AS key, CASE WHEN i % 2 = 0 THEN 'regress_shardring_reader' ELSE 'another' END AS owner, i AS secret FROM generate_series(0, 99) AS i;
SET ROLE regress_shardring_reader;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'owned', 'key');
RESET ROLE;
GRANT SELECT (key) ON owned TO regress_shardring_reader;
SET ROLE regress_shardring_reader;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'owned', 'key');
SELECT * FROM shardring.moving_keys('r', 1, 2, 'owned', 'owner');
RESET ROLE;
-- and sees the rows that its policies show
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
SET ROLE regress_shardring_reader;
SELECT count(*) FROM shardring.moving_keys('r', 1, 2, 'owned', 'key');
RESET ROLE;
CREATE POLICY own ON owned USING (owner = current_user);
GRANT SELECT ON owned TO regress_shardring_reader;
SET ROLE regress_shardring_reader;
SELECT count(*), count(*) FILTER (WHERE split_part(key, ':', 2)::int % 2 = 1) AS foreign FROM shardring.moving_keys('r', 1, 2, 'owned', 'key');
SET row_security = off;
SELECT * FROM shardring.moving_keys('r', 1, 2, 'owned', 'key');
RESET row_security;
RESET ROLE;
SELECT count(*) FILTER (WHERE owner = 'regress_shardring_reader') AS own, count(*) AS all FROM owned WHERE shardring.moves('r', 1, 2, key);
REVOKE USAGE ON SCHEMA "Odd Schema" FROM regress_shardring_reader;
GRANT SELECT ON "Odd Schema"."Order's" TO regress_shardring_reader;
SELECT '"Odd Schema"."Order''s"'::regclass::oid AS odd \gset
SET ROLE regress_shardring_reader;
SELECT * FROM shardring.moving_keys('r', 1, 2, :odd, 'int');
RESET ROLE;

DROP EXTENSION shardring;
DROP VIEW picked, expr, none, broken, endless CASCADE;
DROP TABLE "Odd Schema"."Order's", twice, holes, parts, child, parent, passing, many, owned;
DROP SCHEMA "Odd Schema";
DROP SEQUENCE numbers;
DROP DOMAIN user_id, old_name, user_name;
DROP FUNCTION by_column;
DROP ROLE regress_shardring_reader;
