--
-- rehearse.sql
--	rehearse: rows, bytes and load of every shard before and after, in one
--	parallel pass over a table, against the same by brute force.
--
CREATE EXTENSION shardring;
SET search_path = shardring;
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT create_ring('r', vnodes => 20);
SELECT count(add_group('r', 'g' || i, ARRAY['db' || 2 * i, 'db' || 2 * i + 1],
					   slots => 4))
FROM generate_series(0, 2) AS g (i);
SELECT activate('r'), draft_version('r');
-- a group joins, one leaves, and a slot goes to another shard of its group
SELECT add_group('r', 'new', ARRAY['fresh']), remove_group('r', 'g2'),
	assign_slots('r', 'g0', '{[0,1)}', 'db1'),
	add_group('r', 'empty', ARRAY['nobody'], weight => 0);

CREATE SCHEMA shop;
CREATE TABLE shop."the Orders" (
	"user" bigint NOT NULL,
	gone int,
	note text,
	"Requests" int,
	weight float8) WITH (autovacuum_enabled = false);
ALTER TABLE shop."the Orders" DROP COLUMN gone;
INSERT INTO shop."the Orders"
SELECT i, repeat('x', i % 100), CASE WHEN i % 10 > 0 THEN i % 7 END, i / 4.0
FROM generate_series(1, 20000) AS k (i);

SELECT * FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user', 'Requests');
SELECT shard, rows_after, load_before, load_after
FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user', 'weight');
-- without a load column
SELECT * FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user') LIMIT 2;

-- brute force, row by row
CREATE FUNCTION pg_temp.twin(from_version integer, to_version integer)
RETURNS TABLE (shard text, rows_before bigint, rows_after bigint,
	rows_in bigint, rows_out bigint, bytes_before bigint, bytes_after bigint,
	load_before numeric, load_after numeric)
LANGUAGE sql STABLE
AS $body$
	SELECT s.shard,
		count(*) FILTER (WHERE o.b = s.shard),
		count(*) FILTER (WHERE o.a = s.shard),
		count(*) FILTER (WHERE o.a = s.shard AND o.b <> s.shard),
		count(*) FILTER (WHERE o.b = s.shard AND o.a <> s.shard),
		coalesce(sum(o.bytes) FILTER (WHERE o.b = s.shard), 0)::bigint,
		coalesce(sum(o.bytes) FILTER (WHERE o.a = s.shard), 0)::bigint,
		coalesce(sum(o.load) FILTER (WHERE o.b = s.shard), 0),
		coalesce(sum(o.load) FILTER (WHERE o.a = s.shard), 0)
	FROM (SELECT shard FROM shardring.shard_shares('r', from_version)
		  UNION SELECT shard FROM shardring.shard_shares('r', to_version)) AS s
		CROSS JOIN (
			SELECT shardring.shard_for('r', "user", from_version) AS b,
				shardring.shard_for('r', "user", to_version) AS a,
				"Requests" AS load,
				8 + octet_length(note)
					+ CASE WHEN octet_length(note) < 127 THEN 1 ELSE 4 END
					+ CASE WHEN "Requests" IS NULL THEN 0 ELSE 4 END
					+ 8 AS bytes
			FROM shop."the Orders") AS o
	GROUP BY s.shard
	ORDER BY s.shard COLLATE "C";
$body$;
SELECT v.f, v.t, array_agg(r ORDER BY r.shard)::text = (
	SELECT array_agg(q ORDER BY q.shard)::text
	FROM pg_temp.twin(v.f, v.t) AS q) AS same
FROM (VALUES (1, 2), (2, 1), (1, 1)) AS v (f, t)
	CROSS JOIN LATERAL rehearse('r', v.f, v.t, 'shop."the Orders"', 'user',
								'Requests') AS r
GROUP BY v.f, v.t ORDER BY v.f, v.t;
-- what moves is what moving_keys lists
SELECT sum(rows_in) AS rows_in, sum(rows_out) AS rows_out,
	(SELECT count(*) FROM moving_keys('r', 1, 2, 'shop."the Orders"', 'user'))
FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user');

-- values that are stored elsewhere count as they are stored
CREATE TABLE shop.wide (k text, v text);
ALTER TABLE shop.wide ALTER v SET STORAGE EXTERNAL;
INSERT INTO shop.wide VALUES ('a', repeat('v', 1000000));
SELECT sum(bytes_before) FROM rehearse('r', 1, 2, 'shop.wide', 'k');

-- in parallel: its query, and what really happens; the function is marked so
-- that workers may run it, and says who ran it
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION pg_temp.plan(query text) RETURNS SETOF text
LANGUAGE plpgsql AS $body$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END
$body$;
SELECT bool_or(p LIKE '%Gather%') AS gathers,
	count(*) FILTER (WHERE p LIKE '%Parallel Seq Scan on "the Orders"%')
		AS parallel_scans,
	count(*) FILTER (WHERE p LIKE '%Partial%Aggregate%') AS partial_aggregates,
	count(*) FILTER (WHERE p LIKE '% Scan on "the Orders"%') AS scans
