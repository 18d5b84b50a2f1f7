/*
 * 99-move.sql
 *		On the map: moving rows from shard to shard while they are used.
 */

/*
 * Options: the switch may hold writes of moving keys for max_hold, and is
 * tried that many times; see switch_move and finish_move for the others.
 */
CREATE FUNCTION shardring.start_move(ring text, version integer DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	PERFORM shardring_internal.require_movable(ring, version);
	m := shardring_internal.new_move(ring, version, 'move', 'ready');
	PERFORM shardring_internal.want(m, 'ready', '{"max_hold": "2 s",
		"attempts": 5, "grace": "15 min", "rows_per_second": 10000}'
		|| jsonb_build_object('timeline', shardring_internal.wal_timeline()));
	RETURN m.move;
END
$body$;
COMMENT ON FUNCTION shardring.start_move(text, integer) IS
	'plans a move of rows to a newer version; run_move carries it out';
REVOKE EXECUTE ON FUNCTION shardring.start_move(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_movable(
	ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	first record;
BEGIN
	SELECT c.*, count(*) OVER () AS number INTO first
	FROM shardring.move_check(ring, version) AS c
	WHERE c.severity = 'error'
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" cannot be moved yet', ring),
			detail => format('%s; %s to mend in all.', concat_ws(
				': ', first.shard, first.relation, first.problem),
				first.number),
			hint => format(
				'SELECT * FROM shardring.move_check(%L);', ring));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_movable(text, integer) IS
	'raises when something has to be mended before a move';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_movable(text, integer)
	FROM PUBLIC;

CREATE PROCEDURE shardring.run_move(ring text)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_more(ring);
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.run_move(text) IS
	'goes on with a move towards what was wanted last';
REVOKE EXECUTE ON PROCEDURE shardring.run_move(text) FROM PUBLIC;

CREATE PROCEDURE shardring.switch_move(
	ring text, max_hold interval DEFAULT '2 s', attempts integer DEFAULT 5)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_move(ring, 'switched',
		pg_catalog.jsonb_build_object('max_hold', max_hold,
									  'attempts', attempts));
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.switch_move(text, interval, integer) IS
	'lets the new shards own the keys of a move, or opens again';
REVOKE EXECUTE ON PROCEDURE shardring.switch_move(text, interval, integer)
	FROM PUBLIC;

CREATE PROCEDURE shardring.finish_move(
	ring text, grace interval DEFAULT '15 min',
	rows_per_second integer DEFAULT 10000, unverified boolean DEFAULT false)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_move(ring, 'finished',
		pg_catalog.jsonb_build_object('grace', grace,
									  'rows_per_second', rows_per_second,
									  'unverified', unverified));
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE
	shardring.finish_move(text, interval, integer, boolean) IS
	'ends the way back, and deletes the rows where they were';
REVOKE EXECUTE ON PROCEDURE
	shardring.finish_move(text, interval, integer, boolean) FROM PUBLIC;

CREATE PROCEDURE shardring.cancel_move(ring text)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_move(ring, 'cancelled', '{}');
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.cancel_move(text) IS
	'takes a move back before its switch, and leaves nothing of it';
REVOKE EXECUTE ON PROCEDURE shardring.cancel_move(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.move_of(ring text)
RETURNS shardring_internal.row_move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	m := shardring_internal.locked_move(ring);
	IF m.ring IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" does not move', ring),
			hint => format('SELECT shardring.start_move(%L);', ring));
	ELSIF m.program <> 'move' THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	RETURN m;
END
$body$;
COMMENT ON FUNCTION shardring_internal.move_of(text) IS
	'the move of a ring, which must be in one';
REVOKE EXECUTE ON FUNCTION shardring_internal.move_of(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.want_more(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.move_of(ring);
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET options = r.options - 'gave_up', attempts = 0, failures = 0,
		wanted = CASE WHEN r.wanted = 'cancelled'
				AND r.state IN ('decided', 'switched') THEN 'switched'
			ELSE r.wanted END
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.want_more(text) IS
	'notes that a move is to go on';
REVOKE EXECUTE ON FUNCTION shardring_internal.want_more(text) FROM PUBLIC;

/* What may be wanted from where the move is. */
CREATE FUNCTION shardring_internal.want_move(
	ring text, wanted text, options jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.move_of(ring);
	before text[] := '{new,preparing,copying,turning,following,ready,arming,'
		'closing,reopening}';
BEGIN
	PERFORM shardring_internal.require_options(options);
	IF wanted = 'cancelled' AND m.state = 'decided'
		AND (m.options #>> '{turned,from_version}')::integer = m.to_version
	THEN
		/* a move that was turned again goes on to where it was */
		PERFORM shardring_internal.want(m, 'switched', options);
		RETURN;
	ELSIF m.state <> ALL (CASE wanted
		WHEN 'cancelled' THEN before || 'cancelling'::text
		WHEN 'switched' THEN before || '{decided,switched}'::text[]
		ELSE '{decided,switched,finishing}' END)
	THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	PERFORM shardring_internal.want(m, wanted, options);
END
$body$;
COMMENT ON FUNCTION shardring_internal.want_move(text, text, jsonb) IS
	'notes what is wanted of a move, if that can be had';
REVOKE EXECUTE ON FUNCTION shardring_internal.want_move(text, text, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_options(options jsonb)
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	option record;
BEGIN
	FOR option IN
		SELECT o.key, o.value FROM jsonb_each_text(options) AS o
		ORDER BY o.key
	LOOP
		IF option.value IS NULL THEN
			PERFORM shardring_internal.refuse_null(option.key, NULL);
		ELSIF NOT (CASE option.key
			WHEN 'max_hold'
			THEN option.value::interval BETWEEN '50 ms' AND '1 min'
			WHEN 'grace' THEN option.value::interval BETWEEN '0' AND '1 y'
			WHEN 'attempts' THEN option.value::integer BETWEEN 1 AND 1000
			WHEN 'unverified' THEN option.value IS NOT NULL
			ELSE option.value::integer > 0 END)
		THEN
			PERFORM shardring_internal.fail('22023', format(
				'%s is out of range', option.key));
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_options(jsonb) IS
	'raises when an option of a move is out of range';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_options(jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.want(
	m shardring_internal.row_move, wanted text, options jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET wanted = want.wanted, options = r.options - 'gave_up' || want.options,
		attempts = 0, failures = 0,
		grace_until = CASE WHEN want.wanted = 'finished'
			THEN clock_timestamp() + (want.options ->> 'grace')::interval
			ELSE r.grace_until END
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.want(
	shardring_internal.row_move, text, jsonb) IS
	'notes what is wanted of a move';
REVOKE EXECUTE ON FUNCTION shardring_internal.want(
	shardring_internal.row_move, text, jsonb) FROM PUBLIC;
