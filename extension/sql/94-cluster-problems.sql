/*
 * 94-cluster-problems.sql
 *		On the map: what would hurt later, on any shard, with what helps.
 *
 * Rules of the parts about findings:
 *	- what a shard tells is shown, and its names become part of a command,
 *	  quoted here; a definition that it tells never does;
 *	- what most shards have is what all should have; among as many, what the
 *	  shard with the lowest number has;
 *	- facts are read without looking at their form.  Where that fails, each
 *	  shard is read alone, and one whose facts cannot be read says so.
 */

CREATE TYPE shardring_internal.shard_fact AS
(
	shard text COLLATE "C",
	number integer,
	server text COLLATE "C",
	error text,
	facts jsonb
);
COMMENT ON TYPE shardring_internal.shard_fact IS
	'what shard_facts returned on a shard';
COMMENT ON COLUMN shardring_internal.shard_fact.shard IS
	'name of the shard';
COMMENT ON COLUMN shardring_internal.shard_fact.number IS
	'number of the shard; NULL: only drafts have it';
COMMENT ON COLUMN shardring_internal.shard_fact.server IS
	'foreign server of the shard';
COMMENT ON COLUMN shardring_internal.shard_fact.error IS
	'why there are no facts; NULL: there are';
COMMENT ON COLUMN shardring_internal.shard_fact.facts IS
	'the facts';

CREATE TYPE shardring_internal.finding AS
(
	severity text,
	shard text COLLATE "C",
	number integer,
	relation text COLLATE "C",
	problem text COLLATE "C",
	command text COLLATE "C",
	place text COLLATE "C"
);
COMMENT ON TYPE shardring_internal.finding IS
	'a problem of the cluster';
COMMENT ON COLUMN shardring_internal.finding.severity IS
	'error, warning or info';
COMMENT ON COLUMN shardring_internal.finding.shard IS
	'name of the shard; NULL: not of one shard';
COMMENT ON COLUMN shardring_internal.finding.number IS
	'number of the shard';
COMMENT ON COLUMN shardring_internal.finding.relation IS
	'name of the table, with its schema; NULL: not of one table';
COMMENT ON COLUMN shardring_internal.finding.problem IS
	'what is wrong';
COMMENT ON COLUMN shardring_internal.finding.command IS
	'what helps; NULL: no command does';
COMMENT ON COLUMN shardring_internal.finding.place IS
	'where the command is to be run; NULL: here';

CREATE FUNCTION shardring.cluster_problems(ring text)
RETURNS TABLE (severity text, shard text, relation text, problem text,
	hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[];
	facts shardring_internal.shard_fact[];
	findings shardring_internal.finding[];
	errors bigint := 0;
	warnings bigint := 0;
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, shardring_internal.guard_targets(ring), true, true) AS a);
	facts := shardring_internal.ask_facts(ring, answers);
	findings := shardring_internal.try_to_compare(ring, facts);
	IF findings IS NULL THEN
		facts := shardring_internal.readable_facts(ring, facts);
		findings := shardring_internal.compare_facts(ring, facts);
	END IF;
	findings := findings
		|| shardring_internal.reach_findings(ring, answers, facts)
		|| shardring_internal.version_findings(ring, answers, facts);
	FOR severity, shard, relation, problem, hint IN
		SELECT m.* FROM shardring_internal.merge_findings(
			findings, cardinality(array_remove(ARRAY(
				SELECT f.error IS NULL FROM unnest(facts) AS f), false)))
			AS m
	LOOP
		errors := errors + (severity = 'error')::integer;
		warnings := warnings + (severity = 'warning')::integer;
		RETURN NEXT;
	END LOOP;
	PERFORM shardring_internal.keep_finding(ring, 'cluster_errors', errors);
	PERFORM shardring_internal.keep_finding(
		ring, 'cluster_warnings', warnings);
END
$body$;
COMMENT ON FUNCTION shardring.cluster_problems(text) IS
	'asks all shards and routers at once, and lists what would hurt later';
REVOKE EXECUTE ON FUNCTION shardring.cluster_problems(text) FROM PUBLIC;

/*
 * One row for all shards where they all have the same problem.  The words of
 * other servers are made one line.
 */
CREATE FUNCTION shardring_internal.merge_findings(
	findings shardring_internal.finding[], shards integer)
