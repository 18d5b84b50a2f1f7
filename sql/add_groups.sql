--
-- add_groups.sql
--	Many groups in one call: the same ring as one by one, all or nothing, what
--	is refused, and how much is read for it.
--
CREATE EXTENSION shardring;
SET search_path = '';
SET client_min_messages = error;
\set SHOW_CONTEXT never

-- The same as adding them one after the other: names whose points collide,
-- all fields or none, shards twice, weights that round, weight 0.
CREATE TABLE public.given (n integer, g jsonb);
INSERT INTO public.given
SELECT row_number() OVER (), g
FROM (SELECT jsonb_build_object('group_name', name, 'shards', ARRAY[left(name, 30)]) AS g
	  FROM unnest(ARRAY['node380', 'node1', 'node-71341', 'node356', '日本', ' ', '"', '%s', repeat('é', 127)]) AS n (name)
	  UNION ALL SELECT jsonb_build_object('group_name', 'w' || i, 'shards', ARRAY['a', 'b', 'a'], 'slots', 3 + i, 'weight', i / 4.0, 'zone', 'z' || i % 3)
	  FROM generate_series(0, 20) AS i
	  UNION ALL SELECT '{"group_name": "nulls", "shards": ["a"], "slots": null, "zone": null}') AS t;
CREATE FUNCTION public.one_by_one(ring text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	g jsonb;
BEGIN
	FOR g IN SELECT o.g FROM public.given AS o ORDER BY o.n LOOP
		PERFORM shardring.add_group(one_by_one.ring, g ->> 'group_name', ARRAY(SELECT pg_catalog.jsonb_array_elements_text(g -> 'shards')),
			(g ->> 'slots')::integer, coalesce((g ->> 'weight')::numeric, 1), g ->> 'zone');
	END LOOP;
END $$;
SELECT h.hash, shardring.create_ring('one ' || h.hash, hash => h.hash), shardring.create_ring('all ' || h.hash, hash => h.hash)
FROM unnest('{md5,murmur3,fnv1a}'::text[]) AS h (hash);
SELECT public.one_by_one('one ' || h.hash), shardring.add_groups('all ' || h.hash, (SELECT jsonb_agg(g.g ORDER BY g.n) FROM public.given AS g))
FROM unnest('{md5,murmur3,fnv1a}'::text[]) AS h (hash);
SELECT h.hash, shardring.version_fingerprint('one ' || h.hash, 1) = shardring.version_fingerprint('all ' || h.hash, 1) AS same
FROM unnest('{md5,murmur3,fnv1a}'::text[]) AS h (hash);
SELECT count(*) AS different
FROM (SELECT group_name, weight, slots, zone, points FROM shardring.shard_group WHERE ring = 'one md5'
	  EXCEPT SELECT group_name, weight, slots, zone, points FROM shardring.shard_group WHERE ring = 'all md5') AS d;
SELECT group_name, weight, slots, zone, cardinality(points) FROM shardring.shard_group
WHERE ring = 'all md5' AND group_name = ANY ('{node1,nulls,w0,w3}') ORDER BY group_name;
-- in two calls as in one: many beside few, and few beside many
SELECT shardring.create_ring('parts');
SELECT shardring.add_groups('parts', (SELECT jsonb_agg(g.g ORDER BY g.n) FROM public.given AS g WHERE g.n <= 3));
SELECT shardring.add_groups('parts', (SELECT jsonb_agg(g.g ORDER BY g.n) FROM public.given AS g WHERE g.n BETWEEN 4 AND 29));
SELECT shardring.add_groups('parts', (SELECT jsonb_agg(g.g ORDER BY g.n) FROM public.given AS g WHERE g.n > 29));
SELECT shardring.version_fingerprint('parts', 1) = shardring.version_fingerprint('all md5', 1) AS same;
-- the order counts: where two want a position, the first has it
SELECT shardring.create_ring('other way');
SELECT shardring.add_groups('other way', (SELECT jsonb_agg(g.g ORDER BY g.n DESC) FROM public.given AS g));
SELECT shardring.version_fingerprint('other way', 1) = shardring.version_fingerprint('all md5', 1) AS same;
SELECT count(shardring.drop_ring(ring)) FROM shardring.ring;

-- Few points beside many of the same hash: with the filter for those, and
-- without it.
SELECT shardring.create_ring('c', 4096, 'crc16');
SELECT shardring.add_group('c', 'g', ARRAY['a']);
SELECT p.points AS whole FROM shardring.shard_group AS p \gset
SELECT shardring.set_vnodes('c', 3600);
SELECT n AS grown_to, (r.points)[1:n] = (:'whole'::bigint[])[1:n] AS same, cardinality(r.points) = n AS all
FROM generate_series(3601, 4096, 9) AS n, shardring_internal.resize_groups('c', 1, ARRAY['g'], ARRAY[n]) AS r
WHERE n < 3640 OR n > 3880 AND n < 3990 OR n > 4080;
SELECT shardring.drop_ring('c');

-- One group loses points while another gets some: each keeps its first ones.
SELECT shardring.create_ring('both', 400);
SELECT shardring.add_group('both', 'a', ARRAY['a']), shardring.add_group('both', 'b', ARRAY['b']);
SELECT r.group_name, cardinality(r.points) AS n, r.points[1:390] = g.points[1:390] AS same
FROM shardring_internal.resize_groups('both', 1, ARRAY['a', 'b'], ARRAY[390, 405]) AS r
	JOIN shardring.shard_group AS g ON g.ring = 'both' AND g.group_name = r.group_name ORDER BY 1;
SELECT shardring.drop_ring('both');

-- What is refused, and nothing is left of it.
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'there', ARRAY['a']);
SELECT shardring.create_ring('c', hash => 'crc16');
CREATE FUNCTION public.try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
	hint text;