FROM pg_temp.plan(rehearse_query('r', 1, 2, 'shop."the Orders"', 'user',
								 'Requests')) AS p;
CREATE FUNCTION shop.worker() RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS 'BEGIN RETURN pg_catalog.pg_backend_pid(); END';
CREATE VIEW shop.who AS
	SELECT "user", shop.worker() AS pid FROM shop."the Orders";
SET parallel_leader_participation = off;
SELECT bool_and(r.load_before % pg_backend_pid() <> 0
				OR r.rows_before = 0) AS by_workers,
	sum(r.rows_before) AS rows
FROM rehearse('r', 1, 2, 'shop.who', 'user', 'pid') AS r;
RESET parallel_leader_participation;
SET max_parallel_workers_per_gather = 0;
SELECT bool_and(r.load_before = r.rows_before * pg_backend_pid()) AS by_me
FROM rehearse('r', 1, 2, 'shop.who', 'user', 'pid') AS r;
RESET max_parallel_workers_per_gather;

-- other keys; a partitioned table; no rows at all
CREATE TABLE shop.keyed (t text, v varchar(20), n name, u uuid, s smallint)
	PARTITION BY HASH (t);
CREATE TABLE shop.keyed_0 PARTITION OF shop.keyed
	FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE shop.keyed_1 PARTITION OF shop.keyed
	FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT shard, rows_before, rows_after, bytes_after, load_before
FROM rehearse('r', 1, 2, 'shop.keyed', 't', 's') LIMIT 2;
INSERT INTO shop.keyed
SELECT i, i, i, lpad(i::text, 32, '0')::uuid, i
FROM generate_series(1, 500) AS k (i);
SELECT c.c, sum(r.rows_before) AS rows, bool_and(r = q) AS as_text
FROM (VALUES ('t'), ('v'), ('n'), ('s')) AS c (c)
	CROSS JOIN LATERAL rehearse('r', 1, 2, 'shop.keyed', c.c::name, 's') AS r
	JOIN rehearse('r', 1, 2, 'shop.keyed', 't', 's') AS q USING (shard)
GROUP BY c.c ORDER BY c.c;
SELECT sum(r.rows_in) = (SELECT count(*) FROM shop.keyed
						 WHERE moves('r', 1, 2, u)) AS uuid
FROM rehearse('r', 1, 2, 'shop.keyed', 'u') AS r;

-- with the caller's rights: columns and row security
CREATE ROLE rehearser;
GRANT USAGE ON SCHEMA shop TO rehearser;
GRANT SELECT ON shop.keyed TO rehearser;
ALTER TABLE shop.keyed ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON shop.keyed USING (s <= 100);
SET ROLE rehearser;
SELECT sum(rows_before) FROM rehearse('r', 1, 2, 'shop.keyed', 't', 's');
\set SHOW_CONTEXT always
SELECT * FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user');
RESET ROLE;
GRANT SELECT ("user", note, "Requests") ON shop."the Orders" TO rehearser;
SET ROLE rehearser;
SELECT * FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user');
RESET ROLE;
GRANT SELECT (weight) ON shop."the Orders" TO rehearser;
SET ROLE rehearser;
SELECT sum(rows_before)
FROM rehearse('r', 1, 2, 'shop."the Orders"', 'user');
RESET ROLE;

-- NULL keys are an error that counts them; NULL arguments give nothing
\set VERBOSITY default
INSERT INTO shop.wide VALUES (NULL, 'x'), (NULL, 'y'), ('b', NULL);
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', 'k');
DELETE FROM shop.wide WHERE v = 'y';
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', 'k');
SELECT * FROM rehearse('r', 1, 9, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', 'v', 'w');
\set SHOW_CONTEXT never
SELECT * FROM rehearse(NULL, 1, 2, 'shop.wide', 'v');
SELECT * FROM rehearse('r', NULL, 2, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 1, NULL, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 1, 2, NULL, 'v');
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', NULL);

-- refusals
\set VERBOSITY sqlstate
SELECT * FROM rehearse('nowhere', 1, 2, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 1, 9, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 9, 1, 'shop.wide', 'v');
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', 'w');
SELECT * FROM rehearse('r', 1, 2, 'shop.wide', 'k', 'w');
SELECT * FROM rehearse('r', 1, 2, 0, 'k');
SELECT * FROM rehearse('r', 1, 2, 'shop."the Orders"', 'weight');
SELECT create_ring('empty');
SELECT * FROM rehearse('empty', 1, 1, 'shop.keyed', 't');

\set VERBOSITY default
DROP SCHEMA shop CASCADE;
DROP ROLE rehearser;
DROP FUNCTION pg_temp.twin, pg_temp.plan;
RESET search_path;
DROP EXTENSION shardring;
