--
-- define.sql
--	The define chapter: what each function does, and what it refuses.
--
CREATE EXTENSION shardring;
SET search_path = '';
SET intervalstyle = postgres;
SET client_min_messages = warning;

-- What one call answered: its SQLSTATE, or the value.
CREATE FUNCTION public.try(call text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE 'SELECT ' || call INTO answer;
	RETURN coalesce(nullif(answer, ''), 'done');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;

-- create_ring
SELECT shardring.create_ring('r');
SELECT ring, hash, hash_tags, rejoin_cooldown, active_version, fingerprint,
	last_version FROM shardring.ring;
SELECT ring, version, parent, base_active, vnodes, sealed_at, fingerprint,
	note, created_by = current_user AS mine, group_rows, map_rows, pin_rows
FROM shardring.ring_version;
SELECT call, public.try('shardring.create_ring(' || call || ')')
FROM unnest(ARRAY[
	'''r''',
	'NULL',
	'''n'', NULL',
	'''n'', 160, NULL',
	'''n'', 160, ''md5'', NULL',
	'''n'', 160, ''md5'', true, NULL',
	'''''',
	'repeat(''x'', 64)',
	'repeat(''é'', 32)',
	'repeat(''x'', 100000)',
	'''n'', 0',
	'''n'', -1',
	'''n'', 4194305',
	'''n'', 2147483647',
	'''n'', hash => ''MD5''',
	'''n'', hash => ''''',
	'''n'', hash => ''sha1''',
	'''n'', rejoin_cooldown => ''-1 s''',
	'''n'', rejoin_cooldown => ''178000000 years'''
]) AS c (call);
-- the limits themselves are allowed
SELECT shardring.create_ring(repeat('x', 63), 4194304, 'murmur3', true,
	'100 years');
SELECT shardring.create_ring('日本' || repeat('é', 28) || 'x', 1, 'crc16',
	rejoin_cooldown => '0');
SELECT ring, octet_length(ring), hash FROM shardring.ring ORDER BY ring;
SELECT shardring.drop_ring(ring) FROM shardring.ring WHERE ring <> 'r';
-- a poor hash is warned of
SELECT shardring.create_ring('poor', hash => 'fnv1a');
SELECT shardring.drop_ring('poor');

-- add_group: contiguous blocks of slots, as even as can be
SELECT shardring.add_group('r', 'one', ARRAY['a']);
SELECT shardring.add_group('r', 'four', ARRAY['a', 'b'], 4);
SELECT shardring.add_group('r', 'seven', ARRAY['a', 'b', 'c'], slots => 7,
	weight => 0.5, zone => 'west');
SELECT shardring.add_group('r', 'twice', ARRAY['a', 'b', 'a', 'c'], 8,
	weight => 0);
SELECT group_name, weight, slots, zone, cardinality(points)
FROM shardring.shard_group ORDER BY group_name;
SELECT group_name, shard, slots FROM shardring.shard_map
ORDER BY group_name, shard;
SELECT group_name, string_agg(shard, ' ' ORDER BY slot)
FROM shardring.shard_slot GROUP BY group_name ORDER BY group_name;
-- the same by the formula, for every number of shards and slots up to 40
SELECT count(*) AS slots,
	count(*) FILTER (WHERE b.shard <> floor(s.slot * n.n / k.k)::text) AS wrong
FROM generate_series(1, 40) AS k (k)
	CROSS JOIN LATERAL generate_series(1, k.k) AS n (n)
	CROSS JOIN LATERAL shardring_internal.slot_blocks(
		ARRAY(SELECT i::text FROM generate_series(0, n.n - 1) AS i), k.k) AS b
	CROSS JOIN LATERAL unnest(b.slots) AS r (r)
	CROSS JOIN LATERAL generate_series(lower(r.r), upper(r.r) - 1) AS s (slot);
-- the greatest of all
SELECT count(*), range_agg(r.r)
FROM shardring_internal.slot_blocks(
		ARRAY(SELECT i::text FROM generate_series(1, 65536) AS i), 65536) AS b
	CROSS JOIN LATERAL unnest(b.slots) AS r (r);
-- points are candidates in ascending order, the first 160 of them
SELECT points = ARRAY(
		SELECT shardring.key_position('one#' || i)
		FROM generate_series(0, 159) AS i ORDER BY i)
FROM shardring.shard_group WHERE group_name = 'one';
SELECT call, public.try('shardring.add_group(' || call || ')')
FROM unnest(ARRAY[
	'NULL, ''g'', ARRAY[''a'']',
	'''r'', NULL, ARRAY[''a'']',
	'''r'', ''g'', NULL',
	'''r'', ''g'', ARRAY[''a''], weight => NULL',
	'''r'', ''g'', ARRAY[''a''], force => NULL',
	'''r'', ''g'', ARRAY[''a'', NULL]',
	'''none'', ''g'', ARRAY[''a'']',
	'''r'', ''g'', ARRAY[''a''], version => 2',
	'''r'', ''g'', ARRAY[''a''], version => -2147483648',
	'''r'', ''one'', ARRAY[''a'']',
	'''r'', '''', ARRAY[''a'']',
	'''r'', repeat(''x'', 256), ARRAY[''a'']',
	'''r'', repeat(''é'', 128), ARRAY[''a'']',
	'''r'', ''g'', ''{}''',
	'''r'', ''g'', ARRAY[ARRAY[''a''], ARRAY[''b'']]',
	'''r'', ''g'', ARRAY[''a'', '''']',
	'''r'', ''g'', ARRAY[repeat(''x'', 64)]',
	'''r'', ''g'', ARRAY[''a'', ''b''], 1',
	'''r'', ''g'', ARRAY[''a''], 0',
	'''r'', ''g'', ARRAY[''a''], -1',
	'''r'', ''g'', ARRAY[''a''], 65537',
	'''r'', ''g'', array_fill(''a''::text, ARRAY[65537])',
	'''r'', ''g'', ARRAY[''a''], zone => ''''',
	'''r'', ''g'', ARRAY[''a''], zone => repeat(''x'', 256)',
	'''r'', ''g'', ARRAY[''a''], weight => -1',
	'''r'', ''g'', ARRAY[''a''], weight => ''NaN''',
	'''r'', ''g'', ARRAY[''a''], weight => ''Infinity''',
	'''r'', ''g'', ARRAY[''a''], weight => ''-Infinity''',
	'''r'', ''g'', ARRAY[''a''], weight => 0.001',
	'''r'', ''g'', ARRAY[''a''], weight => 1e-16000',
	'''r'', ''g'', ARRAY[''a''], weight => 1e131000',
	'''r'', ''g'', ARRAY[''a''], weight => 2147483648',
	'''r'', ''g'', ARRAY[''a''], weight => 26214.4',
	'''r'', ''g'', ARRAY[''a''], weight => 26214.5'
]) AS c (call);
-- nothing of that left a trace
SELECT count(*) FROM shardring.shard_group;
-- half a point is rounded away from zero
SELECT shardring.add_group('r', 'half', ARRAY['a'], weight => 0.003125);
SELECT cardinality(points) FROM shardring.shard_group
WHERE group_name = 'half';
-- names of every kind
SELECT shardring.add_group('r', name, ARRAY['shard ' || left(name, 50)])
FROM unnest(ARRAY[repeat('x', 255), '日本', ' ', '"', '%s', E'a\nb']) AS n (name);
SELECT left(group_name, 10), octet_length(group_name), points[1]
FROM shardring.shard_group
WHERE weight = 1 AND group_name <> ALL (ARRAY['one', 'four'])
ORDER BY group_name;
SELECT shardring.drop_ring('r');

-- candidates that are taken are skipped, by whoever took them
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', name, ARRAY[name])
FROM unnest(ARRAY['node1', 'node356', 'node380', 'node-71341']) AS n (name);
SELECT group_name, cardinality(points), points[160] = shardring.key_position(
	group_name || '#' || CASE WHEN group_name = ANY (ARRAY['node380',
		'node-71341']) THEN 160 ELSE 159 END)
FROM shardring.shard_group ORDER BY group_name;
SELECT group_name FROM shardring.shard_group WHERE 553273401 = ANY (points);
SELECT shardring.drop_ring('r');

-- set_weight appends points and drops them from the end
SELECT shardring.create_ring('r', 10);
SELECT shardring.add_group('r', 'a', ARRAY['a']);
SELECT shardring.add_group('r', 'b', ARRAY['b'], weight => 2);
SELECT points AS points_before FROM shardring.shard_group
WHERE group_name = 'a' \gset
SELECT shardring.set_weight('r', 'a', 2.5);
SELECT weight, cardinality(points),
	points[1:10] = :'points_before' AS kept,
	points[11:] = ARRAY(SELECT shardring.key_position('a#' || i)
						FROM generate_series(10, 24) AS i ORDER BY i) AS added
FROM shardring.shard_group WHERE group_name = 'a';
SELECT shardring.set_weight('r', 'a', 0.4);
SELECT weight, points = (:'points_before'::bigint[])[1:4] AS kept
FROM shardring.shard_group WHERE group_name = 'a';
SELECT shardring.set_weight('r', 'a', 0);
SELECT weight, points FROM shardring.shard_group WHERE group_name = 'a';
SELECT shardring.set_weight('r', 'a', 1);
SELECT weight, points = :'points_before' AS same
FROM shardring.shard_group WHERE group_name = 'a';
SELECT weight, cardinality(points) FROM shardring.shard_group
WHERE group_name = 'b';
SELECT call, public.try('shardring.set_weight(' || call || ')')
FROM unnest(ARRAY[
	'NULL, ''a'', 1',
	'''r'', NULL, 1',
	'''r'', ''a'', NULL',
	'''none'', ''a'', 1',
	'''r'', ''none'', 1',
	'''r'', ''A'', 1',
	'''r'', ''a'', 1, 7',
	'''r'', ''a'', -0.1',
	'''r'', ''a'', ''NaN''',
	'''r'', ''a'', ''Infinity''',
	'''r'', ''a'', 0.04',
	'''r'', ''a'', 419429',
	'''r'', ''a'', 419430.4',
	'''r'', ''a'', 1e131000'
]) AS c (call);

-- set_vnodes does so for all groups, in the order of their names
SELECT shardring.set_vnodes('r', 20);
SELECT v.vnodes, g.group_name, g.weight, cardinality(g.points),
	g.points = ARRAY(SELECT shardring.key_position(g.group_name || '#' || i)
					 FROM generate_series(0, 20 * g.weight::int - 1) AS i
					 ORDER BY i) AS right
FROM shardring.ring_version AS v
	JOIN shardring.shard_group AS g ON g.ring = v.ring
ORDER BY g.group_name;
SELECT shardring.set_vnodes('r', 10);
SELECT points = :'points_before' AS same FROM shardring.shard_group
WHERE group_name = 'a';
SELECT shardring.set_weight('r', 'a', 0.1);
SELECT call, public.try('shardring.set_vnodes(' || call || ')')
FROM unnest(ARRAY[
	'NULL, 1',
	'''r'', NULL',
	'''none'', 1',
	'''r'', 1, 2',
	'''r'', 0',
	'''r'', -5',
	'''r'', 4194305',
	'''r'', 4194304',
	'''r'', 2000000',
	'''r'', 4'
]) AS c (call);
SELECT vnodes FROM shardring.ring_version;
SELECT shardring.create_ring('empty');
SELECT shardring.set_vnodes('empty', 5);
SELECT vnodes FROM shardring.ring_version WHERE ring = 'empty';
SELECT shardring.drop_ring('empty');

-- crc16: one group, few points
SELECT shardring.create_ring('slots', hash => 'crc16', hash_tags => true);
SELECT call, public.try('shardring.' || call)
FROM unnest(ARRAY[
	'add_group(''slots'', ''all'', ARRAY[''a'', ''b'', ''c''], 16384, 25.61)',
	'add_group(''slots'', ''all'', ARRAY[''a'', ''b'', ''c''], 16384, 25.6)',
	'add_group(''slots'', ''more'', ARRAY[''a''])',
	'set_weight(''slots'', ''all'', 25.7)',
	'set_vnodes(''slots'', 161)',
	'set_weight(''slots'', ''all'', 1)'
]) AS c (call);
SELECT shard, slots FROM shardring.shard_map WHERE ring = 'slots'
ORDER BY shard;
SELECT shardring.drop_ring('slots');

-- remove_group
SELECT shardring.remove_group('r', 'b');
SELECT group_name FROM shardring.shard_group;
SELECT group_name FROM shardring.shard_map;
SELECT call, public.try('shardring.remove_group(' || call || ')')
FROM unnest(ARRAY[
	'NULL, ''a''',
	'''r'', NULL',
	'''none'', ''a''',
	'''r'', ''b''',
	'''r'', ''a'', 0'
]) AS c (call);
SELECT shardring.drop_ring('r');

-- assign_slots takes from others what it gives
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'g', ARRAY['a', 'b', 'c'], 12);
SELECT shardring.assign_slots('r', 'g', '{[3,5),[11,12)}', 'd');
SELECT shard, slots FROM shardring.shard_map ORDER BY shard;
SELECT shardring.assign_slots('r', 'g', '{[2,9)}', 'c');
SELECT shard, slots FROM shardring.shard_map ORDER BY shard;
SELECT shardring.assign_slots('r', 'g', '{[0,12)}', 'a');
SELECT shard, slots FROM shardring.shard_map ORDER BY shard;
SELECT shardring.assign_slots('r', 'g', '{[0,12)}', 'a');
SELECT call, public.try('shardring.assign_slots(' || call || ')')
FROM unnest(ARRAY[
	'NULL, ''g'', ''{[0,1)}'', ''x''',
	'''r'', NULL, ''{[0,1)}'', ''x''',
	'''r'', ''g'', NULL, ''x''',
	'''r'', ''g'', ''{[0,1)}'', NULL',
	'''none'', ''g'', ''{[0,1)}'', ''x''',
	'''r'', ''none'', ''{[0,1)}'', ''x''',
	'''r'', ''g'', ''{[0,1)}'', ''x'', 2',
	'''r'', ''g'', ''{}'', ''x''',
	'''r'', ''g'', ''{(,)}'', ''x''',
	'''r'', ''g'', ''{(,3)}'', ''x''',
	'''r'', ''g'', ''{[3,)}'', ''x''',
	'''r'', ''g'', ''{[-1,1)}'', ''x''',
	'''r'', ''g'', ''{[0,5),[100,)}'', ''x''',
	'''r'', ''g'', ''{[11,13)}'', ''x''',
	'''r'', ''g'', ''{[12,13)}'', ''x''',
	'''r'', ''g'', ''{[0,1)}'', ''''',
	'''r'', ''g'', ''{[0,1)}'', repeat(''x'', 64)'
]) AS c (call);
SELECT shard, slots FROM shardring.shard_map ORDER BY shard;

-- pins
SELECT shardring.add_group('r', 'own', ARRAY['own'], weight => 0);
SELECT shardring.pin('r', 0, 'own');
SELECT shardring.pin('r', 4294967295, 'own');
SELECT shardring.pin_key('r', 'tenant', 'own');
SELECT shardring.pin('r', 4294967295, 'g');
SELECT key_position, group_name,
	key_position = shardring.key_position('tenant') AS tenant
FROM shardring.shard_pin ORDER BY key_position;
SELECT shardring.unpin('r', 0);
SELECT count(*) FROM shardring.shard_pin;
SELECT call, public.try('shardring.' || call)
FROM unnest(ARRAY[
	'pin(NULL, 0, ''own'')',
	'pin(''r'', NULL, ''own'')',
	'pin(''r'', 0, NULL)',
	'pin(''none'', 0, ''own'')',
	'pin(''r'', 0, ''none'')',
	'pin(''r'', 0, ''own'', 2)',
	'pin(''r'', -1, ''own'')',
	'pin(''r'', 4294967296, ''own'')',
	'pin_key(NULL, ''k'', ''own'')',
	'pin_key(''r'', NULL, ''own'')',
	'pin_key(''r'', ''k'', NULL)',
	'pin_key(''none'', ''k'', ''own'')',
	'pin_key(''r'', ''k'', ''none'')',
	'pin_key(''r'', ''k'', ''own'', 2)',
	'unpin(NULL, 0)',
	'unpin(''r'', NULL)',
	'unpin(''none'', 0)',
	'unpin(''r'', 0)',
	'unpin(''r'', -1)',
	'unpin(''r'', 0, 2)'
]) AS c (call);
SELECT shardring.drop_ring('r');
-- with the hash and the tags of the ring
SELECT shardring.create_ring('r', hash => 'murmur3', hash_tags => true);
SELECT shardring.add_group('r', 'own', ARRAY['own']);
SELECT shardring.pin_key('r', 'a{tenant}b', 'own');
SELECT shardring.pin_key('r', '', 'own');
SELECT key_position = shardring.key_position('tenant', 'murmur3') AS tenant,
	key_position
FROM shardring.shard_pin ORDER BY key_position;
SELECT shardring.drop_ring('r');

-- draft_version copies everything; the number is never used again
SELECT shardring.create_ring('r', 3);
SELECT public.try('shardring.draft_version(''r'')');
SELECT shardring.add_group('r', 'g', ARRAY['a', 'b'], 5, 2, 'east');
SELECT shardring.pin('r', 7, 'g');
SELECT shardring.draft_version('r', 1, 'from a draft');
SELECT shardring.set_vnodes('r', 4, version => 1);
SELECT public.try('shardring.set_vnodes(''r'', 5)');
SELECT public.try('shardring.seal(''r'')');
SELECT shardring.drop_version('r', 2);
SELECT shardring.activate('r');
SELECT shardring.draft_version('r', note => 'Größe');
SELECT version, parent, base_active, vnodes, sealed_at IS NULL AS draft, note,
	group_rows, map_rows, pin_rows
FROM shardring.ring_version ORDER BY version;
SELECT group_name, weight, slots, zone, points FROM shardring.shard_group
WHERE version = 1
EXCEPT
SELECT group_name, weight, slots, zone, points FROM shardring.shard_group
WHERE version = 3;
SELECT version, shard, slots FROM shardring.shard_map
ORDER BY version, shard;
SELECT version, key_position, group_name FROM shardring.shard_pin
ORDER BY version;
SELECT last_version FROM shardring.ring;
SELECT call, public.try('shardring.draft_version(' || call || ')')
FROM unnest(ARRAY[
	'NULL',
	'''none''',
	'''r'', 2',
	'''r'', 0',
	'''r'', -1'
]) AS c (call);

