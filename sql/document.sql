--
-- document.sql
--	A version as one document: what is in it, what importing it does, and
--	that whatever is wrong with it is refused.
--
CREATE EXTENSION shardring;

SELECT shardring.create_ring('orders', vnodes => 3, hash => 'murmur3',
	hash_tags => true, rejoin_cooldown => '90 s');
SELECT shardring.add_group('orders', 'east', ARRAY['a', 'b'], 4,
	zone => 'z 1');
SELECT shardring.add_group('orders', 'west', ARRAY['c'], 1, weight => 0.50);
SELECT shardring.assign_slots('orders', 'east', '{[0,1),[3,4)}', 'd');
SELECT shardring.pin('orders', 17, 'west');
SELECT shardring.activate('orders');
SELECT shardring.draft_version('orders', note => 'more "east"');
SELECT shardring.set_weight('orders', 'east', 2);
SELECT shardring.seal('orders');

-- every field
SELECT jsonb_pretty(shardring.export_version('orders'));
SELECT d.document - 'groups' - 'fingerprint'
FROM shardring.export_version('orders', 2) AS d (document);

-- what cannot be exported
\set VERBOSITY terse
SELECT shardring.export_version(NULL);
SELECT shardring.export_version('none');
SELECT shardring.export_version('orders', 7);
SELECT shardring.draft_version('orders');
SELECT shardring.export_version('orders', 3);
SELECT shardring.create_ring('empty');
SELECT shardring.export_version('empty');
\set VERBOSITY default

-- elsewhere: the same ring, version, fingerprint, numbers and routes
CREATE TEMP TABLE kept AS
	SELECT v.version, v.fingerprint,
		shardring.export_version(v.ring, v.version) AS document
	FROM shardring.ring_version AS v
	WHERE v.ring = 'orders' AND v.sealed_at IS NOT NULL;
CREATE TEMP TABLE routes AS
	SELECT k.version, i AS key, l.*
	FROM kept AS k CROSS JOIN generate_series(1, 1000) AS i
		CROSS JOIN LATERAL shardring.locate('orders', i, k.version)
			AS l (of_version, key_position, group_name, slot, shard);
CREATE TEMP TABLE numbers AS
	SELECT s.shard, s.number FROM shardring.shard AS s;
SELECT shardring.drop_ring('orders');
SELECT shardring.import_version(k.document) FROM kept AS k
WHERE k.version = 2;
SELECT r.ring, r.hash, r.hash_tags, r.rejoin_cooldown, r.active_version,
	r.last_version
FROM shardring.ring AS r WHERE r.ring = 'orders';
SELECT shardring.import_version(k.document) FROM kept AS k
WHERE k.version = 1;
SELECT v.version, v.parent, v.base_active, v.vnodes, v.note,
	v.sealed_at IS NOT NULL AS sealed, v.fingerprint = k.fingerprint AS same,
	shardring.export_version(v.ring, v.version) = k.document AS same_document
FROM shardring.ring_version AS v JOIN kept AS k USING (version)
WHERE v.ring = 'orders' ORDER BY v.version;
SELECT count(*), count(*) FILTER (
	WHERE l.key_position = r.key_position AND l.group_name = r.group_name
		AND l.slot = r.slot AND l.shard = r.shard) AS same
FROM routes AS r
	CROSS JOIN LATERAL shardring.locate('orders', r.key, r.version) AS l;
TABLE numbers EXCEPT
	SELECT s.shard, s.number FROM shardring.shard AS s;
SELECT * FROM shardring.problems();

-- twice changes nothing
CREATE TEMP TABLE before AS
	SELECT v.xmin AS written_by, v.* FROM shardring.ring_version AS v;
SELECT shardring.import_version(k.document) FROM kept AS k ORDER BY 1;
TABLE before EXCEPT SELECT v.xmin, v.* FROM shardring.ring_version AS v;
-- nor is a version the same that has other zones
SELECT shardring.import_version(jsonb_set(k.document, '{groups,0,zone}', '"z 2"')) FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(jsonb_set(k.document, '{groups,0,zone}', 'null')) FROM kept AS k WHERE k.version = 1;