BEGIN
	EXECUTE 'SELECT shardring.add_groups(' || call || ')' INTO answer;
	RETURN coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ': ' || SQLERRM || coalesce(' / ' || nullif(hint, ''), '');
END $$;
SELECT left(call, 90) AS call, public.try(call)
FROM unnest(ARRAY[
	$$NULL, '[]'$$,
	$$'r', NULL$$,
	$$'r', '[]', NULL$$,
	$$'none', '[]'$$,
	$$'r', '[]', version => 2$$,
	$$'r', '[]', version => -2147483648$$,
	$$'r', '[]'$$,
	$$'r', 'null'$$,
	$$'r', '{}'$$,
	$$'r', '"g"'$$,
	$$'r', '1e1000'$$,
	$$'r', '[null]'$$,
	$$'r', '[[]]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"]}, 1]'$$,
	$$'r', (repeat('[', 5000) || repeat(']', 5000))::jsonb$$,
	$$'r', '[{}]'$$,
	$$'r', '[{"shards": ["a"]}]'$$,
	$$'r', '[{"group_name": "g"}]'$$,
	$$'r', '[{"group_name": null, "shards": ["a"]}]'$$,
	$$'r', '[{"group_name": "g", "shards": null}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": null}]'$$,
	$$'r', '[{"group_name": 1, "shards": ["a"]}]'$$,
	$$'r', '[{"group_name": "g", "shards": "a"}]'$$,
	$$'r', '[{"group_name": "g", "shards": {}}]'$$,
	$$'r', '[{"group_name": "g", "shards": []}]'$$,
	$$'r', '[{"group_name": "g", "shards": [1]}]'$$,
	$$'r', '[{"group_name": "g", "shards": [["a"]]}]'$$,
	$$'r', '[{"group_name": "g", "shards": [null]}]'$$,
	$$'r', '[{"group_name": "g", "shards": [""]}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "slots": "1"}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "slots": 1.5}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "slots": 1e10}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "slots": 0}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "slots": 65537}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a", "b"], "slots": 1}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": "1"}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": -1}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": 0.001}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": 26214.4}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "weight": 1e1000}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "zone": ""}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "zone": true}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"]}, {"group_name": "h", "shards": ["a"], "wieght": 2}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"], "version": 1}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"]}, {"group_name": "there", "shards": ["a"]}]'$$,
	$$'r', '[{"group_name": "g", "shards": ["a"]}, {"group_name": "g", "shards": ["b"]}]'$$,
	$$'r', jsonb_build_array(jsonb_build_object('group_name', repeat('x', 256), 'shards', ARRAY['a']))$$,
	$$'r', jsonb_build_array(jsonb_build_object('group_name', repeat('é', 128), 'shards', ARRAY['a']))$$,
	$$'r', jsonb_build_array(jsonb_build_object('group_name', 'g', 'shards', ARRAY[repeat('x', 64)]))$$,
	$$'r', (SELECT jsonb_agg(jsonb_build_object('group_name', 'g' || i, 'shards', ARRAY['a'], 'weight', 500)) FROM generate_series(1, 60) AS i)$$,
	$$'c', '[{"group_name": "g", "shards": ["a"]}, {"group_name": "h", "shards": ["a"]}]'$$,
	$$'c', '[{"group_name": "g", "shards": ["a"], "weight": 30}]'$$
]) AS c (call);
SELECT ring, group_name FROM shardring.shard_group;
-- the cool-down is that of add_group, and so is what overrides it
SELECT shardring.add_groups('r', '[{"group_name": "b", "shards": ["b"]}, {"group_name": "c", "shards": ["c"]}]');
SELECT shardring.activate('r');
SELECT shardring.draft_version('r');
SELECT shardring.remove_group('r', 'c');
SELECT shardring.activate('r');
SELECT shardring.draft_version('r');
SELECT public.try($$'r', '[{"group_name": "d", "shards": ["d"]}, {"group_name": "c", "shards": ["c"]}]'$$);
SELECT public.try($$'r', '[{"group_name": "d", "shards": ["d"]}, {"group_name": "c", "shards": ["c"]}]', true, 3$$);
SELECT public.try($$'r', '[{"group_name": "e", "shards": ["e"]}]', version => 2$$);
SELECT group_name FROM shardring.shard_group WHERE version = 3 ORDER BY group_name;
SELECT count(shardring.drop_ring(ring)) FROM shardring.ring;

