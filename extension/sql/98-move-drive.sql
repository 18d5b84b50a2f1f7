/*
 * 98-move-drive.sql
 *		On the map: driving a move, phase by phase.
 *
 * Each phase is two transactions: one that notes what is about to be asked,
 * and one that asks and notes what came of it.  Whoever dies in between is
 * followed by a call with a higher token, which asks all shards what they are
 * before anything else: shards are believed, not what is noted here.
 *
 * Procedures that commit can have no SET clause and no exception block, so
 * theirs are short and every name in them is qualified.
 */

CREATE PROCEDURE shardring_internal.drive_move(ring text)
LANGUAGE plpgsql
AS $body$
DECLARE
	token pg_catalog.int8;
	m shardring_internal.row_move;
	outcome shardring_internal.move_outcome;
	told pg_catalog.timestamptz := pg_catalog.clock_timestamp();
BEGIN
	PERFORM shardring_internal.keep_connections();
	LOOP
		token := shardring_internal.begin_call(ring);
		COMMIT;
		PERFORM shardring_internal.take_move(ring, token);
		COMMIT;
		LOOP
			m := shardring_internal.enter_phase(ring, token);
			COMMIT;
			EXIT WHEN m.ring IS NULL;
			PERFORM shardring_internal.hold_move(ring, token);
			outcome := shardring_internal.act_phase(m);
			PERFORM shardring_internal.leave_phase(m, outcome);
			COMMIT;
			EXIT WHEN outcome.error IS NOT NULL;
			IF NOT outcome.done THEN
				told := shardring_internal.tell(outcome.note, told);
				PERFORM pg_catalog.pg_sleep(coalesce(outcome.pause, 0));
			END IF;
		END LOOP;
		EXIT WHEN NOT shardring_internal.try_again(ring);
		COMMIT;
		PERFORM pg_catalog.pg_sleep(0.5);
	END LOOP;
	PERFORM shardring_internal.end_call(ring);
END
$body$;
COMMENT ON PROCEDURE shardring_internal.drive_move(text) IS
	'drives a move to what is wanted of it';
REVOKE EXECUTE ON PROCEDURE shardring_internal.drive_move(text) FROM PUBLIC;

