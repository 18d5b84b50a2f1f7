/*
 * 95-find-shards.sql
 *		Findings about whole shards: reached, named, and their versions.
 */

CREATE FUNCTION shardring_internal.reach_findings(
	ring text, answers shardring_internal.shard_answer[],
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW('error', a.shard, a.number, NULL, p.problem,
			CASE
				WHEN e.error IS NOT NULL
				THEN shardring_internal.reach_command(
					a.server, a.server_version, e.error)
				WHEN cardinality(a.names) > 1 THEN format(
					'UPDATE shardring.shard SET server = NULL '
					'WHERE ring = %L AND shard = %L;', ring, a.shard)
				ELSE a.hint || ';' END,
			CASE WHEN e.error IS NULL AND cardinality(a.names) = 1
				OR a.server_version IS NOT NULL
				AND e.error ~ 'shardring.* does not exist'
				THEN shardring_internal.place_of(a.shard, a.server) END)
			::shardring_internal.finding
		FROM unnest(answers) AS a
			LEFT JOIN unnest(facts) AS f ON f.shard = a.shard
			CROSS JOIN LATERAL (
				SELECT coalesce(a.error, f.error) AS error) AS e
			CROSS JOIN LATERAL (
				SELECT CASE WHEN a.shard IS NULL
					THEN format('router "%s": ', a.server) ELSE '' END
					|| CASE
					WHEN e.error IS NOT NULL
					THEN shardring_internal.short_error(e.error, 300)
					WHEN cardinality(a.names) > 1 AND a.shard <> a.names[1]
					THEN format('same server as shard "%s"', a.names[1])
					WHEN a.hint IS NOT NULL
					THEN 'shardring.shard is not set' END) AS p (problem)
		WHERE p.problem IS NOT NULL
		UNION ALL
		SELECT ROW('error', NULL, NULL, NULL, 'on the map: ' || p.problem,
			format('SELECT * FROM shardring.problems(%L);',
				   reach_findings.ring), NULL)
			::shardring_internal.finding
		FROM shardring.problems(ring) AS p);
END
$body$;
COMMENT ON FUNCTION shardring_internal.reach_findings(
	text, shardring_internal.shard_answer[],
	shardring_internal.shard_fact[]) IS
	'shards that do not answer, or as another, and what the map has';
