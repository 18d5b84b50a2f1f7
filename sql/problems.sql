--
-- problems.sql
--	What happens when rows of sealed versions are altered behind the back of
--	the triggers: problems() names it, and the next load refuses to route.
--
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE EXTENSION shardring;

-- A ring of two groups, on three shards, with two pins; sealed and active.
-- Each inconsistency is planted in a ring of its own.  The number makes its
-- fingerprint another one.
CREATE FUNCTION make_ring(ring text, n int DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.create_ring(ring, 4);
	PERFORM shardring.add_group(ring, 'g', '{s0,s1}', slots => 4);
	PERFORM shardring.add_group(ring, 'h', '{s2}', slots => 2);
	PERFORM shardring.pin(ring, 7, 'h'), shardring.pin(ring, 1000 + n, 'g');
	PERFORM shardring.activate(ring);
END $$;
CREATE TABLE planted (n serial, ring text, plant text);
INSERT INTO planted (ring, plant) VALUES
	('hole', $$UPDATE shardring.shard_map SET slots = '{[0,1)}' WHERE ring = %L AND shard = 's0'$$),
	('two holes', $$UPDATE shardring.shard_map SET slots = '{[1,2)}' WHERE ring = %L AND shard <> 's1'$$),
	('overlap', $$UPDATE shardring.shard_map SET slots = '{[0,4)}' WHERE ring = %L AND shard = 's0'$$),
	('out of range', $$UPDATE shardring.shard_map SET slots = '{[2,5)}' WHERE ring = %L AND shard = 's1'$$),
	('other shard', $$UPDATE shardring.shard_map SET shard = 's9' WHERE ring = %L AND shard = 's1'$$),
	('slots swapped', $$UPDATE shardring.shard_map SET slots = CASE shard WHEN 's0' THEN '{[2,4)}' ELSE '{[0,2)}' END::int4multirange WHERE ring = %L AND group_name = 'g'$$),
	('no shards', $$DELETE FROM shardring.shard_map WHERE ring = %L AND group_name = 'g'$$),
	('foreign point', $$UPDATE shardring.shard_group SET points[2] = 12345 WHERE ring = %L AND group_name = 'g'$$),
	('order of points', $$UPDATE shardring.shard_group SET points = ARRAY[points[2], points[1], points[3], points[4]] WHERE ring = %L AND group_name = 'g'$$),
	('doubled point', $$UPDATE shardring.shard_group SET points[2] = points[1] WHERE ring = %L AND group_name = 'g'$$),
	('point of both', $$UPDATE shardring.shard_group AS g SET points[1] = h.points[1] FROM shardring.shard_group AS h WHERE g.ring = %L AND g.group_name = 'g' AND h.ring = g.ring AND h.group_name = 'h'$$),
	('point too few', $$UPDATE shardring.shard_group SET points = points[1:3] WHERE ring = %L AND group_name = 'g'$$),
	('point too many', $$UPDATE shardring.shard_group SET points = points || shardring.key_position('g#4') WHERE ring = %L AND group_name = 'g'$$),
	('point off the circle', $$UPDATE shardring.shard_group SET points[3] = 4294967296 WHERE ring = %L AND group_name = 'g'$$),
	('point below it', $$UPDATE shardring.shard_group SET points[3] = -1 WHERE ring = %L AND group_name = 'g'$$),
	('no group row', $$DELETE FROM shardring.shard_group WHERE ring = %L AND group_name = 'h'$$),
	('no group at all', $$DELETE FROM shardring.shard_group WHERE ring = %L$$),
	('group too many', $$INSERT INTO shardring.shard_group SELECT ring, version, 'i', 0, 1, NULL, '{}' FROM shardring.ring_version WHERE ring = %L$$),
	('other name', $$UPDATE shardring.shard_group SET group_name = 'i' WHERE ring = %L AND group_name = 'g'$$),
	('slots of group', $$UPDATE shardring.shard_group SET slots = 5 WHERE ring = %L AND group_name = 'g'$$),
	('pin to nowhere', $$UPDATE shardring.shard_pin SET group_name = 'nowhere' WHERE ring = %L AND key_position = 7$$),
	('pin lost', $$DELETE FROM shardring.shard_pin WHERE ring = %L AND key_position = 7$$),
	('pin moved', $$UPDATE shardring.shard_pin SET key_position = 8 WHERE ring = %L AND key_position = 7$$),
	('pin too many', $$INSERT INTO shardring.shard_pin SELECT ring, version, 9, 'g' FROM shardring.ring_version WHERE ring = %L$$),
	('wrong fingerprint', $$WITH r AS (UPDATE shardring.ring SET fingerprint = repeat('0', 64) WHERE ring = %1$L) UPDATE shardring.ring_version SET fingerprint = repeat('0', 64) WHERE ring = %1$L$$),
	('wrong pointer', $$UPDATE shardring.ring SET fingerprint = repeat('0', 64) WHERE ring = %L$$),
	('hash', $$UPDATE shardring.ring SET hash = 'murmur3' WHERE ring = %L$$),
	('hash tags', $$UPDATE shardring.ring SET hash_tags = true WHERE ring = %L$$),
	('pointer to nowhere', $$UPDATE shardring.ring SET active_version = 99 WHERE ring = %L$$),
	('version lost', $$DELETE FROM shardring.ring_version WHERE ring = %L$$),
	('active draft', $$UPDATE shardring.ring_version SET sealed_at = NULL, fingerprint = NULL, zone_fingerprint = NULL, group_rows = NULL, map_rows = NULL, pin_rows = NULL WHERE ring = %L$$),
	('ring lost', $$DELETE FROM shardring.ring WHERE ring = %L$$),
	-- what routes none the less
	('weight', $$UPDATE shardring.shard_group SET weight = 2 WHERE ring = %L AND group_name = 'g'$$),
	('zone', $$UPDATE shardring.shard_group SET zone = 'z' WHERE ring = %L AND group_name = 'g'$$),
	('vnodes', $$UPDATE shardring.ring_version SET vnodes = 5 WHERE ring = %L$$),
	('rows counted wrong', $$UPDATE shardring.ring_version SET group_rows = 3, map_rows = 2, pin_rows = 0 WHERE ring = %L$$),
	('last version', $$WITH v AS (INSERT INTO shardring.ring_version (ring, version, vnodes) VALUES (%1$L, 3, 4)) UPDATE shardring.ring SET last_version = 2 WHERE ring = %1$L$$),
	('no history', $$DELETE FROM shardring.activation WHERE ring = %L$$),
	('history of another', $$UPDATE shardring.activation SET version = 2 WHERE ring = %L$$),
	('shard unnumbered', $$DELETE FROM shardring.shard WHERE ring = %L AND shard = 's2'$$),
	('numbers with a gap', $$UPDATE shardring.shard SET number = 7 WHERE ring = %L AND shard = 's2'$$),
	('stray rows', $$INSERT INTO shardring.shard_map VALUES (%L, 5, 'g', 's0', '{[0,1)}')$$),
	('nothing', $$SELECT %L$$);
SELECT count(make_ring(ring, n)) AS rings FROM planted;
SELECT * FROM shardring.problems();
DO $$
DECLARE
	p planted;
BEGIN
	SET LOCAL session_replication_role = replica;
	FOR p IN SELECT * FROM planted ORDER BY n LOOP
		EXECUTE format(p.plant, p.ring);
	END LOOP;
END $$;

-- a session that has loaded a ring goes on with what was sealed
SELECT shardring.shard_for('hole', 'a');
-- a new one sees that it was altered
\c -
SET client_min_messages = error;
CREATE FUNCTION try(ring text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN shardring.shard_for(ring, 'a');
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate;
END $$;
SELECT p.ring, try(p.ring) AS "shard or error", q.version,
	regexp_replace(q.problem, '[0-9a-f]{64}', '...', 'g') AS problem
FROM planted AS p LEFT JOIN shardring.problems() AS q USING (ring)
ORDER BY p.n, q.version NULLS FIRST, q.problem COLLATE "C";
-- every error says what to do
SELECT shardring.shard_for('pointer to nowhere', 'a');
SELECT shardring.shard_at('pin lost', 1, 1);
\set VERBOSITY sqlstate
SELECT shardring.locate('pin lost', 'a');
SELECT * FROM shardring.points('pin lost');
SELECT * FROM shardring.arcs('pin lost');
SELECT * FROM shardring.shares('pin lost');
SELECT * FROM shardring.shard_shares('pin lost');
SELECT * FROM shardring.moved_ranges('pin lost', 1, 1);
SELECT * FROM shardring.move_plan('pin lost', 1, 1);
SELECT shardring.moves('pin lost', 1, 1, 'a');
SELECT * FROM shardring.moving_keys('pin lost', 1, 1, '{a}');
SELECT shardring.move_predicate('pin lost', 1, 1, 's0', 's1', 'k');
-- nothing new can be built on it
SELECT shardring.draft_version('hole');
SELECT shardring.draft_version('pin lost', 1);
SELECT shardring.draft_version('weight');
\set VERBOSITY default
-- but it can be left: a new version from a sound one, and only who says that
-- he knows what is active
CREATE FUNCTION leave(ring text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.activate(ring, 2, expected_active => 1);
	RETURN shardring.shard_for(ring, 'a');
END $$;
SELECT make_ring('left', 1000), make_ring('left by slots', 1001), make_ring('lost', 1002), make_ring('target', 1003);
SELECT shardring.draft_version(ring) FROM unnest('{left,left by slots,lost,target}'::text[]) AS ring;
SELECT shardring.add_group('left', 'i', '{s3}'), shardring.add_group('left', 'j', '{s4}'), shardring.seal('target');
SET session_replication_role = replica;
UPDATE shardring.shard_map SET shard = 's9' WHERE ring = 'left' AND version = 1 AND shard = 's1';
UPDATE shardring.shard_group SET slots = 5 WHERE ring = 'left by slots' AND version = 1 AND group_name = 'g';
DELETE FROM shardring.ring_version WHERE ring = 'lost' AND version = 1;
UPDATE shardring.shard_map SET shard = 's9' WHERE ring = 'target' AND version = 2 AND shard = 's1';
RESET session_replication_role;
\c -
SELECT shardring.activate('left');
SELECT shardring.activate('left', expected_active => 1, max_moved => 1);
SELECT shardring.activate('left', expected_active => 2);
SELECT leave('left');
SELECT leave('left by slots');
SELECT leave('lost');
SELECT version, from_version, moved FROM shardring.activation WHERE ring = 'left' ORDER BY version;
SELECT ring, version, left(problem, 30) FROM shardring.problems() WHERE ring IN ('left', 'left by slots') AND version > 1;
-- one that is damaged itself is never activated
SELECT leave('target');
SET client_min_messages = error;
-- of one ring, of all, of none
SELECT ring, problem FROM shardring.problems('hole') WHERE problem NOT LIKE '%fingerprint%';
SELECT count(DISTINCT ring) FROM shardring.problems(NULL);
SELECT * FROM shardring.problems('unheard of');
-- once repaired, it routes again
SELECT try('pin moved');
SET session_replication_role = replica;
UPDATE shardring.shard_pin SET key_position = 7 WHERE ring = 'pin moved' AND key_position = 8;
RESET session_replication_role;
SELECT try('pin moved');
SELECT * FROM shardring.problems('pin moved');

-- the triggers let nothing of all that through
DROP EXTENSION shardring;
CREATE EXTENSION shardring;
SELECT make_ring('r');
CREATE FUNCTION refused(edit text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE edit;
	RAISE no_data_found;
EXCEPTION WHEN no_data_found THEN
	RETURN 'was done';
WHEN OTHERS THEN
	RETURN sqlstate || ' ' || sqlerrm;
END $$;
SELECT refused(edit), edit FROM unnest(ARRAY[
	'UPDATE shardring.shard_group SET weight = 2',
	'UPDATE shardring.shard_group SET zone = NULL',
	'UPDATE shardring.shard_group SET points[1] = 1',
	'UPDATE shardring.shard_group SET version = 2',
	'DELETE FROM shardring.shard_group',
	'TRUNCATE shardring.shard_group',
	$$INSERT INTO shardring.shard_group VALUES ('r', 1, 'new', 0, 1, NULL, '{}')$$,
	'UPDATE shardring.shard_map SET shard = shard || 1',
	'UPDATE shardring.shard_map SET slots = slots',
	'DELETE FROM shardring.shard_map',
	'TRUNCATE shardring.shard_map',
	$$INSERT INTO shardring.shard_map VALUES ('r', 1, 'g', 'new', '{[0,1)}')$$,
	$$UPDATE shardring.shard_pin SET group_name = 'g'$$,
	'DELETE FROM shardring.shard_pin',
	'TRUNCATE shardring.shard_pin',
	$$INSERT INTO shardring.shard_pin VALUES ('r', 1, 77, 'g')$$,
	$$UPDATE shardring.ring_version SET note = 'new'$$,
	'UPDATE shardring.ring_version SET sealed_at = NULL, fingerprint = NULL, zone_fingerprint = NULL, group_rows = NULL, map_rows = NULL, pin_rows = NULL',
	'DELETE FROM shardring.ring_version',
	'TRUNCATE shardring.ring_version',
	'TRUNCATE shardring.ring, shardring.ring_version',
	$$UPDATE shardring.ring SET hash = 'crc16'$$,
	'UPDATE shardring.ring SET hash_tags = true',
	'UPDATE shardring.ring SET active_version = NULL, fingerprint = NULL',
	'UPDATE shardring.ring SET active_version = 2',
	$$UPDATE shardring.ring SET fingerprint = repeat('0', 64)$$,
	'UPDATE shardring.ring SET last_version = 0',
	$$UPDATE shardring.ring SET ring = 's'$$,
	'DELETE FROM shardring.ring',
	'TRUNCATE shardring.ring']) WITH ORDINALITY AS e (edit, n) ORDER BY n;
SELECT * FROM shardring.problems();

-- what even the constraints forbid is found as well
SELECT make_ring(ring) FROM unnest('{a,b,c,d,e,f,g,h,i}'::text[]) AS ring;
SET session_replication_role = replica;
ALTER TABLE shardring.shard_group DROP CONSTRAINT shard_group_points_form, DROP CONSTRAINT shard_group_slots_range;
ALTER TABLE shardring.shard_map DROP CONSTRAINT shard_map_slots_range;
ALTER TABLE shardring.shard_pin DROP CONSTRAINT shard_pin_position_range;
UPDATE shardring.shard_group SET points[2] = NULL WHERE ring = 'a' AND group_name = 'g';
UPDATE shardring.shard_group SET slots = 0 WHERE ring = 'a' AND group_name = 'h';
UPDATE shardring.shard_map SET slots = '{(,)}' WHERE ring = 'b' AND shard = 's0';
UPDATE shardring.shard_map SET slots = '{}' WHERE ring = 'b' AND shard = 's1';
UPDATE shardring.shard_map SET slots = '{[-1,2)}' WHERE ring = 'c' AND shard = 's0';
UPDATE shardring.shard_pin SET key_position = -7 WHERE ring = 'd' AND key_position = 7;
ALTER TABLE shardring.shard_group ALTER weight DROP NOT NULL, ALTER slots DROP NOT NULL, ALTER points DROP NOT NULL;
ALTER TABLE shardring.shard_map ALTER slots DROP NOT NULL;
ALTER TABLE shardring.shard_pin ALTER group_name DROP NOT NULL;
UPDATE shardring.shard_group SET weight = NULL WHERE ring = 'e' AND group_name = 'g';
UPDATE shardring.shard_group SET slots = NULL WHERE ring = 'f' AND group_name = 'g';
UPDATE shardring.shard_group SET points = NULL WHERE ring = 'g' AND group_name = 'g';
UPDATE shardring.shard_map SET slots = NULL WHERE ring = 'h' AND shard = 's0';
UPDATE shardring.shard_pin SET group_name = NULL WHERE ring = 'i' AND key_position = 7;
\c -
SET client_min_messages = error;
SELECT ring, try(ring), problem FROM shardring.problems()
WHERE problem NOT LIKE 'fingerprint%' ORDER BY ring, problem COLLATE "C";
SELECT try('r');
-- in a draft, too
SELECT shardring.draft_version('r');
UPDATE shardring.shard_group SET points = NULL WHERE ring = 'r' AND version = 2;
UPDATE shardring.shard_map SET slots = NULL WHERE ring = 'r' AND version = 2 AND shard = 's2';
SELECT shardring_internal.version_problems('r', 2);
SELECT shardring.shard_for('r', 'a', 2);
SELECT shardring.seal('r', 2);
SELECT shardring.drop_version('r', 2);
-- without these nothing can be read at all
ALTER TABLE shardring.ring ALTER hash DROP NOT NULL, ALTER hash_tags DROP NOT NULL;
ALTER TABLE shardring.ring_version ALTER vnodes DROP NOT NULL;
ALTER TABLE shardring.shard ALTER number DROP NOT NULL;
SET session_replication_role = replica;
UPDATE shardring.shard SET number = NULL WHERE ring = 'r';
SELECT shardring.plproxy_partition('r', 'a');
UPDATE shardring.ring_version SET vnodes = NULL WHERE ring = 'r';
SELECT shardring_internal.version_problems('r', 1);
UPDATE shardring.ring SET hash_tags = NULL WHERE ring = 'r';
SELECT shardring.shard_for('r', 'a');
UPDATE shardring.ring SET hash = NULL WHERE ring = 'r';
SELECT shardring.problems('r');
DELETE FROM shardring.ring WHERE ring = 'r';
RESET session_replication_role;

-- a history with a hole, one that runs backwards, and a probe of no ring
CREATE FUNCTION next_version(ring text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.draft_version(ring);
	PERFORM shardring.set_vnodes(ring, shardring.active_version(ring) + 10);
	RETURN shardring.activate(ring);
END $$;
SELECT make_ring(r) FROM unnest('{hole in history,backwards}'::text[]) AS r;
SELECT r, next_version(r), next_version(r) FROM unnest('{hole in history,backwards}'::text[]) AS r;
SELECT * FROM shardring.problems('hole in history');
SELECT * FROM shardring.problems('backwards');
BEGIN;
SET LOCAL session_replication_role = replica;
DELETE FROM shardring.activation WHERE ring = 'hole in history' AND version = 2;
UPDATE shardring.activation SET activated_at = '2001-01-01' WHERE ring = 'backwards' AND version = 3;
INSERT INTO shardring.shard_probe (ring, shard, failures) VALUES ('ghost', 'x', 3);
COMMIT;
SELECT * FROM shardring.problems('hole in history');
SELECT * FROM shardring.problems('backwards');
SELECT * FROM shardring.problems('ghost');

-- points that are not the candidates of their group cannot be gone on from,
-- and have no number; a weight without bounds is too much
SELECT shardring.create_ring('edited', 2);
SELECT shardring.add_group('edited', g, ARRAY[g]) FROM unnest('{a,b}'::text[]) AS g;
SET session_replication_role = replica;
UPDATE shardring.shard_group SET points = '{7,3}' WHERE ring = 'edited' AND group_name = 'a';
RESET session_replication_role;
SELECT shardring_internal.resize_groups('edited', 1, '{a}', '{3}');
SELECT * FROM shardring.points('edited', 1) WHERE group_name = 'a';
SELECT * FROM shardring_internal.version_problems('edited', 1);
BEGIN;
SET LOCAL session_replication_role = replica;
ALTER TABLE shardring.shard_group DROP CONSTRAINT shard_group_weight_range;
UPDATE shardring.shard_group SET weight = 1e30 WHERE ring = 'edited' AND group_name = 'b';
SELECT * FROM shardring_internal.version_problems('edited', 1) WHERE version_problems LIKE '%"b"%';
ROLLBACK;

-- two groups of a draft on one position
SET session_replication_role = replica;
UPDATE shardring.shard_group SET points = '{3,7}' WHERE ring = 'edited';
RESET session_replication_role;
SELECT shardring.shard_for('edited', 'user:1', 1);

-- without its primary key a table cannot be read
BEGIN;
ALTER TABLE shardring.shard_pin DROP CONSTRAINT shard_pin_pkey;
SELECT shardring.shard_for('edited', 'user:1', 1);
ROLLBACK;
SELECT shardring.drop_ring('edited');

-- A session that has loaded a ring reads weights, zones and numbers of
-- candidates from rows all the same.  They may not be the ring's any more: a
-- restore brings ring_version before shard_group.
SELECT shardring.create_ring('m', 20);
SELECT count(shardring.add_group('m', 'g' || i, ARRAY['s' || i], zone => 'z')) FROM generate_series(1, 3) AS i;
SELECT shardring.activate('m');
CREATE FUNCTION pg_temp.altered(edit text) RETURNS TABLE (call text, answer text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.shard_for('m', 'k');
	SET LOCAL session_replication_role = replica;
	EXECUTE edit;
	FOREACH call IN ARRAY '{shares(''m''),points(''m''),"replicas_for(''m'', ''k'', 9)"}'::text[] LOOP
		BEGIN
			EXECUTE 'SELECT count(*) FROM shardring.' || call INTO answer;
		EXCEPTION WHEN data_corrupted THEN
			answer := sqlstate || ' ' || sqlerrm;
		END;
		RETURN NEXT;
	END LOOP;
END $$;
BEGIN;
SELECT * FROM pg_temp.altered($$DELETE FROM shardring.shard_group WHERE ring = 'm' AND group_name <> 'g2'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$DELETE FROM shardring.shard_group WHERE ring = 'm'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$INSERT INTO shardring.shard_group SELECT 'm', 1, 'a' || i, 1, 1, 'y', ARRAY[i] FROM generate_series(1, 2000) AS i$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.shard_group SET group_name = 'h' WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$ALTER TABLE shardring.shard_group ALTER weight DROP NOT NULL; UPDATE shardring.shard_group SET weight = NULL WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.shard_group SET points = '{7}' WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.shard_group SET weight = 2 WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
-- zones decide where copies go: not a byte of them changes
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.shard_group SET zone = 'Z' WHERE ring = 'm' AND group_name = 'g3'$$);
SELECT problem FROM shardring.problems('m');
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.shard_group SET zone = NULL WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shardring.ring_version SET zone_fingerprint = repeat('0', 64) WHERE ring = 'm'$$);
SELECT problem FROM shardring.problems('m');
ROLLBACK;
SELECT * FROM pg_temp.altered('');
SELECT shardring.drop_ring('m');

DROP EXTENSION shardring;
DROP TABLE planted;
DROP FUNCTION make_ring, next_version, try, refused;
