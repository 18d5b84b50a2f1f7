/*
 * 87-receive.sql
 *		On a shard: what the map tells it to do.
 */

/*
 * The other end of push_version.  What was imported stays when the activation
 * is refused.
 */
CREATE FUNCTION shardring.receive_version(
	document jsonb, activate boolean, expected_active integer DEFAULT NULL,
	expected_shards jsonb DEFAULT NULL,
	OUT active_version integer, OUT fingerprint text, OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text;
	target integer;
BEGIN
	PERFORM shardring_internal.require_expected(expected_shards);
	target := shardring.import_version(document);
	ring := document ->> 'ring';
	IF activate AND target IS DISTINCT FROM shardring.active_version(ring)
	THEN
		error := shardring_internal.try_activate(
			ring, target, expected_active);
	END IF;
	active_version := shardring.active_version(ring);
	fingerprint := shardring.version_fingerprint(ring, target);
	IF fingerprint <> document ->> 'fingerprint' THEN
		PERFORM shardring_internal.fail('XX001', format(
			'version %s of ring "%s" was altered after it was sealed', target,
			ring),
			hint => 'Use shardring.problems to see what is wrong.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring.receive_version(jsonb, boolean, integer, jsonb) IS
	'imports a pushed version, and activates it on request';
REVOKE EXECUTE ON FUNCTION
	shardring.receive_version(jsonb, boolean, integer, jsonb) FROM PUBLIC;

/* Between question and command, an address may lead to another server. */
CREATE FUNCTION shardring_internal.require_expected(expected_shards jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	here record;
	names jsonb;
BEGIN
	IF expected_shards IS NULL THEN
		RETURN;
	END IF;
	SELECT i.* INTO STRICT here FROM shardring.shard_identity() AS i;
	names := expected_shards -> format('%s/%s', here.system_identifier,
									   here.database_oid);
	IF names IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'database "%s" is not the one that was asked before',
			here.database));
	ELSIF NOT names ? here.shard THEN
		PERFORM shardring_internal.fail('55000', format(
			'database "%s" is shard "%s"', here.database, here.shard),
			hint => 'Setting "shardring.shard" says so.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_expected(jsonb) IS
	'raises unless this database is one of those meant, by that name or none';

CREATE FUNCTION shardring_internal.try_activate(
	ring text, version integer, expected_active integer)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.activate(ring, version, expected_active);
	RETURN NULL;
EXCEPTION
	WHEN OTHERS THEN
		RETURN SQLERRM;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.try_activate(text, integer, integer) IS
	'activates a version; returns why it was refused, NULL when it was not';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.try_activate(text, integer, integer) FROM PUBLIC;

