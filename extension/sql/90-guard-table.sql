/*
 * 90-guard-table.sql
 *		Guarding a table on all shards, or on none.
 *
 * What travels are names, as values: what is to be done with them stands in
 * functions that the shards have.
 */

CREATE TYPE shardring_internal.guard_answer AS
(
	shard text,
	number integer,
	server text,
	guarded boolean,
	problem text
);
COMMENT ON TYPE shardring_internal.guard_answer IS
	'how far guard_table has come on a shard';
COMMENT ON COLUMN shardring_internal.guard_answer.shard IS
	'name of the shard';
COMMENT ON COLUMN shardring_internal.guard_answer.number IS
	'number of the shard; NULL: only drafts have it';
COMMENT ON COLUMN shardring_internal.guard_answer.server IS
	'foreign server of the shard';
COMMENT ON COLUMN shardring_internal.guard_answer.guarded IS
	'the guard was there before';
COMMENT ON COLUMN shardring_internal.guard_answer.problem IS
	'why it went no further; NULL: nothing is wrong';

/*
 * All shards are asked before any of them is changed.  A shard that fails
 * after that makes the others give back the guards of this call; the version
 * and the name that a shard got are what it needs anyway, and stay.
 */
CREATE FUNCTION shardring.guard_table(
	ring text, relation text, key_column name)
RETURNS TABLE (shard text, ok boolean, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	table_name text;
	answers shardring_internal.shard_answer[];
	steps shardring_internal.guard_answer[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'relation', relation, 'key_column', key_column);
	table_name := shardring_internal.qualified_name(relation);
	PERFORM shardring_internal.require_active(ring);
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, shardring_internal.guard_targets(ring), false, true)
			AS a);
	steps := shardring_internal.check_guards(
		ring, table_name, key_column, answers);
	IF NOT shardring_internal.any_problem(steps) THEN
		steps := shardring_internal.push_for_guards(ring, answers, steps);
	END IF;
	IF NOT shardring_internal.any_problem(steps) THEN
		steps := shardring_internal.make_guards(
			ring, table_name, key_column, answers, steps);
	END IF;
	RETURN QUERY
		SELECT s.shard, s.problem IS NULL AND
				NOT shardring_internal.any_problem(steps),
			CASE WHEN shardring_internal.any_problem(steps)
				THEN coalesce(shardring_internal.short_error(s.problem, 57),
							  'left as it was') END
		FROM unnest(steps) AS s
		ORDER BY s.number, s.shard COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring.guard_table(text, text, name) IS
	'guards a table on all shards of a ring, or on none; may be repeated';
REVOKE EXECUTE ON FUNCTION shardring.guard_table(text, text, name)
	FROM PUBLIC;

