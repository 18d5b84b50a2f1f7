/*
 * 94-move-steps.sql
 *		The steps one by one.  All but settle get the locked row of the ring
 *		and return what is to be written into it.
 */

/*
 * Only where the version to move from is active: where another one is,
 * somebody has activated it.  A shard may be in the move that this one was
 * before it was turned.
 */
CREATE FUNCTION shardring_internal.step_set(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	from_version integer := (document ->> 'from_version')::integer;
	to_version integer := (document ->> 'to_version')::integer;
BEGIN
	ours := shardring_internal.turned(ours, document);
	IF shardring_internal.in_move(ours, document) THEN
		RETURN ours;
	ELSIF to_version <= from_version THEN
		PERFORM shardring_internal.fail('22023', format(
			'version %s is not newer than version %s', to_version,
			from_version));
	ELSIF ours.active_version IS DISTINCT FROM from_version THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is not the active one', from_version,
			ours.ring),
			detail => coalesce('Version ' || ours.active_version,
				'No version') || ' is.');
	END IF;
	PERFORM shardring_internal.require_fingerprint(
		ours.ring, from_version, document ->> 'from_fingerprint');
	PERFORM shardring_internal.require_fingerprint(
		ours.ring, to_version, document ->> 'to_fingerprint');
	PERFORM shardring_internal.require_usable(
		ours.ring, to_version, from_version);
	ours.moving_from := from_version;
	ours.moving_to := to_version;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_set(shardring.ring, jsonb) IS
	'step of a move: from here on, this ring moves';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_set(shardring.ring, jsonb) FROM PUBLIC;

/*
 * Both moves have one version in common, and only where that is active does a
 * shard go from one move to the other.  Back to the one before it goes also
 * where keys are refused: no shard has the version that they were to go to, and
 * they stay here.
 */