RETURNS TABLE (severity text, shard text, relation text, problem text,
	hint text)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT f.severity, CASE WHEN NOT f.everywhere THEN f.shard END,
			shardring_internal.one_line(f.relation, 300),
			shardring_internal.one_line(f.problem, 400),
			shardring_internal.one_line(CASE WHEN f.command IS NOT NULL
				THEN concat(CASE WHEN f.place IS NOT NULL
					/* a name must not end the comment */
					THEN format('/* on %s */ ', translate(
						CASE WHEN f.everywhere THEN 'all shards'
							ELSE f.place END, '*/', '..')) END,
					f.command) END, 4000)
		FROM (SELECT u.*,
				u.relation IS NOT NULL AND shards > 1
					AND count(*) OVER same = shards AS everywhere,
				row_number() OVER same AS nth
			  FROM (SELECT DISTINCT ON (d.severity, d.shard, d.relation,
										d.problem, d.command, d.place) d.*
					FROM unnest(findings) AS d) AS u
			  WINDOW same AS (PARTITION BY u.severity, u.relation, u.problem,
					u.command, u.place IS NULL
				ORDER BY u.number, u.shard
				ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
			 ) AS f
		WHERE NOT f.everywhere OR f.nth = 1
		ORDER BY array_position(ARRAY['error', 'warning', 'info'],
								f.severity COLLATE "C"),
			f.number, f.shard, f.relation NULLS FIRST, f.problem;
END
$body$;
COMMENT ON FUNCTION shardring_internal.merge_findings(
	shardring_internal.finding[], integer) IS
	'findings as they are shown, the worst first';
REVOKE EXECUTE ON FUNCTION shardring_internal.merge_findings(
	shardring_internal.finding[], integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.one_line(words text, width integer)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN length(l.line) > width THEN left(l.line, width - 3)
			|| '...' ELSE l.line END
	FROM (SELECT regexp_replace(words COLLATE "C", '[[:cntrl:]]+', ' ', 'g')
		 ) AS l (line);
END;
COMMENT ON FUNCTION shardring_internal.one_line(text, integer) IS
	'text without control characters, cut to a number of characters';
REVOKE EXECUTE ON FUNCTION shardring_internal.one_line(text, integer)
	FROM PUBLIC;

/* Shards that are on one server are told once, as the first of them. */
CREATE FUNCTION shardring_internal.ask_facts(
	ring text, answers shardring_internal.shard_answer[])
RETURNS shardring_internal.shard_fact[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	shards text[] := ARRAY(SELECT a.shard FROM unnest(answers) AS a);
BEGIN
	RETURN ARRAY(
		SELECT ROW(t.shard, t.number, t.server,
			coalesce(t.error, f.error, CASE WHEN r.facts IS NULL
				THEN 'the answer is not that of a shard' END), r.facts)
			::shardring_internal.shard_fact
		FROM (SELECT DISTINCT ON (a.server) a.* FROM unnest(answers) AS a
			  WHERE a.shard IS NOT NULL
			  ORDER BY a.server, a.number, a.shard) AS t
			LEFT JOIN shardring_internal.ask_servers(
				shardring_internal.sound_servers(answers, shards),
				'SELECT shardring.shard_facts($1)', ARRAY[ring]) AS f
				ON f.server = t.server AND t.error IS NULL
			CROSS JOIN LATERAL (SELECT shardring_internal.read_facts(
				f.answer[1], t.system_identifier, t.database_oid))
				AS r (facts)
		ORDER BY t.number, t.shard);
END
$body$;
COMMENT ON FUNCTION shardring_internal.ask_facts(
	text, shardring_internal.shard_answer[]) IS
	'asks shards for everything about them';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_facts(
	text, shardring_internal.shard_answer[]) FROM PUBLIC;

/* An address may lead to another server than before. */
CREATE FUNCTION shardring_internal.read_facts(
	answer text, system_identifier bigint, database_oid bigint)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	facts jsonb;
BEGIN
	facts := answer::jsonb;
	RETURN CASE WHEN jsonb_typeof(facts) = 'object'
		AND jsonb_typeof(facts -> 'tables') = 'array'
		AND jsonb_typeof(facts -> 'versions') = 'array'
		AND jsonb_typeof(facts -> 'settings') = 'object'
		AND facts ->> 'system_identifier' = system_identifier::text
		AND facts ->> 'database_oid' = database_oid::text
		THEN facts END;
EXCEPTION
	WHEN OTHERS THEN
		RETURN NULL;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.read_facts(text, bigint, bigint) IS
	'the facts in the answer of this database; NULL: it is none';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.read_facts(text, bigint, bigint) FROM PUBLIC;

CREATE FUNCTION shardring_internal.compare_facts(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	sound shardring_internal.shard_fact[] := ARRAY(
		SELECT f FROM unnest(facts) AS f WHERE f.error IS NULL);
BEGIN
	RETURN shardring_internal.server_findings(sound)
		|| shardring_internal.other_findings(ring, sound)
		|| shardring_internal.guard_findings(ring, sound)
		|| shardring_internal.kind_findings(sound)
		|| shardring_internal.missing_findings(ring, sound)
		|| shardring_internal.drift_findings(sound)
		|| shardring_internal.key_findings(ring, sound)
		|| shardring_internal.sequence_findings(sound)
		|| shardring_internal.replication_findings(sound)
		|| shardring_internal.reader_findings(sound);
END
$body$;
COMMENT ON FUNCTION shardring_internal.compare_facts(
	text, shardring_internal.shard_fact[]) IS
	'everything that is wrong by the facts of all shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.compare_facts(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.try_to_compare(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN shardring_internal.compare_facts(ring, facts);
EXCEPTION
	WHEN OTHERS THEN
		RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.try_to_compare(
	text, shardring_internal.shard_fact[]) IS
	'as compare_facts; NULL: some facts cannot be read';
REVOKE EXECUTE ON FUNCTION shardring_internal.try_to_compare(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.readable_facts(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.shard_fact[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	fact shardring_internal.shard_fact;
	readable shardring_internal.shard_fact[] := '{}';
BEGIN
	FOREACH fact IN ARRAY facts LOOP
		IF shardring_internal.try_to_compare(ring, ARRAY[fact]) IS NULL THEN
			fact.error := 'the answer is not that of a shard';
			fact.facts := NULL;
		END IF;
		readable := readable || fact;
	END LOOP;
	RETURN readable;
END
$body$;
COMMENT ON FUNCTION shardring_internal.readable_facts(
	text, shardring_internal.shard_fact[]) IS
	'facts, with an error for those that cannot be read alone';
REVOKE EXECUTE ON FUNCTION shardring_internal.readable_facts(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;
