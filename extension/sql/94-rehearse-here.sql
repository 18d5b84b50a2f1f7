
/*
 * 94-rehearse-here.sql
 *		On a shard: what it has of that which moves.
 *
 * Where positions live, the map says; see shardring_internal.places.  What it
 * says is data: numbers, and names that are only compared and returned.
 */

/*
 * The other end of rehearse_cluster, for one table, or NULL where there is
 * none to name.  Rows that belong elsewhere before are an error that counts
 * them: they would be added to a shard that does not have them.
 */
CREATE FUNCTION shardring.rehearse_here(
	ring text, relation text, load_column name, places jsonb,
	expected_shards jsonb DEFAULT NULL)
RETURNS TABLE (from_shard text, to_shard text, rows bigint, bytes bigint,
	load numeric, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $body$
DECLARE
	here text[];
	guarded record;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'places', places::text);
	here := shardring_internal.names_here(expected_shards);
	SELECT g.* INTO guarded
	FROM shardring_internal.guarded_here(ring, relation) AS g;
	RETURN QUERY
		SELECT CASE WHEN o.ours THEN c.from_shard END,
			CASE WHEN o.ours THEN c.to_shard END,
			c.rows, c.bytes, c.load,
			CASE WHEN c.from_shard IS NULL THEN format(
				'%s in %s', shardring_internal.counted(c.rows, 'NULL key'),
				guarded.relation)
			WHEN NOT o.ours THEN format(
				'%s of "%s" in %s',
				shardring_internal.counted(c.rows, 'misplaced row'),
				c.from_shard, guarded.relation) END
		FROM shardring_internal.count_moving(
				guarded.relation, guarded.key_column, load_column,
				places -> 'before', places -> 'after') AS c
			CROSS JOIN LATERAL (SELECT coalesce(
				c.from_shard = ANY (here), false)) AS o (ours);
END
$body$;
COMMENT ON FUNCTION shardring.rehearse_here(
	text, text, name, jsonb, jsonb) IS
	'rows, bytes and load of a table here by where they go';

/* One pass, in workers; each key is hashed once. */
CREATE FUNCTION shardring_internal.count_moving(
	relation regclass, key_column name, load_column name, before jsonb,
	after jsonb)
RETURNS TABLE (from_shard text, to_shard text, rows bigint, bytes bigint,
	load numeric)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_load name := (
		SELECT a.attname FROM pg_attribute AS a
		WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
			AND a.attname = load_column COLLATE "C");
BEGIN
	PERFORM shardring_internal.refuse_null('relation', relation::text,
		'key_column', key_column, 'before', before::text,
		'after', after::text);
	RETURN QUERY EXECUTE format(
		'SELECT %1$s, %2$s, count(*), sum(k.bytes)::bigint, %3$s '
		'FROM (SELECT shardring_internal.position_once(%4$s, $1, $2) AS p, '
		'%5$s AS bytes, %6$s AS load FROM %7$s) AS k '
		'GROUP BY 1, 2 ORDER BY 1, 2',
		shardring_internal.place_expression(3),
		shardring_internal.place_expression(8),
		CASE WHEN found_load IS NULL THEN 'NULL::numeric'
			ELSE 'sum(k.load)' END,
		shardring_internal.key_expression(relation, key_column),
		shardring_internal.bytes_expression(relation),
		CASE WHEN found_load IS NULL THEN 'NULL::numeric'
			ELSE format('%I::numeric', found_load) END,
		relation)
	USING before ->> 'hash', (before ->> 'hash_tags')::boolean,
		shardring_internal.numbers(before -> 'starts'),
		shardring_internal.numbers(before -> 'groups'),
		shardring_internal.numbers(before -> 'slots'),
		shardring_internal.numbers(before -> 'runs'),
		shardring_internal.texts(before -> 'shards'),
		shardring_internal.numbers(after -> 'starts'),
		shardring_internal.numbers(after -> 'groups'),
		shardring_internal.numbers(after -> 'slots'),
		shardring_internal.numbers(after -> 'runs'),
		shardring_internal.texts(after -> 'shards');
END
$body$;
COMMENT ON FUNCTION shardring_internal.count_moving(
	regclass, name, name, jsonb, jsonb) IS
	'counts the rows of a table by where they are before and after';

/* The shard of position k.p by arrays that are parameters, see places. */
CREATE FUNCTION shardring_internal.place_expression(first integer)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format(
		'($%4$s::text[])[width_bucket(%5$s * 2147483648 '
		'+ k.p %% ($%2$s::bigint[])[%5$s], $%3$s::bigint[])]',
		first, first + 2, first + 3, first + 4, format(
			'($%2$s::bigint[])[width_bucket(k.p, $%1$s::bigint[])]',
			first, first + 1));
END;
COMMENT ON FUNCTION shardring_internal.place_expression(integer) IS
	'SQL for the shard of position k.p, by five parameters from this one on';

CREATE FUNCTION shardring_internal.numbers(list jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(array_agg(e.value::bigint ORDER BY e.i), '{}')
	FROM jsonb_array_elements_text(list) WITH ORDINALITY AS e (value, i);
END;
COMMENT ON FUNCTION shardring_internal.numbers(jsonb) IS
	'a JSON array of numbers as an array';

CREATE FUNCTION shardring_internal.texts(list jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(array_agg(e.value ORDER BY e.i), '{}')
	FROM jsonb_array_elements_text(list) WITH ORDINALITY AS e (value, i);
END;
COMMENT ON FUNCTION shardring_internal.texts(jsonb) IS
	'a JSON array of texts as an array';