CREATE FUNCTION shardring_internal.turned(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	from_version integer := (document ->> 'from_version')::integer;
	to_version integer := (document ->> 'to_version')::integer;
BEGIN
	IF NOT shardring_internal.before_turn(ours, document)
		OR ours.active_version IS DISTINCT FROM (CASE
			WHEN ours.moving_to = from_version THEN from_version
			WHEN ours.moving_from = to_version THEN to_version END)
		OR ours.closed_until > clock_timestamp()
			AND ours.moving_to = from_version
	THEN
		RETURN ours;
	END IF;
	PERFORM shardring_internal.require_fingerprint(
		ours.ring, from_version, document ->> 'from_fingerprint');
	PERFORM shardring_internal.require_fingerprint(
		ours.ring, to_version, document ->> 'to_fingerprint');
	ours.moving_from := from_version;
	ours.moving_to := to_version;
	ours.closed_until := NULL;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.turned(shardring.ring, jsonb) IS
	'the row of a ring in the move that the one before was turned into';
REVOKE EXECUTE ON FUNCTION shardring_internal.turned(shardring.ring, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_fingerprint(
	ring text, version integer, fingerprint text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	sealed shardring.ring_version := shardring_internal.require_row(
		ring, version);
BEGIN
	IF sealed.fingerprint IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is not sealed', version, ring));
	ELSIF sealed.fingerprint IS DISTINCT FROM fingerprint COLLATE "C" THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" has another fingerprint here', version,
			ring),
			hint => 'Push the version again, and look at what is refused.');
	END IF;
	PERFORM shardring_internal.require_intact(sealed);
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_fingerprint(
	text, integer, text) IS
	'raises unless a version is here as the map has it';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_fingerprint(
	text, integer, text) FROM PUBLIC;

/* Whether this shard is in the move that this one was before it was turned. */
CREATE FUNCTION shardring_internal.before_turn(
	ours shardring.ring, document jsonb)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(
		to_jsonb(ours.moving_from) = document #> '{turned,from_version}'
			AND to_jsonb(ours.moving_to) = document #> '{turned,to_version}',
		false);
END;
COMMENT ON FUNCTION
	shardring_internal.before_turn(shardring.ring, jsonb) IS
	'whether a shard is not turned yet with a move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.before_turn(shardring.ring, jsonb) FROM PUBLIC;

/* A hold for good is ended by lift alone, never by a lease. */
CREATE FUNCTION shardring_internal.step_close(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	for_good boolean := document -> 'for_good' = 'true';
	lease interval := shardring_internal.step_interval(document, 'lease');
BEGIN
	IF coalesce(for_good, false) = (lease IS NOT NULL) THEN
		PERFORM shardring_internal.fail('22023',
			'a shard is closed for good or with a lease');
	END IF;
	PERFORM shardring_internal.refuse_switched(ours, document);
	PERFORM shardring_internal.require_in_move(ours, document);
	IF for_good THEN
		ours.closed_until := 'infinity';
	ELSIF ours.closed_until IS DISTINCT FROM 'infinity' THEN
		ours.closed_until := clock_timestamp() + lease;
	END IF;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_close(shardring.ring, jsonb) IS
	'step of a move: keys that leave are not written here any more';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_close(shardring.ring, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.step_interval(document jsonb, name text)
RETURNS interval
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	value interval;
BEGIN
	BEGIN
		value := document ->> name;
	EXCEPTION
		WHEN data_exception THEN
			value := '-1 s';
	END;
	IF value NOT BETWEEN '0' AND interval '1 hour' THEN
		PERFORM shardring_internal.fail('22023', format(
			'%s must be an interval between 0 and 1 hour', name));
	END IF;
	RETURN value;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_interval(jsonb, text) IS
	'an interval that a document may have';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_interval(jsonb, text) FROM PUBLIC;

/*
 * A shard without the columns of the move is open.  Whatever is active there
 * was activated by other means, and must not keep the others closed.  Nor is
 * one closed by the move that was not turned yet.
 */
CREATE FUNCTION shardring_internal.step_lift(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NOT shardring_internal.before_turn(ours, document)
		AND shardring_internal.in_move(ours, document)
	THEN
		PERFORM shardring_internal.refuse_switched(ours, document);
		ours.closed_until := NULL;
	END IF;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_lift(shardring.ring, jsonb) IS
	'step of a move: keys that leave are written here again';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_lift(shardring.ring, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.step_activate(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target shardring.ring_version;
BEGIN
	IF ours.active_version = (document ->> 'to_version')::integer THEN
		RETURN ours;
	END IF;
	PERFORM shardring_internal.require_in_move(ours, document);
	target := shardring_internal.require_row(ours.ring, ours.moving_to);
	PERFORM shardring_internal.require_intact(target);
	PERFORM shardring_internal.stop_stream(s.name)
	FROM shardring_internal.streams_here(
		ours.ring, document, 'subscriber') AS s;
	ours.back_lsn := pg_current_wal_insert_lsn();
	PERFORM shardring_internal.write_history(
		ours, target.version, shardring_internal.moved_share(
			ours.ring, ours.moving_from, ours.moving_to));
	ours.active_version := target.version;
	ours.fingerprint := target.fingerprint;
	ours.closed_until := NULL;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.step_activate(shardring.ring, jsonb) IS
	'step of a move: keys are routed by the new version here';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_activate(shardring.ring, jsonb) FROM PUBLIC;

/* Without its columns a closed shard would write again. */
CREATE FUNCTION shardring_internal.step_clear(
	ours shardring.ring, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NOT shardring_internal.in_move(ours, document) THEN
		RETURN ours;
	ELSIF ours.closed_until > clock_timestamp() THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" is closed here', ours.ring),
			hint => 'Lift the hold, or activate the new version, first.');
	END IF;
	ours.moving_from := NULL;
	ours.moving_to := NULL;
	ours.closed_until := NULL;
	ours.back_lsn := NULL;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_clear(shardring.ring, jsonb) IS
	'step of a move: from here on, this ring does not move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_clear(shardring.ring, jsonb) FROM PUBLIC;

/*
 * Locks nothing, so that a later call is not kept waiting.  It must run after
 * the commit of what writers are to see.
 */
CREATE FUNCTION shardring_internal.step_settle(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	timeout interval := coalesce(
		shardring_internal.step_interval(document, 'timeout'), '1 min');
	deadline timestamptz := clock_timestamp() + timeout;
	writers record;
	stream record;
BEGIN
	IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
		PERFORM shardring_internal.fail('25001',
			'writers cannot be waited for by a transaction that has written');
	END IF;
	PERFORM shardring_internal.require_token(ring, token, document);
	SELECT w.* INTO STRICT writers
	FROM shardring_internal.wait_for_writers(
		ARRAY(SELECT g.relation FROM shardring_internal.guards(ring) AS g),
		timeout) AS w;
	SELECT t.* INTO STRICT stream
	FROM shardring_internal.sent_to_all(ring, document, deadline) AS t;
	RETURN shardring_internal.move_facts(
			shardring_internal.require_token(ring, token, document))
		|| jsonb_build_object(
			'settled', cardinality(writers.pids) = 0
				AND cardinality(writers.prepared) = 0,
			'lsn', stream.lsn, 'sent', stream.sent,
			'pids', writers.pids,
			'prepared', ARRAY(
				SELECT p.gid FROM pg_prepared_xacts AS p
				WHERE p.transaction = ANY (writers.prepared)
				ORDER BY p.gid COLLATE "C"));
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_settle(text, bigint, jsonb) IS
	'step of a move: waits for those who may write without seeing it';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_settle(text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_token(
	ring text, token bigint, document jsonb)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	PERFORM shardring_internal.refuse_token(ours, token);
	PERFORM shardring_internal.require_in_move(ours, document);
	IF token IS DISTINCT FROM ours.move_token THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has not taken this token', ours.ring));
	END IF;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_token(text, bigint, jsonb) IS
	'the row of a ring that is in this move and has taken this token';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_token(text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.wait_for_writers(
	relations oid[], timeout interval, OUT pids integer[], OUT prepared xid[])
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_wait_for_writers';
COMMENT ON FUNCTION
	shardring_internal.wait_for_writers(oid[], interval) IS
	'waits for who may write to these tables; returns who is left';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.wait_for_writers(oid[], interval) FROM PUBLIC;
