/*
 * 51-rehearse.sql
 *		What a move means for the rows of a real table.
 */

/*
 * VOLATILE, so that the query has a snapshot from after the lock: rows that
 * another transaction wrote into a truncated table are seen then.
 *
 * Errors of the query would come with all of its text as their context; what
 * a caller may have done wrong is raised again without it.
 */
CREATE FUNCTION shardring.rehearse(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name, load_column name DEFAULT NULL)
RETURNS TABLE (shard text, rows_before bigint, rows_after bigint,
	rows_in bigint, rows_out bigint, bytes_before bigint, bytes_after bigint,
	load_before numeric, load_after numeric)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	hint text;
BEGIN
	IF num_nulls(ring, from_version, to_version, relation, key_column) > 0
	THEN
		RETURN;
	END IF;
	PERFORM shardring_internal.lock_table(relation);
	RETURN QUERY EXECUTE shardring.rehearse_query(
		ring, from_version, to_version, relation, key_column, load_column);
EXCEPTION
	WHEN null_value_not_allowed THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		PERFORM shardring_internal.fail(
			SQLSTATE, SQLERRM, hint => nullif(hint, ''));
	WHEN insufficient_privilege OR undefined_column OR undefined_object THEN
		PERFORM shardring_internal.fail(SQLSTATE, SQLERRM);
END
$body$;
COMMENT ON FUNCTION shardring.rehearse(
	text, integer, integer, regclass, name, name) IS
	'rows, bytes and load of each shard before and after, from a real table';

CREATE FUNCTION shardring_internal.lock_table(relation regclass) RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_lock_table';
COMMENT ON FUNCTION shardring_internal.lock_table(regclass) IS
	'locks a table to be read, or raises that the snapshot is too old';

/*
 * key_position for rehearse.  What is volatile stays where it is written, so
 * that a position is not computed anew for each of its uses, and the planner
 * expects a few hundred pairs of shards instead of one for every key.
 */
