/*
 * 98-move-turn.sql
 *		On the map: turning a move round, so that what went there comes back.
 *
 * A move that is switched from A to B has streams that flow back.  Turned, it
 * is the move from B to C, where C has everything where A has it, and those
 * are its streams there: nothing is copied, and all that follows is what
 * follows when a move has copied its rows.  While C is active nowhere it can be
 * turned again, and is the move from A to B that it was.
 *
 * The columns of a shard follow with the step "set", which says what they were
 * before.  It takes what both moves have active, and so decides nothing: no key
 * has another owner before and after.
 */

/* The version that keys go back to is a new one: numbers only grow. */
CREATE FUNCTION shardring_internal.turn_move(m shardring_internal.row_move)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	back integer := shardring.draft_version(m.ring, m.from_version,
		format('version %s again', m.from_version));
BEGIN
	PERFORM shardring.seal(m.ring, back);
	PERFORM shardring_internal.require_usable(m.ring, back, m.to_version);
	PERFORM shardring_internal.exchange_sides(m, m.to_version, back);
	UPDATE shardring_internal.row_move AS r
	SET token = shardring_internal.next_token(r.token)
	WHERE r.ring = m.ring AND r.move = m.move;
	RETURN shardring_internal.go_to_phase(m, 'turn_push');
END
$body$;
COMMENT ON FUNCTION shardring_internal.turn_move(
	shardring_internal.row_move) IS
	'lets a move that is switched go back along its streams';
REVOKE EXECUTE ON FUNCTION shardring_internal.turn_move(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.turn_again(m shardring_internal.row_move)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.exchange_sides(
		m, (m.options #>> '{turned,from_version}')::integer, m.from_version);
	UPDATE shardring_internal.row_move AS r
	SET wanted = 'switched'
	WHERE r.ring = m.ring AND r.move = m.move;
	RETURN shardring_internal.go_to_phase(m, 'turn_again');
END
$body$;
COMMENT ON FUNCTION shardring_internal.turn_again(
	shardring_internal.row_move) IS
	'lets a move that was turned be what it was before';
REVOKE EXECUTE ON FUNCTION shardring_internal.turn_again(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * The stream back is the one there, and the other way round.  Where the way
 * back begins is known to the shards, which are asked for it again.
 */
CREATE FUNCTION shardring_internal.exchange_sides(
	m shardring_internal.row_move, from_version integer, to_version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET from_version = f.version, from_fingerprint = f.fingerprint,
		to_version = t.version, to_fingerprint = t.fingerprint,
		options = r.options - 'positions' - 'compare_again' - 'unverified'
			|| jsonb_build_object('turned', jsonb_build_object(
				'from_version', m.from_version, 'to_version', m.to_version))
	FROM shardring.ring_version AS f, shardring.ring_version AS t
	WHERE r.ring = m.ring AND r.move = m.move
		AND f.ring = m.ring AND f.version = exchange_sides.from_version
		AND t.ring = m.ring AND t.version = exchange_sides.to_version;
	UPDATE shardring_internal.move_shard AS s
	SET source = s.target, target = s.source
	WHERE s.ring = m.ring AND s.move = m.move;
	UPDATE shardring_internal.move_pair AS p
	SET from_shard = p.to_shard, to_shard = p.from_shard,
		name = shardring_internal.back_name(p.name),
		subscription = p.back_subscription, back_subscription = NULL,
		l1 = NULL, l2 = NULL, back_lsn = NULL
	WHERE p.ring = m.ring AND p.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.exchange_sides(
	shardring_internal.row_move, integer, integer) IS
	'exchanges sources and targets of a move, and their streams';
REVOKE EXECUTE ON FUNCTION shardring_internal.exchange_sides(
	shardring_internal.row_move, integer, integer) FROM PUBLIC;

/*
 * A shard that answers with a version before both of a turned move has lost
 * the switch before it: the move is turned again, so that the shard is closed
 * and switched as it would have been without turning.  Once it is decided,
 * this can be only as long as all shards say that they have not switched.
 */
CREATE FUNCTION shardring_internal.turn_fallen(
	m shardring_internal.row_move, answers jsonb)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	lowest integer;
	highest integer;
	asked integer := cardinality(shardring_internal.move_shards(m, 'all'));
	answered integer;
BEGIN
	SELECT min((a.value ->> 'active_version')::integer),
		max((a.value ->> 'active_version')::integer), count(*)
	INTO lowest, highest, answered
	FROM jsonb_each(answers) AS a;
	IF NOT shardring_internal.is_turned(m)
		OR m.state IN ('switched', 'finishing')
		OR m.state = 'decided' AND (answered < asked
			OR highest >= m.to_version)
		OR NOT coalesce(lowest < m.from_version, false)
	THEN
		RETURN m;
	END IF;
	RETURN shardring_internal.turn_again(m);
END
$body$;
COMMENT ON FUNCTION shardring_internal.turn_fallen(
	shardring_internal.row_move, jsonb) IS
	'turns a move again when a shard lost the switch before it';
REVOKE EXECUTE ON FUNCTION shardring_internal.turn_fallen(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/* A shard that came back without having been turned is turned now. */
CREATE FUNCTION shardring_internal.turn_late(
	m shardring_internal.row_move, answers jsonb)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	late text[] := ARRAY(
		SELECT a.key FROM jsonb_each(answers) AS a
		WHERE a.value -> 'moving_from' = m.options #> '{turned,from_version}'
			AND a.value -> 'moving_to' = m.options #> '{turned,to_version}');
BEGIN
	IF cardinality(late) = 0
		OR m.phase IN ('turn_push', 'turn', 'turn_again')
	THEN
		RETURN NULL;
	END IF;
	RETURN shardring_internal.step_problem(m, late, 'set', '{}');
END
$body$;
COMMENT ON FUNCTION shardring_internal.turn_late(
	shardring_internal.row_move, jsonb) IS
	'turns shards that are not turned as their move is; returns why not';
REVOKE EXECUTE ON FUNCTION shardring_internal.turn_late(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

CREATE PROCEDURE shardring.reverse_move(
	ring text, max_hold interval DEFAULT '2 s', attempts integer DEFAULT 5)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_reversed(ring,
		pg_catalog.jsonb_build_object('max_hold', max_hold,
									  'attempts', attempts));
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.reverse_move(text, interval, integer) IS
	'lets the shards before a switch own the keys again';
REVOKE EXECUTE ON PROCEDURE shardring.reverse_move(text, interval, integer)
	FROM PUBLIC;

/*
 * What is wanted once more is wanted already.  A call that drives the move and
 * has looked at it before finds another token, and ends: it must not go on with
 * what was the next phase before the move was turned.
 */
CREATE FUNCTION shardring_internal.want_reversed(ring text, options jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.move_of(ring);
BEGIN
	PERFORM shardring_internal.require_options(options);
	IF shardring_internal.is_turned(m)
		AND m.state NOT IN ('switched', 'finishing', 'cancelling')
	THEN
		NULL;	/* it goes on */
	ELSIF m.phase <> 'switched' THEN
		PERFORM shardring_internal.refuse_driven(m);
	ELSE
		PERFORM shardring_internal.hold_move(ring, NULL);
		m := shardring_internal.turn_move(m);
	END IF;
	PERFORM shardring_internal.want(m, 'switched', options);
END
$body$;
COMMENT ON FUNCTION shardring_internal.want_reversed(text, jsonb) IS
	'notes that a move is to go back, if it can';
REVOKE EXECUTE ON FUNCTION shardring_internal.want_reversed(text, jsonb)
	FROM PUBLIC;
