--
-- corners.sql
--	What is refused, or done, where the tests by subject do not come: mostly
--	internal functions with arguments that ours never give them, and rows that
--	a superuser altered.
--
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE EXTENSION shardring;
SET search_path = shardring, shardring_internal;

-- points for groups: as many counts as names, and not more than there may be
SELECT create_ring('r', 2), create_ring('c', 2, 'crc16');
SELECT add_group('r', g, ARRAY[g]) FROM unnest('{a,b}'::text[]) AS g;
SELECT resize_groups('r', 1, '{a,b}', '{2}');
SELECT resize_groups('r', 1, '{a}', '{-1}');
SELECT resize_groups('r', 1, '{a}', '{4194305}');
SELECT resize_groups('r', 1, '{a,b}', '{4194304,3}');
-- nor so many together that 32 bits would count none (B14)
SELECT resize_groups('r', 1, array_agg('g' || i), array_agg(4194304)) FROM generate_series(1, 1024) AS i;
SELECT group_name, cardinality(points) FROM resize_groups('r', 1, '{new,a}', '{3,1}');
-- crc16 has 65536 positions in all
SELECT cardinality(points) FROM resize_groups('c', 1, '{a}', '{4096}');
SELECT resize_groups('c', 1, '{a}', '{70000}');

-- points that are not the candidates of their group cannot be gone on from,
-- and have no number; a weight without bounds is too much
SET session_replication_role = replica;
UPDATE shard_group SET points = '{7,3}' WHERE ring = 'r' AND group_name = 'a';
RESET session_replication_role;
SELECT resize_groups('r', 1, '{a}', '{3}');
SELECT * FROM points('r', 1) WHERE group_name = 'a';
SELECT * FROM version_problems('r', 1);
BEGIN;
SET LOCAL session_replication_role = replica;
ALTER TABLE shard_group DROP CONSTRAINT shard_group_weight_range;
UPDATE shard_group SET weight = 1e30 WHERE ring = 'r' AND group_name = 'b';
SELECT * FROM version_problems('r', 1) WHERE version_problems LIKE '%"b"%';
ROLLBACK;

-- two groups of a draft on one position
SET session_replication_role = replica;
UPDATE shard_group SET points = '{3,7}' WHERE ring = 'r';
RESET session_replication_role;
SELECT shard_for('r', 'user:1', 1);

-- without its primary key a table cannot be read
BEGIN;
ALTER TABLE shard_pin DROP CONSTRAINT shard_pin_pkey;
SELECT shard_for('r', 'user:1', 1);
ROLLBACK;

-- all groups give to one shard, whole: one condition
SELECT create_ring('p', 2);
SELECT add_group('p', g, '{s}') FROM unnest('{a,b,c}'::text[]) AS g;
SELECT seal('p'), draft_version('p', 1);
SELECT add_group('p', 'n', '{t}'), set_weight('p', 'n', 20);
SELECT count(DISTINCT from_group) AS groups FROM move_plan('p', 1, 2);
SELECT move_predicate('p', 1, 2, 's', 't', 'k', position_expression => 'pos') LIKE '% OR %' AS several_conditions,
	count(*) FILTER (WHERE moves('p', 1, 2, k)) AS moving,
	count(*) FILTER (WHERE moves('p', 1, 2, k) IS DISTINCT FROM
		(substring(move_predicate('p', 1, 2, 's', 't', 'k', position_expression => 'pos') FROM '{.*}')::int8multirange @> key_position(k))) AS wrong
FROM (SELECT 'user:' || i AS k FROM generate_series(1, 2000) AS i) AS keys;

-- slots over when there are few groups more than before
SELECT scheme, round(moved::numeric, 3) AS moved, round(largest::numeric, 3) AS largest
FROM simulate(3, 5) WHERE scheme = 'slots';

-- a long search for the last group, which has one point of 81001: from a place
-- that is not far behind it
SELECT create_ring('w', 9000);
SELECT count(add_group('w', 'g' || i, '{s}')) FROM generate_series(1, 9) AS i;
SELECT add_group('w', 'least', '{l}', weight => 1.0 / 9000);
SELECT activate('w');
SELECT points, count(*) FROM shares('w') GROUP BY points ORDER BY points;
WITH least AS MATERIALIZED (
	SELECT upper(positions) AS position FROM arcs('w') WHERE group_name = 'least'
), near AS (
	SELECT i AS key FROM generate_series(1, 2000) AS i, least AS l
	ORDER BY (key_position(i) - l.position + 4294967296) % 4294967296 LIMIT 1
)
SELECT count(*) AS replicas, count(DISTINCT r.group_name) AS groups,
	bool_and((r.group_name = 'least') = (r.rank = 10)) AS the_least_comes_last
