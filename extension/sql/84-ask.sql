/*
 * 84-ask.sql
 *		Asking the shards what they have, and who they are.
 *
 * What comes from other servers is data: each value is checked for its form,
 * and names are cut to their length, before anything is done with it.
 */

/*
 * With ask_rows the only way to other servers.  With the caller's rights:
 * USAGE on the foreign server, and his user mapping.
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

/* A question that is alone is in no transaction. */
CREATE FUNCTION shardring_internal.ask_ending(
	servers text[], statement text, arguments text[], ending text,
	prepared_as text)
RETURNS TABLE (server text, server_version text, error text, answer text[],
	round_trip interval)
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_ask_ending';
COMMENT ON FUNCTION
	shardring_internal.ask_ending(text[], text, text[], text, text) IS
	'runs a statement on all servers at once, and ends transactions so';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.ask_ending(text[], text, text[], text, text)
	FROM PUBLIC;

/* Its transactions are read only; a server that fails has no rows. */
CREATE FUNCTION shardring_internal.ask_rows(
	servers text[], statement text, arguments text[])
RETURNS TABLE (server text, error text, rows text[])
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_ask_rows';
COMMENT ON FUNCTION shardring_internal.ask_rows(text[], text, text[]) IS
	'runs a query on all servers at once, and returns rows as JSON objects';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_rows(text[], text, text[])
	FROM PUBLIC;

/* For procedures that ask the same servers in many transactions. */
CREATE FUNCTION shardring_internal.keep_connections() RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_keep_connections';
COMMENT ON FUNCTION shardring_internal.keep_connections() IS
	'keeps connections to servers until the calling statement is over';
REVOKE EXECUTE ON FUNCTION shardring_internal.keep_connections() FROM PUBLIC;

