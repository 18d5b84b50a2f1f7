/*
 * 95-find-servers.sql
 *		Findings about the servers of shards: encoding, collations, software.
 */

/* Text has to mean the same, and to be in the same order, on all shards. */
CREATE FUNCTION shardring_internal.server_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(v.severity, v.shard, v.number, NULL,
			format('%s is %s, elsewhere %s', v.what,
				   coalesce(v.value, 'unknown'), coalesce(v.most, 'unknown')),
			v.command, shardring_internal.place_of(v.shard, NULL))
			::shardring_internal.finding
		FROM shardring_internal.server_values(facts) AS v
		WHERE v.value IS DISTINCT FROM v.most
		UNION ALL
		SELECT ROW('error', f.shard, f.number, NULL,
			'the server is a standby', format(
				'ALTER SERVER %I OPTIONS (SET host ''...'');', f.server), NULL)
			::shardring_internal.finding
		FROM unnest(facts) AS f
		WHERE (f.facts ->> 'in_recovery')::boolean
		UNION ALL
		SELECT d FROM unnest(
			shardring_internal.collation_findings(facts)) AS d);
END
$body$;
COMMENT ON FUNCTION shardring_internal.server_findings(
	shardring_internal.shard_fact[]) IS
	'servers that are not like most of them';
REVOKE EXECUTE ON FUNCTION shardring_internal.server_findings(
	shardring_internal.shard_fact[]) FROM PUBLIC;

/* What is no text, as of a shard that made it up, is what it is. */
CREATE FUNCTION shardring_internal.server_values(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (severity text, shard text, number integer, what text,
	value text, most text, command text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT v.severity, v.shard, v.number, v.what, v.value,
			first_value(v.value) OVER (
				PARTITION BY v.what ORDER BY v.votes DESC, v.first),
			v.command
		FROM (SELECT w.severity, f.shard, f.number, w.what, w.value, w.command,
				count(*) OVER same AS votes, min(f.number) OVER same AS first
			  FROM unnest(facts) AS f
				  CROSS JOIN LATERAL (VALUES
					('error', 'encoding', f.facts ->> 'encoding', NULL),
					('warning', 'version of the extension',
					 f.facts ->> 'extension_version',
					 'ALTER EXTENSION shardring UPDATE;'))
					AS w (severity, what, value, command)
			  WINDOW same AS (PARTITION BY w.what, w.value)) AS v;
END
$body$;
COMMENT ON FUNCTION shardring_internal.server_values(
	shardring_internal.shard_fact[]) IS
	'what all servers should have the same, and what most have';
REVOKE EXECUTE ON FUNCTION shardring_internal.server_values(
	shardring_internal.shard_fact[]) FROM PUBLIC;

/*
 * A version that is recorded, and is not that of the library any more, means
 * that indexes may be out of order.
 */
CREATE FUNCTION shardring_internal.collation_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW('warning', c.shard, c.number, NULL, p.problem, p.command,
			CASE WHEN p.command IS NOT NULL
				THEN shardring_internal.place_of(c.shard, NULL) END)
			::shardring_internal.finding
		FROM (SELECT v.*, first_value(v.value) OVER (
				PARTITION BY v.name ORDER BY v.votes DESC, v.first) AS most
			  FROM (SELECT k.*, count(*) OVER same AS votes,
						min(k.number) OVER same AS first
					FROM shardring_internal.fact_collations(facts) AS k
					WINDOW same AS (PARTITION BY k.name, k.value)) AS v) AS c
			CROSS JOIN LATERAL (
				SELECT format('%s is of version %s, the library of %s',
							  c.name, c.version, c.actual), c.command
				WHERE c.version <> c.actual
				UNION ALL
				SELECT format('%s is %s, elsewhere %s', c.name, c.value,
							  c.most), NULL
				WHERE c.value <> c.most) AS p (problem, command));
END
$body$;
COMMENT ON FUNCTION shardring_internal.collation_findings(
	shardring_internal.shard_fact[]) IS
	'collations that differ, or are of an older version than the library';
REVOKE EXECUTE ON FUNCTION shardring_internal.collation_findings(
	shardring_internal.shard_fact[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.fact_collations(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (shard text, number integer, name text, value text,
	version text, actual text, command text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT f.shard, f.number, coalesce('collation ' || n.name,
										   'default collation'),
			concat_ws(' version ', c.locale, c.actual), c.version, c.actual,
			format('REINDEX DATABASE %I; ', f.facts ->> 'database')
				|| coalesce(
					format('ALTER COLLATION %s REFRESH VERSION;', n.name),
					format('ALTER DATABASE %I REFRESH COLLATION VERSION;',
						   f.facts ->> 'database'))
		FROM unnest(facts) AS f
			CROSS JOIN LATERAL jsonb_to_recordset(f.facts -> 'collations')
				AS c (schema text, name text, locale text, version text,
					  actual text)
			CROSS JOIN LATERAL (SELECT CASE WHEN c.schema IS NOT NULL
				THEN format('%I.%I', c.schema, c.name) END) AS n (name);
END
$body$;
COMMENT ON FUNCTION shardring_internal.fact_collations(
	shardring_internal.shard_fact[]) IS
	'the collations of shards, with what refreshes their versions';
REVOKE EXECUTE ON FUNCTION shardring_internal.fact_collations(
	shardring_internal.shard_fact[]) FROM PUBLIC;
