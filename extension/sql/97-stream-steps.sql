/*
 * 97-stream-steps.sql
 *		On a shard: the steps of a move that make and remove its streams.
 *
 * The document lists all streams of the move; each shard takes part in those
 * of which it is publisher or subscriber.
 */

CREATE FUNCTION shardring_internal.streams_here(
	ring text, document jsonb, side text)
RETURNS TABLE (name text, from_shard text, to_shard text, address text,
	copy boolean, after pg_lsn, subscription oid, subscriber_system bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	here text;
	foreign_name text;
BEGIN
	IF NOT document ? 'streams' THEN
		RETURN;
	END IF;
	here := shardring_internal.this_shard();
	SELECT s.name INTO foreign_name
	FROM jsonb_to_recordset(document -> 'streams') AS s (name text)
	WHERE NOT starts_with(s.name, shardring_internal.stream_prefix(ring))
		OR s.name IS NULL OR octet_length(s.name) > 63
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('22023', format(
			'a stream of ring "%s" cannot have the name "%s"', ring,
			left(foreign_name, 63)));
	END IF;
	RETURN QUERY
		SELECT s.name, s.from_shard, s.to_shard, s.address,
			coalesce(s.copy, false), s.after, s.subscription,
			s.subscriber_system
		FROM jsonb_to_recordset(document -> 'streams') AS s (
			name text, publisher text, subscriber text, from_shard text,
			to_shard text, address text, copy boolean, after pg_lsn,
			subscription oid, subscriber_system bigint)
		WHERE CASE side WHEN 'publisher' THEN s.publisher
			ELSE s.subscriber END = here COLLATE "C"
		ORDER BY s.name;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.streams_here(text, jsonb, text) IS
	'the streams that this shard publishes or subscribes to';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.streams_here(text, jsonb, text) FROM PUBLIC;

/* Those that need the lock of the ring, and are in the move. */
CREATE FUNCTION shardring_internal.step_make_streams(
	ours shardring.ring, step text, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_in_move(ours, document);
	IF step = 'publish' THEN
		PERFORM shardring_internal.publish(
			s.name, ours.ring, ours.moving_from, ours.moving_to,
			s.from_shard, s.to_shard)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'publisher') AS s;
	ELSIF step = 'subscribe' THEN
		PERFORM shardring_internal.subscribe(s.name, s.address, s.copy)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'subscriber') AS s;
	ELSIF step = 'start' THEN
		PERFORM shardring_internal.start_stream(s.name, s.after)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'subscriber') AS s;
	ELSE
		PERFORM shardring_internal.resume_stream(
			s.name, CASE WHEN s.copy THEN '0/0' ELSE s.after END)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'subscriber') AS s
		WHERE NOT s.copy OR ours.active_version = ours.moving_from;
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_make_streams(
	shardring.ring, text, jsonb) IS
	'steps of a move: publish, subscribe, start, resume';
REVOKE EXECUTE ON FUNCTION shardring_internal.step_make_streams(
	shardring.ring, text, jsonb) FROM PUBLIC;

/* A slot that nobody reads any more retains WAL: dropped, not disabled. */
CREATE FUNCTION shardring_internal.step_drop_streams(
	ours shardring.ring, step text, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF step = 'unsubscribe' THEN
		PERFORM shardring_internal.unsubscribe(s.name)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'subscriber') AS s;
	ELSIF step = 'unslot' THEN
		PERFORM shardring_internal.drop_slot(s.name),
			shardring_internal.drop_sync_slots(
				s.subscription, s.subscriber_system)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'publisher') AS s;
	ELSE
		PERFORM shardring_internal.unpublish(s.name)
		FROM shardring_internal.streams_here(
			ours.ring, document, 'publisher') AS s;
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_drop_streams(
	shardring.ring, text, jsonb) IS
	'steps of a move: unsubscribe, unslot, unpublish';
