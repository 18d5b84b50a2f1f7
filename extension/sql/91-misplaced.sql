
/*
 * 91-misplaced.sql
 *		On the map: finding rows that are on another shard than their key.
 *
 * What counts is the active version of the map; a shard that does not have it
 * active is not looked at, and says so.
 */

CREATE FUNCTION shardring.misplaced(
	ring text, only_relation text DEFAULT NULL)
RETURNS TABLE (shard text, relation text, belongs_to text, rows bigint,
	moving bigint, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	version integer := shardring_internal.require_active(ring);
	answers shardring_internal.shard_answer[]
		:= shardring_internal.sound_answers(ring, NULL, true);
	found bigint := 0;
	unknown bigint := 0;
BEGIN
	FOR shard, relation, belongs_to, rows, moving, error IN
		SELECT q.shard, c.relation, c.belongs_to, n.rows, n.moving,
			coalesce(q.error, c.error, CASE WHEN n.rows IS NULL
				THEN 'the answer is not that of a shard' END)
		FROM shardring_internal.query_shards(answers,
				'SELECT m.* FROM shardring.misplaced_here('
				'$1, $2::pg_catalog.int4, nullif($3, ''''), '
				'$4::pg_catalog.jsonb) AS m',
				ARRAY[ring, version::text, coalesce(only_relation, ''),
					  shardring_internal.expected_names(answers)]) AS q
			CROSS JOIN LATERAL shardring_internal.clean_texts(q."row")
				AS c (relation, belongs_to, error)
			CROSS JOIN LATERAL (SELECT
				CASE WHEN q."row" ->> 'rows' ~ '^[0-9]{1,18}$'
					THEN (q."row" ->> 'rows')::bigint END,
				CASE WHEN q."row" ->> 'moving' ~ '^[0-9]{1,18}$'
					THEN (q."row" ->> 'moving')::bigint END)
				AS n (rows, moving)
	LOOP
		found := found + coalesce(rows, 0);
		unknown := unknown + (error IS NOT NULL)::integer;
		RETURN NEXT;
	END LOOP;
	IF only_relation IS NULL THEN
		PERFORM shardring_internal.keep_finding(
			ring, 'misplaced_rows', found);
		PERFORM shardring_internal.keep_finding(
			ring, 'misplaced_errors', unknown);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.misplaced(text, text) IS
	'counts on all shards the rows whose key lives on another shard';
REVOKE EXECUTE ON FUNCTION shardring.misplaced(text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.expected_names(
	answers shardring_internal.shard_answer[])
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT shardring_internal.expected_shards(answers, ARRAY(
		SELECT a.shard FROM unnest(answers) AS a))::text;
END;
COMMENT ON FUNCTION shardring_internal.expected_names(
	shardring_internal.shard_answer[]) IS
	'which database has which names, as an argument of what is called there';
REVOKE EXECUTE ON FUNCTION shardring_internal.expected_names(
	shardring_internal.shard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.clean_texts(
	"row" jsonb, OUT relation text, OUT belongs_to text, OUT error text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT
		left(regexp_replace("row" ->> 'relation', '[[:cntrl:]]', ' ', 'g'),
			 300),
		left(regexp_replace("row" ->> 'belongs_to', '[[:cntrl:]]', ' ', 'g'),
			 64),
		left(regexp_replace("row" ->> 'error', '[[:cntrl:]]', ' ', 'g'), 1000);
END;
COMMENT ON FUNCTION shardring_internal.clean_texts(jsonb) IS
	'what a shard wrote, fit to be shown';
REVOKE EXECUTE ON FUNCTION shardring_internal.clean_texts(jsonb) FROM PUBLIC;

/*
 * First the keys, then the rows of these keys on all shards, so that both
 * sides are read at about the same time.  Nothing is 'same row' that differs
 * anywhere, or of which one side has more.
 */
CREATE FUNCTION shardring.misplaced_keys(
	ring text, relation text, max_keys integer DEFAULT 100)
RETURNS TABLE (shard text, key text, belongs_to text, there text, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	version integer := shardring_internal.require_active(ring);
	answers shardring_internal.shard_answer[];
	strays jsonb;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'relation', relation, 'max_keys', max_keys::text);
	IF max_keys NOT BETWEEN 1 AND 1000 THEN
		PERFORM shardring_internal.fail(
			'22023', 'max_keys must be between 1 and 1000');
	END IF;
	answers := shardring_internal.sound_answers(ring, NULL, true);
	strays := shardring_internal.stray_keys(
		ring, version, relation, max_keys, answers);
	IF strays = '[]' THEN
		RETURN;
	END IF;
	RETURN QUERY
		WITH sides AS MATERIALIZED (
			SELECT DISTINCT a.server, q."row" ->> 'key' AS key,
				q."row" ->> 'digest' AS digest, q.error
			FROM shardring_internal.query_shards(answers,
					'SELECT r.* FROM shardring.rows_here($1, $2, '
					'$3::pg_catalog.text[], $4::pg_catalog.jsonb) AS r',
					ARRAY[ring, relation, ARRAY(
							SELECT DISTINCT s.value ->> 'key'
							FROM jsonb_array_elements(strays) AS s
							WHERE s.value ->> 'key' IS NOT NULL)::text,
						  shardring_internal.expected_names(answers)]) AS q
				JOIN unnest(answers) AS a ON a.shard = q.shard)
		SELECT s.value ->> 'shard', s.value ->> 'key',
			s.value ->> 'belongs_to', CASE
				WHEN coalesce(s.value ->> 'error', home.error, mine.error)
					IS NOT NULL OR s.value ->> 'key' IS NULL THEN NULL
				WHEN home.digest IS NULL THEN 'none'
				WHEN home.digest = mine.digest THEN 'same row'
				ELSE 'different row' END,
			coalesce(s.value ->> 'error', home.error, mine.error)
		FROM jsonb_array_elements(strays) WITH ORDINALITY AS s (value, i)
			LEFT JOIN unnest(answers) AS h
				ON h.shard = s.value ->> 'belongs_to'
			LEFT JOIN sides AS home ON home.server = h.server
				AND (home.key = s.value ->> 'key' OR home.error IS NOT NULL)
			LEFT JOIN sides AS mine ON mine.server = s.value ->> 'server'
				AND (mine.key = s.value ->> 'key' OR mine.error IS NOT NULL)
		ORDER BY s.i;
END
$body$;
COMMENT ON FUNCTION shardring.misplaced_keys(text, text, integer) IS
	'lists keys that are on another shard than theirs, and what that has';
REVOKE EXECUTE ON FUNCTION shardring.misplaced_keys(text, text, integer)
	FROM PUBLIC;

/*
 * An array of objects with shard, server, key, belongs_to, error.  Shards that
 * fail are on it whatever max_keys says.
 */
CREATE FUNCTION shardring_internal.stray_keys(
	ring text, version integer, relation text, max_keys integer,
	answers shardring_internal.shard_answer[])
RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object(
			'shard', f.shard, 'server', f.server, 'key', f."row" -> 'key',
			'belongs_to', f."row" -> 'belongs_to', 'error', f.error)
			ORDER BY f.i), '[]')
	FROM (SELECT q.shard, a.server, q."row", q.i, coalesce(q.error,
			CASE WHEN NOT EXISTS (
					SELECT FROM unnest(answers) AS b
					WHERE b.shard = q."row" ->> 'belongs_to')
				AND q."row" ->> 'key' IS NOT NULL
				THEN 'the answer is not that of a shard' END) AS error,
			count(*) FILTER (WHERE q.error IS NULL) OVER (ORDER BY q.i) AS n
		FROM shardring_internal.query_shards(answers,
				'SELECT k.* FROM shardring.misplaced_keys_here($1, '
				'$2::pg_catalog.int4, $3, $4::pg_catalog.int4, '
				'$5::pg_catalog.jsonb) AS k',
				ARRAY[ring, version::text, relation, max_keys::text,
					  shardring_internal.expected_names(answers)])
				WITH ORDINALITY AS q (shard, "row", error, i)
			JOIN unnest(answers) AS a ON a.shard = q.shard) AS f
	WHERE f.error IS NOT NULL OR f.n <= max_keys;
END;
COMMENT ON FUNCTION shardring_internal.stray_keys(text, integer, text, integer,
	shardring_internal.shard_answer[]) IS
	'the first misplaced keys, by shard, and the shards that fail';
REVOKE EXECUTE ON FUNCTION shardring_internal.stray_keys(text, integer, text,
	integer, shardring_internal.shard_answer[]) FROM PUBLIC;