CREATE FUNCTION shardring_internal.position_once(
	key text, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_text';
COMMENT ON FUNCTION shardring_internal.position_once(text, text, boolean) IS
	'key_position of a text key, computed where it is written';

CREATE FUNCTION shardring_internal.position_once(
	key bigint, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_int8';
COMMENT ON FUNCTION shardring_internal.position_once(bigint, text, boolean) IS
	'key_position of an integer key, computed where it is written';

CREATE FUNCTION shardring_internal.position_once(
	key uuid, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_uuid';
COMMENT ON FUNCTION shardring_internal.position_once(uuid, text, boolean) IS
	'key_position of a uuid key, computed where it is written';

/*
 * One pass: every key is hashed once, rows are counted by pairs of shards in
 * workers, and the few pairs are shared out to shards at the end.  Shards
 * without rows are added as pairs of nothing.
 */
CREATE FUNCTION shardring.rehearse_query(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name, load_column name DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	hashed_by shardring.ring;
	key text := shardring_internal.key_expression(relation, key_column);
	bytes text := shardring_internal.bytes_expression(relation);
	no_load text := CASE WHEN load_column IS NULL
		THEN 'NULL::pg_catalog.numeric' ELSE '0' END;
	load text := CASE WHEN load_column IS NULL THEN no_load
		ELSE format('%I::pg_catalog.numeric', load_column) END;
	load_sum text := CASE WHEN load_column IS NULL THEN no_load
		ELSE 'coalesce(pg_catalog.sum(k.load), 0)' END;
BEGIN
	IF load_column COLLATE "C" = '' THEN
		PERFORM shardring_internal.fail('42703', format(
			'column "" of relation "%s" does not exist', relation));
	END IF;
	SELECT * INTO hashed_by
	FROM shardring.ring AS r WHERE r.ring = rehearse_query.ring COLLATE "C";
	IF NOT FOUND AND ring IS NOT NULL THEN
		PERFORM shardring_internal.refuse_ring(ring);
	END IF;
	RETURN format(
$query$SELECT s.shard,
	pg_catalog.sum(p.rows) FILTER (WHERE s.before)::pg_catalog.int8
		AS rows_before,
	pg_catalog.sum(p.rows) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS rows_after,
	pg_catalog.sum(p.moving) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS rows_in,
	pg_catalog.sum(p.moving) FILTER (WHERE s.before)::pg_catalog.int8
		AS rows_out,
	pg_catalog.sum(p.bytes) FILTER (WHERE s.before)::pg_catalog.int8
		AS bytes_before,
	pg_catalog.sum(p.bytes) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS bytes_after,
	pg_catalog.sum(p.load) FILTER (WHERE s.before) AS load_before,
	pg_catalog.sum(p.load) FILTER (WHERE NOT s.before) AS load_after
FROM (
	SELECT c.from_shard, c.to_shard, c.rows,
		CASE WHEN c.from_shard OPERATOR(pg_catalog.=) c.to_shard THEN 0
			ELSE c.rows END AS moving,
		c.bytes, c.load
	FROM (
		SELECT shardring.shard_at(%1$L, k.key_position, %2$s) AS from_shard,
			shardring.shard_at(%1$L, k.key_position, %3$s) AS to_shard,
			pg_catalog.count(*) AS rows,
			pg_catalog.sum(k.bytes) AS bytes,
			%10$s AS load
		FROM (
			SELECT shardring_internal.position_once(%4$s, %11$L, %12$L)
					AS key_position,
				%5$s AS bytes, %6$s AS load
			FROM %7$s
		) AS k
		GROUP BY 1, 2
	) AS c
	UNION ALL
	SELECT n.shard, n.shard, 0, 0, 0, %8$s
	FROM (
		SELECT b.shard FROM shardring.shard_shares(%1$L, %2$s) AS b
		UNION ALL
		SELECT a.shard FROM shardring.shard_shares(%1$L, %3$s) AS a
	) AS n
) AS p
	CROSS JOIN LATERAL (VALUES
		(CASE WHEN p.from_shard IS NULL
			THEN shardring_internal.refuse_null_keys(%9$L, p.rows)
			ELSE p.from_shard END, true),
		(p.to_shard, false)
	) AS s (shard, before)
GROUP BY s.shard
ORDER BY s.shard COLLATE pg_catalog."C"$query$,
		ring, from_version, to_version, key, bytes, load, relation, no_load,
		key_column, load_sum, hashed_by.hash, hashed_by.hash_tags);
END
$body$;
COMMENT ON FUNCTION shardring.rehearse_query(
	text, integer, integer, regclass, name, name) IS
	'the query that rehearse runs, for EXPLAIN';

CREATE FUNCTION shardring_internal.bytes_expression(relation regclass)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT string_agg(format(
		'coalesce(pg_catalog.pg_column_size(%I), 0)', a.attname),
		' OPERATOR(pg_catalog.+) ' ORDER BY a.attnum)
	FROM pg_attribute AS a
	WHERE a.attrelid = bytes_expression.relation AND a.attnum > 0
		AND NOT a.attisdropped;
END;
COMMENT ON FUNCTION shardring_internal.bytes_expression(regclass) IS
	'SQL for the size of a row as it is stored';

CREATE FUNCTION shardring_internal.refuse_null_keys(
	key_column name, keys bigint)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('22004', format(
		'column "%s" has %s', key_column,
		shardring_internal.counted(keys, 'NULL key')),
		hint => 'A NULL key has no shard.');
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_null_keys(name, bigint) IS
	'raises the error for NULL keys, with their number';

CREATE FUNCTION shardring_internal.key_expression(
	relation regclass, key_column name)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_key_expression';
COMMENT ON FUNCTION shardring_internal.key_expression(regclass, name) IS
	'SQL for the values of a column as one of the key types';

