/*
 * 82-plproxy.sql
 *		The partitions of PL/Proxy.
 */

/*
 * Numbers stay, so a shard that is retired keeps its partition, with the
 * address of another one: RUN ON ALL calls equal addresses once.
 */
CREATE FUNCTION shardring.plproxy_sync(ring text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	cluster text := (shardring_internal.require_ring(ring)).cluster;
	addresses text[] COLLATE "C";
	wrapper text COLLATE "C";
	old_names text[];
	old_addresses text[] COLLATE "C";
BEGIN
	IF cluster IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" is called in the cluster of ring "%s"', ring, cluster),
			hint => format('Use shardring.plproxy_sync(%L), or '
						   'shardring.set_cluster(%L, NULL) to give the ring '
						   'a cluster of its own.', cluster, ring));
	END IF;
	addresses := shardring_internal.partition_addresses(ring);
	SELECT w.fdwname, p.names, p.addresses
	INTO wrapper, old_names, old_addresses
	FROM pg_foreign_server AS f
		JOIN pg_foreign_data_wrapper AS w ON w.oid = f.srvfdw
		CROSS JOIN LATERAL
			shardring_internal.partition_options(f.srvoptions) AS p
	WHERE f.srvname = plproxy_sync.ring COLLATE "C";
	IF NOT FOUND THEN
		EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER plproxy '
					   'OPTIONS (%s)', ring,
					   shardring_internal.partition_clauses(addresses, ''));
	ELSIF wrapper <> 'plproxy' THEN
		PERFORM shardring_internal.fail('42710', format(
			'server "%s" already exists and does not belong to PL/Proxy',
			ring),
			hint => 'The name of the ring is the name of the cluster.');
	ELSIF old_addresses IS DISTINCT FROM (addresses || text '1') THEN
		EXECUTE format('ALTER SERVER %I OPTIONS (%s)', ring, concat_ws(', ',
			(SELECT string_agg(format('DROP %I', n.name), ', ')
			 FROM unnest(old_names) AS n (name)),
			shardring_internal.partition_clauses(addresses, 'ADD ')));
	END IF;
	RETURN cardinality(addresses);
END
$body$;
COMMENT ON FUNCTION shardring.plproxy_sync(text) IS
	'makes the PL/Proxy server of a ring match its shards';
REVOKE EXECUTE ON FUNCTION shardring.plproxy_sync(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.partition_addresses(ring text)
RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	stand_in text;
	numbers text COLLATE "C";
BEGIN
	SELECT shardring_internal.connect_string(l.server) INTO stand_in
	FROM shardring.live_shards(ring) AS l
	WHERE EXISTS (SELECT FROM shardring.shard_map AS m
				  WHERE m.ring = partition_addresses.ring COLLATE "C"
					  AND m.version = shardring.active_version(m.ring)
					  AND m.shard = l.shard)
	ORDER BY l.number
	LIMIT 1;
	IF stand_in IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no active version', ring),
			hint => 'Use shardring.activate to activate one.');
	END IF;
	SELECT string_agg(s.number::text, ' ' ORDER BY s.number) INTO numbers
	FROM shardring.shard AS s
	WHERE s.ring = partition_addresses.ring COLLATE "C";
	IF numbers <> (SELECT string_agg(i::text, ' ' ORDER BY i)
				   FROM generate_series(0, (
					   SELECT count(*) - 1 FROM shardring.shard AS s
					   WHERE s.ring = partition_addresses.ring
						   COLLATE "C")) AS i)
	THEN
		PERFORM shardring_internal.fail('XX001', format(
			'shards of ring "%s" are not numbered 0, 1, 2 ...', ring),
			hint => 'Use shardring.problems to see what is wrong.');
	END IF;
	RETURN ARRAY(
		SELECT CASE WHEN l.server IS NULL THEN stand_in
			ELSE shardring_internal.connect_string(l.server) END
		FROM shardring.shard AS s
			LEFT JOIN shardring.live_shards(partition_addresses.ring) AS l
				ON l.shard = s.shard
		WHERE s.ring = partition_addresses.ring COLLATE "C"
		ORDER BY s.number);
END
$body$;
COMMENT ON FUNCTION shardring_internal.partition_addresses(text) IS
	'the addresses of all shards, by number';
REVOKE EXECUTE ON FUNCTION shardring_internal.partition_addresses(text)
	FROM PUBLIC;

