/*
 * 96-streams.sql
 *		On a shard: the publications, slots and subscriptions of a move.
 *
 * A stream carries the rows of one pair of shards one way.  Its publication,
 * its slot and its subscription have one name.  Every function here may be
 * repeated: it makes what is missing, and removes what is there.  No slot is
 * made by a transaction that has written something, for the slot would wait
 * for that transaction.
 */

/*
 * The rows that go from one shard to the other by these versions, in whichever
 * direction the stream flows.
 */
CREATE FUNCTION shardring_internal.publish(
	name text, ring text, from_version integer, to_version integer,
	from_shard text, to_shard text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	tables text;
BEGIN
	PERFORM shardring_internal.require_stream_name(name);
	IF EXISTS (SELECT FROM pg_publication AS p
			   WHERE p.pubname = name COLLATE "C")
	THEN
		RETURN;
	END IF;
	SELECT string_agg(format('%s WHERE (%s)', g.relation,
		shardring.move_predicate(
			ring, from_version, to_version, from_shard, to_shard,
			quote_ident(g.key_column),
			shardring_internal.key_type(g.relation::regclass, g.key_column))),
		', ' ORDER BY g.relation)
	INTO tables
	FROM shardring.guarded_tables(ring) AS g;
	IF tables IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'no table is guarded for ring "%s"', ring));
	END IF;
	EXECUTE format('CREATE PUBLICATION %I FOR TABLE %s '
				   'WITH (publish = ''insert,update,delete'')', name, tables);
END
$body$;
COMMENT ON FUNCTION shardring_internal.publish(
	text, text, integer, integer, text, text) IS
	'makes the publication of a stream, unless it is there';