/* Says how far a move is, every five seconds. */
CREATE FUNCTION shardring_internal.tell(note text, told timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF note IS NULL OR clock_timestamp() < told + interval '5 s' THEN
		RETURN told;
	END IF;
	RAISE NOTICE '%', note;
	RETURN clock_timestamp();
END
$body$;
COMMENT ON FUNCTION shardring_internal.tell(text, timestamptz) IS
	'tells who waits how far a move is, but not too often';
REVOKE EXECUTE ON FUNCTION shardring_internal.tell(text, timestamptz)
	FROM PUBLIC;

/*
 * A fence tells its caller at once.  A move goes on by itself: a switch that
 * was opened again as often as its caller said, anything else five times.
 * When a switch is given up, one more round opens what is closed.
 */
CREATE FUNCTION shardring_internal.try_again(ring text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.current_move(ring);
	again boolean := m.program = 'move' AND m.error IS NOT NULL
		AND CASE WHEN m.state IN ('closing', 'arming')
			THEN NOT m.options ? 'gave_up'
				AND m.attempts < (m.options ->> 'attempts')::integer
			ELSE m.failures < 5 END;
BEGIN
	IF again OR m.program IS DISTINCT FROM 'move' OR m.error IS NULL THEN
		RETURN coalesce(again, false);
	END IF;
	UPDATE shardring_internal.row_move AS r
	SET stuck = m.state NOT IN ('closing', 'arming')
			OR m.options ? 'gave_up',
		wanted = CASE WHEN m.state IN ('closing', 'arming') THEN 'ready'
			ELSE r.wanted END,
		options = CASE WHEN m.state IN ('closing', 'arming')
			THEN jsonb_build_object('gave_up', r.error) || r.options
			ELSE r.options END
	WHERE r.ring = m.ring AND r.move = m.move;
	RETURN m.state IN ('closing', 'arming') AND NOT m.options ? 'gave_up';
END
$body$;
COMMENT ON FUNCTION shardring_internal.try_again(text) IS
	'whether a move that failed is tried again';
REVOKE EXECUTE ON FUNCTION shardring_internal.try_again(text) FROM PUBLIC;

/* One driver at a time, in every transaction; the backend keeps nothing. */
CREATE FUNCTION shardring_internal.hold_move(ring text, token bigint)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	IF NOT pg_try_advisory_xact_lock(
		'shardring_internal.row_move'::regclass::oid::integer, hashtext(ring))
	THEN
		PERFORM shardring_internal.fail('55006', format(
			'another call is moving ring "%s"', ring),
			hint => 'Wait for it, or end it and call again.');
	END IF;
	PERFORM shardring_internal.commit_for_good();
	m := shardring_internal.current_move(ring);
	IF m.ring IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" does not move', ring));
	ELSIF m.token <> token THEN
		PERFORM shardring_internal.fail('55006', format(
			'another call has taken over the move of ring "%s"', ring));
	END IF;
	RETURN m;
END
$body$;
COMMENT ON FUNCTION shardring_internal.hold_move(text, bigint) IS
	'takes the move of a ring for this transaction; NULL token: any';
REVOKE EXECUTE ON FUNCTION shardring_internal.hold_move(text, bigint)
	FROM PUBLIC;

/* Asks before it writes, and so has no xid while it asks. */
CREATE FUNCTION shardring_internal.begin_call(ring text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.hold_move(ring, NULL);
	higher bigint := shardring_internal.next_token(greatest(
		m.token, shardring_internal.known_token(m)));
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET token = higher, stuck = false, error = NULL
	WHERE r.ring = m.ring AND r.move = m.move;
	RETURN higher;
END
$body$;
COMMENT ON FUNCTION shardring_internal.begin_call(text) IS
	'a token above all that are known, for one call';
REVOKE EXECUTE ON FUNCTION shardring_internal.begin_call(text) FROM PUBLIC;

/*
 * NULL when what is wanted has been reached, or nothing more can be done.  A
 * move that was to be taken back and is decided goes forward all the same: its
 * keys are written nowhere until it has.
 */
CREATE FUNCTION shardring_internal.enter_phase(ring text, token bigint)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
	next text;
BEGIN
	IF (shardring_internal.current_move(ring)).ring IS NULL THEN
		RETURN NULL;
	END IF;
	m := shardring_internal.hold_move(ring, token);
	IF m.error IS NOT NULL THEN
		RETURN NULL;
	END IF;
	next := shardring_internal.wanted_phase(m);
	IF next IS NULL
		OR m.program = 'fence' AND m.wanted = 'cancelled'
			AND m.state = 'decided'
	THEN
		RETURN NULL;
	ELSIF next <> m.phase THEN
		m := shardring_internal.go_to_phase(m, next);
	END IF;
	PERFORM shardring_internal.note_event(m, 'begin', NULL);
	RETURN m;
END
$body$;
COMMENT ON FUNCTION shardring_internal.enter_phase(text, bigint) IS
	'the move with the phase to be done next';
REVOKE EXECUTE ON FUNCTION shardring_internal.enter_phase(text, bigint)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.wanted_phase(
	m shardring_internal.row_move)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE
		WHEN m.wanted = 'cancelled' AND m.state NOT IN (
			'decided', 'switched', 'finishing', 'cancelling')
		THEN CASE WHEN shardring_internal.is_turned(m) THEN 'turn_lift'
			ELSE 'lift' END
		WHEN m.phase = 'closed'
		THEN CASE m.wanted WHEN 'finished' THEN 'activate_targets' END
		WHEN m.phase = 'ready'
		THEN CASE WHEN m.options -> 'compare_again' = 'true' THEN 'copy'
			WHEN m.wanted IN ('switched', 'finished') THEN 'look' END
		WHEN m.phase = 'switched'
		THEN CASE m.wanted WHEN 'finished' THEN 'grace' END
		ELSE m.phase END;
END;
COMMENT ON FUNCTION shardring_internal.wanted_phase(
	shardring_internal.row_move) IS
	'the phase that leads to what is wanted; NULL: that is reached';
REVOKE EXECUTE ON FUNCTION shardring_internal.wanted_phase(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.go_to_phase(
	m shardring_internal.row_move, phase text)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	gone shardring_internal.row_move;
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET phase = p.phase, state = p.state, failures = 0, error = NULL,
		state_since = CASE WHEN r.state = p.state THEN r.state_since
			ELSE clock_timestamp() END
	FROM shardring_internal.move_phases() AS p
	WHERE r.ring = m.ring AND r.move = m.move
		AND p.program = r.program AND p.phase = go_to_phase.phase
	RETURNING r.* INTO gone;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'a move of ring "%s" has no phase "%s"', m.ring, phase));
	END IF;
	RETURN gone;
END
$body$;
COMMENT ON FUNCTION shardring_internal.go_to_phase(
	shardring_internal.row_move, text) IS
	'lets a move go on with a phase';
REVOKE EXECUTE ON FUNCTION shardring_internal.go_to_phase(
	shardring_internal.row_move, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.note_event(
	m shardring_internal.row_move, event text, detail text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring_internal.move_event
		(ring, move, number, token, state, phase, event, detail)
	SELECT m.ring, m.move, coalesce(max(e.number), 0) + 1, m.token, m.state,
		m.phase, note_event.event, note_event.detail
	FROM shardring_internal.move_event AS e
	WHERE e.ring = m.ring AND e.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.note_event(
	shardring_internal.row_move, text, text) IS
	'notes what happens to a move';
REVOKE EXECUTE ON FUNCTION shardring_internal.note_event(
	shardring_internal.row_move, text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.leave_phase(
	m shardring_internal.row_move, outcome shardring_internal.move_outcome)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM FROM shardring_internal.row_move AS r
	WHERE r.ring = m.ring AND r.move = m.move AND r.token = m.token
		AND r.phase = m.phase AND r.from_version = m.from_version;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('55006', format(
			'another call has taken over the move of ring "%s"', m.ring));
	END IF;
	PERFORM shardring_internal.note_event(m,
		CASE WHEN outcome.done THEN 'done'
			WHEN outcome.error IS NULL THEN 'waiting'
			ELSE 'failed' END, outcome.error);
	PERFORM shardring_internal.keep_outcome(m, outcome.facts);
	IF outcome.done AND m.phase = 'turn_lift' THEN
		PERFORM shardring_internal.turn_again(m);
	ELSIF outcome.done THEN
		PERFORM shardring_internal.go_to_phase(m, p.next_phase)
		FROM shardring_internal.move_phases() AS p
		WHERE p.program = m.program AND p.phase = m.phase;
	ELSIF outcome.error IS NOT NULL THEN
		PERFORM shardring_internal.note_failure(m, outcome.error);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.leave_phase(
	shardring_internal.row_move, shardring_internal.move_outcome) IS
	'notes what came of a phase, and goes on to the next one';
REVOKE EXECUTE ON FUNCTION shardring_internal.leave_phase(
	shardring_internal.row_move, shardring_internal.move_outcome) FROM PUBLIC;

CREATE FUNCTION shardring_internal.note_failure(
	m shardring_internal.row_move, error text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET error = note_failure.error, failures = r.failures + 1,
		attempts = r.attempts + (r.state IN ('arming', 'closing'))::integer
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.note_failure(
	shardring_internal.row_move, text) IS
	'notes why a move did not go on, and counts it';
REVOKE EXECUTE ON FUNCTION shardring_internal.note_failure(
	shardring_internal.row_move, text) FROM PUBLIC;

/* Phases with a step have answers by shard, others what they ask to keep. */
CREATE FUNCTION shardring_internal.keep_outcome(
	m shardring_internal.row_move, facts jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF facts IS NULL OR m.program <> 'move' THEN
		RETURN;
	ELSIF m.phase = 'set' THEN
		UPDATE shardring_internal.row_move AS r
		SET options = r.options || jsonb_build_object('tables', (
			SELECT s.value -> 'tables' FROM jsonb_each(facts) AS s
			LIMIT 1))
		WHERE r.ring = m.ring AND r.move = m.move;
	ELSIF m.phase IN ('empty', 'verify', 'delete', 'undo_copies') THEN
		UPDATE shardring_internal.row_move AS r
		SET options = r.options || facts
		WHERE r.ring = m.ring AND r.move = m.move;
	ELSE
		PERFORM shardring_internal.keep_facts(m, facts);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.keep_outcome(
	shardring_internal.row_move, jsonb) IS
	'keeps what a phase of a move has found out';
REVOKE EXECUTE ON FUNCTION shardring_internal.keep_outcome(
	shardring_internal.row_move, jsonb) FROM PUBLIC;