/* Those that plproxy_sync writes; others belong to whoever set them. */
CREATE FUNCTION shardring_internal.partition_options(
	options text[], OUT names text[], OUT addresses text[])
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT array_agg(o.option_name ORDER BY o.i),
		array_agg(o.option_value ORDER BY o.i)
	FROM pg_options_to_table(options) WITH ORDINALITY
		AS o (option_name, option_value, i)
	WHERE o.option_name ~ '^p[0-9]+$' OR o.option_name = 'modular_mapping';
END;
COMMENT ON FUNCTION shardring_internal.partition_options(text[]) IS
	'the partitions among the options of a server';
REVOKE EXECUTE ON FUNCTION shardring_internal.partition_options(text[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.partition_clauses(
	addresses text[], verb text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT string_agg(format('%sp%s %L', verb, a.i - 1, a.address), ', '
					  ORDER BY a.i)
		|| format(', %smodular_mapping %L', verb, 1)
	FROM unnest(addresses) WITH ORDINALITY AS a (address, i);
END;
COMMENT ON FUNCTION shardring_internal.partition_clauses(text[], text) IS
	'partitions as options of CREATE or ALTER SERVER';
REVOKE EXECUTE ON FUNCTION shardring_internal.partition_clauses(text[], text)
	FROM PUBLIC;

/*
 * The other ring has a cluster of its own, so nobody has to follow a chain.
 * Both are locked, in the order of their names: of two sessions that would
 * make a chain together, one sees what the other did, or fails with 40001.
 */
CREATE FUNCTION shardring.set_cluster(ring text, cluster text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	other shardring.ring;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	IF ring COLLATE "C" = cluster THEN
		PERFORM shardring_internal.fail('22023', format(
			'ring "%s" cannot name itself', ring),
			hint => 'NULL gives it a cluster of its own.');
	END IF;
	PERFORM shardring_internal.lock_ring(l.name)
	FROM (SELECT n.name
		  FROM unnest(ARRAY[ring, cluster]) AS n (name)
		  WHERE n.name IS NOT NULL
		  ORDER BY n.name COLLATE "C") AS l;
	IF cluster IS NOT NULL THEN
		other := shardring_internal.require_ring(cluster);
		IF other.cluster IS NOT NULL THEN
			PERFORM shardring_internal.fail('55000', format(
				'ring "%s" has no cluster of its own', cluster),
				hint => format('It is called in that of ring "%s".',
							   other.cluster));
		END IF;
		PERFORM shardring_internal.refuse_cluster_of(ring);
	END IF;
	UPDATE shardring.ring AS r SET cluster = set_cluster.cluster
	WHERE r.ring = set_cluster.ring COLLATE "C"
		AND r.cluster IS DISTINCT FROM set_cluster.cluster COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring.set_cluster(text, text) IS
	'names the ring in whose PL/Proxy cluster a ring is called; NULL: its own';
REVOKE EXECUTE ON FUNCTION shardring.set_cluster(text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_cluster_of(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	user_of text;
BEGIN
	SELECT r.ring INTO user_of FROM shardring.ring AS r
	WHERE r.cluster = refuse_cluster_of.ring COLLATE "C"
	ORDER BY r.ring
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" is called in the cluster of ring "%s"', user_of, ring),
			hint => 'Use shardring.set_cluster to give it another.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_cluster_of(text) IS
	'raises when another ring is called in the cluster of this one';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_cluster_of(text)
	FROM PUBLIC;

CREATE FUNCTION shardring.plproxy_partition(ring text, key text)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_text';
COMMENT ON FUNCTION shardring.plproxy_partition(text, text) IS
	'the number of the shard of a text key, for RUN ON';

CREATE FUNCTION shardring.plproxy_partition(ring text, key bigint)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_int8';
COMMENT ON FUNCTION shardring.plproxy_partition(text, bigint) IS
	'the number of the shard of an integer key, for RUN ON';

CREATE FUNCTION shardring.plproxy_partition(ring text, key uuid)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_uuid';
COMMENT ON FUNCTION shardring.plproxy_partition(text, uuid) IS
	'the number of the shard of a uuid key, for RUN ON';

/* What a move asks of every router, and of the map, before its switch. */
CREATE FUNCTION shardring_internal.sync_router(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	cluster text := coalesce(
		(shardring_internal.require_ring(ring)).cluster, ring);
BEGIN
	PERFORM shardring.plproxy_sync(cluster)
	FROM pg_foreign_server AS f
		JOIN pg_foreign_data_wrapper AS w ON w.oid = f.srvfdw
	WHERE f.srvname = cluster COLLATE "C" AND w.fdwname = 'plproxy';
END
$body$;
COMMENT ON FUNCTION shardring_internal.sync_router(text) IS
	'makes the PL/Proxy server of a ring, if there is one, match its shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.sync_router(text) FROM PUBLIC;
