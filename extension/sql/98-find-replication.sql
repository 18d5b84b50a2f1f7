/*
 * 98-find-replication.sql
 *		Findings about what a move by logical replication will need.
 */

/* A pair of shards takes one slot, and more while tables are copied. */
CREATE FUNCTION shardring_internal.replication_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(g.severity, f.shard, f.number, NULL, g.problem, g.command,
				   shardring_internal.place_of(f.shard, NULL))
			::shardring_internal.finding
		FROM unnest(facts) AS f
			CROSS JOIN LATERAL jsonb_to_record(f.facts -> 'settings') AS s (
				wal_level text, max_replication_slots integer,
				max_wal_senders integer,
				max_logical_replication_workers integer,
				max_sync_workers_per_subscription integer,
				max_worker_processes integer,
				max_active_replication_origins integer)
			CROSS JOIN LATERAL (
				SELECT 1 + s.max_sync_workers_per_subscription) AS n (pair)
			CROSS JOIN LATERAL (
				SELECT 'warning', format('wal_level is %s: a move needs '
										 'logical', s.wal_level),
					'ALTER SYSTEM SET wal_level = logical;'
				WHERE s.wal_level <> 'logical'
				UNION ALL
				SELECT 'warning', format('%s has %s free: a move needs %s',
										 c.name, c.free, n.pair),
					format('ALTER SYSTEM SET %s = %s;', c.name,
						   c.most - c.free + n.pair)
				FROM (VALUES
					('max_replication_slots', s.max_replication_slots,
					 s.max_replication_slots
						 - (f.facts ->> 'slots_used')::integer),
					('max_wal_senders', s.max_wal_senders,
					 s.max_wal_senders
						 - (f.facts ->> 'senders_used')::integer),
					('max_logical_replication_workers',
					 s.max_logical_replication_workers,
					 s.max_logical_replication_workers),
					('max_worker_processes', s.max_worker_processes,
					 s.max_worker_processes),
					('max_active_replication_origins',
					 s.max_active_replication_origins,
					 s.max_active_replication_origins))
					AS c (name, most, free)
				WHERE c.free < n.pair
				UNION ALL
				SELECT 'warning', format('transaction "%s" has been prepared '
										 'for more than a minute', p.gid),
					NULL
				FROM jsonb_array_elements_text(f.facts -> 'prepared')
					AS p (gid)
				UNION ALL
				SELECT 'error', 'guards do not fire where '
						'session_replication_role is replica, for '
						|| concat_ws(' in ', coalesce('role ' || r.role,
													  'all roles'),
									 'database ' || r.database),
					format('ALTER ROLE %s%s RESET session_replication_role;',
						   coalesce(quote_ident(r.role), 'ALL'),
						   ' IN DATABASE ' || quote_ident(r.database))
				FROM jsonb_to_recordset(f.facts -> 'replica_roles')
					AS r (role text, database text))
				AS g (severity, problem, command));
END
$body$;
COMMENT ON FUNCTION shardring_internal.replication_findings(
	shardring_internal.shard_fact[]) IS
	'what a move by logical replication needs, and what is in its way';
REVOKE EXECUTE ON FUNCTION shardring_internal.replication_findings(
	shardring_internal.shard_fact[]) FROM PUBLIC;

/*
 * A subscription applies rows past the guards; readers of a publication see
 * the rows of a move come and go.
 */
CREATE FUNCTION shardring_internal.reader_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(g.severity, t.shard, t.number, t.relation, g.problem,
				   g.command, t.place)::shardring_internal.finding
		FROM shardring_internal.fact_tables(facts) AS t
			CROSS JOIN LATERAL (
				SELECT 'warning', i.problem, i.command
				FROM shardring_internal.identity_findings(
					t.relation, t.key_column, t.fact) AS i
				UNION ALL
				SELECT 'error', format('subscription "%s" writes to it past '
									   'the guard', s.name),
					format('ALTER SUBSCRIPTION %I DISABLE;', s.name)
				FROM jsonb_array_elements_text(
					t.fact -> 'subscriptions') AS s (name)
				UNION ALL
				SELECT 'info', format('publication "%s" will show a move as '
									  'inserts and deletes', p.name), NULL
				FROM jsonb_array_elements_text(
					t.fact -> 'publications') AS p (name))
				AS g (severity, problem, command));
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.reader_findings(shardring_internal.shard_fact[]) IS
	'replica identities, and who else replicates guarded tables';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.reader_findings(shardring_internal.shard_fact[])
	FROM PUBLIC;

/* The other side finds rows by the identity, and checks their key. */
CREATE FUNCTION shardring_internal.identity_findings(
	relation text, key_column text, facts jsonb)
RETURNS TABLE (problem text, command text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT 'the replica identity is missing, or does not contain the '
			'shard key',
			format('ALTER TABLE %s REPLICA IDENTITY %s;',
				identity_findings.relation, coalesce(
					max(CASE WHEN u."primary" THEN 'DEFAULT' END)
						FILTER (WHERE u.good),
					max(format('USING INDEX %I', u.name))
						FILTER (WHERE u.good), 'FULL'))
		FROM (SELECT 1) AS one
			LEFT JOIN (
				SELECT r.*, r.usable AND array_position(
					r.columns, identity_findings.key_column COLLATE "C")
					IS NOT NULL AS good
				FROM jsonb_to_recordset(facts -> 'unique_keys') AS r (
					name text, "primary" boolean, identity boolean,
					usable boolean, columns text[])) AS u ON true
		HAVING facts ->> 'replica_identity' <> 'f'
			AND NOT coalesce(bool_or(u.good AND CASE
				facts ->> 'replica_identity' WHEN 'd' THEN u."primary"
				WHEN 'i' THEN u.identity END), false);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.identity_findings(text, text, jsonb) IS
	'whether updates and deletes of a table can be replicated';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.identity_findings(text, text, jsonb) FROM PUBLIC;
