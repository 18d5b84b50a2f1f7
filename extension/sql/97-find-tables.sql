/*
 * 97-find-tables.sql
 *		Findings about tables: definitions that differ, keys, sequences.
 */

/*
 * The digests say which tables are to be looked at, and are all that there is
 * to show where a shard has too many tables.  A definition is in no command.
 */
CREATE FUNCTION shardring_internal.drift_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(CASE WHEN d.object ~ '^index ' THEN 'warning'
				ELSE 'error' END, d.shard, d.number, d.relation,
			format('%s is %s, elsewhere %s', d.object,
				   coalesce(shardring_internal.one_line(d.definition, 100),
							'missing'),
				   coalesce(shardring_internal.one_line(d.most, 100),
							'missing')),
			/* pg_dump writes checks with the columns of their table */
			CASE WHEN d.definition IS NULL AND d.most !~ '^CHECK '
				AND d.object ~ '^(constraint|index) '
				THEN shardring_internal.dump_command(
					d.most_server, d.server, shardring_internal.dump_options(
						d.relation) || ' --section=post-data')
				ELSE shardring_internal.diff_command(
					d.most_server, d.server, d.relation) END, NULL)
			::shardring_internal.finding
		FROM shardring_internal.unlike_most(facts) AS d);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.drift_findings(shardring_internal.shard_fact[]) IS
	'tables that are not defined as on most shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.drift_findings(shardring_internal.shard_fact[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.unlike_most(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (shard text, number integer, server text, relation text,
	object text, definition text, most text, most_server text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH differing AS MATERIALIZED (
			SELECT t.*, CASE WHEN t.told THEN t.fact -> 'objects'
				ELSE jsonb_build_object(
					'definition', left(t.fact ->> 'digest', 8)) END
				AS objects
			FROM (SELECT a.*,
					min(a.fact ->> 'digest') OVER same AS one,
					max(a.fact ->> 'digest') OVER same AS another,
					bool_and(a.fact ? 'objects') OVER same AS told
				  FROM shardring_internal.fact_tables(
					  unlike_most.facts) AS a
				  WINDOW same AS (PARTITION BY a.relation)) AS t
			WHERE t.one <> t.another),
		every AS (
			SELECT d.shard, d.number, d.server, d.relation, o.object,
				d.objects ->> o.object AS definition
			FROM differing AS d
				JOIN (SELECT DISTINCT e.relation,
						jsonb_object_keys(e.objects) AS object
					  FROM differing AS e) AS o ON o.relation = d.relation),
		counted AS (
			SELECT e.*, count(*) OVER (
				PARTITION BY e.relation, e.object, e.definition) AS votes
			FROM every AS e)
		SELECT c.shard, c.number, c.server, c.relation, c.object,
			c.definition, c.most, c.most_server
		FROM (SELECT v.*, first_value(v.definition) OVER best AS most,
				first_value(v.server) OVER best AS most_server
			  FROM counted AS v
			  WINDOW best AS (PARTITION BY v.relation, v.object
							  ORDER BY v.votes DESC, v.number, v.shard)) AS c
		WHERE c.definition IS DISTINCT FROM c.most;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.unlike_most(shardring_internal.shard_fact[]) IS
	'columns, constraints and indexes that are not as on most shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.unlike_most(shardring_internal.shard_fact[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.dump_options(relation text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '--schema-only --table=' || shardring_internal.shell_word(relation);
END;
COMMENT ON FUNCTION shardring_internal.dump_options(text) IS
	'options of pg_dump for the definition of a table';
