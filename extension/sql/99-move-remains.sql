/*
 * 99-move-remains.sql
 *		What a move may leave where its map is lost, and how to be rid of it; and
 *		where a key is while rows move.
 */

/*
 * All subscriptions before any slot: one that is still there would complain of
 * its slot for ever.
 */
CREATE FUNCTION shardring.drop_leftovers(ring text)
RETURNS TABLE (server text, kind text, name text, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
	servers text[];
	silent text;
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	m := shardring_internal.current_move(ring);
	IF m.ring IS NOT NULL THEN
		PERFORM shardring_internal.refuse_driven(m);
	END IF;
	SELECT array_agg(DISTINCT l.server COLLATE "C"),
		min((l.server || ': ' || l.error) COLLATE "C")
	INTO servers, silent
	FROM shardring.move_leftovers(ring) AS l;
	IF silent IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000',
			'a server does not say what is left there',
			detail => regexp_replace(silent COLLATE "C", '\.?$', '.'),
			hint => 'Call again when it answers.');
	END IF;
	FOR kind IN SELECT unnest('{subscription,slot,publication}'::text[]) LOOP
		RETURN QUERY
			SELECT a.server, drop_leftovers.kind, d.name, a.error
			FROM shardring_internal.ask_servers(coalesce(servers, '{}'),
					'SELECT shardring_internal.drop_left($1, $2)',
					ARRAY[ring, drop_leftovers.kind]) AS a
				LEFT JOIN LATERAL unnest(CASE WHEN a.error IS NULL
					THEN a.answer[1]::text[] END) AS d (name) ON true
			WHERE a.error IS NOT NULL OR d.name IS NOT NULL
			ORDER BY a.server COLLATE "C", d.name COLLATE "C";
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.drop_leftovers(text) IS
	'drops what move_leftovers lists, when the ring does not move';
REVOKE EXECUTE ON FUNCTION shardring.drop_leftovers(text) FROM PUBLIC;

/* Another map may drive this shard: it is asked, not the one that asks. */
CREATE FUNCTION shardring_internal.drop_left(ring text, kind text)
RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring;
	names text[] := '{}';
	name text;
BEGIN
	SELECT r.* INTO ours FROM shardring.ring AS r
	WHERE r.ring = drop_left.ring COLLATE "C";
	PERFORM shardring_internal.refuse_moving(ours);
	FOR name IN
		SELECT l.name FROM shardring_internal.stream_leftovers(ring) AS l
		WHERE l.kind = drop_left.kind COLLATE "C"
	LOOP
		IF kind = 'subscription' THEN
			PERFORM shardring_internal.unsubscribe(name);
		ELSIF kind = 'slot' THEN
			PERFORM shardring_internal.drop_slot(name);
		ELSE
			PERFORM shardring_internal.unpublish(name);
		END IF;
		names := names || name;
	END LOOP;
	RETURN names;
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_left(text, text) IS
	'drops what is left of streams in this database, and names it';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_left(text, text)
	FROM PUBLIC;

/*
 * For a shard that no map will end the move of, as one that was restored from
 * a physical copy.  Where keys are refused for good, another shard may own
 * them: then whoever calls must say that this is a copy.
 */
CREATE FUNCTION shardring.forget_move(ring text, closed boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring;
	left_here text;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'closed', closed::text);
	ours := shardring_internal.lock_ring(ring);
	SELECT min(l.kind || ' "' || l.name || '"') INTO left_here
	FROM shardring_internal.stream_leftovers(ring) AS l;
	IF ours.moving_to IS NULL THEN
		RETURN;
	ELSIF left_here IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'%s of the move of ring "%s" is still here', left_here, ring),
			hint => 'A map drives this move: use shardring.run_move there; or '
				'drop what is here by hand.');
	ELSIF ours.closed_until > clock_timestamp() AND NOT closed THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" is closed here', ring),
			detail => 'Another shard may own the keys that are refused.',
			hint => 'Use shardring.run_move on the map; or, if this is a copy '
				'of a shard, specify closed => true.');
	END IF;
	ours.moving_from := NULL;
	ours.moving_to := NULL;
	ours.closed_until := NULL;
	ours.back_lsn := NULL;
	PERFORM shardring_internal.change_ring(ours);
END
$body$;
COMMENT ON FUNCTION shardring.forget_move(text, boolean) IS
	'last resort on a copy of a shard: from here on, the ring does not move';
REVOKE EXECUTE ON FUNCTION shardring.forget_move(text, boolean) FROM PUBLIC;

/* The shard that has a key, and the one that it goes to. */
CREATE FUNCTION shardring.moving_route(
	ring text, key text, OUT shard text, OUT next_shard text, OUT state text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.current_move(ring);
BEGIN
	shard := shardring.shard_for(ring, key);
	state := m.state;
	next_shard := nullif(shardring.shard_for(ring, key, m.to_version), shard);
END
$body$;
COMMENT ON FUNCTION shardring.moving_route(text, text) IS
	'where a text key lives, and where it goes; never choose by it to write';

CREATE FUNCTION shardring.moving_route(
	ring text, key bigint, OUT shard text, OUT next_shard text, OUT state text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.current_move(ring);
BEGIN
	shard := shardring.shard_for(ring, key);
	state := m.state;
	next_shard := nullif(shardring.shard_for(ring, key, m.to_version), shard);
END
$body$;
COMMENT ON FUNCTION shardring.moving_route(text, bigint) IS
	'where an integer key lives, and where it goes; never choose by it to write';

CREATE FUNCTION shardring.moving_route(
	ring text, key uuid, OUT shard text, OUT next_shard text, OUT state text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.current_move(ring);
BEGIN
	shard := shardring.shard_for(ring, key);
	state := m.state;
	next_shard := nullif(shardring.shard_for(ring, key, m.to_version), shard);
END
$body$;
COMMENT ON FUNCTION shardring.moving_route(text, uuid) IS
	'where a uuid key lives, and where it goes; never choose by it to write';
