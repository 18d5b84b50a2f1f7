/*
 * 98-move-fallen.sql
 *		On the map: servers that come back without the switch of a move.
 *
 * A standby that was promoted may lack the last commits of its primary: the
 * columns of the move, the hold, or the new version.  Once a move is decided,
 * keys that leave such a shard would have two owners, so it is closed for good
 * before anything else.
 */

/*
 * After the switch it is activated again, too, and everything that follows the
 * activation is done once more, up to comparing both sides: rows that it has
 * accepted in between are found there.
 */
CREATE FUNCTION shardring_internal.raise_fallen(
	m shardring_internal.row_move, answers jsonb)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	turned shardring_internal.row_move := shardring_internal.turn_fallen(
		m, answers);
	fallen text[];
	problem text;
BEGIN
	IF turned.phase = 'turn_again' THEN
		m := turned;
	END IF;
	fallen := shardring_internal.fallen_shards(m, answers);
	IF cardinality(fallen) = 0 THEN
		RETURN m;
	END IF;
	PERFORM shardring_internal.note_event(m, 'fallen',
		array_to_string(fallen, ', '));
	problem := coalesce(
		shardring_internal.step_problem(m, fallen, 'set', '{}'),
		shardring_internal.step_problem(m, ARRAY(
			SELECT s.shard FROM shardring_internal.move_shard AS s
			WHERE s.ring = m.ring AND s.move = m.move AND s.source
				AND s.shard = ANY (fallen COLLATE "C")),
			'close', '{"for_good": true}'));
	IF problem IS NOT NULL THEN
		PERFORM shardring_internal.note_failure(m, problem);
	ELSIF m.state <> 'decided' THEN
		UPDATE shardring_internal.row_move AS r
		SET options = r.options - 'positions'
		WHERE r.ring = m.ring AND r.move = m.move;
		m := shardring_internal.go_to_phase(m, 'activate_targets');
	END IF;
	RETURN m;
END
$body$;
COMMENT ON FUNCTION shardring_internal.raise_fallen(
	shardring_internal.row_move, jsonb) IS
	'closes shards that came back without the switch of a move';
REVOKE EXECUTE ON FUNCTION shardring_internal.raise_fallen(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/* Before the activations are over, a source that is closed is sound. */
CREATE FUNCTION shardring_internal.fallen_shards(
	m shardring_internal.row_move, answers jsonb)
RETURNS text[]
LANGUAGE sql STABLE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(array_agg(s.shard ORDER BY s.shard), '{}')
	FROM shardring_internal.move_shard AS s
	WHERE s.ring = m.ring AND s.move = m.move
		AND m.state IN ('decided', 'switched', 'finishing')
		AND (answers #>> ARRAY[s.shard, 'active_version'])::integer
			= m.from_version
		AND (m.state <> 'decided'
			OR answers #>> ARRAY[s.shard, 'moving_to'] IS NULL
			OR s.source AND answers #>> ARRAY[s.shard, 'closed_until']
				IS DISTINCT FROM 'infinity');
END;
COMMENT ON FUNCTION shardring_internal.fallen_shards(
	shardring_internal.row_move, jsonb) IS
	'shards that lack what they had when a move was decided';
REVOKE EXECUTE ON FUNCTION shardring_internal.fallen_shards(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.step_problem(
	m shardring_internal.row_move, shards text[], step text, more jsonb)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT min(a.shard || ': ' || a.error)
		FROM shardring_internal.ask_move(m, shards, step, more) AS a);
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_problem(
	shardring_internal.row_move, text[], text, jsonb) IS
	'asks shards for a step; returns why one did not take it';
REVOKE EXECUTE ON FUNCTION shardring_internal.step_problem(
	shardring_internal.row_move, text[], text, jsonb) FROM PUBLIC;
