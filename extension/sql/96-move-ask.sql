/*
 * 96-move-ask.sql
 *		On the map: asking the shards of a move for a step.
 *
 * Every question says which databases are meant, so that an address that leads
 * elsewhere by now is refused there.  Nothing here writes.
 */

CREATE FUNCTION shardring_internal.ask_move(
	m shardring_internal.row_move, shards text[], step text,
	more jsonb DEFAULT '{}')
RETURNS TABLE (shard text, error text, answer jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	document jsonb := shardring_internal.move_document(m, shards) || more;
BEGIN
	RETURN QUERY
		WITH target AS (
			SELECT s.shard, coalesce(s.server, s.shard) AS server
			FROM shardring.shard AS s
			WHERE s.ring = m.ring AND s.shard = ANY (shards COLLATE "C"))
		SELECT t.shard, coalesce(a.error, CASE
				WHEN a.answer[1] IS NULL
				THEN 'the answer is not that of a shard' END),
			CASE WHEN a.error IS NULL THEN a.answer[1]::jsonb END
		FROM target AS t
			LEFT JOIN shardring_internal.ask_servers(
				ARRAY(SELECT DISTINCT o.server FROM target AS o
					  ORDER BY o.server),
				'SELECT shardring.move_step($1, $2, $3::pg_catalog.int8, '
				'$4::pg_catalog.jsonb)',
				ARRAY[m.ring, step, m.token::text, document::text]) AS a
				ON a.server = t.server
		ORDER BY t.shard;
END
$body$;
COMMENT ON FUNCTION shardring_internal.ask_move(
	shardring_internal.row_move, text[], text, jsonb) IS
	'asks shards for a step of a move, all at once';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_move(
	shardring_internal.row_move, text[], text, jsonb) FROM PUBLIC;

/* Shards that were never asked yet are not expected to be anybody. */
CREATE FUNCTION shardring_internal.move_document(
	m shardring_internal.row_move, shards text[])
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	expected jsonb;
	timelines jsonb;
BEGIN
	SELECT jsonb_object_agg(
			format('%s/%s', s.system_identifier, s.database_oid),
			jsonb_build_array(s.shard)),
		jsonb_object_agg(s.shard, s.timeline)
	INTO expected, timelines
	FROM shardring_internal.move_shard AS s
	WHERE s.ring = m.ring AND s.move = m.move
		AND s.shard = ANY (shards COLLATE "C")
		AND s.system_identifier IS NOT NULL;
	RETURN jsonb_build_object(
			'from_version', m.from_version, 'to_version', m.to_version,
			'from_fingerprint', m.from_fingerprint,
			'to_fingerprint', m.to_fingerprint)
		|| coalesce(jsonb_build_object('turned', m.options -> 'turned'), '{}')
		|| CASE WHEN expected IS NULL THEN '{}'
			ELSE jsonb_build_object('expected_shards', expected,
									'timelines', timelines) END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.move_document(
	shardring_internal.row_move, text[]) IS
	'what every step of a move says of it';
REVOKE EXECUTE ON FUNCTION shardring_internal.move_document(
	shardring_internal.row_move, text[]) FROM PUBLIC;

/* Streams forward, back, or both; NULL: none are meant. */
CREATE FUNCTION shardring_internal.streams_document(
	m shardring_internal.row_move, direction text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF direction IS NULL THEN
		RETURN '{}';
	END IF;
	RETURN jsonb_build_object('streams', (
		SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
			'name', CASE WHEN d.back THEN shardring_internal.back_name(p.name)
				ELSE p.name END,
			'from_shard', p.from_shard, 'to_shard', p.to_shard,
			'publisher', e.publisher, 'subscriber', e.subscriber,
			'address', shardring_internal.connect_string((
				SELECT coalesce(s.server, s.shard) FROM shardring.shard AS s
				WHERE s.ring = m.ring AND s.shard = e.publisher)),
			'copy', NOT d.back,
			'after', CASE WHEN d.back THEN p.back_lsn END,
			'subscription', CASE WHEN d.back THEN p.back_subscription
				ELSE p.subscription END::bigint,
			'subscriber_system', (
				SELECT s.system_identifier
				FROM shardring_internal.move_shard AS s
				WHERE s.ring = m.ring AND s.move = m.move
					AND s.shard = e.subscriber)))), '[]')
		FROM shardring_internal.move_pair AS p
			CROSS JOIN (VALUES (false), (true)) AS d (back)
			CROSS JOIN LATERAL (
				SELECT CASE WHEN d.back THEN p.to_shard ELSE p.from_shard END,
					CASE WHEN d.back THEN p.from_shard ELSE p.to_shard END)
				AS e (publisher, subscriber)
		WHERE p.ring = m.ring AND p.move = m.move
			AND direction IN ('both', CASE WHEN d.back THEN 'back'
				ELSE 'forward' END)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.streams_document(
	shardring_internal.row_move, text) IS
	'the streams of a move as every step of theirs names them';