REVOKE EXECUTE ON FUNCTION shardring_internal.publish(
	text, text, integer, integer, text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_stream_name(name text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF name IS NULL OR name COLLATE "C" !~
		'^shardring_[0-9a-f]{8}_[0-9_]+(back)?$'
		OR octet_length(name) > 63
	THEN
		PERFORM shardring_internal.fail('22023', format(
			'"%s" is not the name of a stream', left(name, 63)));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_stream_name(text) IS
	'raises unless a name is one that a move gives';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_stream_name(text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.key_type(relation regclass, key_column text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN a.atttypid IN ('int2'::regtype, 'int4'::regtype,
									'int8'::regtype) THEN 'bigint'
			WHEN a.atttypid = 'uuid'::regtype THEN 'uuid'
			ELSE 'text' END
	FROM pg_attribute AS a
	WHERE a.attrelid = relation AND a.attname = key_column COLLATE "C";
END;
COMMENT ON FUNCTION shardring_internal.key_type(regclass, text) IS
	'the type of a key column as move_predicate names it';
REVOKE EXECUTE ON FUNCTION shardring_internal.key_type(regclass, text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.unpublish(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM pg_publication AS p
			   WHERE p.pubname = name COLLATE "C")
	THEN
		EXECUTE format('DROP PUBLICATION %I', name);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.unpublish(text) IS
	'drops the publication of a stream, if it is there';
REVOKE EXECUTE ON FUNCTION shardring_internal.unpublish(text) FROM PUBLIC;

/*
 * A slot begins where no transaction is open any more that had written
 * something, so it waits for all of them: who they are is in the error.
 */
CREATE FUNCTION shardring_internal.make_slot(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM FROM pg_replication_slots AS s
	WHERE s.slot_name = name COLLATE "C" AND s.wal_status <> 'lost'
		AND s.database = current_database();
	IF FOUND THEN
		RETURN;
	END IF;
	PERFORM shardring_internal.drop_slot(name);
	PERFORM pg_create_logical_replication_slot(name::name, 'pgoutput');
EXCEPTION
	WHEN query_canceled OR lock_not_available THEN
		PERFORM shardring_internal.fail('55P03', format(
			'slot "%s" waits for transactions that have written', name),
			detail => format('Sessions: %s.', (
				SELECT coalesce(string_agg(a.pid::text, ', ' ORDER BY a.pid),
								'none any more')
				FROM pg_stat_activity AS a
				WHERE a.backend_xid IS NOT NULL
					AND a.pid <> pg_backend_pid())),
			hint => 'End them, or wait, and try again.');
END
$body$;
COMMENT ON FUNCTION shardring_internal.make_slot(text) IS
	'makes the slot of a stream, unless it is there and not lost';
REVOKE EXECUTE ON FUNCTION shardring_internal.make_slot(text) FROM PUBLIC;

/*
 * A subscriber that reads it right now is cut off.  Another database of this
 * server may have a slot of the same name: that one stays.
 */
CREATE FUNCTION shardring_internal.drop_slot(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	reader integer;
BEGIN
	LOOP
		SELECT s.active_pid INTO reader FROM pg_replication_slots AS s
		WHERE s.slot_name = name COLLATE "C" AND s.slot_type = 'logical'
			AND s.database = current_database();
		EXIT WHEN NOT FOUND;
		IF reader = pg_backend_pid() THEN
			PERFORM shardring_internal.fail('55006', format(
				'slot "%s" is being made by this session', name));
		ELSIF reader IS NULL THEN
			BEGIN
				PERFORM pg_drop_replication_slot(name::name);
			EXCEPTION
				WHEN object_in_use OR undefined_object THEN
					NULL;	/* somebody was quicker: look again */
			END;
		ELSE
			PERFORM pg_terminate_backend(reader, 1000);
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_slot(text) IS
	'drops a slot, if it is there, and ends who reads it';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_slot(text) FROM PUBLIC;

/*
 * Slots of table synchronization have names of their own.  They stay behind
 * when a subscription is dropped that had no slot any more.
 */
CREATE FUNCTION shardring_internal.drop_sync_slots(
	subscription oid, subscriber bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.drop_slot(s.slot_name)
	FROM pg_replication_slots AS s
	WHERE s.slot_name ~ format('^pg_%s_sync_[0-9]+_%s$', subscription,
							   subscriber);
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_sync_slots(oid, bigint) IS
	'drops the slots with which a subscription copied its tables';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_sync_slots(oid, bigint)
	FROM PUBLIC;

/*
 * The address comes from the coordinator; how this shard logs in there stands
 * in its own setting, and does not travel.
 */
CREATE FUNCTION shardring_internal.subscribe(
	name text, address text, copy_data boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_stream_name(name);
	PERFORM shardring_internal.refuse_null(
		'address', address, 'copy_data', copy_data::text);
	IF EXISTS (SELECT FROM pg_subscription AS s
			   JOIN pg_database AS d
				   ON d.oid = s.subdbid AND d.datname = current_database()
			   WHERE s.subname = name COLLATE "C")
	THEN
		RETURN;
	END IF;
	EXECUTE format(
		'CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION %I WITH ('
		'create_slot = false, slot_name = %L, copy_data = %s, enabled = %s, '
		'synchronous_commit = ''on'', disable_on_error = true)',
		name, concat_ws(' ', address,
						nullif(shardring_internal.subscriber(), '')),
		name, name, copy_data::text, copy_data::text);
END
$body$;
COMMENT ON FUNCTION shardring_internal.subscribe(text, text, boolean) IS
	'makes the subscription of a stream, unless it is there';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.subscribe(text, text, boolean) FROM PUBLIC;

CREATE FUNCTION shardring_internal.subscriber() RETURNS text
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardring_subscriber';
COMMENT ON FUNCTION shardring_internal.subscriber() IS
	'how this shard logs in to another one that it subscribes to';
REVOKE EXECUTE ON FUNCTION shardring_internal.subscriber() FROM PUBLIC;

/* The slot is not asked: its server may be down, and has its own step. */
CREATE FUNCTION shardring_internal.unsubscribe(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_subscription AS s
				   JOIN pg_database AS d
					   ON d.oid = s.subdbid AND d.datname = current_database()
				   WHERE s.subname = name COLLATE "C")
	THEN
		RETURN;
	END IF;
	EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', name);
	EXECUTE format('ALTER SUBSCRIPTION %I SET (slot_name = NONE)', name);
	EXECUTE format('DROP SUBSCRIPTION %I', name);
END
$body$;
COMMENT ON FUNCTION shardring_internal.unsubscribe(text) IS
	'drops the subscription of a stream, if it is there';
REVOKE EXECUTE ON FUNCTION shardring_internal.unsubscribe(text) FROM PUBLIC;

/*
 * What the subscriber applies from here on comes after that position.  The
 * position goes backwards if it is told to, and rows would be applied again:
 * so nothing is done where the stream flows, or has been there already.  Both
 * are one transaction, since setting the position alone flushes nothing and is
 * forgotten by a crash.
 */
CREATE FUNCTION shardring_internal.start_stream(name text, after pg_lsn)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	subscription pg_subscription;
	origin text;
BEGIN
	SELECT s.* INTO subscription
	FROM pg_subscription AS s
		JOIN pg_database AS d
			ON d.oid = s.subdbid AND d.datname = current_database()
	WHERE s.subname = name COLLATE "C";
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'subscription "%s" does not exist', name));
	END IF;
	origin := 'pg_' || subscription.oid;
	IF NOT subscription.subenabled
		AND coalesce(pg_replication_origin_progress(origin, true), '0/0')
			< after
	THEN
		PERFORM pg_replication_origin_advance(origin, after);
		EXECUTE format('ALTER SUBSCRIPTION %I ENABLE', name);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.start_stream(text, pg_lsn) IS
	'lets a subscription apply what comes after a position, once';
REVOKE EXECUTE ON FUNCTION shardring_internal.start_stream(text, pg_lsn)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.stop_stream(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM pg_subscription AS s
			   JOIN pg_database AS d
				   ON d.oid = s.subdbid AND d.datname = current_database()
			   WHERE s.subname = name COLLATE "C" AND s.subenabled)
	THEN
		EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', name);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.stop_stream(text) IS
	'disables the subscription of a stream, if it is there';
REVOKE EXECUTE ON FUNCTION shardring_internal.stop_stream(text) FROM PUBLIC;

/*
 * An error ends a subscription until it is enabled again; that the connection
 * was lost is one, too.  One that was never started is left alone.
 */
CREATE FUNCTION shardring_internal.resume_stream(name text, after pg_lsn)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	stopped oid := (
		SELECT s.oid
		FROM pg_subscription AS s
			JOIN pg_database AS d
				ON d.oid = s.subdbid AND d.datname = current_database()
		WHERE s.subname = name COLLATE "C" AND NOT s.subenabled);
BEGIN
	IF stopped IS NOT NULL AND coalesce(pg_replication_origin_progress(
		'pg_' || stopped, true), '0/0') >= after
	THEN
		EXECUTE format('ALTER SUBSCRIPTION %I ENABLE', name);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.resume_stream(text, pg_lsn) IS
	'enables a subscription that was stopped by an error';
REVOKE EXECUTE ON FUNCTION shardring_internal.resume_stream(text, pg_lsn)
	FROM PUBLIC;