-- but only a document that is what it says, also of a version that is there
\set VERBOSITY terse
SELECT shardring.import_version(
	jsonb_set(k.document, '{groups,0,shards,0,slots}', '[[2, 3]]')
		#- '{groups,0,shards,1}')
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(jsonb_set(k.document, '{pins}', '[]'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(jsonb_set(k.document, '{hash}', '"md5"'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(k.document - 'groups')
FROM kept AS k WHERE k.version = 1;
\set VERBOSITY default
SELECT r.ring FROM shardring.ring AS r ORDER BY r.ring;
SELECT * FROM shardring.problems();

-- one that was behind may go straight to the newest
SELECT shardring.activate('orders', 2);
SELECT shardring.active_version('orders');
-- versions drafted here go on after the imported ones
SELECT shardring.draft_version('orders');

-- a number that means something else here
\set VERBOSITY terse
SELECT shardring.import_version(jsonb_set(k.document, '{version}', '3'))
FROM kept AS k WHERE k.version = 2;
SELECT shardring.seal('orders');
SELECT shardring.import_version(jsonb_set(k.document, '{version}', '3'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(d.document || '{"version": 4, "hash": "md5"}')
FROM shardring.export_version('orders') AS d (document);
SELECT shardring.import_version(
	d.document || '{"version": 4, "shards": ["b", "a", "c", "d"]}')
FROM shardring.export_version('orders') AS d (document);
SELECT shardring.import_version(
	d.document || '{"version": 4, "shards": ["e", "a", "b", "c", "d"]}')
FROM shardring.export_version('orders') AS d (document);

-- what was altered is refused, by whichever check meets it first
SELECT shardring.drop_ring('orders');
SELECT shardring.import_version(NULL);
SELECT shardring.import_version('null');
SELECT shardring.import_version('[]');
SELECT shardring.import_version('{}');
SELECT shardring.import_version(
	jsonb_set(k.document, '{groups,0,weight}', '2'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(
	jsonb_set(k.document, '{groups,0,points,0}', '5'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(
	jsonb_set(k.document, '{groups,0,shards,1,slots}', '[[2, 3], [1, 2]]'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(
	jsonb_set(k.document, '{groups,0,shards,0,slots}', '[[1, 3]]'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(jsonb_set(k.document, '{pins}', '[]'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(
	jsonb_set(k.document, '{pins,0,group}', '"north"'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(jsonb_set(k.document, '{hash}', '"md5"'))
FROM kept AS k WHERE k.version = 1;
SELECT shardring.import_version(
	jsonb_set(k.document, '{hash_tags}', 'false'))
FROM kept AS k WHERE k.version = 1;
\set VERBOSITY default

-- every field, missing or replaced by every kind of value: the document is
-- taken or refused with 22023
CREATE FUNCTION pg_temp.try_import(document jsonb) RETURNS text
LANGUAGE plpgsql AS $body$
BEGIN
	PERFORM shardring.import_version(document);
	RAISE EXCEPTION USING ERRCODE = 'P9999';
EXCEPTION WHEN OTHERS THEN
	RETURN CASE SQLSTATE WHEN 'P9999' THEN 'taken' ELSE SQLSTATE END;
END
$body$;
CREATE TEMP TABLE places AS
	SELECT string_to_array(p, ' ') AS place
	FROM unnest(ARRAY['format', 'ring', 'hash', 'hash_tags',
		'rejoin_cooldown', 'version', 'parent', 'drafted_on', 'vnodes',
		'note', 'fingerprint', 'groups', 'groups 0', 'groups 0 name',
		'groups 0 weight', 'groups 0 slots', 'groups 0 zone',
		'groups 0 points', 'groups 0 points 0', 'groups 0 shards',
		'groups 0 shards 0', 'groups 0 shards 0 shard',
		'groups 0 shards 0 slots', 'groups 0 shards 0 slots 0',
		'groups 0 shards 0 slots 0 0', 'groups 0 shards 0 slots 0 1',
		'pins', 'pins 0', 'pins 0 position', 'pins 0 group', 'shards',
		'shards 0']) AS u (p);
CREATE TEMP TABLE odd_values AS
	SELECT v::jsonb AS value
	FROM unnest(ARRAY['null', 'true', '""', '"x"', '"1"', '[]', '[[]]',
		'[1]', '["x", "x"]', '[null]', '{}', '0', '-1', '1.5', '70000',
		'1e12', '1e1000', '1e-1000', '[[0, 1, 2]]', '[[1, 0]]',
		'[[0, "1"]]', '[[-1, 1]]', '[{}, {}]',
		to_json(repeat('x', 256))::text]) AS u (v);
SELECT r.state, count(*)
FROM kept AS k CROSS JOIN places AS p CROSS JOIN odd_values AS o
	CROSS JOIN LATERAL pg_temp.try_import(
		jsonb_set(k.document, p.place, o.value)) AS r (state)
WHERE k.version = 1 AND jsonb_set(k.document, p.place, o.value) <> k.document
GROUP BY 1 ORDER BY 1;
SELECT p.place, r.state
FROM kept AS k CROSS JOIN places AS p
	CROSS JOIN LATERAL pg_temp.try_import(k.document #- p.place) AS r (state)
WHERE k.version = 1 AND r.state <> '22023';
-- only what decides no route may differ
SELECT p.place, string_agg(left(o.value::text, 12), ' | '
	ORDER BY left(o.value::text, 12) COLLATE "C") AS taken
FROM kept AS k CROSS JOIN places AS p CROSS JOIN odd_values AS o
	CROSS JOIN LATERAL pg_temp.try_import(
		jsonb_set(k.document, p.place, o.value)) AS r (state)
WHERE k.version = 1 AND jsonb_set(k.document, p.place, o.value) <> k.document
	AND r.state = 'taken'
GROUP BY p.place ORDER BY p.place;
SELECT count(*) FROM shardring.ring AS r WHERE r.ring = 'orders';

-- as many ranges as there can be, in time
SELECT shardring.create_ring('ragged', 1);
SELECT shardring.add_group('ragged', 'g', '{a,b}', 65536);
SELECT shardring.assign_slots('ragged', 'g', range_agg(int4range(i, i + 1)),
	CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END)
FROM generate_series(0, 65535) AS i GROUP BY i % 2;
SELECT shardring.seal('ragged');
CREATE TEMP TABLE ragged AS
	SELECT d.document FROM shardring.export_version('ragged', 1) AS d (document);
SELECT shardring.drop_ring('ragged');
SET statement_timeout = '60 s';
SELECT shardring.import_version(r.document) FROM ragged AS r;
SELECT shardring.import_version(r.document) FROM ragged AS r;
RESET statement_timeout;
SELECT shardring.export_version('ragged', 1) = r.document FROM ragged AS r;
SELECT shardring.drop_ring('ragged');

-- who may do what
CREATE ROLE regress_shardring_reader;
SET ROLE regress_shardring_reader;
SELECT shardring.import_version('{}');
SELECT shardring.export_version('none');
RESET ROLE;
SELECT shardring.import_version(k.document) FROM kept AS k
WHERE k.version = 1;
SELECT shardring.activate('orders');
SET ROLE regress_shardring_reader;
SELECT d.document ->> 'version'
FROM shardring.export_version('orders') AS d (document);
RESET ROLE;

-- an altered version is not passed on
SET session_replication_role = replica;
UPDATE shardring.shard_map AS m SET shard = 'z' WHERE m.shard = 'c';
RESET session_replication_role;
SELECT shardring.export_version('orders');

DROP ROLE regress_shardring_reader;
DROP EXTENSION shardring;
