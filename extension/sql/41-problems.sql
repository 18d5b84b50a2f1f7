/*
 * 41-problems.sql
 *		Everything inconsistent in our tables.
 */

CREATE TYPE shardring.problem AS
(
	ring text,
	version integer,
	problem text
);
COMMENT ON TYPE shardring.problem IS 'an inconsistency in the tables';
COMMENT ON COLUMN shardring.problem.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.problem.version IS
	'number of the version; NULL: the ring as a whole';
COMMENT ON COLUMN shardring.problem.problem IS 'what is wrong';

/*
 * Drafts are not looked at: sealing does that.  STABLE, so that all of it is
 * told from one snapshot.
 */
CREATE FUNCTION shardring.problems(ring text DEFAULT NULL)
RETURNS SETOF shardring.problem
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	one text COLLATE "C";
	known boolean := false;
BEGIN
	FOR one IN
		SELECT r.ring FROM shardring.ring AS r
		UNION SELECT v.ring FROM shardring.ring_version AS v
		UNION SELECT g.ring FROM shardring.shard_group AS g
		UNION SELECT m.ring FROM shardring.shard_map AS m
		UNION SELECT p.ring FROM shardring.shard_pin AS p
		UNION SELECT s.ring FROM shardring.shard AS s
		UNION SELECT a.ring FROM shardring.activation AS a
		UNION SELECT p.ring FROM shardring.shard_probe AS p
		UNION SELECT u.ring FROM shardring.router AS u
		UNION SELECT f.ring FROM shardring.finding AS f
		ORDER BY 1
	LOOP
		CONTINUE WHEN one <> problems.ring COLLATE "C";
		known := true;
		RETURN QUERY SELECT one, NULL::integer, p.problem
			FROM shardring_internal.ring_problems(one) AS p;
		RETURN QUERY SELECT one, NULL::integer, p.problem
			FROM shardring_internal.history_problems(one) AS p;
		RETURN QUERY SELECT one, p.version, p.problem
			FROM shardring_internal.stray_rows(one) AS p;
		RETURN QUERY SELECT one, v.version, p.problem
			FROM shardring.ring_version AS v
				JOIN shardring.ring AS r ON r.ring = v.ring
				CROSS JOIN LATERAL shardring_internal.sealed_problems(v) AS p
			WHERE v.ring = one AND v.sealed_at IS NOT NULL
			ORDER BY v.version;
	END LOOP;
	IF NOT known AND ring IS NOT NULL THEN
		PERFORM shardring_internal.refuse_ring(ring);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.problems(text) IS
	'all inconsistencies in the tables of a ring, or of all rings';

