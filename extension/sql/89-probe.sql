/*
 * 89-probe.sql
 *		Counting how often shards fail.
 */

CREATE TABLE shardring.shard_probe
(
	ring text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	failures integer NOT NULL,
	succeeded_at timestamp with time zone,
	failed_at timestamp with time zone,
	error text COLLATE "C",
	in_sync boolean,
	CONSTRAINT shard_probe_pkey PRIMARY KEY (ring, shard),
	CONSTRAINT shard_probe_failures_positive
		CHECK (failures >= 0)
);
COMMENT ON TABLE shardring.shard_probe IS
	'the results of probe for each shard';
COMMENT ON COLUMN shardring.shard_probe.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_probe.shard IS 'name of the shard';
COMMENT ON COLUMN shardring.shard_probe.failures IS
	'number of consecutive failures; 0 after a success';
COMMENT ON COLUMN shardring.shard_probe.succeeded_at IS
	'when it last answered; NULL: never';
COMMENT ON COLUMN shardring.shard_probe.failed_at IS
	'when it last failed; NULL: never';
COMMENT ON COLUMN shardring.shard_probe.error IS
	'why it last failed';
COMMENT ON COLUMN shardring.shard_probe.in_sync IS
	'it had the version that was active here when it was last asked';
GRANT SELECT ON shardring.shard_probe TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_probe', '');

/*
 * A shard fails that does not answer, or not what was asked, or is another
 * one.  That it has another version is not a failure.
 */
CREATE FUNCTION shardring.probe(ring text)
RETURNS TABLE (shard text, failures integer, problem text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	RETURN QUERY
		WITH answer AS MATERIALIZED (
			SELECT d.shard, d.problem, d.error, d.in_sync,
				date_trunc('milliseconds', clock_timestamp()) AS at
			FROM shardring.shard_details(ring) AS d
			WHERE d.shard IS NOT NULL),
		count AS (
			INSERT INTO shardring.shard_probe AS p
				(ring, shard, failures, succeeded_at, failed_at, error,
				 in_sync)
			SELECT probe.ring, a.shard,
				CASE WHEN a.error IS NULL THEN 0 ELSE 1 END,
				CASE WHEN a.error IS NULL THEN a.at END,
				CASE WHEN a.error IS NOT NULL THEN a.at END,
				a.error, a.in_sync
			FROM answer AS a
			ON CONFLICT ON CONSTRAINT shard_probe_pkey DO UPDATE
			SET failures = CASE WHEN EXCLUDED.error IS NULL THEN 0
					ELSE p.failures + 1 END,
				succeeded_at = coalesce(EXCLUDED.succeeded_at, p.succeeded_at),
				failed_at = coalesce(EXCLUDED.failed_at, p.failed_at),
				error = coalesce(EXCLUDED.error, p.error),
				in_sync = EXCLUDED.in_sync
			RETURNING p.shard, p.failures)
		SELECT c.shard, c.failures, a.problem
		FROM count AS c
			JOIN answer AS a ON a.shard = c.shard
			JOIN shardring.shard AS s
				ON s.ring = probe.ring COLLATE "C" AND s.shard = c.shard
		ORDER BY s.number;
END
$body$;
COMMENT ON FUNCTION shardring.probe(text) IS
	'asks all shards at once, and counts their consecutive failures';
REVOKE EXECUTE ON FUNCTION shardring.probe(text) FROM PUBLIC;

CREATE FUNCTION shardring.suspects(ring text, at_least integer DEFAULT 3)
RETURNS TABLE (shard text, failures integer, succeeded_at timestamptz(0),
	problem text)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	RETURN QUERY
		SELECT p.shard, p.failures, p.succeeded_at::timestamptz(0),
			shardring_internal.short_error(p.error, 35)
		FROM shardring.shard_probe AS p
			JOIN shardring.live_shards(suspects.ring) AS l
				ON l.shard = p.shard
		WHERE p.ring = suspects.ring COLLATE "C"
			AND p.failures >= at_least
		ORDER BY l.number;
END
$body$;
COMMENT ON FUNCTION shardring.suspects(text, integer) IS
	'shards with at least that many consecutive failures, as found by probe';
