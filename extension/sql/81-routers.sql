/*
 * 81-routers.sql
 *		Servers that hold the map without being a shard.
 *
 * A router that is forgotten goes on sending keys to where they were: it
 * reads no rows there, and acknowledges an UPDATE of none.
 */

CREATE TABLE shardring.router
(
	ring text COLLATE "C" NOT NULL,
	server text COLLATE "C" NOT NULL,
	CONSTRAINT router_pkey PRIMARY KEY (ring, server),
	CONSTRAINT router_server_length
		CHECK (octet_length(server) BETWEEN 1 AND 63)
);
COMMENT ON TABLE shardring.router IS
	'servers that hold the map of a ring without being a shard';
COMMENT ON COLUMN shardring.router.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.router.server IS
	'foreign server with its address';
GRANT SELECT ON shardring.router TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('shardring.router', '');

CREATE TRIGGER router_refuse_truncate
	BEFORE TRUNCATE ON shardring.router
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_rings();
COMMENT ON TRIGGER router_refuse_truncate ON shardring.router IS
	'refuses TRUNCATE while there are rings';

CREATE FUNCTION shardring.add_router(ring text, server text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	shard_there text;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'server', server);
	PERFORM shardring_internal.require_ring(ring);
	PERFORM shardring_internal.require_name('server name', server, 63);
	IF NOT EXISTS (SELECT FROM pg_foreign_server AS f
				   WHERE f.srvname = server COLLATE "C")
	THEN
		PERFORM shardring_internal.fail('42704', format(
			'server "%s" does not exist', server));
	END IF;
	SELECT min(l.shard) INTO shard_there
	FROM shardring.live_shards(ring) AS l
	WHERE l.server = add_router.server COLLATE "C";
	IF shard_there IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'server "%s" is that of shard "%s"', server, shard_there),
			detail => 'Shards get the map without being routers.');
	END IF;
	INSERT INTO shardring.router (ring, server)
	VALUES (add_router.ring, add_router.server)
	ON CONFLICT ON CONSTRAINT router_pkey DO NOTHING;
END
$body$;
COMMENT ON FUNCTION shardring.add_router(text, text) IS
	'lets a server that is no shard have the map; may be repeated';
REVOKE EXECUTE ON FUNCTION shardring.add_router(text, text) FROM PUBLIC;

CREATE FUNCTION shardring.remove_router(ring text, server text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'server', server);
	PERFORM shardring_internal.require_ring(ring);
	DELETE FROM shardring.router AS r
	WHERE r.ring = remove_router.ring COLLATE "C"
		AND r.server = remove_router.server COLLATE "C";
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'ring "%s" has no router "%s"', ring, server));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.remove_router(text, text) IS
	'forgets a router; what it has stays there';
REVOKE EXECUTE ON FUNCTION shardring.remove_router(text, text) FROM PUBLIC;
