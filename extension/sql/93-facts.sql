/*
 * 93-facts.sql
 *		On a shard: all that is known about it, in one answer.
 *
 * Rules of the parts about facts:
 *	- names and numbers travel as the catalogs have them; whoever makes a
 *	  command of them quotes them;
 *	- a definition reads the same on every major version: NOT NULL, which is
 *	  a constraint from 18 on, is told with its column, and settings that
 *	  change how constants are written are fixed;
 *	- only catalogs are read, and no lock is taken on a table of others.
 */

/* Leaves room below the 1 MB that an answer may have. */
CREATE FUNCTION shardring.shard_facts(ring text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 100000
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
SET datestyle = ISO
SET timezone = UTC
SET intervalstyle = postgres
SET extra_float_digits = 1
SET bytea_output = hex
AS $body$
DECLARE
	most integer := 900000;
	facts jsonb;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	facts := shardring_internal.server_facts()
		|| shardring_internal.replication_facts()
		|| shardring_internal.version_facts(ring)
		|| jsonb_build_object(
			'tables', shardring_internal.table_facts(ring),
			'collations', shardring_internal.collation_facts(ring))
		|| shardring_internal.relation_facts();
	IF octet_length(convert_to(facts::text, 'UTF8')) > most THEN
		/* the digests stay */
		facts := jsonb_set(facts, '{tables}', (
			SELECT jsonb_agg(t.value - 'objects')
			FROM jsonb_array_elements(facts -> 'tables') AS t));
	END IF;
	IF octet_length(convert_to(facts::text, 'UTF8')) > most THEN
		PERFORM shardring_internal.fail('54000',
			'there are too many guarded tables for one answer');
	END IF;
	RETURN facts;
END
$body$;
COMMENT ON FUNCTION shardring.shard_facts(text) IS
	'versions, guards, tables and settings of this shard';

/* A primary that was promoted has written no checkpoint of its own yet. */
CREATE FUNCTION shardring_internal.server_facts() RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'shard', i.shard,
		'system_identifier', i.system_identifier::text,
		'database_oid', i.database_oid,
		'database', i.database,
		'in_recovery', i.in_recovery,
		'timeline', CASE WHEN i.in_recovery
			THEN (SELECT c.timeline_id FROM pg_control_checkpoint() AS c)
			ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))
				::bit(32)::integer END,
		'server_version', current_setting('server_version_num')::integer,
		'extension_version', (SELECT e.extversion FROM pg_extension AS e
							  WHERE e.extname = 'shardring'),
		'encoding', getdatabaseencoding())
	FROM shardring.shard_identity() AS i;
END;
COMMENT ON FUNCTION shardring_internal.server_facts() IS
	'which database this is, and of which software';

/* A connection of the map's own role is not among the senders. */
CREATE FUNCTION shardring_internal.replication_facts() RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'settings', (
			SELECT jsonb_object_agg(s.name, s.setting)
			FROM pg_settings AS s
			WHERE s.name IN ('wal_level', 'max_replication_slots',
				'max_wal_senders', 'max_logical_replication_workers',
				'max_sync_workers_per_subscription', 'max_worker_processes',
				'max_active_replication_origins')),
		'slots_used', (SELECT count(*) FROM pg_replication_slots),
		'senders_used', (SELECT count(*) FROM pg_stat_replication),
		'workers_used', (
			SELECT count(*) FROM pg_subscription AS u WHERE u.subenabled),
		'prepared', (
			SELECT coalesce(jsonb_agg(p.gid), '[]')
			FROM (SELECT x.gid FROM pg_prepared_xacts AS x
				  WHERE x.database = current_database()
					  AND x.prepared < now() - interval '1 min'
				  ORDER BY x.prepared LIMIT 10) AS p),
		'replica_roles', (
			SELECT coalesce(jsonb_agg(jsonb_build_object(
				'role', r.rolname, 'database', d.datname)), '[]')
			FROM pg_db_role_setting AS s
				CROSS JOIN unnest(s.setconfig) AS c (setting)
				LEFT JOIN pg_roles AS r ON r.oid = s.setrole
				LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
			WHERE c.setting ~* '^session_replication_role=replica$'
				AND (s.setdatabase = 0
					 OR d.datname = current_database())));
