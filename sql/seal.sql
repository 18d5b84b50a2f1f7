--
-- seal.sql
--	Sealing: what is checked, and that nothing changes afterwards.
--
CREATE EXTENSION shardring;
SET search_path = '';
SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Edits version 2 of ring r with plain SQL, and says how sealing it ends.
CREATE FUNCTION public.seal_after(edit text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	why text;
BEGIN
	EXECUTE edit;
	PERFORM shardring.seal('r', 2);
	RAISE EXCEPTION 'sealed';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ': ' || coalesce(nullif(why, ''), SQLERRM);
END $$;

-- What a statement answers.
CREATE FUNCTION public.try(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	rows bigint;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS rows = ROW_COUNT;
	RETURN rows || ' rows';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;

SELECT shardring.create_ring('r', 4);
SELECT shardring.add_group('r', 'a', ARRAY['s0', 's1', 's2'], 6);
SELECT shardring.add_group('r', 'b', ARRAY['s3']);
SELECT shardring.add_group('r', 'c', ARRAY['s3'], 2, 0);
SELECT shardring.pin('r', 77, 'c');
SELECT shardring.activate('r');
SELECT shardring.draft_version('r');
SELECT shardring.pin('r', 78, 'b');

-- every kind of fault in a draft, one by one
SELECT e.what, public.seal_after(e.edit) AS answer
FROM (VALUES
	('nothing',
	 $$SELECT 1$$),
	('hole of two slots',
	 $$DELETE FROM shardring.shard_map WHERE version = 2 AND shard = 's1'$$),
	('hole of one slot',
	 $$UPDATE shardring.shard_map SET slots = '{[2,3)}'
	 WHERE version = 2 AND shard = 's1'$$),
	('no shard at all',
	 $$DELETE FROM shardring.shard_map WHERE version = 2 AND group_name = 'a'$$),
	('overlap',
	 $$UPDATE shardring.shard_map SET slots = '{[1,4)}'
	 WHERE version = 2 AND shard = 's1'$$),
	('overlap with a new shard',
	 $$INSERT INTO shardring.shard_map VALUES ('r', 2, 'a', 'new', '{[5,6)}')$$),
	('slot past the last',
	 $$UPDATE shardring.shard_map SET slots = '{[4,7)}'
	 WHERE version = 2 AND shard = 's2'$$),
	('slot far outside',
	 $$INSERT INTO shardring.shard_map VALUES ('r', 2, 'a', 'new', '{[9,10)}')$$),
	('more slots than are held',
	 $$UPDATE shardring.shard_group SET slots = 7
	 WHERE version = 2 AND group_name = 'a'$$),
	('fewer slots than are held',
	 $$UPDATE shardring.shard_group SET slots = 5
	 WHERE version = 2 AND group_name = 'a'$$),
	('slots of a missing group',
	 $$INSERT INTO shardring.shard_map VALUES ('r', 2, 'd', 'new', '{[0,1)}')$$),
	('foreign point',
	 $$UPDATE shardring.shard_group SET points[2] = points[2] + 1
	 WHERE version = 2 AND group_name = 'a'$$),
	('points out of order',
	 $$UPDATE shardring.shard_group SET points =
	 ARRAY[points[2], points[1], points[3], points[4]]
	 WHERE version = 2 AND group_name = 'a'$$),
	('doubled point',
	 $$UPDATE shardring.shard_group SET points[2] = points[1]
	 WHERE version = 2 AND group_name = 'a'$$),
	('point of another group',
	 $$UPDATE shardring.shard_group SET points[4] =
	 (SELECT points[1] FROM shardring.shard_group
	  WHERE version = 2 AND group_name = 'b')
	 WHERE version = 2 AND group_name = 'a'$$),
	('missing point',
	 $$UPDATE shardring.shard_group SET points = points[1:3]
	 WHERE version = 2 AND group_name = 'a'$$),
	('point too many',
	 $$UPDATE shardring.shard_group SET points = points
	 || shardring.key_position('a#4')
	 WHERE version = 2 AND group_name = 'a'$$),
	('negative point',
	 $$UPDATE shardring.shard_group SET points[1] = -1
	 WHERE version = 2 AND group_name = 'a'$$),
	('point past the circle',
	 $$UPDATE shardring.shard_group SET points[1] = 4294967296
	 WHERE version = 2 AND group_name = 'a'$$),
	('weight without points',
	 $$UPDATE shardring.shard_group SET weight = 2
	 WHERE version = 2 AND group_name = 'a'$$),
	('vnodes without points',
	 $$UPDATE shardring.ring_version SET vnodes = 5 WHERE version = 2$$),
	('points of a drained group',
	 $$UPDATE shardring.shard_group SET points = ARRAY[5]
	 WHERE version = 2 AND group_name = 'c'$$),
	('pin to nowhere',
	 $$INSERT INTO shardring.shard_pin VALUES ('r', 2, 5, 'nowhere')$$),
	('pin to a removed group',
	 $$SELECT shardring.remove_group('r', 'c')$$),
	('missing group',
	 $$DELETE FROM shardring.shard_group
	 WHERE version = 2 AND group_name = 'b'$$),
	('several',
	 $$SELECT shardring.remove_group('r', 'c'),
	 shardring.assign_slots('r', 'a', '{[2,4)}', 's0');
	 DELETE FROM shardring.shard_map WHERE version = 2 AND shard = 's0'$$)
) AS e (what, edit);

-- what the tables themselves refuse
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('points NULL',
	 $$UPDATE shardring.shard_group SET points = NULL WHERE version = 2$$),
	('NULL point',
	 $$UPDATE shardring.shard_group SET points = '{1,NULL}' WHERE version = 2$$),
	('points in two dimensions',
	 $$UPDATE shardring.shard_group SET points = '{{1,2}}' WHERE version = 2$$),
	('weight NaN',
	 $$UPDATE shardring.shard_group SET weight = 'NaN' WHERE version = 2$$),
	('weight Infinity',
	 $$UPDATE shardring.shard_group SET weight = 'Infinity'
	 WHERE version = 2$$),
	('weight negative',
	 $$UPDATE shardring.shard_group SET weight = -1 WHERE version = 2$$),
	('no slots',
	 $$UPDATE shardring.shard_group SET slots = 0 WHERE version = 2$$),
	('too many slots',
	 $$UPDATE shardring.shard_group SET slots = 65537 WHERE version = 2$$),
	('group without a name',
	 $$UPDATE shardring.shard_group SET group_name = '' WHERE version = 2$$),
	('long group name',
	 $$UPDATE shardring.shard_group SET group_name = repeat('x', 256)
	 WHERE version = 2$$),
	('group twice',
	 $$UPDATE shardring.shard_group SET group_name = 'a' WHERE version = 2$$),
	('shard without slots',
	 $$UPDATE shardring.shard_map SET slots = '{}' WHERE version = 2$$),
	('unbounded slots',
	 $$UPDATE shardring.shard_map SET slots = '{(,)}' WHERE version = 2$$),
	('negative slot',
	 $$UPDATE shardring.shard_map SET slots = '{[-1,1)}' WHERE version = 2$$),
	('slot 65536',
	 $$UPDATE shardring.shard_map SET slots = '{[0,65537)}'
	 WHERE version = 2$$),
	('shard without a name',
	 $$UPDATE shardring.shard_map SET shard = '' WHERE version = 2$$),
	('long shard name',
	 $$UPDATE shardring.shard_map SET shard = repeat('é', 32)
	 WHERE version = 2$$),
	('negative pin',
	 $$UPDATE shardring.shard_pin SET key_position = -1 WHERE version = 2$$),
	('pin past the circle',
	 $$UPDATE shardring.shard_pin SET key_position = 4294967296
	 WHERE version = 2$$),
	('no vnodes',
	 $$UPDATE shardring.ring_version SET vnodes = 0 WHERE version = 2$$),
	('sealed by half',
	 $$UPDATE shardring.ring_version SET sealed_at = now()
	 WHERE version = 2$$),
	('seal without a fingerprint',
	 $$UPDATE shardring.ring_version SET sealed_at = now(), group_rows = 3,
	 map_rows = 3, pin_rows = 1, fingerprint = 'x',
	 zone_fingerprint = repeat('0', 64) WHERE version = 2$$),
	('version 0',
	 $$INSERT INTO shardring.ring_version VALUES ('r', 0, NULL, NULL, 1)$$),
	('version too high',
	 $$INSERT INTO shardring.ring_version VALUES ('r', 1000000000, NULL, NULL,
	 1)$$)
) AS e (what, edit);

-- arguments
SELECT public.try('SELECT shardring.seal(' || arguments || ')'), arguments
FROM unnest(ARRAY[
	'NULL',
	'''none''',
	'''r'', 99',
	'''r'', -1',
	'''r'', 1'
]) AS a (arguments);

-- an empty version can be sealed, but not activated
SELECT shardring.create_ring('empty');
SELECT shardring.seal('empty');
SELECT group_rows, map_rows, pin_rows FROM shardring.ring_version
WHERE ring = 'empty';
SELECT shardring.activate('empty');
SELECT shardring.drop_ring('empty');

-- rows of a draft are edited freely, but stay in their version
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('group',
	 $$UPDATE shardring.shard_group SET zone = 'x' WHERE version = 2$$),
	('map',
	 $$UPDATE shardring.shard_map SET shard = shard WHERE version = 2$$),
	('pin',
	 $$UPDATE shardring.shard_pin SET key_position = 79
	 WHERE version = 2 AND key_position = 78$$),
	('version',
	 $$UPDATE shardring.ring_version SET note = 'x' WHERE version = 2$$),
	('group to another version',
	 $$UPDATE shardring.shard_group SET version = 3 WHERE version = 2$$),
	('group to another ring',
	 $$UPDATE shardring.shard_group SET ring = 'x' WHERE version = 2$$),
	('map to another version',
	 $$UPDATE shardring.shard_map SET version = 1 WHERE version = 2$$),
	('pin to another version',
	 $$UPDATE shardring.shard_pin SET version = 3 WHERE version = 2$$),
	('version to another number',
	 $$UPDATE shardring.ring_version SET version = 3 WHERE version = 2$$),
	('version to another ring',
	 $$UPDATE shardring.ring_version SET ring = 'x' WHERE version = 2$$),
	('pin back',
	 $$UPDATE shardring.shard_pin SET key_position = 78
	 WHERE version = 2 AND key_position = 79$$)
) AS e (what, edit);

-- a sealed version is refused every change
SELECT shardring.seal('r');
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('note',
	 $$UPDATE shardring.ring_version SET note = 'x' WHERE version = 2$$),
	('unseal',
	 $$UPDATE shardring.ring_version SET sealed_at = NULL, fingerprint = NULL,
	 zone_fingerprint = NULL, group_rows = NULL, map_rows = NULL, pin_rows = NULL
	 WHERE version = 2$$),
	('delete the version',
	 $$DELETE FROM shardring.ring_version WHERE version = 2$$),
	('group',
	 $$UPDATE shardring.shard_group SET zone = 'y' WHERE version = 2$$),
	('delete a group',
	 $$DELETE FROM shardring.shard_group
	 WHERE version = 2 AND group_name = 'b'$$),
	('map',
	 $$UPDATE shardring.shard_map SET shard = 'x'
	 WHERE version = 2 AND shard = 's0'$$),
	('delete a map',
	 $$DELETE FROM shardring.shard_map WHERE version = 2 AND shard = 's0'$$),
	('pin',
	 $$UPDATE shardring.shard_pin SET group_name = 'a' WHERE version = 2$$),
	('delete a pin',
	 $$DELETE FROM shardring.shard_pin WHERE version = 2$$),
	('new group',
	 $$INSERT INTO shardring.shard_group
	 VALUES ('r', 2, 'new', 0, 1, NULL, '{}')$$),
	('new map',
	 $$INSERT INTO shardring.shard_map
	 VALUES ('r', 2, 'a', 'new', '{[0,1)}')$$),
	('new pin',
	 $$INSERT INTO shardring.shard_pin VALUES ('r', 2, 5, 'a')$$),
	('new pins in many versions',
	 $$INSERT INTO shardring.shard_pin
	 SELECT 'r', v, 5, 'a' FROM generate_series(1, 9) AS v$$),
	('truncate ring_version',
	 $$TRUNCATE shardring.ring_version$$),
	('truncate shard_group',
	 $$TRUNCATE shardring.shard_group$$),
	('truncate shard_map',
	 $$TRUNCATE shardring.shard_map$$),
	('truncate shard_pin',
	 $$TRUNCATE shardring.shard_pin$$),
	('add_group',
	 $$SELECT shardring.add_group('r', 'new', ARRAY['x'], version => 2)$$),
	('remove_group',
	 $$SELECT shardring.remove_group('r', 'a', 2)$$),
	('set_weight',
	 $$SELECT shardring.set_weight('r', 'a', 2, 2)$$),
	('set_vnodes',
	 $$SELECT shardring.set_vnodes('r', 5, 2)$$),
	('assign_slots',
	 $$SELECT shardring.assign_slots('r', 'a', '{[0,1)}', 'x', 2)$$),
	('pin',
	 $$SELECT shardring.pin('r', 5, 'a', 2)$$),
	('pin_key',
	 $$SELECT shardring.pin_key('r', 'k', 'a', 2)$$),
	('unpin',
	 $$SELECT shardring.unpin('r', 77, 2)$$)
) AS e (what, edit);
-- nor do its shards change their numbers, or the history what was
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('shard to another name',
	 $$UPDATE shardring.shard SET shard = 'x' WHERE shard = 's0'$$),
	('shard to another ring',
	 $$UPDATE shardring.shard SET ring = 'x' WHERE shard = 's0'$$),
	('shard to another number',
	 $$UPDATE shardring.shard SET number = 9 WHERE shard = 's0'$$),
	('delete a shard',
	 $$DELETE FROM shardring.shard WHERE shard = 's3'$$),
	('truncate shard',
	 $$TRUNCATE shardring.shard$$),
	('server of a shard',
	 $$UPDATE shardring.shard SET server = 'x' WHERE shard = 's0'$$),
	('no server',
	 $$UPDATE shardring.shard SET server = NULL WHERE shard = 's0'$$),
	('moment of an activation',
	 $$UPDATE shardring.activation SET activated_at = now()$$),
	('delete an activation',
	 $$DELETE FROM shardring.activation$$),
	('truncate activation',
	 $$TRUNCATE shardring.activation$$),
	('truncate everything',
	 $$TRUNCATE shardring.activation, shardring.ring, shardring.shard,
	 shardring.ring_version$$)
) AS e (what, edit);
-- nor is the ring turned or emptied
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('name',
	 $$UPDATE shardring.ring SET ring = 'x'$$),
	('hash',
	 $$UPDATE shardring.ring SET hash = 'murmur3'$$),
	('hash_tags',
	 $$UPDATE shardring.ring SET hash_tags = true$$),
	('last_version',
	 $$UPDATE shardring.ring SET last_version = 1$$),
	('back to none',
	 $$UPDATE shardring.ring SET active_version = NULL, fingerprint = NULL$$),
	('another version',
	 $$UPDATE shardring.ring SET active_version = 2$$),
	('missing version',
	 $$UPDATE shardring.ring SET active_version = 3$$),
	('fingerprint',
	 $$UPDATE shardring.ring SET fingerprint = repeat('0', 64)$$),
	('by half',
	 $$UPDATE shardring.ring SET active_version = NULL$$),
	('nothing',
	 $$UPDATE shardring.ring SET active_version = active_version$$)
) AS e (what, edit);
SELECT * FROM shardring.problems();

-- a draft beside it stays a draft
SELECT shardring.draft_version('r');
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('new pin',
	 $$INSERT INTO shardring.shard_pin VALUES ('r', 3, 5, 'a')$$),
	('delete the pin',
	 $$DELETE FROM shardring.shard_pin WHERE version = 3 AND key_position = 5$$),
	('delete the version',
	 $$DELETE FROM shardring.ring_version WHERE version = 3$$),
	('delete its groups',
	 $$DELETE FROM shardring.shard_group WHERE version = 3$$),
	('delete its map',
	 $$DELETE FROM shardring.shard_map WHERE version = 3$$),
	('delete its pins',
	 $$DELETE FROM shardring.shard_pin WHERE version = 3$$)
) AS e (what, edit);

-- a restore: rows come in any order, and no more than there were
CREATE TABLE public.ring AS TABLE shardring.ring;
CREATE TABLE public.ring_version AS TABLE shardring.ring_version;
CREATE TABLE public.shard_group AS TABLE shardring.shard_group;
CREATE TABLE public.shard_map AS TABLE shardring.shard_map;
CREATE TABLE public.shard_pin AS TABLE shardring.shard_pin;
CREATE TABLE public.shard AS TABLE shardring.shard;
CREATE TABLE public.activation AS TABLE shardring.activation;
SELECT shardring.shard_at('r', 77) AS pinned,
	count(DISTINCT shardring.shard_at('r', i * 4294967::bigint)) AS shards
FROM generate_series(0, 999) AS i;
SELECT shardring.drop_ring('r');
INSERT INTO shardring.shard_pin TABLE public.shard_pin;
INSERT INTO shardring.shard_map TABLE public.shard_map;
INSERT INTO shardring.shard_group TABLE public.shard_group;
INSERT INTO shardring.activation TABLE public.activation;
INSERT INTO shardring.ring_version TABLE public.ring_version;
INSERT INTO shardring.shard TABLE public.shard;
INSERT INTO shardring.ring TABLE public.ring;
SELECT * FROM shardring.problems();
SELECT shardring.shard_at('r', 77) AS pinned,
	count(DISTINCT shardring.shard_at('r', i * 4294967::bigint)) AS shards
FROM generate_series(0, 999) AS i;
SELECT shardring.drop_ring('r');
INSERT INTO shardring.ring TABLE public.ring;
INSERT INTO shardring.shard TABLE public.shard;
INSERT INTO shardring.ring_version TABLE public.ring_version;
INSERT INTO shardring.activation TABLE public.activation;
-- also one by one
INSERT INTO shardring.shard_group
SELECT * FROM public.shard_group WHERE group_name = 'b';
INSERT INTO shardring.shard_group
SELECT * FROM public.shard_group WHERE group_name <> 'b';
INSERT INTO shardring.shard_map
SELECT * FROM public.shard_map WHERE shard = 's3';
INSERT INTO shardring.shard_map
SELECT * FROM public.shard_map WHERE shard <> 's3';
INSERT INTO shardring.shard_pin TABLE public.shard_pin;
SELECT * FROM shardring.problems();
SELECT shardring.shard_at('r', 77) AS pinned,
	count(DISTINCT shardring.shard_at('r', i * 4294967::bigint)) AS shards
FROM generate_series(0, 999) AS i;
SELECT e.what, public.try(e.edit) AS answer
FROM (VALUES
	('group',
	 $$INSERT INTO shardring.shard_group
	 VALUES ('r', 2, 'new', 0, 1, NULL, '{}')$$),
	('map',
	 $$INSERT INTO shardring.shard_map
	 VALUES ('r', 2, 'a', 'new', '{[0,1)}')$$),
	('pin',
	 $$INSERT INTO shardring.shard_pin VALUES ('r', 2, 5, 'a')$$)
) AS e (what, edit);

-- rows without a version do not slip into a new one
SELECT shardring.create_ring('s');
INSERT INTO shardring.shard_pin VALUES ('s', 2, 5, 'a'), ('t', 1, 5, 'a');
SELECT shardring.draft_version('s', 1);
SELECT shardring.create_ring('t');
SELECT * FROM shardring.problems();
DELETE FROM shardring.shard_pin WHERE ring <> 'r';
SELECT shardring.draft_version('s', 1);
SELECT shardring.drop_ring('s');

-- Behind the triggers' back: one kind of damage at a time to version 1, which
-- is active; found by the next load and by problems().  A new session has not
-- loaded anything yet; it does so first where routing goes on.
\c -
SET search_path = '';
\set SHOW_CONTEXT never
CREATE FUNCTION public.damage(edit text)
RETURNS TABLE (version integer, problem text)
LANGUAGE plpgsql AS $$
DECLARE
	found text[];
	answer text;
BEGIN
	SET LOCAL session_replication_role = replica;
	EXECUTE edit;
	SET LOCAL session_replication_role = origin;
	found := ARRAY(SELECT format('%s|%s', p.version, p.problem)
				   FROM shardring.problems('r') AS p);
	BEGIN
		answer := shardring.shard_at('r', 5);
		answer := 'routes to ' || answer;
	EXCEPTION WHEN OTHERS THEN
		answer := 'routing: ' || SQLSTATE || ' ' || SQLERRM;
	END;
	RAISE EXCEPTION 'undo';
EXCEPTION WHEN raise_exception THEN
	RETURN QUERY SELECT NULL::integer, answer;
	RETURN QUERY SELECT nullif(split_part(f, '|', 1), '')::integer,
		regexp_replace(regexp_replace(split_part(f, '|', 2),
			'[0-9a-f]{64}', 'X'), '[0-9a-f]{64}', 'Y')
	FROM unnest(found) WITH ORDINALITY AS u (f, n) ORDER BY n;
END $$;
SELECT e.what, d.version, d.problem
FROM (VALUES
	(1, 'hole',
	 $$DELETE FROM shardring.shard_map WHERE version = 1 AND shard = 's1'$$),
	(2, 'overlap',
	 $$UPDATE shardring.shard_map SET slots = '{[1,4)}'
	 WHERE version = 1 AND shard = 's1'$$),
	(3, 'slot out of range',
	 $$UPDATE shardring.shard_map SET slots = '{[4,7)}'
	 WHERE version = 1 AND shard = 's2'$$),
	(4, 'foreign point',
	 $$UPDATE shardring.shard_group SET points[2] = points[2] + 1
	 WHERE version = 1 AND group_name = 'a'$$),
	(5, 'doubled point',
	 $$UPDATE shardring.shard_group SET points[2] = points[1]
	 WHERE version = 1 AND group_name = 'a'$$),
	(6, 'point out of range',
	 $$UPDATE shardring.shard_group SET points[2] = -1
	 WHERE version = 1 AND group_name = 'a'$$),
	(7, 'missing group',
	 $$DELETE FROM shardring.shard_group
	 WHERE version = 1 AND group_name = 'b'$$),
	(8, 'slots of a missing group',
	 $$INSERT INTO shardring.shard_map VALUES ('r', 1, 'd', 's0', '{[0,1)}')$$),
	(9, 'pin to nowhere',
	 $$UPDATE shardring.shard_pin SET group_name = 'nowhere'
	 WHERE version = 1$$),
	(10, 'missing pin',
	 $$DELETE FROM shardring.shard_pin WHERE version = 1$$),
	(11, 'moved pin',
	 $$UPDATE shardring.shard_pin SET key_position = 6 WHERE version = 1$$),
	(12, 'exchanged shards',
	 $$UPDATE shardring.shard_map SET slots = CASE shard
	 WHEN 's0' THEN '{[2,4)}'::int4multirange ELSE '{[0,2)}' END
	 WHERE version = 1 AND shard IN ('s0', 's1')$$),
	(13, 'another shard',
	 $$UPDATE shardring.shard_map SET shard = 's9'
	 WHERE version = 1 AND shard = 's1'$$),
	(14, 'fingerprint of the ring',
	 $$UPDATE shardring.ring SET fingerprint = repeat('0', 64)$$),
	(15, 'fingerprint of both',
	 $$UPDATE shardring.ring SET fingerprint = repeat('0', 64);
	 UPDATE shardring.ring_version SET fingerprint = repeat('0', 64)
	 WHERE version = 1$$),
	(16, 'pointer to no version',
	 $$UPDATE shardring.ring SET active_version = 99$$),
	(17, 'missing version',
	 $$DELETE FROM shardring.ring_version WHERE version = 1$$),
	(18, 'pointer to another version',
	 $$UPDATE shardring.ring SET active_version = 2$$),
	(19, 'missing ring',
	 $$DELETE FROM shardring.ring$$),
	(20, 'another hash',
	 $$UPDATE shardring.ring SET hash = 'murmur3'$$),
	(21, 'fingerprint of the version',
	 $$UPDATE shardring.ring_version SET fingerprint = repeat('0', 64)
	 WHERE version = 1$$),
	(22, 'pointer to a draft',
	 $$UPDATE shardring.ring_version SET sealed_at = NULL, fingerprint = NULL,
	 zone_fingerprint = NULL, group_rows = NULL, map_rows = NULL, pin_rows = NULL
	 WHERE version = 1$$),
	(23, 'last_version',
	 $$UPDATE shardring.ring SET last_version = 1$$),
	(24, 'missing history',
	 $$DELETE FROM shardring.activation$$),
	(25, 'missing shard',
	 $$DELETE FROM shardring.shard WHERE shard = 's0'$$),
	(26, 'missing last shard',
	 $$DELETE FROM shardring.shard WHERE shard = 's3'$$),
	(27, 'no shards',
	 $$DELETE FROM shardring.shard$$),
	(28, 'no damage',
	 $$UPDATE shardring.shard SET server = 'elsewhere'$$)
) AS e (n, what, edit)
	CROSS JOIN LATERAL public.damage(e.edit) AS d
ORDER BY e.n;
-- no damage was kept, and problems() looks at one ring or all
SELECT shardring.create_ring('other');
SELECT shardring.add_group('other', 'g', ARRAY['x']);
SELECT shardring.activate('other');
SET session_replication_role = replica;
UPDATE shardring.shard_map SET shard = 'y' WHERE ring = 'other';
RESET session_replication_role;
SELECT ring, version, left(problem, 25) FROM shardring.problems();
SELECT * FROM shardring.problems('r');
SELECT ring, version, left(problem, 25) FROM shardring.problems('other');
SELECT * FROM shardring.problems('none');
SELECT * FROM shardring.problems('');
-- a number that plain SQL gave is not given again
SELECT shardring.create_ring('numbers');
SELECT shardring.add_group('numbers', 'g', ARRAY['one']);
SELECT shardring.activate('numbers');
INSERT INTO shardring.ring_version (ring, version, vnodes) VALUES ('numbers', 7, 3);
INSERT INTO shardring.shard_group (ring, version, group_name, weight, slots, points)
SELECT g.ring, 7, g.group_name, 1, 1, g.points[1:3] FROM shardring.shard_group AS g WHERE g.ring = 'numbers';
INSERT INTO shardring.shard_map VALUES ('numbers', 7, 'g', 'two', '{[0,1)}');
SELECT shardring.activate('numbers', 7, expected_active => 1);
SELECT r.last_version FROM shardring.ring AS r WHERE r.ring = 'numbers';
SELECT shardring.draft_version('numbers');
SELECT shardring.activate('numbers', 8);
SELECT shardring.drop_version('numbers', 7), shardring.draft_version('numbers');
SELECT shardring.drop_ring('numbers');

DROP TABLE public.ring, public.ring_version, public.shard_group,
	public.shard_map, public.shard_pin, public.shard, public.activation;
DROP FUNCTION public.seal_after, public.try, public.damage;
DROP EXTENSION shardring;