REVOKE EXECUTE ON FUNCTION shardring_internal.streams_document(
	shardring_internal.row_move, text) FROM PUBLIC;

/* That of the way back of a way back is the first one. */
CREATE FUNCTION shardring_internal.back_name(name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE right(name, 5) WHEN '_back' THEN left(name, -5)
		ELSE name || '_back' END;
END;
COMMENT ON FUNCTION shardring_internal.back_name(text) IS
	'name of the stream between the same shards the other way';
REVOKE EXECUTE ON FUNCTION shardring_internal.back_name(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.move_shards(
	m shardring_internal.row_move, who text)
RETURNS text[]
LANGUAGE sql STABLE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(array_agg(s.shard ORDER BY s.shard), '{}')
	FROM shardring_internal.move_shard AS s
	WHERE s.ring = m.ring AND s.move = m.move
		AND CASE who WHEN 'sources' THEN s.source
			WHEN 'targets' THEN s.target ELSE true END;
END;
COMMENT ON FUNCTION shardring_internal.move_shards(
	shardring_internal.row_move, text) IS
	'shards of a move: sources, targets, or all of either version';
REVOKE EXECUTE ON FUNCTION shardring_internal.move_shards(
	shardring_internal.row_move, text) FROM PUBLIC;

/*
 * A token of a later call is greater, and one of a later timeline of the map
 * greater than all of an earlier one: an old map that lives on after a
 * failover never outbids the new one.  From the top: 19 bits of timeline, 24
 * of a counter, 20 random ones.
 */
CREATE FUNCTION shardring_internal.next_token(known bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	timeline bigint := shardring_internal.wal_timeline();
BEGIN
	IF known >> 44 > timeline THEN
		PERFORM shardring_internal.fail('55006',
			'another map has taken over',
			detail => format('This one is on timeline %s, the last step came '
				'from timeline %s.', timeline, known >> 44),
			hint => 'Use the map that was promoted last.');
	END IF;
	RETURN ((greatest(coalesce(known, 0) >> 20, timeline << 24) + 1) << 20)
		| floor(random() * 1048576)::bigint;
END
$body$;
COMMENT ON FUNCTION shardring_internal.next_token(bigint) IS
	'a token above another one';
REVOKE EXECUTE ON FUNCTION shardring_internal.next_token(bigint) FROM PUBLIC;

/*
 * That of the WAL that is written now: the control file has the one before
 * until the first checkpoint after a promotion.
 */
CREATE FUNCTION shardring_internal.wal_timeline() RETURNS integer
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))
		::bit(32)::integer;
END;
COMMENT ON FUNCTION shardring_internal.wal_timeline() IS
	'timeline of this server';
REVOKE EXECUTE ON FUNCTION shardring_internal.wal_timeline() FROM PUBLIC;

/* The greatest token that these servers have; who does not answer has none. */
CREATE FUNCTION shardring_internal.known_token(
	m shardring_internal.row_move)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT max(CASE WHEN a.answer[1] ~ '^[0-9]{1,18}$'
			THEN a.answer[1]::bigint END)
		FROM shardring_internal.ask_servers(
			ARRAY(SELECT DISTINCT coalesce(s.server, s.shard)
				  FROM shardring.shard AS s
				  WHERE s.ring = m.ring AND s.shard = ANY (
					  shardring_internal.move_shards(m, 'all'))),
			'SELECT r.move_token FROM shardring.ring AS r '
			'WHERE r.ring OPERATOR(pg_catalog.=) $1',
			ARRAY[m.ring]) AS a);
END
$body$;
COMMENT ON FUNCTION shardring_internal.known_token(
	shardring_internal.row_move) IS
	'the greatest token that the shards of a move have';
REVOKE EXECUTE ON FUNCTION shardring_internal.known_token(
	shardring_internal.row_move) FROM PUBLIC;
