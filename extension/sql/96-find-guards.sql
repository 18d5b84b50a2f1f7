/*
 * 96-find-guards.sql
 *		Findings about guards: missing, disabled, different, or passed by.
 */

/* Tables of all shards, each with the name that it is shown by. */
CREATE FUNCTION shardring_internal.fact_tables(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (shard text, number integer, server text, relation text,
	key_column text, place text, fact jsonb)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT f.shard, f.number, f.server,
			format('%I.%I', t.value ->> 'schema', t.value ->> 'name')
				COLLATE "C",
			t.value ->> 'key_column' COLLATE "C",
			shardring_internal.place_of(f.shard, NULL), t.value
		FROM unnest(facts) AS f
			CROSS JOIN LATERAL jsonb_array_elements(f.facts -> 'tables') AS t;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.fact_tables(shardring_internal.shard_fact[]) IS
	'the guarded tables of all shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.fact_tables(shardring_internal.shard_fact[])
	FROM PUBLIC;

/* By which column most shards guard each table. */
CREATE FUNCTION shardring_internal.common_keys(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (relation text, key_column text, server text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT DISTINCT ON (k.relation) k.relation, k.key_column, k.server
		FROM (SELECT t.relation, t.key_column, t.number,
				t.server, count(*) OVER (
					PARTITION BY t.relation, t.key_column) AS votes
			  FROM shardring_internal.fact_tables(facts) AS t) AS k
		ORDER BY k.relation, k.votes DESC, k.number, k.server;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.common_keys(shardring_internal.shard_fact[]) IS
	'the tables of a ring, with the column and a server that has them';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.common_keys(shardring_internal.shard_fact[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.guard_findings(
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
			JOIN shardring_internal.common_keys(facts) AS k
				ON k.relation = t.relation
			CROSS JOIN LATERAL (
				SELECT 'error', format('the guard looks at column %I, '
									   'elsewhere at %I', t.key_column,
									   k.key_column),
					format('SELECT shardring.drop_guard(%L); '
						   'SELECT shardring.add_guard(%L, %L, %L);',
						   t.relation, ring, t.relation, k.key_column), true
				WHERE t.key_column <> k.key_column
				UNION ALL
				SELECT 'error', CASE w.state
						WHEN 'missing' THEN format('trigger %I is missing',
												   w.name)
						WHEN 'other' THEN format(
							'trigger %I is not as add_guard makes it', w.name)
						ELSE format('trigger %I is disabled', w.name) END,
					CASE WHEN w.state = 'other' THEN format(
							'DROP TRIGGER %I ON %s; '
							'SELECT shardring.add_guard(%L, %L, %L);', w.name,
							t.relation, ring, t.relation, t.key_column)
						ELSE shardring_internal.guard_command(
							ring, t.relation, t.key_column) END,
					w.state = 'other'
				FROM jsonb_each_text(t.fact -> 'guards' -> 'triggers')
						AS w (name, state)
				WHERE w.state NOT IN ('O', 'A')
				UNION ALL
				SELECT 'error', format('trigger %I fires after the guard',
									   l.name),
					format('ALTER TRIGGER %I ON %s RENAME TO %I;', l.name,
						   t.relation, left('a_' || l.name, 63)), true
				FROM jsonb_array_elements_text(
					t.fact -> 'guards' -> 'later') AS l (name)
				UNION ALL
				SELECT 'error', format('also guarded for ring "%s"', o.name),
					NULL, true
				FROM jsonb_array_elements_text(
					t.fact -> 'guards' -> 'other_rings') AS o (name))
				AS g (severity, problem, command, there));
END
$body$;
COMMENT ON FUNCTION shardring_internal.guard_findings(
	text, shardring_internal.shard_fact[]) IS
	'guards that do not work, or differ between shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.guard_findings(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.guard_command(
	ring text, relation text, key_column text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('SELECT * FROM shardring.guard_table(%L, %L, %L);', ring,
				  relation, key_column);
END;
COMMENT ON FUNCTION shardring_internal.guard_command(text, text, text) IS
	'the call of guard_table for a table';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.guard_command(text, text, text) FROM PUBLIC;

/*
 * Kinds of tables that add_guard refuses, and that a table can become later;
 * a partition is guarded, but not all that is below its parent.
 */
CREATE FUNCTION shardring_internal.kind_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(g.severity, t.shard, t.number, t.relation, g.problem,
				   g.command, t.place)::shardring_internal.finding
		FROM shardring_internal.fact_tables(facts) AS t
			CROSS JOIN LATERAL (
				SELECT 'error', 'not an ordinary table', NULL
				WHERE t.fact ->> 'kind' <> 'r'
				UNION ALL
				SELECT 'warning', 'unlogged: its rows are lost in a crash, '
						'and cannot move by logical replication',
					format('ALTER TABLE %s SET LOGGED;', t.relation)
				WHERE t.fact ->> 'persistence' = 'u'
				UNION ALL
				SELECT 'error', CASE WHEN r.child
						THEN format('the guard does not see rows of child %s',
									n.name)
						ELSE format('a child of table %s', n.name) END,
					CASE
						WHEN r.partition AND r.child THEN format(
							'ALTER TABLE %s DETACH PARTITION %s;', t.relation,
							n.name)
						WHEN r.partition THEN format(
							'ALTER TABLE %s DETACH PARTITION %s;', n.name,
							t.relation)
						WHEN r.child THEN format(
							'ALTER TABLE %s NO INHERIT %s;', n.name,
							t.relation)
						ELSE format('ALTER TABLE %s NO INHERIT %s;',
									t.relation, n.name) END
				FROM jsonb_to_recordset(t.fact -> 'relatives')
						AS r (schema text, name text, child boolean,
							  partition boolean)
					CROSS JOIN LATERAL (
						SELECT format('%I.%I', r.schema, r.name)) AS n (name)
				) AS g (severity, problem, command));
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.kind_findings(shardring_internal.shard_fact[]) IS
	'tables that a guard cannot make safe';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.kind_findings(shardring_internal.shard_fact[])
	FROM PUBLIC;

/*
 * What is guarded on one shard is to be guarded on all of them; so is what a
 * guarded table refers to to be there.
 */
CREATE FUNCTION shardring_internal.missing_findings(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW('error', f.shard, f.number, w.relation,
			CASE WHEN w.key_column IS NOT NULL AND there.known
				THEN 'not guarded'
				WHEN w.key_column IS NOT NULL THEN 'the table is missing'
				ELSE format('missing, and %s refers to it', w.referer) END,
			CASE WHEN w.key_column IS NOT NULL AND there.known
				THEN shardring_internal.guard_command(ring, w.relation,
													  w.key_column)
				ELSE shardring_internal.dump_command(
					w.server, f.server, '--schema-only') END, NULL)
			::shardring_internal.finding
		FROM unnest(facts) AS f
			CROSS JOIN (
				SELECT k.relation, k.key_column, k.server, NULL
				FROM shardring_internal.common_keys(facts) AS k
				UNION ALL
				SELECT o.* FROM shardring_internal.other_tables(facts) AS o)
				AS w (relation, key_column, server, referer)
			CROSS JOIN LATERAL (
				SELECT f.facts -> 'relations' ? w.relation
					OR NOT (f.facts ->> 'all_relations')::boolean)
				AS there (known)
			LEFT JOIN shardring_internal.fact_tables(
				missing_findings.facts) AS t
				ON t.shard = f.shard AND t.relation = w.relation
		WHERE t.shard IS NULL
			AND (w.key_column IS NOT NULL OR NOT there.known));
END
$body$;
COMMENT ON FUNCTION shardring_internal.missing_findings(
	text, shardring_internal.shard_fact[]) IS
	'tables that some shards do not have, or do not guard';
REVOKE EXECUTE ON FUNCTION shardring_internal.missing_findings(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.other_tables(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (relation text, key_column text, server text, referer text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT DISTINCT ON (o.name) o.name, NULL::text, t.server, t.relation
		FROM shardring_internal.fact_tables(facts) AS t
			CROSS JOIN LATERAL jsonb_to_recordset(t.fact -> 'foreign_keys')
				AS k (incoming boolean, other_schema text, other_name text,
					  other_key text)
			CROSS JOIN LATERAL (
				SELECT format('%I.%I', k.other_schema, k.other_name)
					COLLATE "C") AS o (name)
		WHERE NOT k.incoming AND k.other_key IS NULL
		ORDER BY o.name, t.number, t.server, t.relation;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.other_tables(shardring_internal.shard_fact[]) IS
	'tables without a guard that guarded ones refer to';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.other_tables(shardring_internal.shard_fact[])
	FROM PUBLIC;

/* psql goes on where something is there already. */
CREATE FUNCTION shardring_internal.dump_command(
	from_server text, to_server text, options text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN format('pg_dump %s --dbname=%s | psql --quiet --dbname=%s', options,
		shardring_internal.shell_word(
			shardring_internal.address_of(from_server)),
		shardring_internal.shell_word(
			shardring_internal.address_of(to_server)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.dump_command(text, text, text) IS
	'the shell line that copies definitions from one shard to another';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.dump_command(text, text, text) FROM PUBLIC;
