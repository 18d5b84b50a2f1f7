/*
 * 99-move-status.sql
 *		On the map: how far a move is, and what is left of one.
 */

/* A shard that does not answer has NULLs, and the reason. */
CREATE FUNCTION shardring.move_status(ring text)
RETURNS TABLE (from_shard text, to_shard text, state text, tables text,
	lag text, wal_kept text, since interval, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move;
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	m := shardring_internal.current_move(ring);
	RETURN QUERY
		SELECT p.from_shard, p.to_shard, m.state,
			(w.subscription ->> 'tables_ready') || '/'
				|| (w.subscription ->> 'tables'),
			pg_size_pretty((w.slot ->> 'lag_bytes')::bigint),
			pg_size_pretty((w.slot ->> 'retained_bytes')::bigint),
			date_trunc('second', clock_timestamp() - m.state_since),
			coalesce(w.error, m.error)
		FROM shardring_internal.move_pair AS p
			JOIN shardring_internal.watch_streams(m, CASE
				WHEN m.state IN ('switched', 'finishing')
				THEN 'back' ELSE 'forward' END) AS w
				ON w.name IN (
					p.name, shardring_internal.back_name(p.name))
		WHERE p.ring = m.ring AND p.move = m.move
		ORDER BY p.from_shard, p.to_shard;
END
$body$;
COMMENT ON FUNCTION shardring.move_status(text) IS
	'how far the move of a ring is, one row for each pair of shards';
REVOKE EXECUTE ON FUNCTION shardring.move_status(text) FROM PUBLIC;

/* Found by name, on every server that the ring has or had. */
CREATE FUNCTION shardring.move_leftovers(ring text)
RETURNS TABLE (server text, kind text, name text, retained_bytes bigint,
	error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	RETURN QUERY
		SELECT a.server, o.kind, o.name, o.retained_bytes, a.error
		FROM shardring_internal.ask_rows(
				ARRAY(SELECT coalesce(s.server, s.shard)
					  FROM shardring.shard AS s
					  WHERE s.ring = move_leftovers.ring COLLATE "C"
					  UNION SELECT r.server FROM shardring.router AS r
					  WHERE r.ring = move_leftovers.ring COLLATE "C"),
				'SELECT l.kind, l.name, l.retained_bytes '
				'FROM shardring_internal.stream_leftovers($1) AS l',
				ARRAY[ring]) AS a
			LEFT JOIN LATERAL unnest(a.rows) AS l (line) ON true
			LEFT JOIN LATERAL jsonb_to_record(l.line::jsonb) AS o (
				kind text, name text, retained_bytes bigint) ON true
		WHERE a.error IS NOT NULL OR l.line IS NOT NULL
		ORDER BY a.server COLLATE "C", o.kind DESC, o.name COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring.move_leftovers(text) IS
	'publications, slots and subscriptions of moves that are still there';
REVOKE EXECUTE ON FUNCTION shardring.move_leftovers(text) FROM PUBLIC;

/* What is wrong in the cluster, and what a move needs besides. */
CREATE FUNCTION shardring.move_check(
	ring text, version integer DEFAULT NULL)
RETURNS TABLE (severity text, shard text, relation text, problem text,
	hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	RETURN QUERY
		SELECT p.severity, p.shard, p.relation, p.problem, p.hint
		FROM shardring.cluster_problems(ring) AS p;
	RETURN QUERY
		SELECT 'error', c.shard, NULL, c.problem,
			'/* shard ' || replace(c.shard, '*/', '..') || ' */ '
				|| c.command || ' /* and restart it */'
		FROM shardring_internal.capacity_problems(ring,
			ours.active_version, coalesce(version, (
				SELECT max(v.version) FROM shardring.ring_version AS v
				WHERE v.ring = ours.ring
					AND v.version > ours.active_version))) AS c;
	IF ours.hash <> 'md5' THEN
		RETURN QUERY SELECT 'error', NULL, NULL, format(
			'hash %s cannot be computed by a publication', ours.hash),
			format('CALL shardring.fence(%L);', ring);
	END IF;
	RETURN QUERY
		SELECT 'error', l.server, NULL, coalesce(l.error, format(
				'%s "%s" of another move is left', l.kind, l.name)),
			format('SELECT * FROM shardring.move_leftovers(%L);', ring)
		FROM shardring.move_leftovers(ring) AS l
		WHERE (shardring_internal.current_move(ring)).ring IS NULL;
END
$body$;
COMMENT ON FUNCTION shardring.move_check(text, integer) IS
	'what has to be mended before rows can be moved; changes nothing';
REVOKE EXECUTE ON FUNCTION shardring.move_check(text, integer) FROM PUBLIC;
