/*
 * 23-pins.sql
 *		Pins of a draft: single positions that the ring does not decide.
 */

CREATE FUNCTION shardring.pin(
	ring text, key_position bigint, group_name text,
	version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'key_position', key_position::text,
		'group_name', group_name);
	IF key_position NOT BETWEEN 0 AND 4294967295 THEN
		PERFORM shardring_internal.fail(
			'22023', 'key_position must be between 0 and 4294967295');
	END IF;
	draft := shardring_internal.lock_draft(ring, version);
	PERFORM shardring_internal.require_group(ring, draft.version, group_name);
	INSERT INTO shardring.shard_pin (ring, version, key_position, group_name)
	VALUES (pin.ring, draft.version, pin.key_position, pin.group_name)
	ON CONFLICT ON CONSTRAINT shard_pin_pkey
	DO UPDATE SET group_name = EXCLUDED.group_name;
END
$body$;
COMMENT ON FUNCTION shardring.pin(text, bigint, text, integer) IS
	'pins one position of a draft to a group, or changes its pin';
REVOKE EXECUTE ON FUNCTION shardring.pin(text, bigint, text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring.pin_key(
	ring text, key text, group_name text, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	key_position bigint;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'key', key,
										   'group_name', group_name);
	draft := shardring_internal.lock_draft(ring, version);
	SELECT shardring.key_position(pin_key.key, r.hash, r.hash_tags)
	INTO STRICT key_position
	FROM shardring.ring AS r
	WHERE r.ring = draft.ring;
	PERFORM shardring.pin(ring, key_position, group_name, draft.version);
END
$body$;
COMMENT ON FUNCTION shardring.pin_key(text, text, text, integer) IS
	'pins the position of a key, by the hash and hash tags of the ring';
REVOKE EXECUTE ON FUNCTION shardring.pin_key(text, text, text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring.unpin(
	ring text, key_position bigint, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring,
										   'key_position', key_position::text);
	draft := shardring_internal.lock_draft(ring, version);
	DELETE FROM shardring.shard_pin AS p
	WHERE p.ring = draft.ring AND p.version = draft.version
		AND p.key_position = unpin.key_position;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'position %s is not pinned in version %s of ring "%s"',
			key_position, draft.version, ring));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.unpin(text, bigint, integer) IS
	'returns a pinned position of a draft to the ring';
REVOKE EXECUTE ON FUNCTION shardring.unpin(text, bigint, integer) FROM PUBLIC;

