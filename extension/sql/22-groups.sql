/*
 * 22-groups.sql
 *		Groups of a draft: their weights and slots.
 */

CREATE FUNCTION shardring.remove_group(
	ring text, group_name text, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'group_name', group_name);
	draft := shardring_internal.lock_draft(ring, version);
	PERFORM shardring_internal.require_group(ring, draft.version, group_name);
	DELETE FROM shardring.shard_map AS m
	WHERE m.ring = draft.ring AND m.version = draft.version
		AND m.group_name = remove_group.group_name COLLATE "C";
	DELETE FROM shardring.shard_group AS g
	WHERE g.ring = draft.ring AND g.version = draft.version
		AND g.group_name = remove_group.group_name COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring.remove_group(text, text, integer) IS
	'removes a group from a draft; its pins stay, and sealing reports them';
REVOKE EXECUTE ON FUNCTION shardring.remove_group(text, text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring.set_weight(
	ring text, group_name text, weight numeric, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	new_count integer;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'group_name', group_name, 'weight', weight::text);
	draft := shardring_internal.lock_draft(ring, version);
	PERFORM shardring_internal.require_group(ring, draft.version, group_name);
	new_count := shardring_internal.point_count(
		group_name, draft.vnodes, weight);
	UPDATE shardring.shard_group AS g
	SET weight = set_weight.weight, points = p.points
	FROM shardring_internal.resize_groups(set_weight.ring, draft.version,
										  ARRAY[set_weight.group_name],
										  ARRAY[new_count]) AS p
	WHERE g.ring = draft.ring AND g.version = draft.version
		AND g.group_name = p.group_name;
END
$body$;
COMMENT ON FUNCTION shardring.set_weight(text, text, numeric, integer) IS
	'gives a group of a draft more or fewer points; 0 drains it';
REVOKE EXECUTE ON FUNCTION
	shardring.set_weight(text, text, numeric, integer) FROM PUBLIC;

CREATE FUNCTION shardring.set_vnodes(
	ring text, vnodes integer, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	names text[];
	counts integer[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'vnodes', vnodes::text);
	PERFORM shardring_internal.require_vnodes(vnodes);
	draft := shardring_internal.lock_draft(ring, version);
	SELECT array_agg(n.group_name ORDER BY n.bytes),
		array_agg(shardring_internal.point_count(
			n.group_name, set_vnodes.vnodes, n.weight) ORDER BY n.bytes)
	INTO names, counts
	FROM (SELECT g.group_name, g.weight,
			  convert_to(g.group_name, 'UTF8') AS bytes
		  FROM shardring.shard_group AS g
		  WHERE g.ring = draft.ring AND g.version = draft.version) AS n;
	UPDATE shardring.ring_version AS v SET vnodes = set_vnodes.vnodes
	WHERE v.ring = draft.ring AND v.version = draft.version;
	UPDATE shardring.shard_group AS g SET points = p.points
	FROM shardring_internal.resize_groups(
		set_vnodes.ring, draft.version, names, counts) AS p
	WHERE g.ring = draft.ring AND g.version = draft.version
		AND g.group_name = p.group_name;
END
$body$;
COMMENT ON FUNCTION shardring.set_vnodes(text, integer, integer) IS
	'changes the points per unit of weight of a draft';
REVOKE EXECUTE ON FUNCTION shardring.set_vnodes(text, integer, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring.assign_slots(
	ring text, group_name text, slots int4multirange, shard text,
	version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	edited shardring.shard_group;
	outside int4multirange;
BEGIN
	-- The text of many slots would take longer than all the rest.
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'group_name', group_name,
		'slots', CASE WHEN slots IS NOT NULL THEN '' END, 'shard', shard);
	PERFORM shardring_internal.require_name('shard name', shard, 63);
	draft := shardring_internal.lock_draft(ring, version);
	edited := shardring_internal.require_group(
		ring, draft.version, group_name);
	IF isempty(slots) THEN
		PERFORM shardring_internal.fail('22023', 'slots must not be empty');
	END IF;
	outside := slots - int4multirange(int4range(0, edited.slots));
	IF NOT isempty(outside) THEN
		/* without a bound there is no lowest one */
		PERFORM shardring_internal.fail('22023', format(
			'group "%s" has no slot %s', group_name,
			lower(outside * '{[-2147483648,)}')),
			detail => format('Its slots are 0 to %s.', edited.slots - 1));
	END IF;
	DELETE FROM shardring.shard_map AS m
	WHERE m.ring = draft.ring AND m.version = draft.version
		AND m.group_name = edited.group_name
		AND m.shard <> assign_slots.shard COLLATE "C"
		AND m.slots <@ assign_slots.slots;
	UPDATE shardring.shard_map AS m SET slots = m.slots - assign_slots.slots
	WHERE m.ring = draft.ring AND m.version = draft.version
		AND m.group_name = edited.group_name
		AND m.shard <> assign_slots.shard COLLATE "C"
		AND m.slots && assign_slots.slots;
	INSERT INTO shardring.shard_map AS m
		(ring, version, group_name, shard, slots)
	VALUES (assign_slots.ring, draft.version, assign_slots.group_name,
			assign_slots.shard, assign_slots.slots)
	ON CONFLICT ON CONSTRAINT shard_map_pkey
	DO UPDATE SET slots = m.slots + EXCLUDED.slots;
END
$body$;
COMMENT ON FUNCTION
	shardring.assign_slots(text, text, int4multirange, text, integer) IS
	'assigns slots of a group of a draft to a shard, taking them from others';
REVOKE EXECUTE ON FUNCTION
	shardring.assign_slots(text, text, int4multirange, text, integer)
	FROM PUBLIC;