CREATE FUNCTION shardring_internal.counted(n bigint, thing text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format(CASE n WHEN 1 THEN '%s %s' ELSE '%s %ss' END, n, thing);
END;
COMMENT ON FUNCTION shardring_internal.counted(bigint, text) IS
	'a number of things, in the singular or plural';

CREATE FUNCTION shardring_internal.ring_problems(ring text)
RETURNS TABLE (problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT 'there are rows for this ring, but the ring does not exist'
	WHERE NOT EXISTS (SELECT FROM shardring.ring AS r
					  WHERE r.ring = ring_problems.ring)
	UNION ALL
	SELECT CASE
		WHEN v.version IS NULL THEN
			format('active version %s does not exist', r.active_version)
		WHEN v.sealed_at IS NULL THEN
			format('active version %s is not sealed', r.active_version)
		ELSE format('fingerprint of the active version is %s, '
					'but version %s was sealed with %s', r.fingerprint,
					v.version, v.fingerprint) END
	FROM shardring.ring AS r
		LEFT JOIN shardring.ring_version AS v
			ON v.ring = r.ring AND v.version = r.active_version
	WHERE r.ring = ring_problems.ring AND r.active_version IS NOT NULL
		AND r.fingerprint IS DISTINCT FROM v.fingerprint
	UNION ALL
	SELECT format('last_version is %s, but there is a version %s',
				  r.last_version, max(v.version))
	FROM shardring.ring AS r
		JOIN shardring.ring_version AS v ON v.ring = r.ring
	WHERE r.ring = ring_problems.ring
	GROUP BY r.last_version
	HAVING max(v.version) > r.last_version
	UNION ALL
	SELECT CASE count(*) WHEN 1
		THEN format('the only shard has number %s, not 0', min(s.number))
		ELSE format('%s shards have numbers from %s to %s, not from 0 to %s',
					count(*), min(s.number), max(s.number), count(*) - 1) END
	FROM shardring.shard AS s
	WHERE s.ring = ring_problems.ring
	HAVING min(s.number) <> 0 OR max(s.number) <> count(*) - 1;
END;
COMMENT ON FUNCTION shardring_internal.ring_problems(text) IS
	'problems of a ring that belong to no version';

CREATE FUNCTION shardring_internal.history_problems(ring text)
RETURNS TABLE (problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT format('the history ends with %s, but the active version is %s',
				  coalesce('version ' || max(a.version), 'nothing'),
				  coalesce(r.active_version::text, 'none'))
	FROM shardring.ring AS r
		LEFT JOIN shardring.activation AS a ON a.ring = r.ring
	WHERE r.ring = history_problems.ring
	GROUP BY r.active_version
	HAVING max(a.version) IS DISTINCT FROM r.active_version
	UNION ALL
	SELECT CASE WHEN h.from_version IS DISTINCT FROM h.version_before THEN
			format('version %s was activated after %s, but %s is '
				   'before it in the history', h.version,
				   coalesce('version ' || h.from_version, 'nothing'),
				   coalesce('version ' || h.version_before, 'nothing'))
		ELSE format('version %s was activated earlier than version %s',
					h.version, h.version_before) END
	FROM (SELECT a.version, a.from_version, a.activated_at,
			  lag(a.version) OVER history AS version_before,
			  lag(a.activated_at) OVER history AS activated_before
		  FROM shardring.activation AS a
		  WHERE a.ring = history_problems.ring
		  WINDOW history AS (ORDER BY a.version)) AS h
	WHERE h.from_version IS DISTINCT FROM h.version_before
		OR h.activated_at < h.activated_before;
END;
COMMENT ON FUNCTION shardring_internal.history_problems(text) IS
	'what is missing or out of order in the history of a ring';

CREATE FUNCTION shardring_internal.stray_rows(ring text)
RETURNS TABLE (version integer, problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT s.version, format(
		'%s has %s of a version that does not exist', s.relation,
		shardring_internal.counted(count(*), 'row'))
	FROM (SELECT g.version, 'shard_group' AS relation
		  FROM shardring.shard_group AS g WHERE g.ring = stray_rows.ring
		  UNION ALL
		  SELECT m.version, 'shard_map'
		  FROM shardring.shard_map AS m WHERE m.ring = stray_rows.ring
		  UNION ALL
		  SELECT p.version, 'shard_pin'
		  FROM shardring.shard_pin AS p WHERE p.ring = stray_rows.ring) AS s
	GROUP BY s.version, s.relation
	HAVING (SELECT v.version FROM shardring.ring_version AS v
			WHERE v.ring = stray_rows.ring AND v.version = s.version) IS NULL
	ORDER BY s.version, s.relation;
END;
COMMENT ON FUNCTION shardring_internal.stray_rows(text) IS
	'rows of versions that do not exist';

CREATE FUNCTION shardring_internal.sealed_problems(
	sealed shardring.ring_version)
RETURNS TABLE (problem text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text;
BEGIN
	RETURN QUERY SELECT shardring_internal.version_problems(sealed.ring,
															sealed.version);
	RETURN QUERY
		SELECT format('%s has %s, but the version was sealed with %s',
					  c.relation,
					  shardring_internal.counted(c.found, 'row'), c.wanted)
		FROM (VALUES
			('shard_group', sealed.group_rows,
			 (SELECT count(*) FROM shardring.shard_group AS g
			  WHERE g.ring = sealed.ring AND g.version = sealed.version)),
			('shard_map', sealed.map_rows,
			 (SELECT count(*) FROM shardring.shard_map AS m
			  WHERE m.ring = sealed.ring AND m.version = sealed.version)),
			('shard_pin', sealed.pin_rows,
			 (SELECT count(*) FROM shardring.shard_pin AS p
			  WHERE p.ring = sealed.ring AND p.version = sealed.version))
			) AS c (relation, wanted, found)
		WHERE c.found <> c.wanted;
	RETURN QUERY
		SELECT format('shard "%s" has no number', m.shard)
		FROM shardring.shard_map AS m
		WHERE m.ring = sealed.ring AND m.version = sealed.version
			AND (SELECT s.number FROM shardring.shard AS s
				 WHERE s.ring = m.ring AND s.shard = m.shard) IS NULL
		GROUP BY m.shard
		ORDER BY m.shard;
	print := shardring.version_fingerprint(sealed.ring, sealed.version);
	IF print IS DISTINCT FROM sealed.fingerprint THEN
		RETURN QUERY SELECT format(
			'fingerprint of the rows is %s, but the version was sealed '
			'with %s',
			print, sealed.fingerprint);
	END IF;
	print := shardring_internal.zone_fingerprint(sealed.ring, sealed.version);
	IF print IS DISTINCT FROM sealed.zone_fingerprint THEN
		RETURN QUERY SELECT format(
			'fingerprint of the zones is %s, but the version was sealed '
			'with %s',
			print, sealed.zone_fingerprint);
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.sealed_problems(shardring.ring_version) IS
	'what is wrong with a sealed version';

