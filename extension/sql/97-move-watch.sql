/*
 * 97-move-watch.sql
 *		On the map: the phases of a move that wait for its streams.
 */

/* What is kept of the answers, by whichever phase they came. */
CREATE FUNCTION shardring_internal.keep_facts(
	m shardring_internal.row_move, answers jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.move_pair AS p
	SET subscription = coalesce((answers #>> ARRAY[p.to_shard,
			'subscriptions', p.name, 'subscription'])::oid, p.subscription),
		back_subscription = coalesce((answers #>> ARRAY[p.from_shard,
			'subscriptions', shardring_internal.back_name(p.name),
			'subscription'])::oid, p.back_subscription),
		l1 = CASE WHEN m.phase = 'lease_settle' THEN
			(answers #>> ARRAY[p.from_shard, 'lsn'])::pg_lsn ELSE p.l1 END,
		l2 = CASE WHEN m.phase = 'settle' THEN
			(answers #>> ARRAY[p.from_shard, 'lsn'])::pg_lsn ELSE p.l2 END,
		lag_bytes = coalesce(
			answers #>> ARRAY[p.from_shard, 'slots', p.name, 'lag_bytes'],
			answers #>> ARRAY[p.to_shard, 'slots',
				shardring_internal.back_name(p.name), 'lag_bytes'],
			p.lag_bytes::text)::bigint,
		retained_bytes = coalesce(
			answers #>> ARRAY[p.from_shard, 'slots', p.name,
				'retained_bytes'],
			answers #>> ARRAY[p.to_shard, 'slots',
				shardring_internal.back_name(p.name), 'retained_bytes'],
			p.retained_bytes::text)::bigint,
		back_lsn = CASE WHEN m.phase = 'activate_targets' THEN
			(answers #>> ARRAY[p.to_shard, 'back_lsn'])::pg_lsn
			ELSE p.back_lsn END
	WHERE p.ring = m.ring AND p.move = m.move;
END
$body$;
COMMENT ON FUNCTION shardring_internal.keep_facts(
	shardring_internal.row_move, jsonb) IS
	'keeps what the answers of shards say of the streams';
REVOKE EXECUTE ON FUNCTION shardring_internal.keep_facts(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/* The state of both ends of every stream; an error is that of a shard. */
CREATE FUNCTION shardring_internal.watch_streams(
	m shardring_internal.row_move, direction text)
RETURNS TABLE (name text, publisher text, subscriber text, slot jsonb,
	subscription jsonb, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	document jsonb := shardring_internal.streams_document(m, direction);
BEGIN
	RETURN QUERY
		WITH answer AS MATERIALIZED (
			SELECT a.* FROM shardring_internal.ask_move(
				m, shardring_internal.move_shards(m, 'all'), 'watch',
				document) AS a)
		SELECT s.name, s.publisher, s.subscriber,
			p.answer #> ARRAY['slots', s.name],
			r.answer #> ARRAY['subscriptions', s.name],
			coalesce(p.shard || ': ' || p.error, r.shard || ': ' || r.error,
				shardring_internal.table_difference(m, direction,
					s.publisher, p.answer -> 'tables',
					s.subscriber, r.answer -> 'tables'))
		FROM jsonb_to_recordset(document -> 'streams') AS s (
				name text, publisher text, subscriber text)
			LEFT JOIN answer AS p ON p.shard = s.publisher
			LEFT JOIN answer AS r ON r.shard = s.subscriber
		ORDER BY s.name;
END
$body$;
COMMENT ON FUNCTION shardring_internal.watch_streams(
	shardring_internal.row_move, text) IS
	'asks how far the streams of a move are';
REVOKE EXECUTE ON FUNCTION shardring_internal.watch_streams(
	shardring_internal.row_move, text) FROM PUBLIC;

/*
 * On the way there the publications have the tables that were guarded when the
 * move began.  Columns may change, if they do so on both sides.
 */
CREATE FUNCTION shardring_internal.table_difference(
	m shardring_internal.row_move, direction text, publisher text,
	publisher_tables jsonb, subscriber text, subscriber_tables jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE
		WHEN publisher_tables -> 'columns'
			IS DISTINCT FROM subscriber_tables -> 'columns'
		THEN format('%s and %s: guarded tables have different columns',
					publisher, subscriber)
		WHEN direction = 'forward' AND publisher_tables -> 'guards'
			IS DISTINCT FROM m.options #> '{tables,guards}'
		THEN format('%s: guards are not as they were when the move began',
					publisher)
		WHEN publisher_tables -> 'guards'
			IS DISTINCT FROM subscriber_tables -> 'guards'
		THEN format('%s and %s: tables are not guarded alike', publisher,
					subscriber) END;
END;
COMMENT ON FUNCTION shardring_internal.table_difference(
	shardring_internal.row_move, text, text, jsonb, text, jsonb) IS
	'how the tables of both ends of a stream differ; NULL: they do not';
REVOKE EXECUTE ON FUNCTION shardring_internal.table_difference(
	shardring_internal.row_move, text, text, jsonb, text, jsonb) FROM PUBLIC;

/* Why a stream does not flow; NULL: it does. */
CREATE FUNCTION shardring_internal.stream_problem(
	publisher text, subscriber text, name text, slot jsonb,
	subscription jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE
		WHEN slot -> 'present' IS DISTINCT FROM 'true'
			OR slot -> 'lost' = 'true'
		THEN format('%s: slot "%s" is gone', publisher, name)
		WHEN subscription -> 'enabled' IS DISTINCT FROM 'true'
		THEN format('%s: subscription "%s" was stopped by an error, which '
					'the log of that server shows', subscriber, name) END;
END;
COMMENT ON FUNCTION shardring_internal.stream_problem(
	text, text, text, jsonb, jsonb) IS
	'why a stream does not flow; NULL: it does';
REVOKE EXECUTE ON FUNCTION shardring_internal.stream_problem(
	text, text, text, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.act_copy(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problem text;
	tables bigint;
	ready bigint;
	bytes bigint;
BEGIN
	SELECT min(coalesce(w.error, shardring_internal.stream_problem(
			w.publisher, w.subscriber, w.name, w.slot, w.subscription))),
		sum((w.subscription ->> 'tables')::bigint),
		sum((w.subscription ->> 'tables_ready')::bigint),
		sum((w.subscription ->> 'bytes_copied')::bigint)
	INTO problem, tables, ready, bytes
	FROM shardring_internal.watch_streams(m, 'forward') AS w;
	RETURN ROW(problem IS NULL AND ready = tables, problem, 0.2, NULL,
		format('copying: %s of %s tables are ready, %s in those that are not',
			   ready, tables, pg_size_pretty(bytes)))
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_copy(
	shardring_internal.row_move) IS
	'phase of a move: the tables are being copied';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_copy(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * Before anybody has to wait: nothing is far behind, and nobody holds a lock
 * for writing for longer than 200 ms.
 */
CREATE FUNCTION shardring_internal.act_gate(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	failure text;
	waiting text;
BEGIN
	SELECT min(coalesce(w.error, shardring_internal.stream_problem(
			w.publisher, w.subscriber, w.name, w.slot, w.subscription))),
		min(format('%s: %s behind', w.subscriber, pg_size_pretty(
				(w.slot ->> 'lag_bytes')::bigint)))
			FILTER (WHERE (w.slot ->> 'lag_bytes')::bigint >= 1048576)
	INTO failure, waiting
	FROM shardring_internal.watch_streams(m, 'forward') AS w;
	IF failure IS NULL AND waiting IS NULL THEN
		SELECT min(a.shard || ': ' || a.error),
			min(a.shard || ': ' || shardring_internal.unfinished(
				'settle', a.answer || '{"sent": true}'))
		INTO failure, waiting
		FROM shardring_internal.ask_move(
			m, shardring_internal.move_shards(m, 'sources'), 'settle',
			'{"timeout": "200 ms"}') AS a;
	END IF;
	IF waiting IS NOT NULL AND shardring_internal.time_left(m) <= '0' THEN
		failure := waiting;
	END IF;
	RETURN ROW(failure IS NULL AND waiting IS NULL, failure, 0.1, NULL,
		'waiting for the switch: ' || waiting)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_gate(
	shardring_internal.row_move) IS
	'phase of a move: nobody is in the way of a short hold';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_gate(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * While sources are held: the subscribers are those that have all that was
 * written, not a copy of one that was restored.
 */
CREATE FUNCTION shardring_internal.act_compare(
	m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problem text := (
		SELECT min(coalesce(w.error, shardring_internal.stream_problem(
				w.publisher, w.subscriber, w.name, w.slot, w.subscription),
			CASE WHEN w.subscription -> 'running' IS DISTINCT FROM 'true'
					OR w.subscription -> 'tables'
						<> w.subscription -> 'tables_ready'
					OR (w.subscription ->> 'received')::pg_lsn >= p.l1
						IS NOT TRUE
				THEN format('%s: subscription "%s" has not received '
							'everything', w.subscriber, w.name) END))
		FROM shardring_internal.watch_streams(m, 'forward') AS w
			JOIN shardring_internal.move_pair AS p
				ON p.ring = m.ring AND p.move = m.move AND p.name = w.name);
BEGIN
	IF problem IS NULL THEN
		problem := shardring_internal.hot_problem(m);
	END IF;
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_compare(
	shardring_internal.row_move) IS
	'phase of a move: both sides have the same';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_compare(
	shardring_internal.row_move) FROM PUBLIC;

CREATE FUNCTION shardring_internal.act_grace(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ROW(clock_timestamp() >= m.grace_until, NULL, 0.2, NULL,
		format('rows stay where they were until %s',
			   date_trunc('second', m.grace_until)))
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_grace(
	shardring_internal.row_move) IS
	'phase of a move: a stale write still finds a row, and is refused';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_grace(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * After it a stale write finds no row: so nobody may be stale any more.  A map
 * that is a shard itself is not asked, for it would wait for who asks.
 */
CREATE FUNCTION shardring_internal.act_drain(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problem text;
BEGIN
	PERFORM shardring.wait_for_drain(m.ring, m.to_version, '1 min');
	problem := coalesce(
		(SELECT min(a.shard || ': ' || a.error)
		 FROM shardring_internal.ask_move(
			m, ARRAY(
				SELECT s.shard
				FROM shardring_internal.move_shard AS s,
					shardring.shard_identity() AS i
				WHERE s.ring = m.ring AND s.move = m.move AND s.source
					AND (s.system_identifier, s.database_oid)
						IS DISTINCT FROM
						(i.system_identifier, i.database_oid::bigint)),
			'drain',
			jsonb_build_object('timeout', current_setting(
				'shardring.remote_timeout')::interval / 2)) AS a
		 WHERE a.error IS NOT NULL),
		(SELECT min(a.server || ': ' || a.error)
		 FROM shardring_internal.ask_servers(
			ARRAY(SELECT r.server FROM shardring.router AS r
				  WHERE r.ring = m.ring),
			'SELECT shardring.wait_for_drain($1, $2::pg_catalog.int4, '
			'$3::pg_catalog.interval)',
			ARRAY[m.ring, m.to_version::text, (current_setting(
				'shardring.remote_timeout')::interval / 2)::text]) AS a
		 WHERE a.error IS NOT NULL));
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_drain(
	shardring_internal.row_move) IS
	'phase of a move: nobody routes by the version before any more';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_drain(
	shardring_internal.row_move) FROM PUBLIC;

/* Foreign keys out of moved tables hold on the other side, too. */
CREATE FUNCTION shardring_internal.act_partners(
	m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.remote_timeout = '1 h'
AS $body$
DECLARE
	problem text := (
		SELECT min(a.shard || ': ' || coalesce(a.error, (
			SELECT format('%s rows lack what they refer to by %s', o.value,
						  o.key)
			FROM jsonb_each_text(a.answer -> 'missing') AS o
			LIMIT 1)))
		FROM shardring_internal.ask_move(
			m, shardring_internal.move_shards(m, 'targets'), 'partners')
			AS a);
BEGIN
	RETURN ROW(problem IS NULL, problem, NULL, NULL, NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_partners(
	shardring_internal.row_move) IS
	'phase of a move: all rows have the rows that they refer to';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_partners(
	shardring_internal.row_move) FROM PUBLIC;
