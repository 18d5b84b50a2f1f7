
/*
 * 90-on-shards.sql
 *		Running one query on all shards.
 *
 * The shards are asked first who they are, so that no database is read twice
 * and none for another.  A shard whose rows cannot all be shown has one row,
 * with the reason: rows that came before it are not shown.
 */

CREATE FUNCTION shardring.on_shards(
	ring text, statement text, shards text[] DEFAULT NULL)
RETURNS TABLE (shard text, ok boolean, "row" jsonb, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'statement', statement);
	PERFORM shardring_internal.require_ring(ring);
	PERFORM shardring_internal.require_query(statement);
	answers := shardring_internal.sound_answers(ring, shards, false);
	RETURN QUERY
		SELECT q.shard, q.error IS NULL, q."row", q.error
		FROM shardring_internal.query_shards(answers, statement, '{}') AS q;
END
$body$;
COMMENT ON FUNCTION shardring.on_shards(text, text, text[]) IS
	'runs a query on shards, all at once and read only, and shows all rows';
REVOKE EXECUTE ON FUNCTION shardring.on_shards(text, text, text[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_query(statement text)
RETURNS void
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_require_query';
COMMENT ON FUNCTION shardring_internal.require_query(text) IS
	'raises unless the text is one statement that only returns rows';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_query(text) FROM PUBLIC;

/*
 * As ask_shards answers, but whatever is a reason not to read the shard is an
 * error: that it does not say who it is, or, where it has to be in sync, that
 * it is not.
 */
CREATE FUNCTION shardring_internal.sound_answers(
	ring text, shards text[], in_sync boolean)
RETURNS shardring_internal.shard_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	answers shardring_internal.shard_answer[] := '{}';
	answer shardring_internal.shard_answer;
BEGIN
	/* whoever is asked this is asked for more at once */
	PERFORM shardring_internal.keep_connections();
	FOR answer IN
		SELECT a.* FROM shardring_internal.ask_shards(
			ring, shardring_internal.push_targets(ring, NULL, shards),
			false, in_sync) AS a
	LOOP
		answer.error := coalesce(
			answer.error,
			'shardring.shard is not set there: ' || answer.hint);
		IF in_sync AND answer.error IS NULL THEN
			answer.error := shardring_internal.shard_problem(
				NULL, NULL, answer.active_version, answer.fingerprint,
				ours.active_version, ours.fingerprint);
		END IF;
		answers := answers || answer;
	END LOOP;
	RETURN answers;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.sound_answers(text, text[], boolean) IS
	'what shards answer, with every reason not to read them as an error';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.sound_answers(text, text[], boolean) FROM PUBLIC;

/*
 * Shards that are on one server are read once, and the rows are those of the
 * first one.  An answer without rows has none here.
 */
CREATE FUNCTION shardring_internal.query_shards(
	answers shardring_internal.shard_answer[], statement text,
	arguments text[])
RETURNS TABLE (shard text, "row" jsonb, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	servers text[] := shardring_internal.sound_servers(answers, ARRAY(
		SELECT a.shard FROM unnest(answers) AS a));
	found jsonb[];
	texts text[];
	first boolean;
BEGIN
	FOR shard, error, texts, first IN
		SELECT a.shard, coalesce(a.error, r.error), r.rows,
			row_number() OVER (PARTITION BY a.server ORDER BY a.number) = 1
		FROM unnest(answers) AS a
			LEFT JOIN shardring_internal.ask_rows(
				servers, statement, arguments) AS r
				ON r.server = a.server AND a.error IS NULL
		ORDER BY a.number
	LOOP
		IF error IS NULL THEN
			SELECT p.rows, p.error INTO found, error
			FROM shardring_internal.parse_rows(texts) AS p;
		END IF;
		IF error IS NOT NULL THEN
			"row" := NULL;
			RETURN NEXT;
		ELSIF first THEN
			RETURN QUERY
				SELECT shard, u."row", NULL::text
				FROM unnest(found) WITH ORDINALITY AS u ("row", i)
				ORDER BY u.i;
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.query_shards(
	shardring_internal.shard_answer[], text, text[]) IS
	'rows of the shards that are who they should be, errors of the others';
REVOKE EXECUTE ON FUNCTION shardring_internal.query_shards(
	shardring_internal.shard_answer[], text, text[]) FROM PUBLIC;

/* What a server sent need not be JSON, or none that jsonb can hold. */
CREATE FUNCTION shardring_internal.parse_rows(
	texts text[], OUT rows jsonb[], OUT error text)
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	rows := texts::jsonb[];
EXCEPTION
	WHEN OTHERS THEN
		error := left(regexp_replace(SQLERRM COLLATE "C", '[[:cntrl:]]', ' ',
									 'g'), 1000);
END
$body$;
COMMENT ON FUNCTION shardring_internal.parse_rows(text[]) IS
	'the rows as jsonb, or why one of them is none';
REVOKE EXECUTE ON FUNCTION shardring_internal.parse_rows(text[]) FROM PUBLIC;