-- an unchanged copy is the same ring; the order of rows has no effect
SELECT shardring.seal('r');
SELECT count(DISTINCT fingerprint) FROM shardring.ring_version;
SELECT shardring.drop_ring('r');

-- shards are numbered when they are first sealed: by group, then slot
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'b', ARRAY['z', 'y', 'x', 'z']);
SELECT shardring.add_group('r', 'a', ARRAY['n', 'y', 'm']);
SELECT count(*) FROM shardring.shard;
SELECT shardring.seal('r');
SELECT shard, number, server FROM shardring.shard ORDER BY number;
SELECT shardring.draft_version('r', 1);
SELECT shardring.remove_group('r', 'a');
SELECT shardring.add_group('r', 'c', ARRAY['a', 'n']);
SELECT shardring.seal('r');
SELECT shard, number, server FROM shardring.shard ORDER BY number;
SELECT shardring.drop_ring('r');

-- the ring's only draft, or none, or several
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'g', ARRAY['a']);
SELECT shardring.draft_version('r', 1);
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT shardring.set_weight('r', 'g', 2);
SELECT shardring.seal('r', 1);
SELECT shardring.seal('r');
SELECT shardring.set_weight('r', 'g', 2);
SELECT shardring.set_weight('r', 'g', 2, 1);
SELECT shardring.drop_ring('r');

