/*
 * 92-tables.sql
 *		Which tables belong to a ring: those that its guards are on.
 *
 * There is no list of tables beside the guards that could differ from them.
 */

CREATE FUNCTION shardring_internal.guards(ring text)
RETURNS TABLE (relation oid, name text, key_column text, enabled boolean,
	statement_guard boolean, truncate_guard boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	prefix bytea := convert_to(ring, getdatabaseencoding())
		|| decode('00', 'hex');
BEGIN
	RETURN QUERY
		SELECT DISTINCT ON (g.name)
			g.oid, g.name, g.key, g.works,
			EXISTS (SELECT FROM shardring_internal.working_triggers(g.oid) AS w
					WHERE w.function = 'shardring.guard_statement()'
							::regprocedure
						AND w.type = 26 AND w.arguments = prefix),
			EXISTS (SELECT FROM shardring_internal.working_triggers(g.oid) AS w
					WHERE w.function = 'shardring.guard_truncate()'
							::regprocedure
						AND w.type = 34 AND w.arguments = prefix)
		FROM (SELECT c.oid,
				format('%I.%I', n.nspname, c.relname) COLLATE "C" AS name,
				convert_from(
					substr(t.tgargs, length(prefix) + 1,
						   length(t.tgargs) - length(prefix) - 1),
					getdatabaseencoding()) AS key,
				/* BEFORE, FOR EACH ROW, all three; see catalog/pg_trigger.h */
				t.tgtype = 31 AND t.tgqual IS NULL
					AND t.tgattr = ''::int2vector
					AND t.tgenabled IN ('O', 'A') AS works
			  FROM pg_trigger AS t
				  JOIN pg_class AS c ON c.oid = t.tgrelid
				  JOIN pg_namespace AS n ON n.oid = c.relnamespace
			  WHERE t.tgfoid = 'shardring.guard()'::regprocedure
				  AND t.tgnargs = 2
				  AND substr(t.tgargs, 1, length(prefix)) = prefix) AS g
		ORDER BY g.name, g.works DESC;
END
$body$;
COMMENT ON FUNCTION shardring_internal.guards(text) IS
	'tables of this shard that are guarded for a ring; takes no locks';
REVOKE EXECUTE ON FUNCTION shardring_internal.guards(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.working_triggers(relation oid)
RETURNS TABLE (function oid, type smallint, arguments bytea)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 3
BEGIN ATOMIC
	SELECT t.tgfoid, t.tgtype, t.tgargs
	FROM pg_trigger AS t
	WHERE t.tgrelid = working_triggers.relation AND t.tgqual IS NULL
		AND t.tgattr = ''::int2vector AND t.tgenabled IN ('O', 'A');
END;
COMMENT ON FUNCTION shardring_internal.working_triggers(oid) IS
	'the triggers of a table that fire for every change of their kind';
REVOKE EXECUTE ON FUNCTION shardring_internal.working_triggers(oid)
	FROM PUBLIC;

/* For the map, which calls it by name on the shards. */
CREATE FUNCTION shardring.guarded_tables(ring text)
RETURNS TABLE (relation text, key_column text, enabled boolean,
	statement_guard boolean, truncate_guard boolean, rows bigint,
	bytes bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	RETURN QUERY
		SELECT g.name, g.key_column, g.enabled, g.statement_guard,
			g.truncate_guard,
			CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END,
			pg_total_relation_size(c.oid)
		FROM shardring_internal.guards(ring) AS g
			JOIN pg_class AS c ON c.oid = g.relation
		ORDER BY g.name;
END
$body$;
COMMENT ON FUNCTION shardring.guarded_tables(text) IS
	'tables of this shard that are guarded for a ring, by statistics';

CREATE TYPE shardring_internal.table_answer AS
(
	shard text COLLATE "C",
	number integer,
	counts boolean,
	error text,
	relation text,
	key_column text COLLATE "C",
	enabled boolean,
	statement_guard boolean,
	truncate_guard boolean,
	rows bigint,
	bytes bigint
);
COMMENT ON TYPE shardring_internal.table_answer IS
	'what a shard says about one of its tables, or that it says nothing';
COMMENT ON COLUMN shardring_internal.table_answer.shard IS
	'name of the shard';
COMMENT ON COLUMN shardring_internal.table_answer.number IS
	'number of the shard; NULL: only drafts have it';
COMMENT ON COLUMN shardring_internal.table_answer.counts IS
	'no other shard on the same server counts its rows';
COMMENT ON COLUMN shardring_internal.table_answer.error IS
	'why the shard says nothing; NULL: it does';
COMMENT ON COLUMN shardring_internal.table_answer.relation IS
	'name of the table, with its schema; NULL: no table';
COMMENT ON COLUMN shardring_internal.table_answer.key_column IS
	'column that the guard looks at';
COMMENT ON COLUMN shardring_internal.table_answer.enabled IS
	'the guard of rows works';
COMMENT ON COLUMN shardring_internal.table_answer.statement_guard IS
	'the guard of statements works';
COMMENT ON COLUMN shardring_internal.table_answer.truncate_guard IS
	'the guard against TRUNCATE works';
COMMENT ON COLUMN shardring_internal.table_answer.rows IS
	'number of rows by the statistics; NULL: never analyzed';
COMMENT ON COLUMN shardring_internal.table_answer.bytes IS
	'size with indexes and TOAST';

CREATE FUNCTION shardring.tables(ring text)
RETURNS TABLE (relation text, key_column text, shards integer, rows bigint,
	bytes bigint, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	guards shardring_internal.table_answer[];
	answered text[];
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	guards := shardring_internal.ask_tables(ring);
	answered := ARRAY(SELECT a.shard FROM unnest(guards) AS a
					  WHERE a.error IS NULL
					  GROUP BY a.shard ORDER BY min(a.number), a.shard);
	RETURN QUERY
		SELECT t.name, t.key, t.places::integer,
			CASE WHEN t.known THEN t.rows END, t.bytes,
			shardring_internal.table_problem(guards, answered, t.name, t.key)
		FROM (SELECT g.relation COLLATE "C" AS name,
				mode() WITHIN GROUP (ORDER BY g.key_column) AS key,
				count(*) AS places, bool_and(g.rows IS NOT NULL) AS known,
				(sum(g.rows) FILTER (WHERE g.counts))::bigint AS rows,
				(sum(g.bytes) FILTER (WHERE g.counts))::bigint AS bytes
			  FROM unnest(guards) AS g
			  WHERE g.relation IS NOT NULL
			  GROUP BY g.relation COLLATE "C") AS t
		ORDER BY t.name;
	RETURN QUERY
		SELECT NULL, NULL, NULL::integer, NULL::bigint, NULL::bigint,
			format('%s: %s', a.shard,
				   shardring_internal.short_error(a.error, 40))
		FROM unnest(guards) AS a
		WHERE a.error IS NOT NULL
		ORDER BY a.number, a.shard;
END
$body$;
COMMENT ON FUNCTION shardring.tables(text) IS
	'the guarded tables of a ring on all its shards, by statistics';
REVOKE EXECUTE ON FUNCTION shardring.tables(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.ask_tables(ring text)
RETURNS shardring_internal.table_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[] := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, shardring_internal.guard_targets(ring), false, false)
			AS a);
	shards text[] := ARRAY(SELECT a.shard FROM unnest(answers) AS a);
BEGIN
	RETURN ARRAY(
		SELECT ROW(s.shard, s.number, s.counts, s.error, g.relation,
				   g.key_column, g.enabled, g.statement_guard,
				   g.truncate_guard, g.rows, g.bytes)
			::shardring_internal.table_answer
		FROM (SELECT t.shard, t.number,
				t.shard = min(t.shard) OVER (PARTITION BY t.server) AS counts,
				r.tables,
				coalesce(t.error, a.error, CASE WHEN r.tables IS NULL
					THEN 'the answer is not that of a shard' END) AS error
			  FROM unnest(answers) AS t
				  LEFT JOIN shardring_internal.ask_servers(
					  shardring_internal.sound_servers(answers, shards),
					  'SELECT coalesce('
					  'pg_catalog.jsonb_agg(pg_catalog.to_jsonb(g)), ''[]'') '
					  'FROM shardring.guarded_tables($1) AS g',
					  ARRAY[ring]) AS a
					  ON a.server = t.server AND t.error IS NULL
				  CROSS JOIN LATERAL (SELECT shardring_internal.read_tables(
					  a.answer[1])) AS r (tables)) AS s
			LEFT JOIN LATERAL jsonb_to_recordset(s.tables) AS g (
				relation text, key_column text, enabled boolean,
				statement_guard boolean, truncate_guard boolean, rows bigint,
				bytes bigint)
				ON s.error IS NULL);
END
$body$;
COMMENT ON FUNCTION shardring_internal.ask_tables(text) IS
	'asks all shards which tables they guard; at least one row of each';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_tables(text) FROM PUBLIC;

/* Sums of what is let through fit into bigint. */
CREATE FUNCTION shardring_internal.read_tables(answer text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	sound boolean;
	tables jsonb;
BEGIN
	SELECT coalesce(bool_and(g.relation IS NOT NULL
							 AND g.key_column IS NOT NULL
							 AND g.enabled IS NOT NULL
							 AND g.statement_guard IS NOT NULL
							 AND g.truncate_guard IS NOT NULL
							 AND coalesce(g.rows, 0) BETWEEN 0 AND 1e14
							 AND coalesce(g.bytes, 0) BETWEEN 0 AND 1e14),
					true),
		coalesce(jsonb_agg(jsonb_build_object(
			'relation', left(regexp_replace(g.relation, '[[:cntrl:]]', ' ',
											'g'), 260),
			'key_column', left(regexp_replace(g.key_column, '[[:cntrl:]]',
											  ' ', 'g'), 63),
			'enabled', g.enabled, 'statement_guard', g.statement_guard,
			'truncate_guard', g.truncate_guard, 'rows', g.rows,
			'bytes', g.bytes)), '[]')
	INTO sound, tables
	FROM jsonb_to_recordset(answer::jsonb) AS g (
		relation text, key_column text, enabled boolean,
		statement_guard boolean, truncate_guard boolean, rows bigint,
		bytes bigint)
	WHERE answer IS NOT NULL;
	RETURN CASE WHEN sound AND answer IS NOT NULL THEN tables END;
EXCEPTION
	WHEN data_exception OR datatype_mismatch THEN
		RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.read_tables(text) IS
	'the tables in the answer of a shard; NULL: it is none';
REVOKE EXECUTE ON FUNCTION shardring_internal.read_tables(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.few_names(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT array_to_string(names[:3], ', ')
		|| CASE WHEN cardinality(names) > 3 THEN ' ...' ELSE '' END;
END;
COMMENT ON FUNCTION shardring_internal.few_names(text[]) IS
	'the first three names of a list; NULL for NULL';
REVOKE EXECUTE ON FUNCTION shardring_internal.few_names(text[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.table_problem(
	guards shardring_internal.table_answer[], answered text[],
	relation text, key_column text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT nullif(concat_ws('; ',
		'not on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (WHERE g.shard IS NULL)),
		'disabled on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (WHERE NOT g.enabled)),
		'no statement guard on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (
				WHERE NOT g.statement_guard)),
		'no TRUNCATE guard on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (
				WHERE NOT g.truncate_guard)),
		'other key on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (
				WHERE g.key_column <> table_problem.key_column COLLATE "C")),
		'not analyzed on ' || shardring_internal.few_names(
			array_agg(s.shard ORDER BY s.i) FILTER (
				WHERE g.shard IS NOT NULL AND g.rows IS NULL))), '')
	FROM unnest(answered) WITH ORDINALITY AS s (shard, i)
		LEFT JOIN unnest(guards) AS g
			ON g.shard = s.shard COLLATE "C"
				AND g.relation = table_problem.relation COLLATE "C";
END;
COMMENT ON FUNCTION shardring_internal.table_problem(
	shardring_internal.table_answer[], text[], text, text) IS
	'where the guards of a table differ, in few words; NULL: nowhere';
REVOKE EXECUTE ON FUNCTION shardring_internal.table_problem(
	shardring_internal.table_answer[], text[], text, text) FROM PUBLIC;
