
/*
 * 93-rehearse-cluster.sql
 *		What a move means for the rows that the shards really have.
 *
 * The shards need no version: the map sends them, as plain arrays, where each
 * position lives before and after.  Nothing of it is run there as SQL.
 */

/*
 * Table by table, so that each has its own deadline, and that progress can be
 * shown.
 */
CREATE FUNCTION shardring.rehearse_cluster(
	ring text, from_version integer, to_version integer,
	load_column name DEFAULT NULL)
RETURNS TABLE (from_shard text, to_shard text, rows bigint, bytes bigint,
	load numeric, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[];
	counts shardring_internal.pair_count[];
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'from_version',
		from_version::text, 'to_version', to_version::text);
	PERFORM shardring_internal.require_ring(ring);
	answers := shardring_internal.sound_answers(ring, ARRAY(
		SELECT DISTINCT m.shard FROM shardring.shard_map AS m
		WHERE m.ring = rehearse_cluster.ring COLLATE "C"
			AND m.version = from_version), false);
	counts := shardring_internal.count_pairs(
		answers, ring, load_column, jsonb_build_object(
			'before', shardring_internal.places(ring, from_version),
			'after', shardring_internal.places(ring, to_version)));
	RETURN QUERY
		SELECT s.* FROM shardring_internal.sum_pairs(
			ring, from_version, to_version, counts) AS s;
END
$body$;
COMMENT ON FUNCTION shardring.rehearse_cluster(
	text, integer, integer, name) IS
	'rows, bytes and load that stay, move, and will be on each shard';
REVOKE EXECUTE ON FUNCTION shardring.rehearse_cluster(
	text, integer, integer, name) FROM PUBLIC;

CREATE TYPE shardring_internal.pair_count AS
(
	shard text,
	from_shard text,
	to_shard text,
	rows bigint,
	bytes bigint,
	load numeric,
	error text
);
COMMENT ON TYPE shardring_internal.pair_count IS
	'what a shard has of a table that moves, or stays, or why it is not known';
COMMENT ON COLUMN shardring_internal.pair_count.shard IS
	'the shard that was asked';
COMMENT ON COLUMN shardring_internal.pair_count.from_shard IS
	'where the rows belong before; NULL with an error';
COMMENT ON COLUMN shardring_internal.pair_count.to_shard IS
	'where the rows belong after; NULL with an error';
COMMENT ON COLUMN shardring_internal.pair_count.rows IS 'number of rows';
COMMENT ON COLUMN shardring_internal.pair_count.bytes IS
	'their size as they are stored';
COMMENT ON COLUMN shardring_internal.pair_count.load IS
	'the sum of the load column; NULL: there is none';
COMMENT ON COLUMN shardring_internal.pair_count.error IS
	'why there is no count, or not of all rows';

/*
 * Where positions live in a version: position p is in the group of the last
 * start at or before p, and its slot on the shard of the last run at or before
 * the group's number times 2^31 plus the slot.
 */
CREATE FUNCTION shardring_internal.places(ring text, version integer)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE COST 100000
BEGIN ATOMIC
	WITH member AS MATERIALIZED (
		SELECT g.group_name, g.slots,
			row_number() OVER (ORDER BY g.group_name) AS number
		FROM shardring.shard_group AS g
		WHERE g.ring = places.ring COLLATE "C"
			AND g.version = places.version)
	SELECT jsonb_build_object('hash', r.hash, 'hash_tags', r.hash_tags,
			'slots', (SELECT jsonb_agg(m.slots ORDER BY m.number)
					  FROM member AS m))
		|| (SELECT jsonb_build_object(
				'starts', jsonb_agg(lower(a.positions) ORDER BY a.positions),
				'groups', jsonb_agg(m.number ORDER BY a.positions))
			FROM shardring.arcs(places.ring, places.version) AS a
				JOIN member AS m ON m.group_name = a.group_name COLLATE "C")
		|| (SELECT jsonb_build_object(
				'runs', jsonb_agg(m.number * 2147483648 + lower(u.slots)
								  ORDER BY m.number, u.slots),
				'shards', jsonb_agg(s.shard ORDER BY m.number, u.slots))
			FROM shardring.shard_map AS s
				JOIN member AS m ON m.group_name = s.group_name
				CROSS JOIN LATERAL unnest(s.slots) AS u (slots)
			WHERE s.ring = r.ring AND s.version = places.version)
	FROM shardring.ring AS r
	WHERE r.ring = places.ring COLLATE "C";