REVOKE EXECUTE ON FUNCTION shardring_internal.step_drop_streams(
	shardring.ring, text, jsonb) FROM PUBLIC;

/* The token is read and not taken: a slot waits for who has written. */
CREATE FUNCTION shardring_internal.step_slot(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_token(ring, token, document);
	PERFORM shardring_internal.make_slot(s.name)
	FROM shardring_internal.streams_here(ring, document, 'publisher') AS s;
	RETURN shardring_internal.move_facts(
		shardring_internal.require_token(ring, token, document));
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_slot(text, bigint, jsonb) IS
	'step of a move: makes the slots of the streams that begin here';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_slot(text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.step_watch(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	PERFORM shardring_internal.refuse_token(ours, token);
	RETURN shardring_internal.move_facts(ours) || jsonb_build_object(
		'tables', shardring_internal.tables_digests(ring),
		'slots', (
			SELECT coalesce(jsonb_object_agg(s.name, to_jsonb(p)), '{}')
			FROM shardring_internal.streams_here(
					ring, document, 'publisher') AS s,
				shardring_internal.slot_state(s.name) AS p),
		'subscriptions', (
			SELECT coalesce(jsonb_object_agg(s.name, to_jsonb(p)), '{}')
			FROM shardring_internal.streams_here(
					ring, document, 'subscriber') AS s,
				shardring_internal.subscription_state(s.name) AS p));
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_watch(text, bigint, jsonb) IS
	'step of a move: how far the streams are; changes nothing';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_watch(text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.step_drain(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_token(
		ring, token, document);
BEGIN
	PERFORM shardring.wait_for_drain(
		ring, ours.moving_to,
		shardring_internal.step_interval(document, 'timeout'));
	RETURN shardring_internal.move_facts(ours);
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_drain(text, bigint, jsonb) IS
	'step of a move: waits until nobody uses the version before';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_drain(text, bigint, jsonb) FROM PUBLIC;

/*
 * Everything that was written before is sent, and confirmed by all readers of
 * our slots and by the standbys that stream: false when that takes longer.
 * What streams and replays nothing is no standby: pg_receivewal, for one.
 */
CREATE FUNCTION shardring_internal.sent_to_all(
	ring text, document jsonb, deadline timestamptz, OUT lsn pg_lsn,
	OUT sent boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	names text[] := ARRAY(
		SELECT s.name FROM shardring_internal.streams_here(
			ring, document, 'publisher') AS s);
BEGIN
	lsn := shardring_internal.flush_wal();
	LOOP
		sent := NOT EXISTS (
			SELECT FROM unnest(names) AS n (name)
				LEFT JOIN pg_replication_slots AS s ON s.slot_name = n.name
			WHERE s.confirmed_flush_lsn >= lsn IS NOT TRUE
				OR s.wal_status = 'lost')
			AND NOT EXISTS (
				SELECT FROM pg_stat_replication AS r
				WHERE document -> 'standbys' = 'true'
					AND r.state = 'streaming' AND r.replay_lsn IS NOT NULL
					AND r.flush_lsn >= lsn IS NOT TRUE
					AND NOT EXISTS (
						SELECT FROM pg_replication_slots AS s
						WHERE s.active_pid = r.pid
							AND s.slot_type = 'logical'));
		EXIT WHEN sent OR coalesce(clock_timestamp() >= deadline, true);
		PERFORM pg_sleep(0.001);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.sent_to_all(text, jsonb, timestamptz) IS
	'waits until all that was written is where it goes';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.sent_to_all(text, jsonb, timestamptz) FROM PUBLIC;

CREATE FUNCTION shardring_internal.flush_wal() RETURNS pg_lsn
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_flush_wal';
COMMENT ON FUNCTION shardring_internal.flush_wal() IS
	'flushes all WAL there is, and returns where that ends';
REVOKE EXECUTE ON FUNCTION shardring_internal.flush_wal() FROM PUBLIC;
