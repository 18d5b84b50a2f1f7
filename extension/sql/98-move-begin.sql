/*
 * 98-move-begin.sql
 *		On the map: how a move begins, and what is said when a call ends.
 */

CREATE FUNCTION shardring_internal.new_move(
	ring text, version integer, program text, wanted text)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring := shardring_internal.lock_ring(ring);
	target shardring.ring_version;
	m shardring_internal.row_move;
BEGIN
	PERFORM shardring_internal.require_active(ring);
	PERFORM shardring_internal.refuse_moving(locked);
	target := shardring_internal.activation_target(locked, version, NULL);
	IF version IS NULL THEN
		PERFORM shardring_internal.tell_whose_draft(target);
	END IF;
	IF target.sealed_at IS NULL THEN
		PERFORM shardring.seal(ring, target.version);
	END IF;
	target := shardring_internal.require_row(ring, target.version);
	PERFORM shardring_internal.require_intact(target);
	PERFORM shardring_internal.require_usable(
		ring, target.version, locked.active_version);
	INSERT INTO shardring_internal.row_move (ring, move, program,
		from_version, to_version, from_fingerprint, to_fingerprint, state,
		phase, wanted, token)
	SELECT locked.ring, coalesce(max(r.move), 0) + 1, new_move.program,
		locked.active_version, target.version, locked.fingerprint,
		target.fingerprint, 'new', 'push', new_move.wanted, 0
	FROM shardring_internal.row_move AS r
	WHERE r.ring = locked.ring
	RETURNING * INTO STRICT m;
	PERFORM shardring_internal.add_move_shards(m);
	PERFORM shardring_internal.add_move_pairs(m);
	RETURN m;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.new_move(text, integer, text, text) IS
	'begins a move from the active version to a newer one';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.new_move(text, integer, text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.add_move_shards(
	m shardring_internal.row_move)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring_internal.move_shard
		(ring, move, shard, source, target)
	WITH plan AS MATERIALIZED (
		SELECT p.from_shard COLLATE "C" AS from_shard,
			p.to_shard COLLATE "C" AS to_shard
		FROM shardring.move_plan(m.ring, m.from_version, m.to_version) AS p)
	SELECT DISTINCT m.ring, m.move, s.shard,
		s.shard IN (SELECT p.from_shard FROM plan AS p),
		s.shard IN (SELECT p.to_shard FROM plan AS p)
	FROM shardring.shard_map AS s
	WHERE s.ring = m.ring AND s.version IN (m.from_version, m.to_version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.add_move_shards(
	shardring_internal.row_move) IS
	'notes the shards of both versions of a move';
REVOKE EXECUTE ON FUNCTION shardring_internal.add_move_shards(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.add_move_pairs(
	m shardring_internal.row_move)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring_internal.move_pair
		(ring, move, from_shard, to_shard, name)
	SELECT DISTINCT m.ring, m.move, p.from_shard, p.to_shard,
		format('%s%s_%s_%s', shardring_internal.stream_prefix(m.ring), m.move,
			   f.number, t.number)
	FROM shardring.move_plan(m.ring, m.from_version, m.to_version) AS p
		JOIN shardring.shard AS f
			ON f.ring = m.ring AND f.shard = p.from_shard COLLATE "C"
		JOIN shardring.shard AS t
			ON t.ring = m.ring AND t.shard = p.to_shard COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring_internal.add_move_pairs(
	shardring_internal.row_move) IS
	'notes the pairs of shards between which a move carries rows';
REVOKE EXECUTE ON FUNCTION shardring_internal.add_move_pairs(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * For those that look what state a move is in before they note what is wanted:
 * it stays so until their commit.  Whoever drives it locks nothing while it
 * asks, so this waits for the commit of a phase at most.
 */
CREATE FUNCTION shardring_internal.locked_move(ring text)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM FROM shardring_internal.row_move AS r
	WHERE r.ring = locked_move.ring COLLATE "C"
		AND r.state NOT IN ('finished', 'cancelled')
	FOR UPDATE;
	RETURN shardring_internal.current_move(ring);
END
$body$;
COMMENT ON FUNCTION shardring_internal.locked_move(text) IS
	'the move of a ring that is not over, locked';
REVOKE EXECUTE ON FUNCTION shardring_internal.locked_move(text) FROM PUBLIC;

/* What is true, and the commands that end it. */
CREATE FUNCTION shardring_internal.refuse_driven(
	m shardring_internal.row_move)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('55000', format(
		'ring "%s" is moving from version %s to version %s', m.ring,
		m.from_version, m.to_version),
		detail => format('State: %s.', m.state)
			|| coalesce('  Last error: ' || m.error || '.', ''),
		hint => shardring_internal.next_commands(m));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_driven(
	shardring_internal.row_move) IS
	'raises because of the move that a ring is in';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_driven(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.next_moves(
	m shardring_internal.row_move)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT concat_ws(chr(10),
		CASE
			WHEN m.state = 'ready'
			THEN 'To switch: CALL shardring.switch_move(%1$L);'
			WHEN m.state = 'switched' AND m.phase = m.state
				AND m.error IS NULL
			THEN 'To end it: CALL shardring.finish_move(%1$L);'
			ELSE 'To go on: CALL shardring.run_move(%1$L);' END,
		CASE
			WHEN m.state IN ('decided', 'finishing', 'cancelling') THEN NULL
			WHEN m.state = 'switched' AND (m.phase <> m.state
				OR m.error IS NOT NULL) THEN NULL
			WHEN m.state = 'switched'
			THEN 'To go back: CALL shardring.reverse_move(%1$L);'
			WHEN shardring_internal.is_turned(m)
			THEN format('To stay with version %s: '
						'CALL shardring.cancel_move(%%1$L);', m.from_version)
			ELSE 'To go back: CALL shardring.cancel_move(%1$L);' END);
END;
COMMENT ON FUNCTION shardring_internal.next_moves(
	shardring_internal.row_move) IS
	'what can be called next to move rows; %1$L stands for the ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.next_moves(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.next_commands(
	m shardring_internal.row_move)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format(CASE
		WHEN m.error IS NOT NULL
			AND m.phase IN ('start', 'back_verify', 'back_verify_again')
		THEN 'To go on: CALL shardring.run_move(%L);' || chr(10)
			|| 'Without the way back: CALL shardring.finish_move(%1$L, '
			|| 'unverified => true);'
		WHEN m.program = 'move' THEN shardring_internal.next_moves(m)
		WHEN m.state = 'decided'
		THEN 'To go on: CALL shardring.switch_fenced(%L);'
		WHEN m.state = 'cancelling'
		THEN 'To go on: CALL shardring.unfence(%L);'
		WHEN m.state = 'closed'
		THEN 'When the rows are copied: CALL shardring.switch_fenced(%L);'
			|| chr(10) || 'To go back: CALL shardring.unfence(%1$L);'
		ELSE 'To go on: CALL shardring.fence(%L);' || chr(10)
			|| 'To go back: CALL shardring.unfence(%1$L);' END, m.ring);
END;
COMMENT ON FUNCTION shardring_internal.next_commands(
	shardring_internal.row_move) IS
	'what can be called next';
REVOKE EXECUTE ON FUNCTION shardring_internal.next_commands(
	shardring_internal.row_move) FROM PUBLIC;

/* A call that did not reach what it wanted is an error, after its commits. */
CREATE FUNCTION shardring_internal.end_call(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	SELECT r.* INTO m FROM shardring_internal.row_move AS r
	WHERE r.ring = end_call.ring COLLATE "C"
	ORDER BY r.move DESC
	LIMIT 1;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has never moved', ring));
	ELSIF m.error IS NOT NULL
		OR m.wanted = 'cancelled' AND m.state <> 'cancelled'
	THEN
		PERFORM shardring_internal.fail('55000', format(CASE
				WHEN m.state = m.wanted THEN 'move of ring "%s" cannot go on'
				ELSE 'ring "%s" is %s, not %s' END,
				m.ring, m.state, m.wanted),
			detail => coalesce(regexp_replace(m.error, '\.?$', '.'), format(
				'Version %s is active on a shard.', m.to_version)),
			hint => shardring_internal.next_commands(m));
	END IF;
	IF m.options ? 'gave_up' AND m.state = 'ready' THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" was not switched to version %s', m.ring, m.to_version),
			detail => regexp_replace(m.options ->> 'gave_up', '\.?$', '.'),
			hint => shardring_internal.next_commands(m));
	END IF;
	PERFORM shardring_internal.say_done(m);
END
$body$;
COMMENT ON FUNCTION shardring_internal.end_call(text) IS
	'says what a call has come to';
REVOKE EXECUTE ON FUNCTION shardring_internal.end_call(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.say_done(m shardring_internal.row_move)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	message text := format(CASE m.state
		WHEN 'closed' THEN 'ring "%s" is fenced for version %s'
		WHEN 'ready' THEN 'ring "%s" is ready to switch to version %s'
		WHEN 'cancelled'
		THEN 'ring "%s" is open again, and stays with version %3$s'
		ELSE 'ring "%s" is switched to version %s' END,
		m.ring, m.to_version, m.from_version);
BEGIN
	IF m.state IN ('finished', 'cancelled') THEN
		RAISE NOTICE '%', message;
	ELSE
		RAISE NOTICE '%', message
			USING HINT = shardring_internal.next_commands(m);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.say_done(
	shardring_internal.row_move) IS
	'says what a call has reached, and what can follow';
REVOKE EXECUTE ON FUNCTION shardring_internal.say_done(
	shardring_internal.row_move) FROM PUBLIC;