-- The limits hold whatever plain SQL made of the points of a draft.
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'a', ARRAY['a']);
UPDATE shardring.shard_group SET points = array_fill(7::bigint, ARRAY[4194000]);
SELECT shardring.add_group('r', 'b', ARRAY['b'], weight => 2);
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.set_weight('r', 'b', 4);
UPDATE shardring.shard_group SET points = array_fill(7::bigint, ARRAY[4194400]) WHERE group_name = 'a';
SELECT shardring.set_weight('r', 'b', 1);
SELECT shardring.set_weight('r', 'a', 1);
SELECT group_name, cardinality(points) FROM shardring.shard_group ORDER BY group_name;
SELECT shardring.drop_ring('r');

-- What is read: the points of each group once a call, however many are added,
-- and shards of other groups never.
CREATE FUNCTION public.rows_read(what text) RETURNS bigint LANGUAGE sql AS $$
	SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_catalog.pg_stat_xact_user_tables
	WHERE schemaname = 'shardring' AND relname = what
$$;
CREATE FUNCTION public.added(low integer, high integer) RETURNS jsonb LANGUAGE sql AS $$
	SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('group_name', 'g' || i, 'shards', ARRAY['s' || i])) FROM pg_catalog.generate_series(low, high) AS i
$$;
CREATE FUNCTION public.measure(what text, call text) RETURNS TABLE (added text, groups_read text, shards_read text) LANGUAGE plpgsql AS $$
DECLARE
	groups bigint := public.rows_read('shard_group');
	map bigint := public.rows_read('shard_map');
BEGIN
	EXECUTE 'SELECT ' || call;
	groups := public.rows_read('shard_group') - groups;
	map := public.rows_read('shard_map') - map;
	RETURN QUERY SELECT what, CASE WHEN groups BETWEEN 1000 AND 1250 THEN 'once' ELSE groups::text END, CASE WHEN map <= 0 THEN 'none' ELSE map::text END;
END $$;
SELECT shardring.create_ring('r', 10);
SELECT shardring.add_groups('r', public.added(1, 1000));
ANALYZE shardring.shard_group, shardring.shard_map;
BEGIN;
SELECT * FROM public.measure('one', $$shardring.add_group('r', 'one', ARRAY['one'])$$);
SELECT * FROM public.measure('two hundred', $$shardring.add_groups('r', public.added(1001, 1200))$$);
COMMIT;
SELECT shardring.drop_ring('r');

DROP TABLE public.given;
DROP FUNCTION public.one_by_one, public.try, public.rows_read, public.added, public.measure;
DROP EXTENSION shardring;
