/*
 * 97-move-digest.sql
 *		On a shard: digests of the rows that move, to compare both sides.
 *
 * A digest is the number of rows and the exact sum of their hashes, so that
 * the order of rows does not count.  A row is taken as text, its columns by
 * name, under settings that both sides have alike: text tells 1.0 from 1.00,
 * and exists for types without a hash, json for one.
 */

/* The three rounds: of ranges of positions, of keys in them, of given keys. */
CREATE FUNCTION shardring_internal.step_digest(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET datestyle = 'ISO, MDY'
SET timezone = 'UTC'
SET intervalstyle = 'postgres'
SET extra_float_digits = 3
SET bytea_output = 'hex'
SET lc_monetary = 'C'
SET xmloption = 'content'
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_token(
		ring, token, document);
	guarded record;
	answer jsonb;
	result jsonb := '{}';
BEGIN
	FOR guarded IN
		SELECT g.relation, g.name, g.key_column
		FROM shardring_internal.guards(ring) AS g
		WHERE NOT document ? 'tables' OR document -> 'tables' ? g.name
		ORDER BY g.name
	LOOP
		EXECUTE shardring_internal.digest_query(
			ours, guarded.relation, guarded.key_column,
			document #> ARRAY['tables', guarded.name])
		INTO answer
		USING ours.ring, ours.moving_from, ours.moving_to,
			coalesce((document ->> 'shift')::integer, 20),
			document #> ARRAY['tables', guarded.name],
			shardring_internal.this_shard();
		result := result || jsonb_build_object(guarded.name,
											   coalesce(answer, '{}'));
	END LOOP;
	RETURN jsonb_build_object('digests', result);
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_digest(text, bigint, jsonb) IS
	'step of a move: digests of the rows that move, by pair of shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_digest(text, bigint, jsonb) FROM PUBLIC;

/*
 * Without anything that is wanted of the table, digests of all positions; with
 * an object, those of the keys in these ranges of pairs; with an array, those
 * of these keys.
 */
CREATE FUNCTION shardring_internal.digest_query(
	ours shardring.ring, relation oid, key_column text, wanted jsonb)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	kind text := coalesce(jsonb_typeof(wanted), 'all');
	type text := (SELECT format_type(a.atttypid, a.atttypmod)
				  FROM pg_attribute AS a
				  WHERE a.attrelid = relation
					  AND a.attname = key_column COLLATE "C");
BEGIN
	RETURN format(
		$query$SELECT jsonb_object_agg(p.pair, p.digests) FROM (
	SELECT d.pair, jsonb_object_agg(d.unit, d.digest) AS digests FROM (
		SELECT r.pair, r.unit, count(*) || '/' || sum(r.hash::numeric) AS digest
		FROM (
			SELECT jsonb_build_array(shardring.shard_for($1, %1$s, $2),
					shardring.shard_for($1, %1$s, $3))::text AS pair,
				%2$s AS unit,
				hashtextextended(%3$s COLLATE "C", 0) AS hash,
				shardring.key_position(%1$s, %5$L, %6$L) >> $4 AS range
			FROM ONLY %7$s AS t
			WHERE %8$s AND shardring.moves($1, $2, $3, %1$s)
				AND $6 IN (shardring.shard_for($1, %1$s, $2),
						   shardring.shard_for($1, %1$s, $3))) AS r
		WHERE %4$s
		GROUP BY r.pair, r.unit) AS d
	GROUP BY d.pair) AS p$query$,
		shardring_internal.key_expression(relation, key_column),
		CASE kind WHEN 'all' THEN format(
				'(shardring.key_position(%s, %L, %L) >> $4)::text',
				shardring_internal.key_expression(relation, key_column),
				ours.hash, ours.hash_tags)
			ELSE format('t.%I::text', key_column) END,
		shardring_internal.row_expression(relation),
		CASE kind WHEN 'object'
			THEN '$5 -> r.pair @> to_jsonb(r.range)' ELSE 'true' END,
		ours.hash, ours.hash_tags, relation::regclass,
		CASE kind WHEN 'array' THEN format(
				't.%I = ANY (ARRAY(SELECT k::%s '
				'FROM jsonb_array_elements_text($5) AS k))', key_column, type)
			ELSE 'true' END);
END
$body$;
COMMENT ON FUNCTION shardring_internal.digest_query(
	shardring.ring, oid, text, jsonb) IS
	'the query for digests of a table';
REVOKE EXECUTE ON FUNCTION shardring_internal.digest_query(
	shardring.ring, oid, text, jsonb) FROM PUBLIC;

/* What is generated is computed on the other side. */
CREATE FUNCTION shardring_internal.row_expression(relation oid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('ROW(%s)::text',
		string_agg(format('t.%I', a.attname), ', '
				   ORDER BY a.attname COLLATE "C"))
	FROM pg_attribute AS a
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attgenerated = '';
END;
COMMENT ON FUNCTION shardring_internal.row_expression(oid) IS
	'a row as text, with its columns in the order of their names';
REVOKE EXECUTE ON FUNCTION shardring_internal.row_expression(oid) FROM PUBLIC;
