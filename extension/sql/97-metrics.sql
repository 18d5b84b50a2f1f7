
/*
 * 97-metrics.sql
 *		What a monitor reads, without asking any shard.
 *
 * What functions found that do ask them is kept where they may write.
 */

CREATE TABLE shardring.finding
(
	ring text COLLATE "C" NOT NULL,
	finding text COLLATE "C" NOT NULL,
	value double precision NOT NULL,
	found_at timestamp with time zone NOT NULL,
	CONSTRAINT finding_pkey PRIMARY KEY (ring, finding)
);
COMMENT ON TABLE shardring.finding IS
	'what functions that ask all shards found last';
COMMENT ON COLUMN shardring.finding.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.finding.finding IS
	'what was counted: the name of a metric without shardring_';
COMMENT ON COLUMN shardring.finding.value IS 'how many there were';
COMMENT ON COLUMN shardring.finding.found_at IS 'when it was counted';
GRANT SELECT ON shardring.finding TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('shardring.finding', '');

/*
 * Nothing is kept where the transaction, the server or the role may not write,
 * nor while another session keeps something of the ring: whoever only wants to
 * know does not fail for it, and does not wait.
 */
CREATE FUNCTION shardring_internal.keep_finding(
	ring text, finding text, value bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF current_setting('transaction_read_only')::boolean
		OR current_setting('transaction_isolation') <> 'read committed'
		OR NOT has_table_privilege('shardring.finding', 'INSERT')
		OR NOT has_table_privilege('shardring.finding', 'UPDATE')
		OR NOT pg_try_advisory_xact_lock(
			hashtextextended('shardring.finding ' || ring COLLATE "C", 0))
	THEN
		RETURN;
	END IF;
	INSERT INTO shardring.finding AS f (ring, finding, value, found_at)
	VALUES (ring, finding, value,
			date_trunc('milliseconds', clock_timestamp()))
	ON CONFLICT ON CONSTRAINT finding_pkey DO UPDATE
	SET value = EXCLUDED.value, found_at = EXCLUDED.found_at;
END
$body$;
COMMENT ON FUNCTION shardring_internal.keep_finding(text, text, bigint) IS
	'keeps what was found for metrics, where that can be written';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.keep_finding(text, text, bigint) FROM PUBLIC;

/* Whatever is to be watched is one more SELECT here. */
CREATE FUNCTION shardring.metrics()
RETURNS TABLE (name text, labels jsonb, value double precision, help text)
LANGUAGE sql STABLE PARALLEL SAFE COST 10000 ROWS 100
BEGIN ATOMIC
	SELECT 'shardring_' || m.name, m.labels, m.value::double precision, m.help
	FROM (
		SELECT 'active_version' AS name,
			jsonb_build_object('ring', r.ring) AS labels,
			r.active_version::numeric AS value,
			'Active version of the ring.' AS help
		FROM shardring.ring AS r
		UNION ALL
		SELECT 'activated_timestamp_seconds',
			jsonb_build_object('ring', a.ring),
			extract(epoch FROM max(a.activated_at)),
			'When a version was last activated.'
		FROM shardring.activation AS a GROUP BY a.ring
		UNION ALL
		SELECT 'sealed_versions', jsonb_build_object('ring', r.ring),
			(SELECT count(*) FROM shardring.ring_version AS v
			 WHERE v.ring = r.ring AND v.sealed_at IS NOT NULL),
			'Number of sealed versions.'
		FROM shardring.ring AS r
		UNION ALL
		SELECT 'draft_versions', jsonb_build_object('ring', r.ring),
			(SELECT count(*) FROM shardring.ring_version AS v
			 WHERE v.ring = r.ring AND v.sealed_at IS NULL),
			'Number of drafts.'
		FROM shardring.ring AS r
		UNION ALL
		SELECT 'shards', jsonb_build_object('ring', r.ring),
			(SELECT count(*) FROM shardring.live_shards(r.ring) AS l),
			'Number of live shards.'
		FROM shardring.ring AS r
		UNION ALL
		SELECT 'shards_in_sync', jsonb_build_object('ring', p.ring),
			count(*) FILTER (WHERE p.in_sync),
			'Live shards that were in sync when probe last asked them.'
		FROM shardring.shard_probe AS p
		WHERE EXISTS (SELECT FROM shardring.live_shards(p.ring) AS l
					  WHERE l.shard = p.shard)
		GROUP BY p.ring
		UNION ALL
		SELECT 'shard_failures',
			jsonb_build_object('ring', p.ring, 'shard', p.shard), p.failures,
			'Consecutive failures of the shard, as counted by probe.'
		FROM shardring.shard_probe AS p
		WHERE EXISTS (SELECT FROM shardring.live_shards(p.ring) AS l
					  WHERE l.shard = p.shard)
		UNION ALL
		SELECT 'probed_timestamp_seconds',
			jsonb_build_object('ring', p.ring, 'shard', p.shard),
			extract(epoch FROM greatest(p.succeeded_at, p.failed_at)),
			'When probe last asked the shard.'
		FROM shardring.shard_probe AS p
		WHERE EXISTS (SELECT FROM shardring.live_shards(p.ring) AS l
					  WHERE l.shard = p.shard)
		UNION ALL
		SELECT 'move_seconds', jsonb_build_object('ring', m.ring,
				'from_version', m.from_version, 'to_version', m.to_version,
				'state', m.state, 'wanted', m.wanted),
			extract(epoch FROM now() - m.state_since),
			'How long a move of rows has been in its state.'
		FROM shardring_internal.row_move AS m
		WHERE m.state NOT IN ('finished', 'cancelled')
		UNION ALL
		SELECT 'move_stuck', jsonb_build_object('ring', m.ring),
			m.stuck::integer,
			'Whether a move of rows waits for somebody; see move_status.'
		FROM shardring_internal.row_move AS m
		WHERE m.state NOT IN ('finished', 'cancelled')
		UNION ALL
		SELECT b.name, jsonb_build_object('ring', p.ring,
				'from_shard', p.from_shard, 'to_shard', p.to_shard),
			b.value, b.help
		FROM shardring_internal.row_move AS m
			JOIN shardring_internal.move_pair AS p
				ON p.ring = m.ring AND p.move = m.move
			CROSS JOIN LATERAL (VALUES
				('move_lag_bytes', p.lag_bytes,
				 'WAL that the other shard had not confirmed when run_move '
				 'last asked.'),
				('move_retained_bytes', p.retained_bytes,
				 'WAL that was kept for the other shard when run_move last '
				 'asked.')) AS b (name, value, help)
		WHERE m.state NOT IN ('finished', 'cancelled')
		UNION ALL
		SELECT f.finding, jsonb_build_object('ring', f.ring),
			f.value::numeric,
			'As last found; see ' || f.finding || '_timestamp_seconds.'
		FROM shardring.finding AS f
		UNION ALL
		SELECT f.finding || '_timestamp_seconds',
			jsonb_build_object('ring', f.ring),
			extract(epoch FROM f.found_at),
			'When ' || f.finding || ' was last found.'
		FROM shardring.finding AS f) AS m
	WHERE m.value IS NOT NULL
	ORDER BY 1, m.labels::text COLLATE "C";
END;
COMMENT ON FUNCTION shardring.metrics() IS
	'numbers for a monitor, of all rings, without asking any shard';
