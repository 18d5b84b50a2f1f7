/*
 * 92-ddl-phases.sql
 *		The phases of a statement of DDL, and finding out how one that was
 *		broken off has to end.
 */

/* Runs it on all of them at once; with "prepare", it can still go either way. */
CREATE FUNCTION shardring_internal.run_ddl(
	answers shardring_internal.shard_answer[], ring text, statement text,
	ending text)
RETURNS shardring_internal.ddl_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	shards text[] := ARRAY(SELECT u.shard FROM unnest(answers) AS u);
	gid text := shardring_internal.ddl_prefix(ring) || (
		SELECT coalesce(min(u.number), 0) FROM unnest(answers) AS u)
		|| '_' || replace(gen_random_uuid()::text, '-', '');
BEGIN
	RETURN ARRAY(
		SELECT ROW(s.shard, s.number, s.server, gid,
			CASE WHEN a.error IS NULL THEN CASE ending
				WHEN 'rollback' THEN 'would work'
				WHEN 'prepare' THEN 'prepared' ELSE 'done' END END,
			a.error)::shardring_internal.ddl_answer
		FROM unnest(answers) AS s
			JOIN shardring_internal.ask_ending(
				shardring_internal.sound_servers(answers, shards),
				'SELECT shardring.receive_ddl($1, $2, $3, '
				'$4::pg_catalog.jsonb)',
				ARRAY[ring, gid, statement,
					  shardring_internal.expected_shards(
						  answers, shards)::text], ending, gid) AS a
				ON a.server = s.server
		ORDER BY s.number, s.shard);
END
$body$;
COMMENT ON FUNCTION shardring_internal.run_ddl(
	shardring_internal.shard_answer[], text, text, text) IS
	'runs a statement of DDL on shards, to be ended so';
REVOKE EXECUTE ON FUNCTION shardring_internal.run_ddl(
	shardring_internal.shard_answer[], text, text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.any_error(
	steps shardring_internal.ddl_answer[])
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM unnest(steps) AS s WHERE s.error IS NOT NULL);
END;
COMMENT ON FUNCTION shardring_internal.any_error(
	shardring_internal.ddl_answer[]) IS
	'whether anything is wrong on any shard';
REVOKE EXECUTE ON FUNCTION shardring_internal.any_error(
	shardring_internal.ddl_answer[]) FROM PUBLIC;

/* Ends prepared transactions of these servers; what is not there is no error. */
CREATE FUNCTION shardring_internal.end_prepared(
	steps shardring_internal.ddl_answer[], command text, outcome text)
RETURNS shardring_internal.ddl_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF steps = '{}' THEN
		RETURN steps;
	END IF;
	RETURN ARRAY(
		SELECT ROW(s.shard, s.number, s.server, s.id,
			CASE WHEN a.error IS NULL THEN end_prepared.outcome
				ELSE s.outcome END, a.error)::shardring_internal.ddl_answer
		FROM unnest(steps) AS s
			JOIN shardring_internal.ask_ending(
				ARRAY(SELECT DISTINCT u.server FROM unnest(steps) AS u),
				format('%s PREPARED %L', command, steps[1].id), '{}',
				'alone', '') AS a
				ON a.server = s.server
		ORDER BY s.number, s.shard);
END
$body$;
COMMENT ON FUNCTION shardring_internal.end_prepared(
	shardring_internal.ddl_answer[], text, text) IS
	'commits prepared transactions, or rolls them back';
REVOKE EXECUTE ON FUNCTION shardring_internal.end_prepared(
	shardring_internal.ddl_answer[], text, text) FROM PUBLIC;

/*
 * The first decides.  Without its answer nobody knows, and nothing more is
 * asked of the others.
 */
CREATE FUNCTION shardring_internal.commit_ddl(
	steps shardring_internal.ddl_answer[])
RETURNS shardring_internal.ddl_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	first shardring_internal.ddl_answer[] :=
		shardring_internal.end_prepared(steps[:1], 'COMMIT', 'done');
	others shardring_internal.ddl_answer[] := steps[2:];
BEGIN
	IF NOT shardring_internal.any_error(first) THEN
		others := shardring_internal.end_prepared(others, 'COMMIT', 'done');
	END IF;
	RETURN ARRAY(
		SELECT ROW(s.shard, s.number, s.server, s.id, s.outcome,
			CASE WHEN s.outcome <> 'done' THEN concat_ws(': ',
				'not decided, call recover_ddl', s.error) END)
			::shardring_internal.ddl_answer
		FROM unnest(first || others) AS s);
END
$body$;
COMMENT ON FUNCTION shardring_internal.commit_ddl(
	shardring_internal.ddl_answer[]) IS
	'commits what all shards have prepared, the first before the others';
REVOKE EXECUTE ON FUNCTION shardring_internal.commit_ddl(
	shardring_internal.ddl_answer[]) FROM PUBLIC;