FROM near AS n, LATERAL replicas_for('w', n.key, 10) AS r;

-- a picture's legend: groups with equal parts of the ring, which is none
SELECT create_ring('e', 1);
SELECT add_group('e', g, ARRAY[g], weight => (g = 'b')::int) FROM unnest('{a,b,c}'::text[]) AS g;
SELECT string_agg(m[1], ' ' ORDER BY n) AS legend
FROM regexp_matches(ring_svg('e', 1), '>([abc])<', 'g') WITH ORDINALITY AS m (m, n);

-- A session that has loaded a ring reads weights, zones and numbers of
-- candidates from rows all the same.  They may not be the ring's any more: a
-- restore brings ring_version before shard_group.
SELECT create_ring('m', 20);
SELECT count(add_group('m', 'g' || i, ARRAY['s' || i], zone => 'z')) FROM generate_series(1, 3) AS i;
SELECT activate('m');
CREATE FUNCTION pg_temp.altered(edit text) RETURNS TABLE (call text, answer text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shard_for('m', 'k');
	SET LOCAL session_replication_role = replica;
	EXECUTE edit;
	FOREACH call IN ARRAY '{shares(''m''),points(''m''),"replicas_for(''m'', ''k'', 9)"}'::text[] LOOP
		BEGIN
			EXECUTE 'SELECT count(*) FROM ' || call INTO answer;
		EXCEPTION WHEN data_corrupted THEN
			answer := sqlstate || ' ' || sqlerrm;
		END;
		RETURN NEXT;
	END LOOP;
END $$;
BEGIN;
SELECT * FROM pg_temp.altered($$DELETE FROM shard_group WHERE ring = 'm' AND group_name <> 'g2'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$DELETE FROM shard_group WHERE ring = 'm'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$INSERT INTO shard_group SELECT 'm', 1, 'a' || i, 1, 1, 'y', ARRAY[i] FROM generate_series(1, 2000) AS i$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shard_group SET group_name = 'h' WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$ALTER TABLE shard_group ALTER weight DROP NOT NULL; UPDATE shard_group SET weight = NULL WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shard_group SET points = '{7}' WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
BEGIN;
SELECT * FROM pg_temp.altered($$UPDATE shard_group SET weight = 2, zone = 'new' WHERE ring = 'm' AND group_name = 'g3'$$);
ROLLBACK;
SELECT * FROM pg_temp.altered('');

-- the number of a shard for PL/Proxy, without PL/Proxy
SELECT create_ring('n');
SELECT add_group('n', 'g', '{x,y,z}', slots => 30);
SELECT activate('n');
SELECT bool_and(plproxy_partition('n', k) = s.number) AS text,
	bool_and(plproxy_partition('n', k::bigint) = s.number) AS bigint,
	bool_and(plproxy_partition('n', md5(k)::uuid) = u.number) AS uuid,
	count(DISTINCT s.number) AS numbers
FROM generate_series(1, 200) AS i, LATERAL (SELECT i::text) AS t (k),
	shard AS s, shard AS u
WHERE s.ring = 'n' AND s.shard = shard_for('n', k)
	AND u.ring = 'n' AND u.shard = shard_for('n', md5(k)::uuid);

-- a snapshot with more transactions in progress than there was room for; those
-- before the last one that ended are in its list
CREATE TABLE public.t (i int);
CREATE FUNCTION pg_temp.subtransactions(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			INSERT INTO public.t VALUES (i);
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
BEGIN;
SELECT pg_temp.subtransactions(60);
PREPARE TRANSACTION 'corners one';
SELECT pg_current_xact_id() IS NOT NULL AS later;
SELECT count(DISTINCT shard_for('n', i)) AS shards FROM generate_series(1, 100) AS i;
BEGIN;
SELECT pg_temp.subtransactions(60);
PREPARE TRANSACTION 'corners two';
SELECT pg_current_xact_id() IS NOT NULL AS later;
SELECT count(DISTINCT shard_for('n', i)) AS shards FROM generate_series(1, 100) AS i;
ROLLBACK PREPARED 'corners one';
ROLLBACK PREPARED 'corners two';
DROP TABLE public.t;

-- no server has so long a name, and no ring
SELECT plproxy_partition(repeat('r', 64), 'k');

SELECT drop_ring(ring) FROM ring ORDER BY ring;
DROP EXTENSION shardring;