END;
COMMENT ON FUNCTION shardring_internal.places(text, integer) IS
	'where all positions live in a version, drafts too, as arrays';
REVOKE EXECUTE ON FUNCTION shardring_internal.places(text, integer)
	FROM PUBLIC;

/* At most every other second a line about how far it is. */
CREATE FUNCTION shardring_internal.count_pairs(
	answers shardring_internal.shard_answer[], ring text, load_column name,
	places jsonb)
RETURNS shardring_internal.pair_count[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	counts shardring_internal.pair_count[] := '{}';
	tables text[];
	told timestamp with time zone := clock_timestamp();
BEGIN
	SELECT coalesce(array_agg(DISTINCT q."row" ->> 'relation' COLLATE "C")
		FILTER (WHERE q."row" ->> 'relation' IS NOT NULL), '{}')
	INTO tables
	FROM shardring_internal.query_shards(answers,
		'SELECT g.relation FROM shardring.guarded_tables($1) AS g',
		ARRAY[ring]) AS q;
	IF tables = '{}' THEN
		/* the shards say why */
		tables := '{NULL}';
	END IF;
	FOR i IN 1 .. cardinality(tables) LOOP
		counts := counts || ARRAY(
			SELECT c FROM shardring_internal.count_pairs_of(
				answers, ring, tables[i], load_column, places) AS c);
		IF clock_timestamp() > told + interval '2 s' THEN
			RAISE NOTICE 'counted % of % tables', i, cardinality(tables);
			told := clock_timestamp();
		END IF;
	END LOOP;
	RETURN counts;
END
$body$;
COMMENT ON FUNCTION shardring_internal.count_pairs(
	shardring_internal.shard_answer[], text, name, jsonb) IS
	'what all shards have of all guarded tables';
REVOKE EXECUTE ON FUNCTION shardring_internal.count_pairs(
	shardring_internal.shard_answer[], text, name, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.count_pairs_of(
	answers shardring_internal.shard_answer[], ring text, relation text,
	load_column name, places jsonb)
RETURNS SETOF shardring_internal.pair_count
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
BEGIN ATOMIC
	SELECT q.shard, c.from_shard, c.to_shard, c.rows, c.bytes, c.load,
		coalesce(q.error, c.error, CASE WHEN c.rows IS NULL
			THEN 'the answer is not that of a shard' END)
	FROM shardring_internal.query_shards(answers,
			'SELECT p.* FROM shardring.rehearse_here($1, nullif($2, ''''), '
			'nullif($3, ''''), $4::pg_catalog.jsonb, $5::pg_catalog.jsonb) '
			'AS p',
			ARRAY[ring, coalesce(relation, ''),
				  coalesce(load_column::text, ''), places::text,
				  shardring_internal.expected_names(answers)]) AS q
		CROSS JOIN LATERAL (SELECT
			left(q."row" ->> 'from_shard', 64) AS from_shard,
			left(q."row" ->> 'to_shard', 64) AS to_shard,
			CASE WHEN q."row" ->> 'rows' ~ '^[0-9]{1,15}$'
				THEN (q."row" ->> 'rows')::bigint END AS rows,
			CASE WHEN q."row" ->> 'bytes' ~ '^[0-9]{1,15}$'
				THEN (q."row" ->> 'bytes')::bigint END AS bytes,
			CASE WHEN q."row" ->> 'load' ~ '^-?[0-9]{1,30}(\.[0-9]{1,30})?$'
				THEN (q."row" ->> 'load')::numeric END AS load,
			left(regexp_replace(q."row" ->> 'error', '[[:cntrl:]]', ' ', 'g'),
				 1000) AS error) AS c;
END;
COMMENT ON FUNCTION shardring_internal.count_pairs_of(
	shardring_internal.shard_answer[], text, text, name, jsonb) IS
	'what all shards have of one guarded table';
REVOKE EXECUTE ON FUNCTION shardring_internal.count_pairs_of(
	shardring_internal.shard_answer[], text, text, name, jsonb) FROM PUBLIC;

/*
 * Pairs first; then what each shard has before (to_shard is NULL) and will
 * have after (from_shard is NULL); last, why something is not known.  A sum to
 * which such a shard may add is marked, whether it would or not.
 */
CREATE FUNCTION shardring_internal.sum_pairs(
	ring text, from_version integer, to_version integer,
	counts shardring_internal.pair_count[])
RETURNS TABLE (from_shard text, to_shard text, rows bigint, bytes bigint,
	load numeric, problem text)
LANGUAGE sql STABLE PARALLEL UNSAFE COST 100000 ROWS 100
BEGIN ATOMIC
	WITH pair AS MATERIALIZED (
		SELECT m.from_shard COLLATE "C" AS from_shard,
			m.to_shard COLLATE "C" AS to_shard
		FROM shardring.move_plan(
			sum_pairs.ring, sum_pairs.from_version, sum_pairs.to_version) AS m
		UNION SELECT s.shard, s.shard
		FROM shardring.shard_shares(
			sum_pairs.ring, sum_pairs.from_version) AS s),
	unknown AS (
		SELECT DISTINCT c.shard COLLATE "C" AS shard,
			c.error COLLATE "C" AS error
		FROM unnest(counts) AS c WHERE c.error IS NOT NULL),
	total AS (
		SELECT p.from_shard, p.to_shard, coalesce(sum(c.rows), 0) AS rows,
			coalesce(sum(c.bytes), 0) AS bytes, sum(c.load) AS load,
			min(u.shard) AS missing, grouping(p.from_shard, p.to_shard) AS kind
		FROM pair AS p
			LEFT JOIN (SELECT k.from_shard COLLATE "C" AS from_shard,
						k.to_shard COLLATE "C" AS to_shard,
						sum(k.rows) AS rows, sum(k.bytes) AS bytes,
						sum(k.load) AS load
					   FROM unnest(counts) AS k WHERE k.error IS NULL
					   GROUP BY 1, 2) AS c
				ON c.from_shard = p.from_shard AND c.to_shard = p.to_shard
			LEFT JOIN (SELECT DISTINCT n.shard FROM unknown AS n) AS u
				ON u.shard = p.from_shard
		GROUP BY GROUPING SETS (
			(p.from_shard, p.to_shard), (p.from_shard), (p.to_shard)))
	SELECT r.from_shard, r.to_shard, r.rows, r.bytes, r.load, r.problem
	FROM (SELECT t.kind, t.from_shard, t.to_shard,
			CASE WHEN t.rows > 0 OR t.missing IS NULL
				THEN t.rows::bigint END AS rows,
			CASE WHEN t.rows > 0 OR t.missing IS NULL
				THEN t.bytes::bigint END AS bytes,
			t.load, 'without ' || t.missing AS problem
		  FROM total AS t
		  UNION ALL
		  SELECT 4, u.shard, NULL, NULL, NULL, NULL,
			shardring_internal.short_error(u.error, 50)
		  FROM unknown AS u) AS r
	ORDER BY r.kind, r.from_shard COLLATE "C", r.to_shard COLLATE "C",
		r.problem COLLATE "C";
END;
COMMENT ON FUNCTION shardring_internal.sum_pairs(
	text, integer, integer, shardring_internal.pair_count[]) IS
	'sums of what shards have, by pairs and by shards before and after';
REVOKE EXECUTE ON FUNCTION shardring_internal.sum_pairs(
	text, integer, integer, shardring_internal.pair_count[]) FROM PUBLIC;