/*
 * Nothing was committed anywhere, so all of it is taken back; on a shard that
 * has not answered, it may be prepared all the same.
 */
CREATE FUNCTION shardring_internal.rollback_ddl(
	steps shardring_internal.ddl_answer[])
RETURNS shardring_internal.ddl_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ended shardring_internal.ddl_answer[] :=
		shardring_internal.end_prepared(steps, 'ROLLBACK', 'not done');
BEGIN
	RETURN ARRAY(
		SELECT ROW(s.shard, s.number, s.server, s.id, 'not done',
			CASE WHEN s.error IS NOT NULL THEN s.error
				WHEN e.error IS NOT NULL
				THEN 'not taken back, call recover_ddl: ' || e.error END)
			::shardring_internal.ddl_answer
		FROM unnest(steps) AS s
			JOIN unnest(ended) AS e ON e.shard = s.shard);
END
$body$;
COMMENT ON FUNCTION shardring_internal.rollback_ddl(
	shardring_internal.ddl_answer[]) IS
	'takes back what some shards have prepared';
REVOKE EXECUTE ON FUNCTION shardring_internal.rollback_ddl(
	shardring_internal.ddl_answer[]) FROM PUBLIC;

/*
 * Each statement that some shard has prepared ends on all of them as it ended
 * on the one that decides, or on any where it was committed.  Without an answer
 * of the one that decides it is left, unless it was committed elsewhere.
 */
CREATE FUNCTION shardring.recover_ddl(ring text)
RETURNS TABLE (shard text, ok boolean, result text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[];
	ids text[];
	lost text;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	PERFORM shardring_internal.lock_ddl(ring);
	answers := shardring_internal.sound_answers(ring, NULL, false);
	ids := ARRAY(
		SELECT DISTINCT u.id FROM shardring_internal.ask_ddl_state(
				answers, ring, '{}') AS d
			CROSS JOIN LATERAL unnest(d.prepared) AS u (id)
		ORDER BY u.id);
	FOREACH lost IN ARRAY ids LOOP
		RETURN QUERY
			SELECT r.shard, r.error IS NULL,
				shardring_internal.short_error(
					coalesce(r.error, r.outcome), 57)
			FROM unnest(shardring_internal.recover_statement(
				answers, ring, lost)) AS r;
	END LOOP;
	RETURN QUERY
		SELECT a.shard, false, shardring_internal.short_error(
			'may have something left: ' || a.error, 57)
		FROM unnest(answers) AS a
		WHERE a.error IS NOT NULL;
END
$body$;
COMMENT ON FUNCTION shardring.recover_ddl(text) IS
	'ends on all shards what a call of ddl_on_shards has left undecided';
REVOKE EXECUTE ON FUNCTION shardring.recover_ddl(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.recover_statement(
	answers shardring_internal.shard_answer[], ring text, id text)
RETURNS shardring_internal.ddl_answer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	holders shardring_internal.ddl_answer[];
	decider shardring_internal.ddl_answer[];
	committed boolean;
	answered boolean;
BEGIN
	SELECT array_agg(ROW(d.shard, d.number, d.server, recover_statement.id,
			'prepared', NULL)::shardring_internal.ddl_answer
			ORDER BY d.number, d.shard) FILTER (
				WHERE recover_statement.id = ANY (d.prepared COLLATE "C")),
		bool_or(recover_statement.id = ANY (d.committed COLLATE "C")),
		bool_or(d.error IS NULL AND d.number =
			split_part(recover_statement.id COLLATE "C", '_', 4)::integer)
	INTO holders, committed, answered
	FROM shardring_internal.ask_ddl_state(
		answers, ring, ARRAY[recover_statement.id]) AS d;
	IF committed IS NOT TRUE AND answered IS NOT TRUE THEN
		RETURN ARRAY(
			SELECT ROW(h.shard, h.number, h.server, h.id, h.outcome, format(
				'left: shard number %s decides, and does not answer',
				split_part(recover_statement.id COLLATE "C", '_', 4)))
				::shardring_internal.ddl_answer
			FROM unnest(holders) AS h);
	ELSIF committed IS NOT TRUE THEN
		decider := shardring_internal.end_prepared(
			holders[:1], 'ROLLBACK', 'not done');
		RETURN decider || CASE WHEN shardring_internal.any_error(decider)
			THEN holders[2:] ELSE shardring_internal.end_prepared(
				holders[2:], 'ROLLBACK', 'not done') END;
	END IF;
	RETURN shardring_internal.end_prepared(holders, 'COMMIT', 'done');
END
$body$;
COMMENT ON FUNCTION shardring_internal.recover_statement(
	shardring_internal.shard_answer[], text, text) IS
	'ends a statement of DDL on all shards where it is prepared';
REVOKE EXECUTE ON FUNCTION shardring_internal.recover_statement(
	shardring_internal.shard_answer[], text, text) FROM PUBLIC;