/* No search path is the same on all shards, so the schema must be named. */
CREATE FUNCTION shardring_internal.qualified_name(relation text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	parts text[];
BEGIN
	IF octet_length(relation) <= 1000 THEN
		parts := parse_ident(relation);
	END IF;
	IF cardinality(parts) IS DISTINCT FROM 2 THEN
		PERFORM shardring_internal.fail('22023',
			'relation must be a schema and a table',
			hint => 'Write it as in SQL, for example public.orders.');
	END IF;
	RETURN format('%I.%I', VARIADIC parts);
END
$body$;
COMMENT ON FUNCTION shardring_internal.qualified_name(text) IS
	'the name of a table with its schema, quoted where it must be';
REVOKE EXECUTE ON FUNCTION shardring_internal.qualified_name(text)
	FROM PUBLIC;

/* Shards that join are to be ready before their version is sealed. */
CREATE FUNCTION shardring_internal.guard_targets(ring text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT ARRAY(
		SELECT l.shard FROM shardring.live_shards(ring) AS l
		UNION SELECT m.shard
		FROM shardring.ring_version AS v
			JOIN shardring.shard_map AS m
				ON m.ring = v.ring AND m.version = v.version
		WHERE v.ring = guard_targets.ring COLLATE "C"
			AND v.sealed_at IS NULL);
END;
COMMENT ON FUNCTION shardring_internal.guard_targets(text) IS
	'live shards and those of drafts';
REVOKE EXECUTE ON FUNCTION shardring_internal.guard_targets(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.any_problem(
	steps shardring_internal.guard_answer[])
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM unnest(steps) AS s
				   WHERE s.problem IS NOT NULL);
END;
COMMENT ON FUNCTION shardring_internal.any_problem(
	shardring_internal.guard_answer[]) IS
	'whether something is wrong on any shard';
REVOKE EXECUTE ON FUNCTION shardring_internal.any_problem(
	shardring_internal.guard_answer[]) FROM PUBLIC;

/*
 * While a switch is under way shards differ in their versions, and a shard
 * that had nothing active would get one that others have left.
 */
CREATE FUNCTION shardring_internal.check_guards(
	ring text, relation text, key_column name,
	answers shardring_internal.shard_answer[])
RETURNS shardring_internal.guard_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	shards text[] := ARRAY(SELECT a.shard FROM unnest(answers) AS a);
BEGIN
	RETURN ARRAY(
		SELECT ROW(t.shard, t.number, t.server, c.answer[1] = 't',
			coalesce(t.error, CASE
				WHEN cardinality(t.names) > 1
				THEN 'several shards are on server "' || t.server || '"'
				WHEN t.active_version IS NOT NULL
				THEN shardring_internal.shard_problem(
					NULL, NULL, t.active_version, t.fingerprint,
					ours.active_version, ours.fingerprint) END,
				c.error, c.answer[2],
				CASE WHEN c.answer[1] IS NULL OR c.answer[1] NOT IN ('t', 'f')
					THEN 'the answer is not that of a shard' END))
			::shardring_internal.guard_answer
		FROM unnest(answers) AS t
			LEFT JOIN shardring_internal.ask_servers(
				shardring_internal.sound_servers(answers, shards),
				'SELECT c.guarded, c.problem '
				'FROM shardring.check_guard($1, $2, $3) AS c',
				ARRAY[ring, relation, key_column]) AS c
				ON c.server = t.server AND t.error IS NULL);
END
$body$;
COMMENT ON FUNCTION shardring_internal.check_guards(
	text, text, name, shardring_internal.shard_answer[]) IS
	'asks shards what would prevent a guard; changes nothing';
REVOKE EXECUTE ON FUNCTION shardring_internal.check_guards(
	text, text, name, shardring_internal.shard_answer[]) FROM PUBLIC;

/* A guard refuses every row where nothing is active. */
CREATE FUNCTION shardring_internal.push_for_guards(
	ring text, answers shardring_internal.shard_answer[],
	steps shardring_internal.guard_answer[])
RETURNS shardring_internal.guard_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	active integer := shardring.active_version(ring);
	young text[] := ARRAY(SELECT a.shard FROM unnest(answers) AS a
						  WHERE a.active_version IS NULL);
BEGIN
	RETURN ARRAY(
		SELECT ROW(t.shard, t.number, t.server, t.guarded,
			coalesce(s.error, CASE
				WHEN s.active_version IS DISTINCT FROM active
					AND t.shard = ANY (young)
				THEN format('version %s was not activated', active) END))
			::shardring_internal.guard_answer
		FROM unnest(steps) AS t
			LEFT JOIN shardring_internal.send_version(
				answers, young, shardring.export_version(ring, active), true,
				NULL) AS s
				ON s.server = t.server);
END
$body$;
COMMENT ON FUNCTION shardring_internal.push_for_guards(
	text, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) IS
	'pushes the active version to shards where none is active';
REVOKE EXECUTE ON FUNCTION shardring_internal.push_for_guards(
	text, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.make_guards(
	ring text, relation text, key_column name,
	answers shardring_internal.shard_answer[],
	steps shardring_internal.guard_answer[])
RETURNS shardring_internal.guard_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	made shardring_internal.guard_answer[];
BEGIN
	made := ARRAY(
		SELECT ROW(t.shard, t.number, t.server,
			coalesce(g.guarded, t.guarded), g.error)
			::shardring_internal.guard_answer
		FROM unnest(steps) AS t
			LEFT JOIN shardring_internal.send_guard(
				ring, relation, key_column, true, answers,
				ARRAY(SELECT s.shard FROM unnest(steps) AS s)) AS g
				ON g.server = t.server);
	IF shardring_internal.any_problem(made) THEN
		made := shardring_internal.take_back_guards(
			ring, relation, key_column, answers, made);
	END IF;
	RETURN made;
END
$body$;
COMMENT ON FUNCTION shardring_internal.make_guards(
	text, text, name, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) IS
	'makes guards, and takes them back where one cannot be made';
REVOKE EXECUTE ON FUNCTION shardring_internal.make_guards(
	text, text, name, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) FROM PUBLIC;

/*
 * No answer is not no: a shard that failed may have made its guard all the
 * same, so it is told too.
 */
CREATE FUNCTION shardring_internal.take_back_guards(
	ring text, relation text, key_column name,
	answers shardring_internal.shard_answer[],
	steps shardring_internal.guard_answer[])
RETURNS shardring_internal.guard_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(t.shard, t.number, t.server, t.guarded, CASE
			WHEN t.guarded THEN coalesce(t.problem, 'left as it was')
			WHEN g.error IS NULL THEN coalesce(t.problem, 'taken back')
			WHEN t.problem IS NULL
			THEN 'not taken back: '
				|| shardring_internal.short_error(g.error, 1000)
			ELSE 'perhaps guarded: '
				|| shardring_internal.short_error(t.problem, 1000) END)
			::shardring_internal.guard_answer
		FROM unnest(steps) AS t
			LEFT JOIN shardring_internal.send_guard(
				ring, relation, key_column, false, answers,
				ARRAY(SELECT s.shard FROM unnest(steps) AS s
					  WHERE NOT s.guarded)) AS g
				ON g.server = t.server);
END
$body$;
COMMENT ON FUNCTION shardring_internal.take_back_guards(
	text, text, name, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) IS
	'drops the guards that were not there before';
REVOKE EXECUTE ON FUNCTION shardring_internal.take_back_guards(
	text, text, name, shardring_internal.shard_answer[],
	shardring_internal.guard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.send_guard(
	ring text, relation text, key_column name, wanted boolean,
	answers shardring_internal.shard_answer[], shards text[])
RETURNS TABLE (server text, guarded boolean, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT a.server,
			CASE a.answer[1] WHEN 't' THEN true WHEN 'f' THEN false END,
			coalesce(a.error, CASE
				WHEN a.answer[1] IS NULL OR a.answer[1] NOT IN ('t', 'f')
				THEN 'the answer is not that of a shard' END)
		FROM shardring_internal.ask_servers(
			shardring_internal.sound_servers(answers, shards),
			'SELECT g.guarded '
			'FROM shardring.receive_guard($1, $2, $3, $4, $5) AS g',
			ARRAY[ring, relation, key_column, wanted::text,
				  shardring_internal.expected_shards(answers, shards)::text])
			AS a;
END
$body$;
COMMENT ON FUNCTION shardring_internal.send_guard(
	text, text, name, boolean, shardring_internal.shard_answer[], text[]) IS
	'tells shards to make a guard, or to drop it';
REVOKE EXECUTE ON FUNCTION shardring_internal.send_guard(
	text, text, name, boolean, shardring_internal.shard_answer[], text[])
	FROM PUBLIC;