END;
COMMENT ON FUNCTION shardring_internal.replication_facts() IS
	'what matters to logical replication, and what goes past guards';

/*
 * Old versions are told with the fingerprint that they were sealed with: no
 * key is routed by them.
 */
CREATE FUNCTION shardring_internal.version_facts(ring text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT jsonb_build_object(
			'active_version', (SELECT r.active_version FROM shardring.ring AS r
							   WHERE r.ring = version_facts.ring COLLATE "C"),
			'versions', (
				SELECT coalesce(jsonb_agg(jsonb_build_object(
					'version', v.version,
					'fingerprint', CASE
						WHEN v.version < r.active_version THEN v.fingerprint
						ELSE shardring_internal.fingerprint_now(
							v.ring, v.version) END) ORDER BY v.version), '[]')
				FROM shardring.ring_version AS v
					LEFT JOIN shardring.ring AS r ON r.ring = v.ring
				WHERE v.ring = version_facts.ring COLLATE "C"
					AND v.sealed_at IS NOT NULL)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.version_facts(text) IS
	'the active version, and all sealed ones with their fingerprints';

CREATE FUNCTION shardring_internal.fingerprint_now(
	ring text, version integer)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN shardring.version_fingerprint(ring, version);
EXCEPTION
	WHEN object_not_in_prerequisite_state OR data_corrupted
		OR undefined_object
	THEN
		RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.fingerprint_now(text, integer) IS
	'the fingerprint of the rows of a version; NULL: they make no version';

/*
 * So that it can be seen which tables are missing where.  Only the first
 * thousand names, since there may be partitions without end.
 */
CREATE FUNCTION shardring_internal.relation_facts() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'relations', coalesce(jsonb_agg(r.name) FILTER (WHERE r.i <= 1000),
							  '[]'),
		'all_relations', count(*) <= 1000)
	FROM (SELECT format('%I.%I', n.nspname, c.relname) COLLATE "C" AS name,
			row_number() OVER (
				ORDER BY n.nspname, c.relname) AS i
		  FROM pg_class AS c
			  JOIN pg_namespace AS n ON n.oid = c.relnamespace
		  WHERE c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'
			  AND NOT c.relispartition
			  AND n.nspname NOT IN ('pg_catalog', 'information_schema',
									'shardring')
		  ORDER BY n.nspname, c.relname
		  LIMIT 1001) AS r;
END;
COMMENT ON FUNCTION shardring_internal.relation_facts() IS
	'names of the tables that there are';

/*
 * The collation of the database and those that guarded tables name; C and
 * POSIX have no versions.
 */
CREATE FUNCTION shardring_internal.collation_facts(ring text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT coalesce(jsonb_agg(to_jsonb(c) ORDER BY c.schema, c.name), '[]')
		FROM (SELECT NULL::name AS schema, d.datname AS name,
				concat_ws(' ', d.datlocprovider, d.datcollate, d.datctype,
						  coalesce(to_jsonb(d) ->> 'datlocale',
								   to_jsonb(d) ->> 'daticulocale')) AS locale,
				d.datcollversion AS version,
				pg_database_collation_actual_version(d.oid) AS actual
			  FROM pg_database AS d
			  WHERE d.datname = current_database()
			  UNION
			  SELECT n.nspname, c.collname,
				concat_ws(' ', c.collprovider, c.collcollate, c.collctype,
						  coalesce(to_jsonb(c) ->> 'colllocale',
								   to_jsonb(c) ->> 'colliculocale')),
				c.collversion, pg_collation_actual_version(c.oid)
			  FROM shardring_internal.ring_tables(collation_facts.ring) AS t
				  JOIN pg_attribute AS a ON a.attrelid = t.oid
				  JOIN pg_collation AS c ON c.oid = a.attcollation
				  JOIN pg_namespace AS n ON n.oid = c.collnamespace
			  WHERE a.attnum > 0 AND NOT a.attisdropped
				  AND c.collname NOT IN ('default', 'C', 'POSIX')) AS c);
END
$body$;
COMMENT ON FUNCTION shardring_internal.collation_facts(text) IS
	'collations of the database and of guarded tables, with their versions';
