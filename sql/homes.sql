--
-- homes.sql
--	The aggregate homes, which hashes many keys at once, against shard_for:
--	every type, hash and length, with workers and without.
--
CREATE EXTENSION shardring;
SET search_path = shardring, shardring_internal;
\set SHOW_CONTEXT never
SET client_min_messages = warning;

SELECT create_ring('md5', vnodes => 500), create_ring('tags', hash_tags => true),
	create_ring('fnv1a', hash => 'fnv1a'), create_ring('größe', hash => 'crc16'),
	create_ring('murmur3', hash => 'murmur3');
SELECT count(add_group(r.ring, 'g' || i, ARRAY['db' || i, 'ü' || i], 5))
FROM shardring.ring AS r, generate_series(1, 4) AS i
WHERE r.ring <> 'größe' OR i = 1;
SELECT count(activate(ring)) FROM ring;

CREATE TABLE public.keys WITH (parallel_workers = 2) AS
SELECT CASE WHEN i % 50 > 0 THEN (i - 30000) * 3141592653589 END AS number,
	CASE WHEN i % 70 > 0 THEN repeat(chr(97 + i % 20), i % 301) || i
		|| CASE i % 3 WHEN 0 THEN '{ü' || i || '}' ELSE '' END END AS name,
	CASE WHEN i % 90 > 0 THEN md5(i::text)::uuid END AS id
FROM generate_series(1, 60000) AS i;
INSERT INTO public.keys (name, number)
VALUES ('', 0), (repeat('x', 8192), 9223372036854775807),
	(repeat('x', 8193), -9223372036854775808), (repeat('ü', 1000000), 1);
VACUUM ANALYZE public.keys;

-- what differs from keys that are placed one by one: nothing
CREATE FUNCTION pg_temp.differences(type text)
RETURNS TABLE (ring text, shard text, rows bigint, counted bigint)
LANGUAGE plpgsql AS $body$
DECLARE
	r text;
	k text := CASE type WHEN 'text' THEN 'name' WHEN 'uuid' THEN 'id'
		ELSE 'number' END;
BEGIN
	FOR r IN SELECT t.ring FROM shardring.ring AS t LOOP
		RETURN QUERY EXECUTE format($query$
			SELECT %1$L, coalesce(a.s, b.s), a.n, b.n
			FROM (SELECT shardring.shard_for(%1$L, %2$I, 1) AS s,
					count(*) AS n FROM public.keys GROUP BY 1) AS a
				FULL JOIN (
					SELECT h.homes[i] AS s, h.homes[i + 1]::bigint AS n
					FROM (SELECT shardring_internal.homes(%1$L, 1, %2$I)
						  FROM public.keys) AS h
						CROSS JOIN generate_series(
							1, cardinality(h.homes), 2) AS i) AS b
					ON a.s IS NOT DISTINCT FROM b.s AND a.n = b.n
			WHERE a.n IS NULL OR b.n IS NULL$query$, r, k);
	END LOOP;
END
$body$;
SET max_parallel_workers_per_gather = 0;
SELECT t.type, d.*
FROM unnest('{text,bigint,uuid}'::text[]) AS t (type),
	pg_temp.differences(t.type) AS d;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS off) SELECT homes('md5', 1, number) FROM public.keys;
SELECT t.type, d.*
FROM unnest('{text,bigint,uuid}'::text[]) AS t (type),
	pg_temp.differences(t.type) AS d;

-- nothing to count, and nothing to count by
SELECT homes('md5', 1, number) FROM public.keys WHERE false;
SELECT homes(NULL, 1, number), homes('md5', NULL, name) FROM public.keys;
SELECT homes('md5', 1, number) FROM public.keys WHERE number IS NULL;
-- the ring of the first row is that of all
SELECT homes(ring, 1, 'key' || i) IS NOT NULL
FROM (VALUES ('md5', 1), ('nobody', 2)) AS v (ring, i);
SELECT homes('nobody', 1, number) FROM public.keys;
SELECT homes('md5', 7, number) FROM public.keys;
SELECT create_ring('empty');
SELECT homes('empty', 1, number) FROM public.keys;
-- over a window, the state goes on after it was read
SELECT i, homes('md5', 1, i) OVER (ORDER BY i) = (
	SELECT homes('md5', 1, j) FROM generate_series(1::bigint, i) AS j) AS same
FROM generate_series(1::bigint, 3) AS i;

-- one call that is asked about several lists of shards
SELECT count(*) AS lists, bool_and(shardring_internal.is_among('md5', i, 1, v.names) = (shardring.shard_for('md5', i, 1) = ANY (v.names))) AS same
FROM (VALUES (1, '{}'::text[]), (2, '{x}'), (3, ARRAY(SELECT shard FROM shardring.shard)), (4, '{x,y}')) AS l (n, names),
	LATERAL (SELECT l.names) AS v (names), generate_series(1::bigint, 20) AS i;

DROP TABLE public.keys;
DROP EXTENSION shardring;