/* For the map, which calls it by name on the shards. */
CREATE FUNCTION shardring.shard_identity(
	OUT shard text, OUT system_identifier bigint, OUT database_oid oid,
	OUT database text, OUT in_recovery boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	BEGIN
		shard := shardring_internal.this_shard();
	EXCEPTION
		WHEN object_not_in_prerequisite_state THEN
			shard := NULL;
	END;
	system_identifier := (SELECT c.system_identifier
						  FROM pg_control_system() AS c);
	database := current_database();
	database_oid := (SELECT d.oid FROM pg_database AS d
					 WHERE d.datname = current_database());
	in_recovery := pg_is_in_recovery();
END
$body$;
COMMENT ON FUNCTION shardring.shard_identity() IS
	'which shard this is, and in which database of which cluster';

CREATE TYPE shardring_internal.shard_answer AS
(
	shard text,
	number integer,
	server text,
	names text[],
	server_version text,
	error text,
	hint text,
	active_version integer,
	fingerprint text,
	versions integer[],
	guards integer,
	system_identifier bigint,
	database_oid bigint,
	database text,
	round_trip interval
);
COMMENT ON TYPE shardring_internal.shard_answer IS
	'what a shard says when it is asked';
COMMENT ON COLUMN shardring_internal.shard_answer.shard IS
	'name of the shard; NULL: a router';
COMMENT ON COLUMN shardring_internal.shard_answer.number IS
	'number of the shard';
COMMENT ON COLUMN shardring_internal.shard_answer.server IS
	'foreign server of the shard';
COMMENT ON COLUMN shardring_internal.shard_answer.names IS
	'all shards that are on this server';
COMMENT ON COLUMN shardring_internal.shard_answer.server_version IS
	'version of PostgreSQL; NULL: not reached';
COMMENT ON COLUMN shardring_internal.shard_answer.error IS
	'why the answer cannot be taken for that of the shard; NULL: it can';
COMMENT ON COLUMN shardring_internal.shard_answer.hint IS
	'command to run there when it does not say which shard it is';
COMMENT ON COLUMN shardring_internal.shard_answer.active_version IS
	'the active version; NULL: none';
COMMENT ON COLUMN shardring_internal.shard_answer.fingerprint IS
	'fingerprint of the rows of the active version, if asked for';
COMMENT ON COLUMN shardring_internal.shard_answer.versions IS
	'the sealed versions';
COMMENT ON COLUMN shardring_internal.shard_answer.guards IS
	'number of triggers that guard keys of the ring';
COMMENT ON COLUMN shardring_internal.shard_answer.system_identifier IS
	'identifier of the database cluster';
COMMENT ON COLUMN shardring_internal.shard_answer.database_oid IS
	'OID of the database';
COMMENT ON COLUMN shardring_internal.shard_answer.database IS
	'name of the database';
COMMENT ON COLUMN shardring_internal.shard_answer.round_trip IS
	'how long it took to answer';

/*
 * A database has one name, so servers that give the same database and the
 * same name are one.  Those that give the same database and another name are
 * a primary and a copy of it that was promoted.  Shards that only drafts have
 * have no number, and are on the server of their name.  A router is a row
 * without a shard; it must not say that it is one.
 */
CREATE FUNCTION shardring_internal.ask_shards(
	ring text, shards text[], routers boolean, fingerprints boolean)
RETURNS SETOF shardring_internal.shard_answer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH target AS (
			SELECT n.shard, s.number, coalesce(s.server, n.shard) AS server
			FROM (SELECT DISTINCT u.shard COLLATE "C" AS shard
				  FROM unnest(shards) AS u (shard)) AS n
				LEFT JOIN shardring.shard AS s
					ON s.ring = ask_shards.ring COLLATE "C"
						AND s.shard = n.shard
			UNION ALL SELECT NULL, NULL, r.server FROM shardring.router AS r
			WHERE routers AND r.ring = ask_shards.ring COLLATE "C"),
		place AS (
			SELECT p.server, array_remove(
				array_agg(p.shard ORDER BY p.number), NULL) AS names
			FROM (SELECT t.shard, t.number, t.server FROM target AS t
				  UNION SELECT l.shard, l.number, l.server
				  FROM shardring.live_shards(ask_shards.ring) AS l) AS p
			GROUP BY p.server),
		answer AS MATERIALIZED (
			SELECT i.*, min(i.server) OVER same AS one,
				max(i.server) OVER same AS another
			FROM shardring_internal.ask_identities(
				ARRAY(SELECT DISTINCT t.server FROM target AS t
					  ORDER BY t.server),
				ask_shards.ring, fingerprints) AS i
			WINDOW same AS (PARTITION BY i.error IS NULL, i.system_identifier,
							i.database_oid, i.shard))
		SELECT t.shard, t.number, t.server, p.names, a.server_version,
			CASE WHEN a.error IS NOT NULL THEN a.error
				WHEN a.one <> a.another THEN format(
					'same database as server "%s"%s',
					CASE a.server WHEN a.one THEN a.another ELSE a.one END,
					CASE WHEN a.shard IS NULL
						THEN ', or a copy where shardring.shard is not set'
					END)
				WHEN a.shard IS NOT NULL AND a.shard <> ALL (p.names)
				THEN format('the server is shard "%s"',
					regexp_replace(a.shard, '[[:cntrl:]]', ' ', 'g')) END,
			CASE WHEN a.error IS NULL AND a.shard IS NULL
				AND cardinality(p.names) = 1
				THEN format('ALTER DATABASE %I SET shardring.shard = %L',
							a.database, t.shard) END,
			a.active_version, a.fingerprint, a.versions, a.guards,
			a.system_identifier, a.database_oid, a.database, a.round_trip
		FROM target AS t
			JOIN place AS p ON p.server = t.server
			JOIN answer AS a ON a.server = t.server
		ORDER BY t.number, t.shard, t.server;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.ask_shards(text, text[], boolean, boolean) IS
	'asks which versions they have, and which shards they are, all at once';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.ask_shards(text, text[], boolean, boolean)
	FROM PUBLIC;

/*
 * The fingerprint is computed by the shard from its rows, so that altered
 * ones are noticed.  A name of a shard that is too long is cut, and then is
 * the name of none.
 */
CREATE FUNCTION shardring_internal.ask_identities(
	servers text[], ring text, fingerprints boolean)
RETURNS TABLE (server text, server_version text, error text, shard text,
	system_identifier bigint, database_oid bigint, database text,
	active_version integer, fingerprint text, versions integer[],
	guards integer, round_trip interval)
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
BEGIN ATOMIC
	SELECT a.server, a.server_version,
		coalesce(a.error, CASE WHEN i.system_identifier IS NULL
			OR i.database_oid IS NULL OR i.versions IS NULL
			OR i.guards IS NULL THEN 'the answer is not that of a shard' END),
		left(a.answer[1], 64), i.system_identifier, i.database_oid,
		left(regexp_replace(a.answer[4], '[[:cntrl:]]', ' ', 'g'), 63),
		CASE WHEN a.answer[5] ~ '^[1-9][0-9]{0,8}$'
			THEN a.answer[5]::integer END,
		CASE WHEN a.answer[6] ~ '^[0-9a-f]{64}$' THEN a.answer[6] END,
		i.versions, i.guards, a.round_trip
	FROM shardring_internal.ask_servers(servers, $question$
			SELECT i.shard, i.system_identifier, i.database_oid, i.database,
				r.active_version,
				CASE WHEN $2 THEN shardring.version_fingerprint(
					r.ring, r.active_version) END,
				ARRAY(SELECT v.version FROM shardring.ring_version AS v
					  WHERE v.ring OPERATOR(pg_catalog.=) $1
						  AND v.sealed_at IS NOT NULL),
				(SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger AS t
				 WHERE t.tgfoid OPERATOR(pg_catalog.=) i.guard
					 AND t.tgenabled OPERATOR(pg_catalog.<>) 'D'
					 AND pg_catalog.substr(t.tgargs, 1,
										   pg_catalog.length(i.argument))
						 OPERATOR(pg_catalog.=) i.argument)
			FROM (SELECT s.*,
					'shardring.guard()'::pg_catalog.regprocedure AS guard,
					pg_catalog.convert_to(
						$1, pg_catalog.getdatabaseencoding())
						OPERATOR(pg_catalog.||) '\x00'::pg_catalog.bytea
						AS argument
				  FROM shardring.shard_identity() AS s) AS i
				LEFT JOIN shardring.ring AS r
					ON r.ring OPERATOR(pg_catalog.=) $1
		$question$, ARRAY[ring, fingerprints::text]) AS a
		CROSS JOIN LATERAL (SELECT
			CASE WHEN a.answer[2] ~ '^-?[0-9]{1,19}$' THEN CASE
				WHEN a.answer[2]::numeric BETWEEN -9223372036854775808
					AND 9223372036854775807
				THEN a.answer[2]::bigint END END,
			CASE WHEN a.answer[3] ~ '^[0-9]{1,10}$'
				THEN a.answer[3]::bigint END,
			CASE WHEN a.answer[7]
				~ '^\{([1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*)?\}$'
				THEN a.answer[7]::integer[] END,
			CASE WHEN a.answer[8] ~ '^[0-9]{1,9}$'
				THEN a.answer[8]::integer END)
			AS i (system_identifier, database_oid, versions, guards);
END;
COMMENT ON FUNCTION
	shardring_internal.ask_identities(text[], text, boolean) IS
	'asks servers which shards they are, and which versions they have';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.ask_identities(text[], text, boolean) FROM PUBLIC;

