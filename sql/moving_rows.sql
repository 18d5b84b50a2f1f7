--
-- moving_rows.sql
--	While a ring moves, rows that came early or are still there are counted
--	apart from misplaced ones; the shard here is a source and a target.
--
CREATE EXTENSION shardring;
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET shardring.shard = 'here';

SELECT shardring.create_ring('größe');
SELECT shardring.add_group('größe', 'g', '{here,there}', 4);
SELECT shardring.activate('größe');
SELECT shardring.draft_version('größe');
SELECT shardring.assign_slots('größe', 'g', '{[1,2)}', 'there'), shardring.assign_slots('größe', 'g', '{[2,3)}', 'here');
SELECT shardring.seal('größe');
CREATE TABLE orders (customer integer NOT NULL);
SELECT shardring.add_guard('größe', 'orders', 'customer');
SET session_replication_role = replica;
INSERT INTO orders SELECT i FROM generate_series(1, 1000) AS i;
RESET session_replication_role;

CREATE FUNCTION pg_temp.step(step text, more jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT shardring.move_step('größe', step, 1,
		(SELECT jsonb_build_object('from_version', 1, 'to_version', 2,
			'from_fingerprint', max(fingerprint) FILTER (WHERE version = 1),
			'to_fingerprint', max(fingerprint) FILTER (WHERE version = 2))
		 FROM shardring.ring_version) || more) ->> 'active_version' $$;
-- what is counted and listed, and by slots what it should be
CREATE VIEW counted AS
SELECT r.active_version, r.moving_to, m.rows, m.moving, m.error,
	(SELECT count(*) FROM shardring.misplaced_keys_here('größe', r.active_version, 'public.orders', 1000)) AS listed,
	(SELECT array_agg(n.rows ORDER BY n.slot)
	 FROM (SELECT shardring.key_position(customer) % 4 AS slot, count(*) AS rows FROM orders GROUP BY 1) AS n) AS slots
FROM shardring.ring AS r, shardring.misplaced_here('größe', r.active_version) AS m;

SELECT * FROM counted;
SELECT pg_temp.step('set');
SELECT * FROM counted;
SELECT pg_temp.step('close', '{"for_good": true}');
SELECT pg_temp.step('activate');
SELECT * FROM counted;
SELECT pg_temp.step('clear');
SELECT * FROM counted;
ALTER TABLE orders ALTER customer DROP NOT NULL;
SET session_replication_role = replica;
INSERT INTO orders VALUES (NULL);
RESET session_replication_role;
SELECT * FROM shardring.misplaced_here('größe', 2) WHERE belongs_to IS NULL;
DROP VIEW counted;
DROP TABLE orders;
DROP EXTENSION shardring;
