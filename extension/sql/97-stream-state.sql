/*
 * 97-stream-state.sql
 *		On a shard: how far the streams of a move are, and what is left of them.
 */

/*
 * Sizes in bytes: "lag" is what the subscriber has not confirmed, "retained"
 * the WAL that is kept for it.
 */
CREATE FUNCTION shardring_internal.slot_state(
	name text, OUT present boolean, OUT lost boolean, OUT active boolean,
	OUT confirmed pg_lsn, OUT lag_bytes bigint, OUT retained_bytes bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	SELECT true, s.wal_status = 'lost', s.active, s.confirmed_flush_lsn,
		(pg_current_wal_insert_lsn() - s.confirmed_flush_lsn)::bigint,
		(pg_current_wal_insert_lsn() - s.restart_lsn)::bigint
	INTO present, lost, active, confirmed, lag_bytes, retained_bytes
	FROM pg_replication_slots AS s
	WHERE s.slot_name = name COLLATE "C" AND s.database = current_database();
	present := FOUND;
END
$body$;
COMMENT ON FUNCTION shardring_internal.slot_state(text) IS
	'how far the subscriber of a slot is';
REVOKE EXECUTE ON FUNCTION shardring_internal.slot_state(text) FROM PUBLIC;

/*
 * "errors" counts since the statistics were reset; "bytes_copied" is what the
 * copies have read that are running now.
 */
CREATE FUNCTION shardring_internal.subscription_state(
	name text, OUT subscription oid, OUT enabled boolean, OUT running boolean,
	OUT received pg_lsn, OUT tables integer, OUT tables_ready integer,
	OUT bytes_copied bigint, OUT errors bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	SELECT s.oid, s.subenabled INTO subscription, enabled
	FROM pg_subscription AS s
		JOIN pg_database AS d
			ON d.oid = s.subdbid AND d.datname = current_database()
	WHERE s.subname = name COLLATE "C";
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT count(*), count(*) FILTER (WHERE r.srsubstate = 'r')
	INTO tables, tables_ready
	FROM pg_subscription_rel AS r
	WHERE r.srsubid = subscription;
	SELECT count(*) > 0, max(w.received_lsn) INTO running, received
	FROM pg_stat_subscription AS w
	WHERE w.subid = subscription AND w.relid IS NULL AND w.pid IS NOT NULL;
	bytes_copied := (SELECT coalesce(sum(c.bytes_processed), 0)::bigint
					 FROM pg_stat_subscription AS w
						 JOIN pg_stat_progress_copy AS c ON c.pid = w.pid
					 WHERE w.subid = subscription);
	errors := (SELECT e.apply_error_count + e.sync_error_count
			   FROM pg_stat_subscription_stats AS e
			   WHERE e.subid = subscription);
END
$body$;
COMMENT ON FUNCTION shardring_internal.subscription_state(text) IS
	'how far a subscription is; NULLs when there is none';
REVOKE EXECUTE ON FUNCTION shardring_internal.subscription_state(text)
	FROM PUBLIC;

/*
 * The name of a stream tells the ring, so that what is left of a move is found
 * without anything that was written down: eight digits of the MD5 of the
 * ring's name, which other rings may share.
 */
CREATE FUNCTION shardring_internal.stream_prefix(ring text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'shardring_' || lpad(
		to_hex(shardring.key_position(ring, 'md5')), 8, '0') || '_';
END;
COMMENT ON FUNCTION shardring_internal.stream_prefix(text) IS
	'what the names of all streams of a ring begin with';
REVOKE EXECUTE ON FUNCTION shardring_internal.stream_prefix(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.stream_leftovers(ring text)
RETURNS TABLE (kind text, name text, retained_bytes bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	prefix text := shardring_internal.stream_prefix(ring);
BEGIN
	RETURN QUERY
		SELECT 'subscription', s.subname::text, NULL::bigint
		FROM pg_subscription AS s
			JOIN pg_database AS d
				ON d.oid = s.subdbid AND d.datname = current_database()
		WHERE starts_with(s.subname, prefix)
		UNION ALL
		SELECT 'slot', s.slot_name::text,
			(pg_current_wal_insert_lsn() - s.restart_lsn)::bigint
		FROM pg_replication_slots AS s
		WHERE starts_with(s.slot_name, prefix)
			AND s.database = current_database()
		UNION ALL
		SELECT 'publication', p.pubname::text, NULL
		FROM pg_publication AS p
		WHERE starts_with(p.pubname, prefix)
		ORDER BY 1 DESC, 2;
END
$body$;
COMMENT ON FUNCTION shardring_internal.stream_leftovers(text) IS
	'the objects of streams of a ring that are in this database';
REVOKE EXECUTE ON FUNCTION shardring_internal.stream_leftovers(text)
	FROM PUBLIC;
