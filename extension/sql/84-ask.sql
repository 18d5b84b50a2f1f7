/*
 * 84-ask.sql
 *		Asking the shards, and pushing versions to them.
 */

CREATE TABLE shardring.shard_probe
(
	ring text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	failures integer NOT NULL,
	succeeded_at timestamp with time zone,
	failed_at timestamp with time zone,
	error text COLLATE "C",
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
GRANT SELECT ON shardring.shard_probe TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_probe', '');

/*
 * The only way to other servers.  With the caller's rights: USAGE on the
 * foreign server, and his user mapping.
 */
CREATE FUNCTION shardring_internal.ask_servers(
	servers text[], statement text, arguments text[])
RETURNS TABLE (server text, server_version text, error text, answer text[],
	round_trip interval)
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_ask_servers';
COMMENT ON FUNCTION shardring_internal.ask_servers(text[], text, text[]) IS
	'runs a statement on all servers at once, a transaction each';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_servers(text[], text, text[])
	FROM PUBLIC;

/*
 * The fingerprint is computed by the shard from its rows, so that altered
 * ones are noticed.
 */
CREATE FUNCTION shardring.shard_status(ring text)
RETURNS TABLE (shard text, server text, reachable boolean, error text,
	server_version text, active_version integer, fingerprint text,
	in_sync boolean, round_trip interval)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring;
BEGIN
	ours := shardring_internal.require_ring(ring);
	RETURN QUERY
		SELECT l.shard, l.server, a.server_version IS NOT NULL, a.error,
			a.server_version, a.active_version, a.fingerprint,
			a.error IS NULL
				AND a.active_version IS NOT DISTINCT FROM ours.active_version
				AND a.fingerprint IS NOT DISTINCT FROM ours.fingerprint,
			a.round_trip
		FROM shardring.live_shards(ring) AS l
			JOIN shardring_internal.ask_versions(
				ARRAY(SELECT DISTINCT s.server
					  FROM shardring.live_shards(ring) AS s
					  ORDER BY s.server),
				'SELECT r.active_version, shardring.version_fingerprint('
				'r.ring, r.active_version) FROM shardring.ring AS r '
				'WHERE r.ring OPERATOR(pg_catalog.=) $1',
				ARRAY[shard_status.ring]) AS a ON a.server = l.server
		ORDER BY l.number;
END
$body$;
COMMENT ON FUNCTION shardring.shard_status(text) IS
	'asks all shards at once which version they have active';
REVOKE EXECUTE ON FUNCTION shardring.shard_status(text) FROM PUBLIC;

/* What comes from elsewhere is not trusted to be a version. */
CREATE FUNCTION shardring_internal.ask_versions(
	servers text[], statement text, arguments text[])
RETURNS TABLE (server text, server_version text, error text,
	active_version integer, fingerprint text, round_trip interval)
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
BEGIN ATOMIC
	SELECT a.server, a.server_version, a.error,
		CASE WHEN a.answer[1] ~ '^[1-9][0-9]{0,8}$'
			THEN a.answer[1]::integer END,
		CASE WHEN a.answer[2] ~ '^[0-9a-f]{64}$' THEN a.answer[2] END,
		a.round_trip
	FROM shardring_internal.ask_servers(servers, statement, arguments) AS a;
END;
COMMENT ON FUNCTION shardring_internal.ask_versions(text[], text, text[]) IS
	'asks servers for a version and a fingerprint';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.ask_versions(text[], text, text[])
	FROM PUBLIC;

CREATE FUNCTION shardring.push_version(
	ring text, version integer, shards text[] DEFAULT NULL,
	activate boolean DEFAULT false)
RETURNS TABLE (shard text, ok boolean, error text, active_version integer,
	fingerprint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	document jsonb;
	targets shardring.shard[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'version', version::text, 'activate', activate::text);
	document := shardring.export_version(ring, version);
	targets := shardring_internal.push_targets(ring, version, shards);
	RETURN QUERY
		SELECT t.shard,
			a.error IS NULL
				AND a.fingerprint IS NOT DISTINCT FROM document
					->> 'fingerprint'
				AND (a.active_version IS NOT DISTINCT FROM
					 push_version.version OR NOT push_version.activate),
			a.error, a.active_version, a.fingerprint
		FROM unnest(targets) AS t
			JOIN shardring_internal.ask_versions(
				ARRAY(SELECT DISTINCT s.server FROM unnest(targets) AS s
					  ORDER BY s.server),
				'SELECT * FROM shardring.receive_version($1, $2)',
				ARRAY[document::text, push_version.activate::text]) AS a
				ON a.server = t.server
		ORDER BY t.number;
END
$body$;
COMMENT ON FUNCTION
	shardring.push_version(text, integer, text[], boolean) IS
	'imports a version on shards, all at once, and activates it on request';
REVOKE EXECUTE ON FUNCTION
	shardring.push_version(text, integer, text[], boolean) FROM PUBLIC;

CREATE FUNCTION shardring_internal.push_targets(
	ring text, version integer, shards text[])
RETURNS shardring.shard[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unknown text;
BEGIN
	SELECT n.shard INTO unknown FROM unnest(shards) AS n (shard)
	WHERE NOT EXISTS (SELECT FROM shardring.shard AS s
					  WHERE s.ring = push_targets.ring COLLATE "C"
						  AND s.shard = n.shard COLLATE "C")
	LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'shard "%" of ring "%" does not exist', unknown, ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN ARRAY(
		SELECT ROW(s.ring, s.shard, s.number, coalesce(s.server, s.shard))
			::shardring.shard
		FROM shardring.shard AS s
		WHERE s.ring = push_targets.ring COLLATE "C"
			AND CASE WHEN shards IS NOT NULL
				THEN s.shard = ANY (shards COLLATE "C")
			ELSE EXISTS (SELECT
						 FROM shardring.live_shards(push_targets.ring) AS l
						 WHERE l.shard = s.shard)
				OR EXISTS (SELECT FROM shardring.shard_map AS m
						   WHERE m.ring = s.ring
							   AND m.version = push_targets.version
							   AND m.shard = s.shard) END
		ORDER BY s.number);
END
$body$;
COMMENT ON FUNCTION shardring_internal.push_targets(text, integer, text[]) IS
	'the shards to push to, each with its server';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.push_targets(text, integer, text[])
	FROM PUBLIC;

/* The other end of push_version. */
CREATE FUNCTION shardring.receive_version(
	document jsonb, activate boolean,
	OUT active_version integer, OUT fingerprint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text;
	target integer;
BEGIN
	target := shardring.import_version(document);
	ring := document ->> 'ring';
	IF activate AND target IS DISTINCT FROM shardring.active_version(ring)
	THEN
		PERFORM shardring.activate(ring, target);
	END IF;
	active_version := shardring.active_version(ring);
	fingerprint := shardring.version_fingerprint(ring, target);
	IF fingerprint <> document ->> 'fingerprint' THEN
		RAISE EXCEPTION
			'version % of ring "%" was altered after it was sealed',
			target, ring
			USING ERRCODE = 'data_corrupted',
			HINT = 'Use shardring.problems to see what is wrong.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.receive_version(jsonb, boolean) IS
	'imports a pushed version, and activates it on request';
REVOKE EXECUTE ON FUNCTION shardring.receive_version(jsonb, boolean)
	FROM PUBLIC;

/*
 * A shard fails that does not answer, or not what was asked.  That it has
 * another version is no failure.
 */
CREATE FUNCTION shardring.probe(ring text)
RETURNS SETOF shardring.shard_probe
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	RETURN QUERY
		INSERT INTO shardring.shard_probe AS p
			(ring, shard, failures, succeeded_at, failed_at, error)
		SELECT probe.ring, s.shard,
			CASE WHEN s.error IS NULL THEN 0 ELSE 1 END,
			CASE WHEN s.error IS NULL THEN clock_timestamp() END,
			CASE WHEN s.error IS NOT NULL THEN clock_timestamp() END,
			s.error
		FROM shardring.shard_status(probe.ring) AS s
		ON CONFLICT ON CONSTRAINT shard_probe_pkey DO UPDATE
		SET failures = CASE WHEN EXCLUDED.error IS NULL THEN 0
				ELSE p.failures + 1 END,
			succeeded_at = coalesce(EXCLUDED.succeeded_at, p.succeeded_at),
			failed_at = coalesce(EXCLUDED.failed_at, p.failed_at),
			error = coalesce(EXCLUDED.error, p.error)
		RETURNING p.*;
END
$body$;
COMMENT ON FUNCTION shardring.probe(text) IS
	'asks all shards at once, and counts their consecutive failures';
REVOKE EXECUTE ON FUNCTION shardring.probe(text) FROM PUBLIC;

CREATE FUNCTION shardring.suspects(ring text, failures integer DEFAULT 3)
RETURNS SETOF shardring.shard_probe
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	RETURN QUERY
		SELECT p.*
		FROM shardring.shard_probe AS p
			JOIN shardring.live_shards(suspects.ring) AS l
				ON l.shard = p.shard
		WHERE p.ring = suspects.ring COLLATE "C"
			AND p.failures >= suspects.failures
		ORDER BY l.number;
END
$body$;
COMMENT ON FUNCTION shardring.suspects(text, integer) IS
	'shards with at least that many consecutive failures, as found by probe';