-- activate
SELECT shardring.create_ring('r', rejoin_cooldown => '1 hour');
SELECT shardring.activate('r');
SELECT shardring.add_group('r', 'a', ARRAY['a'], 4, weight => 0);
SELECT shardring.activate('r');
SELECT shardring.set_weight('r', 'a', 1);
SELECT shardring.activate('r', expected_active => 1);
SELECT shardring.activate('r', 1, max_moved => 0);
SELECT r.active_version, r.fingerprint = v.fingerprint AS same, v.sealed_at
	IS NOT NULL AS sealed
FROM shardring.ring AS r JOIN shardring.ring_version AS v USING (ring);
SELECT shardring.activate('r');
SELECT shardring.activate('r', 1);
SELECT shardring.activate('r', 2);
-- the number of slots of a group that stays is fixed
SELECT shardring.draft_version('r');
UPDATE shardring.shard_group SET slots = 8 WHERE version = 2;
SELECT shardring.assign_slots('r', 'a', '{[0,8)}', 'a');
SELECT shardring.activate('r');
SELECT shardring.drop_version('r', 2);
-- two people draft from version 1; the second is told, and may insist
SELECT shardring.draft_version('r');
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b'], version => 3);
SELECT shardring.add_group('r', 'c', ARRAY['c'], version => 4);
SELECT shardring.activate('r');
SELECT shardring.activate('r', 3);
SELECT shardring.activate('r');
SELECT shardring.activate('r', expected_active => 1);
SELECT shardring.activate('r', expected_active => 3);
SELECT version, from_version, activated_by = current_user AS mine,
	activated_at <= clock_timestamp() AS past
