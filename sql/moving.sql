--
-- moving.sql
--	The steps of a move on a shard, and what is refused meanwhile.
--
CREATE EXTENSION shardring;
SET shardring.shard = 'here';
SELECT shardring.create_ring('größe'), shardring.add_group('größe', 'g', '{here,there}', 16), shardring.activate('größe');
SELECT shardring.draft_version('größe');
SELECT shardring.assign_slots('größe', 'g', '{[0,8)}', 'third');
SELECT shardring.seal('größe');
CREATE TABLE orders (customer integer NOT NULL, n integer);
SELECT shardring.add_guard('größe', 'orders', 'customer');

-- a step of the map: what it is told of versions, and what is added
CREATE FUNCTION pg_temp.step(step text, token bigint, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT a - 'tables' || jsonb_strip_nulls(jsonb_build_object(
			'lsn', a ->> 'lsn' > '', 'back_lsn', a ->> 'back_lsn' > ''))
	FROM shardring.move_step('größe', step, token,
		(SELECT jsonb_build_object('from_version', 1, 'to_version', 2,
			'from_fingerprint', max(fingerprint) FILTER (WHERE version = 1),
			'to_fingerprint', max(fingerprint) FILTER (WHERE version = 2))
		 FROM shardring.ring_version WHERE ring = 'größe') || more) AS a;
$$;
CREATE VIEW columns AS SELECT active_version AS active, moving_from AS "from", moving_to AS "to",
	CASE WHEN closed_until < 'infinity' THEN 'lease of ' || round(extract(epoch FROM closed_until - clock_timestamp())) || ' s' ELSE closed_until::text END AS closed,
	move_token AS token, back_lsn FROM shardring.ring WHERE ring = 'größe';

-- what is no step
SELECT pg_temp.step(NULL, 1);
SELECT pg_temp.step('take', NULL);
SELECT shardring.move_step(NULL, 'take', 1, '{}');
SELECT shardring.move_step('größe', 'take', 1, NULL);
SELECT shardring.move_step('größe', 'take', 1, '[]');
SELECT shardring.move_step('none', 'take', 1, '{}');
SELECT shardring.move_step('größe', 'drop', 1, '{}');
SELECT shardring.move_step('größe', repeat('é', 1000000), 1, '{}');
SELECT pg_temp.step('take', 0);
SELECT shardring.move_step('größe', 'set', 1, '{}');
SELECT pg_temp.step('set', 1, '{"from_version": null}');
SELECT pg_temp.step('set', 1, '{"to_version": "2"}');
SELECT pg_temp.step('set', 1, '{"to_version": 2000000000000}');
SELECT pg_temp.step('set', 1, '{"to_version": 1.5}');
SELECT pg_temp.step('take', 1, '{"expected_shards": {"1/1": ["here"]}}');
SELECT pg_temp.step('take', 1, '{"expected_shards": null}');

-- who am I
SELECT jsonb_pretty((a #- '{system_identifier}' #- '{database_oid}' #- '{fingerprint}' #- '{versions}')),
	a -> 'system_identifier' = to_jsonb(system_identifier) AS system, a ->> 'fingerprint' = a #>> '{versions,1}' AS fingerprint,
	a -> 'versions' = (SELECT jsonb_object_agg(version, fingerprint) FROM shardring.ring_version) AS versions
FROM pg_temp.step('take', 5) AS a, pg_control_system();
-- without columns: only take and set, unless it is so already
SELECT pg_temp.step('close', 5, '{"for_good": true}');
SELECT pg_temp.step('settle', 5);
SELECT pg_temp.step('activate', 5);
SELECT pg_temp.step('lift', 5) ->> 'active_version', pg_temp.step('clear', 5) ->> 'move_token';

-- what cannot be moved from or to
SELECT pg_temp.step('set', 5, '{"from_version": 2, "to_version": 1}');
SELECT pg_temp.step('set', 5, '{"from_version": 2, "to_version": 3}');
SELECT pg_temp.step('set', 5, '{"to_version": 3}');
SELECT pg_temp.step('set', 5, '{"to_fingerprint": null}');
SELECT pg_temp.step('set', 5, '{"from_fingerprint": "ß"}');
BEGIN;
SELECT shardring.draft_version('größe');
SELECT pg_temp.step('set', 5, '{"to_version": 3}');
ROLLBACK;
TABLE columns;

-- set, and set again
SELECT pg_temp.step('set', 5) - 'fingerprint';
SELECT pg_temp.step('set', 5) - 'fingerprint' = pg_temp.step('set', 6) - 'fingerprint' - 'move_token' || '{"move_token": 5}';
SELECT pg_temp.step('set', 6, '{"to_version": 3}');
-- a later call was here
SELECT pg_temp.step(s, 5, '{"for_good": true}') FROM unnest('{take}'::text[]) AS s;
SELECT pg_temp.step('settle', 5);
SELECT pg_temp.step('settle', 7);

-- refused while the ring moves
SELECT shardring.activate('größe');
SELECT shardring.drop_version('größe', 2);
SELECT shardring.drop_ring('größe');
SELECT version, error FROM shardring.receive_drop('größe', '{2}') AS d, shardring.ring_version;
SELECT d.ok, d.error FROM shardring.drop_version_on_shards('größe', 2) AS d;
-- also by hand, but not what has nothing to do with it
UPDATE shardring.ring SET active_version = 2, fingerprint = (SELECT fingerprint FROM shardring.ring_version WHERE version = 2);
UPDATE shardring.ring SET moving_to = NULL;
UPDATE shardring.ring SET closed_until = '-infinity';
UPDATE shardring.ring SET move_token = 1;
UPDATE shardring.ring SET back_lsn = '0/1';
UPDATE shardring.ring SET rejoin_cooldown = '1 hour';
SELECT shardring.draft_version('größe'), shardring.drop_version('größe', 3);
-- a subscription keeps all of it
SET session_replication_role = replica;
UPDATE shardring.ring SET active_version = 2, moving_from = NULL, moving_to = NULL, closed_until = NULL, move_token = NULL, rejoin_cooldown = '0',
	fingerprint = (SELECT fingerprint FROM shardring.ring_version WHERE version = 2);
RESET session_replication_role;
TABLE columns;

-- the hold
SELECT pg_temp.step('close', 6);
SELECT pg_temp.step('close', 6, '{"for_good": "yes"}');
SELECT pg_temp.step('close', 6, '{"for_good": true, "lease": "1 s"}');
SELECT pg_temp.step('close', 6, '{"lease": "-1 s"}');
SELECT pg_temp.step('close', 6, '{"lease": "1 day"}');
SELECT pg_temp.step('close', 6, '{"lease": "for ever"}');
SELECT pg_temp.step('close', 6, '{"lease": "30 min"}') ->> 'moving_to';
TABLE columns;
SELECT pg_temp.step('close', 6, '{"for_good": true}') ->> 'closed_until';
SELECT pg_temp.step('close', 6, '{"lease": "1 s"}') ->> 'closed_until';
SELECT pg_temp.step('clear', 6);
SELECT pg_temp.step('settle', 6) - 'fingerprint';
BEGIN;
SELECT pg_temp.step('close', 6, '{"for_good": true}') ->> 'closed_until';
SELECT pg_temp.step('settle', 6);
ROLLBACK;
SELECT pg_temp.step('settle', 6, '{"timeout": "-1 s"}');
SELECT pg_temp.step('lift', 7) ->> 'closed_until' IS NULL;
TABLE columns;
SELECT pg_temp.step('close', 7, '{"lease": "0"}') ->> 'moving_to';

-- a dump brings nothing of it, whoever restores
BEGIN;
CREATE TEMP TABLE dumped AS TABLE shardring.ring;
SELECT pg_temp.step('lift', 7) IS NULL, pg_temp.step('clear', 7) IS NULL, shardring.drop_ring('größe');
INSERT INTO shardring.ring TABLE dumped;
TABLE columns;
ROLLBACK;

-- the switch
SELECT pg_temp.step('close', 7, '{"for_good": true}') ->> 'closed_until';
SELECT pg_temp.step('activate', 7) - 'fingerprint';
SELECT pg_temp.step('activate', 7) - 'fingerprint';
SELECT version, from_version, round(moved::numeric, 3) AS moved FROM shardring.activation ORDER BY version;
SELECT pg_temp.step('close', 8, '{"for_good": true}');
SELECT pg_temp.step('lift', 8);
SELECT pg_temp.step('set', 8) ->> 'active_version';
SELECT shardring.prune('größe', 0);
SELECT shardring.prune('größe', 1);
SELECT ok FROM shardring.prune_on_shards('größe', 0);
SELECT shardring.drop_version('größe', 1);
SELECT pg_temp.step('clear', 8) - 'fingerprint';
SELECT pg_temp.step('clear', 8) ->> 'move_token', pg_temp.step('activate', 8) ->> 'move_token';
SELECT pg_temp.step('set', 8);
SELECT pg_temp.step('take', 7);
TABLE columns;

-- without a move, all is as ever, but for the columns
UPDATE shardring.ring SET move_token = NULL;
UPDATE shardring.ring SET moving_from = 1, moving_to = 2;
SELECT shardring.prune('größe', 0);
-- a row that does not say so is no row of a move
INSERT INTO shardring.ring SELECT 'copy', hash, hash_tags, rejoin_cooldown, NULL, NULL, 9, created_at, NULL, 1, 2, 'infinity', 3, '0/1' FROM shardring.ring;
SELECT num_nulls(moving_from, moving_to, closed_until, move_token, back_lsn) FROM shardring.ring WHERE ring = 'copy';
-- nobody else can say that he is a step
CREATE ROLE regress_shardring_mover;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shardring TO regress_shardring_mover;
SET ROLE regress_shardring_mover;
SELECT pg_temp.step('take', 9);
SELECT shardring_internal.change_ring(r) FROM shardring.ring AS r;
SELECT shardring_internal.wait_for_writers('{}', '0');
SELECT shardring_internal.step_runs();
RESET ROLE;
DROP OWNED BY regress_shardring_mover;
DROP ROLE regress_shardring_mover;
-- a failed step leaves no other one behind
SELECT shardring_internal.change_ring(jsonb_populate_record(r, '{"ring": "none"}')) FROM shardring.ring AS r WHERE ring = 'copy';
SELECT shardring_internal.step_runs();
\set VERBOSITY terse
SELECT shardring_internal.change_ring(jsonb_populate_record(r, '{"move_token": 3, "moving_to": 4}')) FROM shardring.ring AS r WHERE ring = 'copy';
\set VERBOSITY default
UPDATE shardring.ring SET move_token = 3;
SELECT shardring_internal.change_ring(NULL), shardring_internal.wait_for_writers('{}', '0'), shardring_internal.wait_for_writers(NULL, '0');
SELECT shardring_internal.wait_for_writers('{NULL}', '0');
DROP TABLE orders;
DROP EXTENSION shardring CASCADE;
