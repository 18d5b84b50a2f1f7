/*
 * 97-move-act.sql
 *		On the map: what each phase of a move does.
 *
 * Phases ask and do not write, so that the transaction that asks has no xid
 * and no lock of a row, but for those that change this database only.
 */

/* A move that has lost its way back is ended by who says so. */
CREATE FUNCTION shardring_internal.act_phase(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	p record;
BEGIN
	SELECT f.* INTO p FROM shardring_internal.move_phases() AS f
	WHERE f.program = m.program AND f.phase = m.phase;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'a move of ring "%s" has no phase "%s"', m.ring, m.phase));
	END IF;
	IF m.options -> 'unverified' = 'true'
		AND m.phase IN ('start', 'back_verify', 'back_verify_again')
	THEN
		RETURN ROW(true, NULL, NULL, NULL, NULL)
			::shardring_internal.move_outcome;
	ELSIF p.step IS NOT NULL THEN
		RETURN shardring_internal.act_step(m, p.step, p.who, p.streams);
	END IF;
	RETURN CASE m.phase
		WHEN 'push' THEN shardring_internal.act_push(m)
		WHEN 'turn_push' THEN shardring_internal.act_push(m)
		WHEN 'empty' THEN shardring_internal.act_empty(m)
		WHEN 'copy' THEN shardring_internal.act_copy(m)
		WHEN 'look' THEN shardring_internal.act_copy(m)
		WHEN 'sync_routers' THEN shardring_internal.act_sync(m)
		WHEN 'verify' THEN shardring_internal.act_verify(m, 'forward')
		WHEN 'partners' THEN shardring_internal.act_partners(m)
		WHEN 'gate' THEN shardring_internal.act_gate(m)
		WHEN 'compare' THEN shardring_internal.act_compare(m)
		WHEN 'activate_here' THEN shardring_internal.act_activate_here(m)
		WHEN 'activate_routers' THEN shardring_internal.act_routers(m)
		WHEN 'back_verify' THEN shardring_internal.act_verify(m, 'back')
		WHEN 'back_verify_again'
		THEN shardring_internal.act_verify(m, 'back')
		WHEN 'grace' THEN shardring_internal.act_grace(m)
		WHEN 'drain' THEN shardring_internal.act_drain(m)
		WHEN 'delete' THEN shardring_internal.act_delete(m, false)
		WHEN 'undo_copies' THEN shardring_internal.act_delete(m, true) END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_phase(
	shardring_internal.row_move) IS
	'does what the phase of a move has to do';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_phase(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * A step is done when all that are asked have answered that it is.  Writers
 * are asked for again while there is time.
 */
CREATE FUNCTION shardring_internal.act_step(
	m shardring_internal.row_move, step text, who text, streams text)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers jsonb;
	failure text;
	unfinished text;
BEGIN
	SELECT jsonb_object_agg(a.shard, a.answer),
		(array_agg(format('%s: %s', a.shard, a.error) ORDER BY a.shard)
			FILTER (WHERE a.error IS NOT NULL))[1],
		(array_agg(format('%s: %s', a.shard, u.reason) ORDER BY a.shard)
			FILTER (WHERE u.reason IS NOT NULL))[1]
	INTO answers, failure, unfinished
	FROM shardring_internal.ask_move(
			m, shardring_internal.move_shards(m, who), step,
			shardring_internal.step_details(m, step)
				|| shardring_internal.streams_document(m, streams)) AS a,
		shardring_internal.unfinished(step, a.answer) AS u (reason);
	IF failure IS NULL AND unfinished IS NOT NULL
		AND shardring_internal.time_left(m) <= '0'
	THEN
		failure := unfinished;
	END IF;
	RETURN ROW(failure IS NULL AND unfinished IS NULL, failure, NULL,
		answers, NULL)::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_step(
	shardring_internal.row_move, text, text, text) IS
	'asks shards for a step, and says whether all have taken it';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_step(
	shardring_internal.row_move, text, text, text) FROM PUBLIC;

/*
 * A question must be over before its answer is given up.  A hold for good is
 * to outlive a failover, so standbys must have it.
 */
CREATE FUNCTION shardring_internal.step_details(
	m shardring_internal.row_move, step text)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN CASE step
		WHEN 'close' THEN CASE m.phase
			WHEN 'lease' THEN jsonb_build_object('lease',
				(m.options ->> 'max_hold')::interval + interval '1 s')
			ELSE '{"for_good": true}' END
		WHEN 'settle' THEN jsonb_build_object('timeout', greatest(least(
			current_setting('shardring.remote_timeout')::interval / 2,
			shardring_internal.time_left(m)), '0'),
			'standbys', m.phase = 'settle')
		ELSE '{}' END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_details(
	shardring_internal.row_move, text) IS
	'what a step needs beside the move itself';
REVOKE EXECUTE ON FUNCTION shardring_internal.step_details(
	shardring_internal.row_move, text) FROM PUBLIC;

/* A fence waits for writers as long as its caller, a hold as it may last. */
CREATE FUNCTION shardring_internal.time_left(
	m shardring_internal.row_move)
RETURNS interval
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT CASE
			WHEN m.program = 'fence'
			THEN (m.options ->> 'deadline')::timestamptz
			WHEN m.state = 'closing'
			THEN m.state_since + (m.options ->> 'max_hold')::interval
			ELSE m.state_since + coalesce(
				(m.options ->> 'gate')::interval, '1 min') END
		- clock_timestamp();
END;
COMMENT ON FUNCTION shardring_internal.time_left(
	shardring_internal.row_move) IS
	'how long a call may still wait for writers';
REVOKE EXECUTE ON FUNCTION shardring_internal.time_left(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.unfinished(step text, answer jsonb)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF step <> 'settle' OR answer IS NULL
		OR answer @> '{"settled": true, "sent": true}'
	THEN
		RETURN NULL;
	ELSIF answer -> 'settled' = 'true' THEN
		RETURN 'what was written is not on the other side yet';
	END IF;
	RETURN 'still writing: ' || concat_ws(', ',
		'sessions ' || (
			SELECT string_agg(p.pid, ', ' ORDER BY p.i)
			FROM jsonb_array_elements_text(answer -> 'pids')
				WITH ORDINALITY AS p (pid, i)),
		'prepared transactions ' || (
			SELECT string_agg(quote_literal(p.gid), ', ' ORDER BY p.i)
			FROM jsonb_array_elements_text(answer -> 'prepared')
				WITH ORDINALITY AS p (gid, i)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.unfinished(text, jsonb) IS
	'what a step that was taken still waits for; NULL: nothing';
REVOKE EXECUTE ON FUNCTION shardring_internal.unfinished(text, jsonb)
	FROM PUBLIC;

/*
 * The version to move from becomes active on shards that have none: without
 * it they would answer that there is no version, not whose key it is.
 */
CREATE FUNCTION shardring_internal.act_push(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	shards text[] := shardring_internal.move_shards(m, 'all');
	answers shardring_internal.shard_answer[] := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(m.ring, shards, true, true)
			AS a);
	problem text := shardring_internal.push_problem(m, answers);
BEGIN
	IF problem IS NULL THEN
		problem := (
			SELECT format('%s: %s', coalesce(p.shard, p.router),
						  coalesce(p.error, 'the version did not arrive'))
			FROM shardring_internal.push_to(answers, ARRAY(
					SELECT a.shard FROM unnest(answers) AS a
					WHERE a.shard IS NOT NULL AND a.active_version IS NULL),
				shardring.export_version(m.ring, m.from_version), true, NULL)
				AS p
			WHERE NOT p.ok
			LIMIT 1);
	END IF;
	IF problem IS NULL THEN
		problem := (
			SELECT format('%s: %s', coalesce(p.shard, p.router),
						  coalesce(p.error, 'the version did not arrive'))
			FROM shardring_internal.push_to(answers, shards || NULL::text,
				shardring.export_version(m.ring, m.to_version), false, NULL)
				AS p
			WHERE NOT p.ok
			LIMIT 1);
	END IF;
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_push(
	shardring_internal.row_move) IS
	'phase of a move: all servers get its versions';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_push(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.push_problem(
	m shardring_internal.row_move, answers shardring_internal.shard_answer[])
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT format('%s: %s', coalesce(a.shard, a.server), CASE
			WHEN a.error IS NOT NULL THEN a.error
			WHEN a.hint IS NOT NULL
			THEN 'shardring.shard is not set there: ' || a.hint
			WHEN cardinality(a.names) > 1
			THEN 'its server holds several shards'
			WHEN a.guards = 0 AND s.source
			THEN 'no table is guarded there'
			ELSE format('version %s is active there', a.active_version) END)
		FROM unnest(answers) AS a
			LEFT JOIN shardring_internal.move_shard AS s
				ON s.ring = m.ring AND s.move = m.move AND s.shard = a.shard
		WHERE a.error IS NOT NULL OR a.shard IS NOT NULL AND (
			a.hint IS NOT NULL OR cardinality(a.names) > 1
			OR a.guards = 0 AND s.source
			OR a.active_version <> m.from_version)
		ORDER BY a.number, a.server
		LIMIT 1);
END
$body$;
COMMENT ON FUNCTION shardring_internal.push_problem(
	shardring_internal.row_move, shardring_internal.shard_answer[]) IS
	'what keeps a move from beginning; NULL: nothing';
REVOKE EXECUTE ON FUNCTION shardring_internal.push_problem(
	shardring_internal.row_move, shardring_internal.shard_answer[])
	FROM PUBLIC;

/*
 * The map may be a shard itself.  As a target it has been activated already;
 * as a source it is here, and so opened.
 */
CREATE FUNCTION shardring_internal.act_activate_here(
	m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.lock_ring(m.ring);
	before shardring.ring := ours;
BEGIN
	IF ours.active_version < m.to_version THEN
		PERFORM shardring_internal.require_fingerprint(
			m.ring, m.to_version, m.to_fingerprint);
		ours.active_version := m.to_version;
		ours.fingerprint := m.to_fingerprint;
		ours.closed_until := NULL;
		PERFORM shardring_internal.change_ring(ours);
		PERFORM shardring_internal.write_history(
			before, m.to_version, shardring_internal.moved_share(
				m.ring, m.from_version, m.to_version));
	END IF;
	RETURN ROW(true, NULL, NULL, NULL, NULL)::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_activate_here(
	shardring_internal.row_move) IS
	'phase of a move: the map routes by the new version';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_activate_here(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.act_routers(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[] := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(m.ring, '{}', true, false)
			AS a);
	problem text := (
		SELECT format('%s: %s', p.router,
					  coalesce(p.error, 'the version was not activated'))
		FROM shardring_internal.push_to(answers, ARRAY[NULL::text],
			shardring.export_version(m.ring, m.to_version), true, NULL) AS p
		WHERE NOT p.ok
		LIMIT 1);
BEGIN
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_routers(
	shardring_internal.row_move) IS
	'phase of a move: all routers route by the new version';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_routers(
	shardring_internal.row_move) FROM PUBLIC;

/* Routers must know the addresses of new shards before these have keys. */
CREATE FUNCTION shardring_internal.act_sync(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problem text := (
		SELECT format('%s: %s', a.server, a.error)
		FROM shardring_internal.ask_servers(
			ARRAY(SELECT r.server FROM shardring.router AS r
				  WHERE r.ring = m.ring ORDER BY r.server),
			'SELECT shardring_internal.sync_router($1)', ARRAY[m.ring]) AS a
		WHERE a.error IS NOT NULL
		ORDER BY a.server COLLATE "C"
		LIMIT 1);
BEGIN
	IF problem IS NULL THEN
		PERFORM shardring_internal.sync_router(m.ring);
	END IF;
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_sync(
	shardring_internal.row_move) IS
	'phase of a move: all routers have the addresses of its shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_sync(
	shardring_internal.row_move) FROM PUBLIC;
