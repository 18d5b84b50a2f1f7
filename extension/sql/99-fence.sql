/*
 * 99-fence.sql
 *		On the map: a switch of versions for which rows are copied by hand.
 *
 * fence closes every shard that loses keys before any version becomes active
 * anywhere, so that a shard may be source and target at once; the rows are
 * copied; switch_fenced activates the version, targets first.
 */

CREATE PROCEDURE shardring.fence(
	ring text, version integer DEFAULT NULL,
	timeout interval DEFAULT '1 min')
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_fence(ring, version, timeout);
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.fence(text, integer, interval) IS
	'closes all shards that lose keys, until switch_fenced or unfence';
REVOKE EXECUTE ON PROCEDURE shardring.fence(text, integer, interval)
	FROM PUBLIC;

CREATE PROCEDURE shardring.switch_fenced(ring text)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_switch(ring);
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.switch_fenced(text) IS
	'activates the version of a fence everywhere, targets first';
REVOKE EXECUTE ON PROCEDURE shardring.switch_fenced(text) FROM PUBLIC;

CREATE PROCEDURE shardring.unfence(ring text)
LANGUAGE plpgsql
AS $body$
BEGIN
	PERFORM shardring_internal.want_no_fence(ring);
	COMMIT;
	CALL shardring_internal.drive_move(ring);
END
$body$;
COMMENT ON PROCEDURE shardring.unfence(text) IS
	'opens all shards again, while the new version is active nowhere';
REVOKE EXECUTE ON PROCEDURE shardring.unfence(text) FROM PUBLIC;

/* The version is sealed if it is a draft, as activate does. */
CREATE FUNCTION shardring_internal.want_fence(
	ring text, version integer, timeout interval)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'timeout', timeout::text);
	IF timeout NOT BETWEEN '0' AND interval '1 hour' THEN
		PERFORM shardring_internal.fail('22023',
			'timeout must be between 0 and 1 hour');
	END IF;
	m := shardring_internal.locked_move(ring);
	IF m.ring IS NULL THEN
		m := shardring_internal.new_move(ring, version, 'fence', 'closed');
	ELSIF m.program <> 'fence' OR m.state IN ('decided', 'cancelling')
		OR m.to_version <> version
	THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	UPDATE shardring_internal.row_move AS r
	SET wanted = 'closed',
		options = jsonb_build_object(
			'deadline', clock_timestamp() + want_fence.timeout)
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.want_fence(text, integer, interval) IS
	'notes that a ring is to be fenced';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.want_fence(text, integer, interval) FROM PUBLIC;

CREATE FUNCTION shardring_internal.want_switch(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.fence_of(ring);
BEGIN
	IF m.state NOT IN ('closed', 'decided') THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	UPDATE shardring_internal.row_move AS r SET wanted = 'finished'
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.want_switch(text) IS
	'notes that a fenced ring is to be switched';
REVOKE EXECUTE ON FUNCTION shardring_internal.want_switch(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.want_no_fence(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.fence_of(ring);
BEGIN
	IF m.state = 'decided' THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	UPDATE shardring_internal.row_move AS r SET wanted = 'cancelled'
	WHERE r.ring = m.ring AND r.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.want_no_fence(text) IS
	'notes that a fenced ring is to be opened again';
REVOKE EXECUTE ON FUNCTION shardring_internal.want_no_fence(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.fence_of(ring text)
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
			'ring "%s" is not fenced', ring),
			hint => format('CALL shardring.fence(%L);', ring));
	ELSIF m.program <> 'fence' THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	RETURN m;
END
$body$;
COMMENT ON FUNCTION shardring_internal.fence_of(text) IS
	'the fence of a ring, which must have one';
REVOKE EXECUTE ON FUNCTION shardring_internal.fence_of(text) FROM PUBLIC;

/* A switch that was begun by other means is ended by them. */
CREATE FUNCTION shardring_internal.way_by_fence(
	ring text, version integer, answers shardring_internal.shard_answer[])
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	active integer := shardring.active_version(ring);
BEGIN
	IF version > active AND NOT EXISTS (
		SELECT FROM unnest(answers) AS a WHERE a.active_version <> active)
	THEN
		RETURN format('Close the sources: CALL shardring.fence(%L, %s);'
			|| chr(10) || 'When the rows are copied: '
			'CALL shardring.switch_fenced(%1$L);', ring, version);
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.way_by_fence(
	text, integer, shardring_internal.shard_answer[]) IS
	'the commands that switch to a version; NULL: it is too late for them';
REVOKE EXECUTE ON FUNCTION shardring_internal.way_by_fence(
	text, integer, shardring_internal.shard_answer[]) FROM PUBLIC;
