
/*
 * 92-misplaced-here.sql
 *		On a shard: which rows belong elsewhere.
 *
 * Which tables and key columns, the guards say, disabled ones too.  Row-level
 * security is an error here: rows that are hidden would not be counted.
 */

/*
 * The other end of misplaced.  A table that cannot be counted does not keep
 * the others from it.
 */
CREATE FUNCTION shardring.misplaced_here(
	ring text, version integer, only_relation text DEFAULT NULL,
	expected_shards jsonb DEFAULT NULL)
RETURNS TABLE (relation text, belongs_to text, rows bigint, moving bigint,
	error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $body$
DECLARE
	here text[];
	guarded record;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'version', version::text);
	here := shardring_internal.names_here(expected_shards);
	FOR guarded IN
		SELECT g.* FROM shardring_internal.guarded_here(
			ring, only_relation) AS g
	LOOP
		BEGIN
			RETURN QUERY
				SELECT guarded.relation::text, c.belongs_to, c.rows,
					c.moving, NULL::text
				FROM shardring_internal.count_misplaced(ring, version,
					guarded.relation, guarded.key_column, here) AS c;
		EXCEPTION
			WHEN OTHERS THEN
				RETURN QUERY SELECT guarded.relation::text, NULL::text,
					NULL::bigint, NULL::bigint, SQLERRM;
		END;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION
	shardring.misplaced_here(text, integer, text, jsonb) IS
	'counts the rows of guarded tables here whose key lives on another shard';

CREATE FUNCTION shardring_internal.names_here(expected_shards jsonb)
RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF expected_shards IS NULL THEN
		RETURN ARRAY[shardring_internal.this_shard()];
	END IF;
	PERFORM shardring_internal.require_expected(expected_shards);
	RETURN ARRAY(
		SELECT n.name
		FROM shardring.shard_identity() AS i
			CROSS JOIN LATERAL jsonb_array_elements_text(
				expected_shards -> format('%s/%s', i.system_identifier,
										  i.database_oid)) AS n (name));
END
$body$;
COMMENT ON FUNCTION shardring_internal.names_here(jsonb) IS
	'the shards that this database is, which must be one of those meant';

/*
 * A partition has the guard of its parent: what is in it is counted there.
 * See commands/trigger.c for tgargs: each argument ends with a zero byte.
 */
CREATE FUNCTION shardring_internal.guarded_here(
	ring text, only_relation text)