REVOKE EXECUTE ON FUNCTION shardring_internal.reach_findings(
	text, shardring_internal.shard_answer[],
	shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.place_of(shard text, server text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce('shard ' || shard, 'router ' || server);
END;
COMMENT ON FUNCTION shardring_internal.place_of(text, text) IS
	'where a command is to be run';
REVOKE EXECUTE ON FUNCTION shardring_internal.place_of(text, text)
	FROM PUBLIC;

/*
 * Who cannot be reached is tried by hand, with the same address; three dots
 * stand for what only the operator knows.
 */
CREATE FUNCTION shardring_internal.reach_command(
	server text, server_version text, error text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	address text := shardring_internal.address_of(server);
BEGIN
	RETURN CASE
		WHEN address IS NULL THEN format(
			'CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
			'OPTIONS (host ''...'', dbname ''...'');', server)
		WHEN server_version IS NULL THEN format(
			'psql --dbname=%s --command=''SELECT 1''',
			shardring_internal.shell_word(address))
		WHEN error COLLATE "C" ~ '^(same database as|the server is) ' THEN format(
			'ALTER SERVER %I OPTIONS (SET host ''...'', SET dbname ''...'');',
			server)
		WHEN error COLLATE "C" ~ 'shard_facts.* does not exist'
		THEN 'ALTER EXTENSION shardring UPDATE;'
		WHEN error COLLATE "C" ~ 'shardring.* does not exist'
		THEN 'CREATE EXTENSION shardring;'
		ELSE format(
			'psql --dbname=%s --command='
			'''SELECT * FROM shardring.shard_identity()''',
			shardring_internal.shell_word(address)) END;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.reach_command(text, text, text) IS
	'what to try when a server does not answer as it should';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.reach_command(text, text, text) FROM PUBLIC;

/* What needs no quotes gets none. */
CREATE FUNCTION shardring_internal.address_of(server text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN regexp_replace(
		shardring_internal.connect_string(server) COLLATE "C",
		'=''([[:alnum:]_./:-]+)''', '=\1', 'g');
EXCEPTION
	WHEN OTHERS THEN
		RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.address_of(text) IS
	'as connect_string, easier to read; NULL: there is no such server';
REVOKE EXECUTE ON FUNCTION shardring_internal.address_of(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.shell_word(word text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '''' || replace(word, '''', '''\''''') || '''';
END;
COMMENT ON FUNCTION shardring_internal.shell_word(text) IS
	'text as one word of a shell';
REVOKE EXECUTE ON FUNCTION shardring_internal.shell_word(text) FROM PUBLIC;

/*
 * A shard that only drafts have needs no version before it has guards, but
 * guards without one refuse every row.
 */
CREATE FUNCTION shardring_internal.version_findings(
	ring text, answers shardring_internal.shard_answer[],
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	RETURN ARRAY(
		SELECT ROW('error', a.shard, a.number, NULL,
			CASE WHEN a.shard IS NULL
				THEN format('router "%s": ', a.server) ELSE '' END
				|| CASE
				WHEN a.active_version = ours.active_version
				THEN format('version %s was altered', a.active_version)
				WHEN a.active_version IS NOT NULL THEN format(
					'version %s is active, the map has %s',
					a.active_version, coalesce(ours.active_version::text,
											   'none'))
				WHEN a.guards > 0
				THEN 'guards refuse every row: no version is active'
				ELSE format('no version is active, the map has %s',
							ours.active_version) END,
			coalesce(
				/* guard_table pushes to shards that only drafts have */
				CASE WHEN a.number IS NULL AND a.active_version IS NULL THEN (
					SELECT min(shardring_internal.guard_command(
						ours.ring, t.relation, t.key_column))
					FROM shardring_internal.fact_tables(facts) AS t
					WHERE t.shard = a.shard) END,
				shardring_internal.version_command(ours, a, answers)),
			CASE WHEN a.active_version = ours.active_version
				THEN shardring_internal.place_of(a.shard, a.server) END)
			::shardring_internal.finding
		FROM unnest(answers) AS a
		WHERE a.error IS NULL
			AND (a.active_version IS DISTINCT FROM ours.active_version
				 OR a.fingerprint IS DISTINCT FROM ours.fingerprint)
			AND (a.active_version IS NOT NULL OR a.guards > 0
				 OR a.number IS NOT NULL OR a.shard IS NULL)
		UNION ALL
		SELECT d FROM unnest(
			shardring_internal.leftover_findings(ours, answers)) AS d);
END
$body$;
COMMENT ON FUNCTION shardring_internal.version_findings(
	text, shardring_internal.shard_answer[],
	shardring_internal.shard_fact[]) IS
	'versions that are behind, ahead, altered or left over';
REVOKE EXECUTE ON FUNCTION shardring_internal.version_findings(
	text, shardring_internal.shard_answer[],
	shardring_internal.shard_fact[]) FROM PUBLIC;

/*
 * What is ahead is made good by going on with the switch: on all shards, and
 * here when all shards have it.
 */
CREATE FUNCTION shardring_internal.version_command(
	ours shardring.ring, answer shardring_internal.shard_answer,
	answers shardring_internal.shard_answer[])
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	theirs integer := answer.active_version;
BEGIN
	RETURN CASE
		WHEN theirs = ours.active_version
		THEN format('SELECT shardring.drop_ring(%L);', ours.ring)
		WHEN theirs < ours.active_version OR theirs IS NULL THEN format(
			'SELECT * FROM shardring.push_version(%L, %s%s, '
			'activate => true);', ours.ring, ours.active_version,
			', ' || quote_literal(
				CASE WHEN answer.shard IS NOT NULL
					THEN ARRAY[answer.shard] END))
		WHEN NOT EXISTS (
			SELECT FROM shardring.ring_version AS v
			WHERE v.ring = ours.ring AND v.version = theirs)
		THEN format(
			'SELECT shardring.import_version(o."row" -> ''document'') '
			'FROM shardring.on_shards(%L, %L, %L) AS o;', ours.ring,
			format('SELECT shardring.export_version(%L, %s) AS document',
				   ours.ring, theirs), ARRAY[answer.shard])
		WHEN EXISTS (
			SELECT FROM unnest(answers) AS a
				JOIN shardring.live_shards(ours.ring) AS l
					ON l.shard = a.shard
			WHERE a.active_version IS DISTINCT FROM theirs)
		THEN format(
			'SELECT * FROM shardring.push_version(%L, %s, '
			'activate => true);', ours.ring, theirs)
		ELSE format('SELECT shardring.activate(%L, %s);', ours.ring, theirs)
		END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.version_command(
	shardring.ring, shardring_internal.shard_answer,
	shardring_internal.shard_answer[]) IS
	'what brings the map and a shard to the same version';
REVOKE EXECUTE ON FUNCTION shardring_internal.version_command(
	shardring.ring, shardring_internal.shard_answer,
	shardring_internal.shard_answer[]) FROM PUBLIC;

/* Old ones do no harm; the number of a newer one may be given again. */
CREATE FUNCTION shardring_internal.leftover_findings(
	ours shardring.ring, answers shardring_internal.shard_answer[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(CASE WHEN l.old THEN 'info' ELSE 'warning' END,
			l.shard, l.number, NULL,
			CASE WHEN l.shard IS NULL
				THEN format('router "%s": ', l.server) ELSE '' END
				|| format('not on the map: version %s%s',
						  array_to_string(l.versions[:4], ', '),
						  CASE WHEN cardinality(l.versions) > 4
						  THEN ' ...' END),
			CASE WHEN l.old THEN format(
				'SELECT * FROM shardring.prune_on_shards(%L, %s);',
				ours.ring, (SELECT count(*) FROM shardring.ring_version AS v
							WHERE v.ring = ours.ring))
			ELSE (SELECT string_agg(format(
					'SELECT shardring.drop_version(%L, %s);', ours.ring,
					u.version), ' ' ORDER BY u.version)
				  FROM unnest(l.versions) AS u (version)) END,
			CASE WHEN NOT l.old
				THEN shardring_internal.place_of(l.shard, l.server) END)
			::shardring_internal.finding
		FROM (SELECT a.shard, a.number, a.server,
				u.version < ours.active_version AS old,
				array_agg(u.version ORDER BY u.version) AS versions
			  FROM unnest(answers) AS a
				  CROSS JOIN LATERAL unnest(a.versions) AS u (version)
			  WHERE a.error IS NULL
				  AND u.version IS DISTINCT FROM a.active_version
				  AND NOT EXISTS (
					  SELECT FROM shardring.ring_version AS v
					  WHERE v.ring = ours.ring AND v.version = u.version)
			  GROUP BY a.shard, a.number, a.server, 4) AS l);
END
$body$;
COMMENT ON FUNCTION shardring_internal.leftover_findings(
	shardring.ring, shardring_internal.shard_answer[]) IS
	'sealed versions that the map does not have';
REVOKE EXECUTE ON FUNCTION shardring_internal.leftover_findings(
	shardring.ring, shardring_internal.shard_answer[]) FROM PUBLIC;

/* The active version was compared before. */
CREATE FUNCTION shardring_internal.other_findings(
	ring text, facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW('error', f.shard, f.number, NULL,
			format('version %s differs from that of the map', v.version),
			format('SELECT shardring.drop_version(%L, %s);',
				   other_findings.ring, v.version),
			shardring_internal.place_of(f.shard, f.server))
			::shardring_internal.finding
		FROM unnest(facts) AS f
			CROSS JOIN LATERAL jsonb_to_recordset(f.facts -> 'versions')
				AS v (version integer, fingerprint text)
			JOIN shardring.ring_version AS o
				ON o.ring = other_findings.ring COLLATE "C"
					AND o.version = v.version
		WHERE f.facts ->> 'active_version' IS DISTINCT FROM v.version::text
			AND o.fingerprint IS DISTINCT FROM v.fingerprint COLLATE "C");
END
$body$;
COMMENT ON FUNCTION shardring_internal.other_findings(
	text, shardring_internal.shard_fact[]) IS
	'versions that have the number of one of the map and are others';
REVOKE EXECUTE ON FUNCTION shardring_internal.other_findings(
	text, shardring_internal.shard_fact[]) FROM PUBLIC;