FROM shardring.activation ORDER BY version;
-- b left: it may not come back at once
SELECT shardring.draft_version('r');
DO $$
BEGIN
	PERFORM shardring.add_group('r', 'b', ARRAY['b']);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RAISE WARNING '%', SQLERRM;
END $$;
SELECT shardring.add_group('r', 'b', ARRAY['b'], force => true);
SELECT shardring.remove_group('r', 'b');
UPDATE shardring.ring SET rejoin_cooldown = '0';
SELECT shardring.add_group('r', 'b', ARRAY['b']);
UPDATE shardring.ring SET rejoin_cooldown = '1 hour';
-- c never left, and d was never there
SELECT shardring.remove_group('r', 'c');
SELECT shardring.add_group('r', 'c', ARRAY['c']);
SELECT shardring.add_group('r', 'd', ARRAY['d']);
-- more than one group joins: b and d
SELECT shardring.activate('r');
SELECT public.try('shardring.activate(' || call || ')'), call
FROM unnest(ARRAY[
	'NULL',
	'''none''',
	'''r'', 99',
	'''r'', max_moved => -0.1',
	'''r'', max_moved => 1.1',
	'''r'', max_moved => ''NaN'''
]) AS c (call);
-- versions only go forward
UPDATE shardring.ring SET active_version = 1, fingerprint =
	(SELECT fingerprint FROM shardring.ring_version WHERE version = 1);
SELECT shardring.draft_version('r', 1);
SELECT shardring.activate('r', max_moved => 0.5);
SELECT shardring.activate('r', max_moved => 1);
SELECT fingerprint = (SELECT fingerprint FROM shardring.ring_version
					  WHERE version = 1) AS same
FROM shardring.ring;

-- what moved is exact, and so is the limit
SELECT a.version, a.moved = coalesce(sum(p.share), 0) AS exact
FROM shardring.activation AS a
	LEFT JOIN LATERAL shardring.move_plan('r', a.from_version, a.version)
		AS p ON true
WHERE a.from_version IS NOT NULL
GROUP BY a.version, a.moved ORDER BY a.version;
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'e', ARRAY['e']);
SELECT sum(share) AS moved FROM shardring.move_plan('r', 6, 7) \gset
SELECT public.try(format('shardring.activate(''r'', max_moved => %L)',
						 :moved * (1 - 1e-15)));
SELECT shardring.activate('r', max_moved => :moved);

-- history: also of versions that are gone
SELECT shardring.drop_version('r', 3);
SELECT shardring.version_at('r', activated_at) = version AS at_once,
	shardring.version_at('r', activated_at - interval '1 us')
		IS NOT DISTINCT FROM from_version AS before
FROM shardring.activation ORDER BY version;
SELECT shardring.version_at('r', '-infinity'),
	shardring.version_at('r', 'infinity'),
	shardring.version_at(NULL, now()), shardring.version_at('r', NULL);
SELECT shardring.version_at('none', now());

-- drop_version and prune
SELECT public.try('shardring.' || call), call
FROM unnest(ARRAY[
	'drop_version(NULL, 1)',
	'drop_version(''r'', NULL)',
	'drop_version(''none'', 1)',
	'drop_version(''r'', 3)',
	'drop_version(''r'', 7)',
	'prune(NULL, 1)',
	'prune(''r'', NULL)',
	'prune(''none'', 1)',
	'prune(''r'', -1)'
]) AS c (call);
SELECT shardring.draft_version('r', 4, 'holds version 4');
SELECT shardring.draft_version('r');
SELECT shardring.seal('r', 9);
SELECT shardring.prune('r', 3);
SELECT array_agg(version ORDER BY version) FROM shardring.ring_version;
SELECT shardring.prune('r', 1);
SELECT array_agg(version ORDER BY version) FROM shardring.ring_version;
SELECT shardring.prune('r', 0);
SELECT array_agg(version ORDER BY version) FROM shardring.ring_version;
SELECT shardring.drop_version('r', 8);
SELECT shardring.prune('r', 0);
SELECT array_agg(version ORDER BY version) FROM shardring.ring_version;
SELECT array_agg(DISTINCT version) FROM shardring.shard_group;
SELECT array_agg(DISTINCT version) FROM shardring.shard_map;
SELECT count(*) FROM shardring.activation;
SELECT * FROM shardring.problems();

-- drop_ring leaves nothing
SELECT public.try('shardring.drop_ring(' || call || ')'), call
FROM unnest(ARRAY['NULL', '''none''', '''R''']) AS c (call);
SELECT shardring.create_ring('kept');
SELECT shardring.add_group('kept', 'g', ARRAY['a']);
SELECT shardring.pin('kept', 1, 'g');
SELECT shardring.activate('kept');
SELECT shardring.drop_ring('r');
SELECT (SELECT count(*) FROM shardring.ring) AS ring,
	(SELECT count(*) FROM shardring.ring_version) AS ring_version,
	(SELECT count(*) FROM shardring.shard_group) AS shard_group,
	(SELECT count(*) FROM shardring.shard_map) AS shard_map,
	(SELECT count(*) FROM shardring.shard_pin) AS shard_pin,
	(SELECT count(*) FROM shardring.shard) AS shard,
	(SELECT count(*) FROM shardring.activation) AS activation;
-- a ring of the same name starts anew
SELECT shardring.create_ring('r');
SELECT count(*) FROM shardring.shard_group WHERE ring = 'r';

-- uneven shares are warned of
SELECT shardring.create_ring('few', 1);
SELECT shardring.add_group('few', 'node-' || i, ARRAY['node-' || i])
FROM generate_series(0, 7) AS i;
SELECT shardring.activate('few');
SELECT max(ratio) AS largest FROM shardring.shares('few', 1);
SELECT shardring.draft_version('few');
SELECT shardring.set_vnodes('few', 8);
SELECT max(ratio) AS largest FROM shardring.shares('few', 2);
SELECT shardring.activate('few');
SELECT shardring.draft_version('few');
SELECT shardring.set_vnodes('few', 16);
SELECT max(ratio) AS largest FROM shardring.shares('few', 3);
SELECT shardring.activate('few');
SELECT shardring.draft_version('few');
SELECT shardring.add_group('few', 'light', ARRAY['light'], weight => 0.0625);
SELECT shardring.activate('few');
-- also for a poor hash
SELECT shardring.create_ring('poor', hash => 'fnv1a');
SELECT shardring.add_group('poor', 'node-' || i, ARRAY['node-' || i])
FROM generate_series(0, 7) AS i;
SELECT shardring.activate('poor');
-- weights for which no number would do
SELECT shardring.create_ring('steep', 200000);
SELECT shardring.add_group('steep', 'heavy', ARRAY['a']);
SELECT shardring.add_group('steep', 'l4', ARRAY['a'], weight => 0.000005);
SELECT shardring.activate('steep');

-- resize_groups, with arguments that ours never give it: as many counts as
-- names, and not more than there may be
SELECT shardring.create_ring('points', 2), shardring.create_ring('places', 2, 'crc16');
SELECT shardring.add_group('points', g, ARRAY[g]) FROM unnest('{a,b}'::text[]) AS g;
SELECT shardring_internal.resize_groups('points', 1, '{a,b}', '{2}');
SELECT shardring_internal.resize_groups('points', 1, '{a}', '{-1}');
SELECT shardring_internal.resize_groups('points', 1, '{a}', '{4194305}');
SELECT shardring_internal.resize_groups('points', 1, '{a,b}', '{4194304,3}');
-- nor so many together that 32 bits would count none (B14)
SELECT shardring_internal.resize_groups('points', 1, array_agg('g' || i), array_agg(4194304)) FROM generate_series(1, 1024) AS i;
SELECT group_name, cardinality(points) FROM shardring_internal.resize_groups('points', 1, '{new,a}', '{3,1}');
-- crc16 has 65536 positions in all
SELECT cardinality(points) FROM shardring_internal.resize_groups('places', 1, '{a}', '{4096}');
SELECT shardring_internal.resize_groups('places', 1, '{a}', '{70000}');

-- an ordinary role may change nothing
CREATE ROLE regress_shardring_user;
SET ROLE regress_shardring_user;
SELECT p.proname FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	AND has_function_privilege(p.oid, 'EXECUTE')
	AND p.prosrc ~ '(INSERT INTO|UPDATE|DELETE FROM)\s+shardring';
SELECT public.try('shardring.' || call), call
FROM unnest(ARRAY[
	'create_ring(''mine'')',
	'add_group(''r'', ''g'', ARRAY[''a''])',
	'seal(''kept'')',
	'activate(''kept'')',
	'drop_version(''few'', 1)',
	'drop_ring(''r'')',
	'shard_for(''kept'', ''k'')'
]) AS c (call);
SELECT c.relname FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = 'shardring'::regnamespace AND c.relkind IN ('r', 'v')
	AND (has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
		 OR NOT has_table_privilege(c.oid, 'SELECT'));
RESET ROLE;
DROP ROLE regress_shardring_user;

-- the limits of numbers, and what plain SQL left there, are told as such
SELECT count(shardring.drop_ring(ring)) FROM shardring.ring;
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'a', ARRAY['a']);
SELECT shardring.activate('r');
SELECT shardring.import_version(shardring.export_version('r')
	|| '{"ring": "last", "version": 999999999}');
SELECT shardring.activate('last');
SELECT shardring.draft_version('last');
-- as the hint says
SELECT shardring.import_version(shardring.export_version('last')
	|| '{"ring": "next", "version": 1}');
SELECT shardring.draft_version('next', 1);
-- a draft that plain SQL made has its number, and the next one another
INSERT INTO shardring.ring_version (ring, version, vnodes)
VALUES ('r', 2, 10), ('next', 999999999, 10);
SELECT shardring.draft_version('r');
SELECT shardring.draft_version('next', 1);
-- numbers of shards that are not dense
INSERT INTO shardring.shard (ring, shard, number)
VALUES ('r', 'b', 2), ('next', 'b', 2147483647);
SELECT shardring.add_group('r', 'c', ARRAY['c', 'd'], version => 3);
SELECT shardring.seal('r', 3);
SELECT shardring.seal('next', 2);
SELECT problem FROM shardring.problems('r');
SELECT count(shardring.drop_ring(ring)) FROM shardring.ring;
-- a version or a history that was there before its ring
INSERT INTO shardring.ring_version (ring, version, vnodes)
VALUES ('r', 1, 10);
SELECT shardring.create_ring('r');
DELETE FROM shardring.ring_version;
INSERT INTO shardring.activation (ring, version, activated_at, activated_by)
VALUES ('r', 1, 'now', 'nobody');
SELECT shardring.create_ring('r');
SET session_replication_role = replica;
DELETE FROM shardring.activation;
RESET session_replication_role;

-- every object says what it is for
SELECT pg_catalog.pg_describe_object(d.classid, d.objid, 0) AS bare
FROM pg_catalog.pg_depend AS d
	JOIN pg_catalog.pg_extension AS e
		ON d.refclassid = 'pg_catalog.pg_extension'::regclass
		AND d.refobjid = e.oid AND d.deptype = 'e'
WHERE e.extname = 'shardring'
	AND d.classid <> 'pg_catalog.pg_type'::regclass
	AND pg_catalog.obj_description(d.objid, d.classid::regclass::name)
		IS NULL;
SELECT a.attrelid::regclass, a.attname AS bare
FROM pg_catalog.pg_attribute AS a
	JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = 'shardring'::regnamespace AND a.attnum > 0
	AND c.relkind IN ('r', 'v', 'c')
	AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL;

DROP FUNCTION public.try;
DROP EXTENSION shardring;