RETURNS TABLE (relation regclass, key_column name)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	argument bytea := convert_to(ring, getdatabaseencoding()) || '\x00';
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	RETURN QUERY
		SELECT DISTINCT t.tgrelid::regclass, convert_from(
			substr(t.tgargs, length(argument) + 1,
				   length(t.tgargs) - length(argument) - 1),
			getdatabaseencoding())::name
		FROM pg_trigger AS t
		WHERE t.tgfoid = 'shardring.guard()'::regprocedure
			AND t.tgparentid = 0 AND CASE WHEN t.tgnargs = 2
				THEN substr(t.tgargs, 1, length(argument)) = argument END
			AND (only_relation IS NULL
				 OR t.tgrelid = shardring_internal.find_table(
					 only_relation))
		ORDER BY 1;
	IF NOT FOUND THEN
		IF only_relation IS NOT NULL AND
			shardring_internal.find_table(only_relation) IS NULL
		THEN
			PERFORM shardring_internal.fail('42P01', format(
				'relation "%s" does not exist', only_relation),
				hint => 'Write the name with its schema.');
		END IF;
		PERFORM shardring_internal.fail('55000', format(
			'%s has %s guard for ring "%s"',
			coalesce('table ' || only_relation, 'no table'),
			CASE WHEN only_relation IS NULL THEN 'a' ELSE 'no' END, ring),
			hint => 'Use shardring.add_guard.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.guarded_here(text, text) IS
	'the guarded tables of a ring with their key columns, at least one';

/*
 * One pass, in which every key is hashed once, by workers too; while the ring
 * moves, three times.
 */
CREATE FUNCTION shardring_internal.count_misplaced(
	ring text, version integer, relation regclass, key_column name,
	here text[])
RETURNS TABLE (belongs_to text, rows bigint, moving bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	key text := shardring_internal.key_expression(relation, key_column);
	filter text := shardring_internal.is_moving(ring, relation, key_column);
BEGIN
	PERFORM shardring_internal.refuse_null(
		'relation', relation::text, 'key_column', key_column);
	RETURN QUERY EXECUTE format(
		'SELECT h.homes[i], h.homes[i + 1]::bigint - n.moving, n.moving '
		'FROM (SELECT shardring_internal.homes($1, $2, %1$s) AS homes, '
		'%2$s AS moving '
		'FROM %3$s) AS h '
		'CROSS JOIN generate_series(1, cardinality(h.homes), 2) AS i '
		'CROSS JOIN LATERAL (SELECT coalesce(max(h.moving[j + 1]::bigint), 0) '
		'FROM generate_series(1, cardinality(h.moving), 2) AS j '
		'WHERE h.moving[j] = h.homes[i]) AS n (moving) '
		'WHERE (h.homes[i] = ANY ($3)) IS NOT TRUE ORDER BY 1',
		key, CASE WHEN filter = 'false' THEN 'NULL::text[]' ELSE format(
			'shardring_internal.homes($1, $2, %s) FILTER (WHERE %s)', key,
			filter) END, relation)
	USING ring, version, here;
END
$body$;
COMMENT ON FUNCTION shardring_internal.count_misplaced(
	text, integer, regclass, name, text[]) IS
	'counts rows that belong elsewhere by where they belong; NULL: nowhere';

/*
 * A row of a move that is under way is on one of its two shards: it has come
 * early, or has not been deleted yet.
 */
CREATE FUNCTION shardring_internal.is_moving(
	ring text, relation regclass, key_column name)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce((
		SELECT format('(shardring_internal.is_among($1, %1$s, %2$s, $3) '
			'OR shardring_internal.is_among($1, %1$s, %3$s, $3))',
			shardring_internal.key_expression(
				is_moving.relation, is_moving.key_column),
			r.moving_from, r.moving_to)
		FROM shardring.ring AS r
		WHERE r.ring = is_moving.ring COLLATE "C"
			AND r.moving_to IS NOT NULL), 'false');
END;
COMMENT ON FUNCTION shardring_internal.is_moving(text, regclass, name) IS
	'SQL for whether a row is on a shard of a move; $1: ring, $3: names here';

CREATE FUNCTION shardring_internal.home_expression(
	relation regclass, key_column name)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('shardring.shard_for($1, %s, $2)',
		shardring_internal.key_expression(relation, key_column));
END;
COMMENT ON FUNCTION shardring_internal.home_expression(regclass, name) IS
	'SQL for the shard of a row; $1 is the ring, $2 the version';

CREATE FUNCTION shardring_internal.is_elsewhere(
	relation regclass, key_column name)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format(
		'shardring_internal.is_among($1, %s, $2, $3) IS NOT TRUE',
		shardring_internal.key_expression(relation, key_column));
END;
COMMENT ON FUNCTION shardring_internal.is_elsewhere(regclass, name) IS
	'SQL for whether a row belongs elsewhere or nowhere; $3: the names here';

CREATE FUNCTION shardring_internal.is_among(
	ring text, key text, version integer, shards text[])
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_among_text';
COMMENT ON FUNCTION
	shardring_internal.is_among(text, text, integer, text[]) IS
	'whether a text key lives on one of these shards in a version';

CREATE FUNCTION shardring_internal.is_among(
	ring text, key bigint, version integer, shards text[])
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_among_int8';
COMMENT ON FUNCTION
	shardring_internal.is_among(text, bigint, integer, text[]) IS
	'whether an integer key lives on one of these shards in a version';

CREATE FUNCTION shardring_internal.is_among(
	ring text, key uuid, version integer, shards text[])
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_among_uuid';
COMMENT ON FUNCTION
	shardring_internal.is_among(text, uuid, integer, text[]) IS
	'whether a uuid key lives on one of these shards in a version';

/* NULL is last, and is not among what is asked of other shards. */
CREATE FUNCTION shardring.misplaced_keys_here(
	ring text, version integer, relation text, max_keys integer,
	expected_shards jsonb DEFAULT NULL)
RETURNS TABLE (key text, belongs_to text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $body$
DECLARE
	guarded record;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'version',
		version::text, 'relation', relation, 'max_keys', max_keys::text);
	SELECT g.* INTO guarded
	FROM shardring_internal.guarded_here(ring, relation) AS g;
	RETURN QUERY EXECUTE format(
		'SELECT DISTINCT k.key::pg_catalog.text COLLATE "C", k.belongs_to '
		'FROM (SELECT %1$s AS key, %2$s AS belongs_to FROM %3$s WHERE %4$s '
		'AND (%5$s) IS NOT TRUE) '
		'AS k ORDER BY 1 LIMIT $4',
		shardring_internal.key_expression(
			guarded.relation, guarded.key_column),
		shardring_internal.home_expression(
			guarded.relation, guarded.key_column),
		guarded.relation,
		shardring_internal.is_elsewhere(
			guarded.relation, guarded.key_column),
		shardring_internal.is_moving(
			ring, guarded.relation, guarded.key_column))
	USING ring, version, shardring_internal.names_here(expected_shards),
		max_keys;
END
$body$;
COMMENT ON FUNCTION shardring.misplaced_keys_here(
	text, integer, text, integer, jsonb) IS
	'the first keys of rows here that live on another shard, and on which';

/*
 * As jsonb, because the order of columns may differ between shards; the
 * settings that its text depends on are fixed for the same reason.
 */
CREATE FUNCTION shardring.rows_here(
	ring text, relation text, keys text[],
	expected_shards jsonb DEFAULT NULL)
RETURNS TABLE (key text, digest text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'postgres'
SET extra_float_digits = 1
SET bytea_output = 'hex'
AS $body$
DECLARE
	guarded record;
	expression text;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'relation', relation, 'keys', keys::text);
	PERFORM shardring_internal.names_here(expected_shards);
	SELECT g.* INTO guarded
	FROM shardring_internal.guarded_here(ring, relation) AS g;
	expression := shardring_internal.key_expression(
		guarded.relation, guarded.key_column);
	RETURN QUERY EXECUTE format(
		'SELECT r.key::pg_catalog.text, encode(sha256(convert_to('
		'string_agg(r.digest, '''' ORDER BY r.digest COLLATE "C"), '
		'''UTF8'')), ''hex'') '
		'FROM (SELECT %1$s AS key, encode(sha256(convert_to('
		'to_jsonb(%2$s.*)::text, ''UTF8'')), ''hex'') AS digest '
		'FROM %3$s AS %2$s WHERE %4$I = ANY ($1::%5$s[])) AS r '
		'GROUP BY r.key',
		expression, 'whole', guarded.relation, guarded.key_column,
		substring(expression FROM '[a-z0-9]+$'))
	USING keys;
END
$body$;
COMMENT ON FUNCTION shardring.rows_here(text, text, text[], jsonb) IS
	'a digest of the rows here for each of these keys that has any';