REVOKE EXECUTE ON FUNCTION shardring_internal.dump_options(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.diff_command(
	one_server text, other_server text, relation text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	options text := shardring_internal.dump_options(relation);
BEGIN
	RETURN format('diff <(pg_dump %s --dbname=%s) <(pg_dump %s --dbname=%s)',
		options, shardring_internal.shell_word(
			shardring_internal.address_of(one_server)),
		options, shardring_internal.shell_word(
			shardring_internal.address_of(other_server)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.diff_command(text, text, text) IS
	'the shell line that shows how a table differs between shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.diff_command(text, text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.key_findings(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(g.severity, t.shard, t.number, t.relation, g.problem,
				   g.command, CASE WHEN g.there THEN t.place END)
			::shardring_internal.finding
		FROM shardring_internal.fact_tables(facts) AS t
			CROSS JOIN LATERAL (
				SELECT f.* FROM shardring_internal.foreign_key_findings(
					ring, t.relation, t.key_column, t.fact) AS f
				UNION ALL
				SELECT 'warning', u.*, true
				FROM shardring_internal.unique_findings(
					t.relation, t.key_column, t.fact) AS u)
				AS g (severity, problem, command, there));
END
$body$;
COMMENT ON FUNCTION shardring_internal.key_findings(
	text, shardring_internal.shard_fact[]) IS
	'foreign and unique keys that cannot be kept across shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.key_findings(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;

/*
 * Rows that refer to each other live together only if they have the same key.
 * A table without a guard that refers to one with the key lacks its guard.
 */
CREATE FUNCTION shardring_internal.foreign_key_findings(
	ring text, relation text, key_column text, facts jsonb)
RETURNS TABLE (severity text, problem text, command text, there boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT 'error', CASE
				WHEN NOT k.incoming THEN format(
					'foreign key %I does not contain %I', k.name,
					foreign_key_findings.key_column)
				WHEN p.partner IS NULL THEN format(
					'%s refers to it without %I', o.name,
					foreign_key_findings.key_column)
				ELSE format('%s refers to it and is not guarded', o.name) END,
			CASE WHEN k.incoming AND p.partner IS NOT NULL
				THEN shardring_internal.guard_command(ring, o.name, p.partner)
				ELSE format('ALTER TABLE %s DROP CONSTRAINT %I;',
							CASE WHEN k.incoming THEN o.name
							ELSE foreign_key_findings.relation END, k.name)
				END,
			NOT (k.incoming AND p.partner IS NOT NULL)
		FROM jsonb_to_recordset(facts -> 'foreign_keys') AS k (
				name text, incoming boolean, columns text[],
				other_schema text, other_name text, other_columns text[],
				other_key text)
			CROSS JOIN LATERAL (
				SELECT format('%I.%I', k.other_schema, k.other_name))
				AS o (name)
			CROSS JOIN LATERAL (
				SELECT max(CASE WHEN k.incoming THEN u.here ELSE u.there END)
				FROM unnest(k.columns, k.other_columns) AS u (here, there)
				WHERE CASE WHEN k.incoming THEN u.there ELSE u.here END
					= foreign_key_findings.key_column COLLATE "C")
				AS p (partner)
		WHERE k.incoming
			OR k.other_key IS NOT NULL
			AND p.partner IS DISTINCT FROM k.other_key;
END
$body$;
COMMENT ON FUNCTION shardring_internal.foreign_key_findings(
	text, text, text, jsonb) IS
	'foreign keys of a table whose rows may live on two shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.foreign_key_findings(
	text, text, text, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.unique_findings(
	relation text, key_column text, facts jsonb)
RETURNS TABLE (problem text, command text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT format('%s %I does not contain %I: it is unique on each '
					  'shard only',
				CASE u."constraint" WHEN 'p' THEN 'primary key'
					WHEN 'u' THEN 'unique constraint'
					ELSE 'unique index' END, u.name,
				unique_findings.key_column),
			CASE WHEN u."constraint" IS NOT NULL THEN format(
				'ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I %s '
				'(%s);', unique_findings.relation, u.name, u.name,
				CASE u."constraint" WHEN 'p' THEN 'PRIMARY KEY'
					ELSE 'UNIQUE' END,
				(SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c.i)
				 FROM unnest(u.columns || unique_findings.key_column)
					 WITH ORDINALITY AS c (name, i))) END
		FROM jsonb_to_recordset(facts -> 'unique_keys') AS u (
			name text, "constraint" text, columns text[])
		WHERE array_position(u.columns,
							 unique_findings.key_column COLLATE "C") IS NULL;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.unique_findings(text, text, jsonb) IS
	'unique keys of a table that do not contain its shard key';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.unique_findings(text, text, jsonb) FROM PUBLIC;
