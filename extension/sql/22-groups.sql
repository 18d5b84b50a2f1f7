/*
 * 22-groups.sql
 *		Groups of a draft: their shards, weights and slots.
 */

CREATE FUNCTION shardring.add_group(
	ring text,
	group_name text,
	shards text[],
	slots integer DEFAULT NULL,
	weight numeric DEFAULT 1,
	zone text DEFAULT NULL,
	force boolean DEFAULT false,
	version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	slot_count integer := coalesce(slots, cardinality(shards));
	new_count integer;
	new_points bigint[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'group_name', group_name,
		'shards', cardinality(shards)::text, 'weight', weight::text,
		'force', force::text);
	PERFORM shardring_internal.require_name(
		'group name', group_name, 255);
	IF zone IS NOT NULL THEN
		PERFORM shardring_internal.require_name('zone', zone, 255);
	END IF;
	PERFORM shardring_internal.require_shards(shards, slot_count);
	draft := shardring_internal.lock_draft(ring, version);
	PERFORM shardring_internal.require_new_group(
		ring, draft.version, group_name);
	new_count := shardring_internal.point_count(
		group_name, draft.vnodes, weight);
	PERFORM shardring_internal.require_room(ring, draft.version, new_count + (
		SELECT coalesce(sum(cardinality(g.points)), 0)::bigint
		FROM shardring.shard_group AS g
		WHERE g.ring = draft.ring AND g.version = draft.version));
	IF NOT force THEN
		PERFORM shardring_internal.require_cooldown(
			ring, ARRAY[group_name]);
	END IF;
	SELECT p.points INTO STRICT new_points
	FROM shardring_internal.resize_groups(add_group.ring, draft.version,
										  ARRAY[add_group.group_name],
										  ARRAY[new_count]) AS p;
	INSERT INTO shardring.shard_group
		(ring, version, group_name, weight, slots, zone, points)
	VALUES (add_group.ring, draft.version, add_group.group_name,
			add_group.weight, slot_count, add_group.zone, new_points);
	INSERT INTO shardring.shard_map (ring, version, group_name, shard, slots)
	SELECT add_group.ring, draft.version, add_group.group_name, b.shard,
		b.slots
	FROM shardring_internal.slot_blocks(shards, slot_count) AS b;
END
$body$;
COMMENT ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) IS
	'adds a group to a draft; slot s goes to shards[floor(s * n / slots)]';
REVOKE EXECUTE ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_shards(shards text[], slots integer)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF array_ndims(shards) IS DISTINCT FROM 1 THEN
		RAISE EXCEPTION 'shards must be a nonempty one-dimensional array'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF slots NOT BETWEEN 1 AND 65536 THEN
		RAISE EXCEPTION 'slots must be between 1 and 65536'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF cardinality(shards) > slots THEN
		RAISE EXCEPTION '% shards are too many for % slots',
			cardinality(shards), slots
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF array_position(shards, NULL) IS NOT NULL THEN
		RAISE EXCEPTION 'shard name must not be null'
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	/* all at once, since there may be 65536 */
	PERFORM shardring_internal.require_name('shard name', s.shard, 63)
	FROM unnest(shards) AS s (shard)
	WHERE octet_length(convert_to(s.shard, 'UTF8')) NOT BETWEEN 1 AND 63;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_shards(text[], integer) IS
	'raises if slots cannot be divided among these shards';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_shards(text[], integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_new_group(
	ring text, version integer, group_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.shard_group AS g
			   WHERE g.ring = require_new_group.ring COLLATE "C"
				   AND g.version = require_new_group.version
				   AND g.group_name = require_new_group.group_name COLLATE "C")
	THEN
		RAISE EXCEPTION 'group "%" already exists in version % of ring "%"',
			group_name, version, ring
			USING ERRCODE = 'duplicate_object';
	END IF;
	IF EXISTS (SELECT FROM shardring.ring AS r
			   JOIN shardring.shard_group AS g ON g.ring = r.ring
			   WHERE r.ring = require_new_group.ring COLLATE "C"
				   AND r.hash = 'crc16'
				   AND g.version = require_new_group.version)
	THEN
		RAISE EXCEPTION 'ring "%" can have only one group', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Hash crc16 has 65536 positions, too few for a ring '
				'of several groups.';
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_new_group(text, integer, text) IS
	'raises when a version cannot take a group of this name';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_new_group(text, integer, text) FROM PUBLIC;

/*
 * A group that has just left comes back with empty or stale shards.  What the
 * dropped versions held is not known any more: a group left at the latest when
 * the next version that is still there was activated, and once no version is
 * left that had it, it hinders nobody.
 *
 * From the newest version back, so that a long history costs nothing.
 */
CREATE FUNCTION shardring_internal.require_cooldown(
	ring text, group_names text[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	cooldown interval := (SELECT r.rejoin_cooldown FROM shardring.ring AS r
						  WHERE r.ring = require_cooldown.ring COLLATE "C");
	absent text[] := group_names;
	left_at timestamp with time zone;
	kept record;
	had text[];
BEGIN
	FOR kept IN
		SELECT v.version, a.activated_at
		FROM shardring.ring_version AS v
			JOIN shardring.activation AS a
				ON a.ring = v.ring AND a.version = v.version
		WHERE v.ring = require_cooldown.ring COLLATE "C"
		ORDER BY v.version DESC
	LOOP
		EXIT WHEN left_at + cooldown <= clock_timestamp();
		had := ARRAY(SELECT g.group_name FROM shardring.shard_group AS g
					 WHERE g.ring = require_cooldown.ring COLLATE "C"
						 AND g.version = kept.version
						 AND g.group_name = ANY (absent));
		IF left_at IS NULL THEN
			/* the active version: these never left */
			absent := ARRAY(SELECT n.group_name
							FROM unnest(absent) AS n (group_name)
							WHERE n.group_name COLLATE "C" <> ALL (had));
		ELSIF cardinality(had) > 0 THEN
			PERFORM shardring_internal.refuse_rejoin(
				ring, had[1], left_at + cooldown - clock_timestamp());
		END IF;
		left_at := kept.activated_at;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_cooldown(text, text[]) IS
	'raises if one of these groups left the ring during rejoin_cooldown';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_cooldown(text, text[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_rejoin(
	ring text, group_name text, time_left interval)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION 'group "%" left ring "%" less than rejoin_cooldown ago',
		group_name, ring
		USING ERRCODE = 'object_not_in_prerequisite_state',
		DETAIL = format('It may rejoin in %s.',
						date_trunc('second', time_left)
						+ interval '1 second'),
		HINT = 'Wait, or specify force => true if its shards are empty.';
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_rejoin(text, text, interval) IS
	'raises the error for adding a group that has just left';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.refuse_rejoin(text, text, interval) FROM PUBLIC;

/* floor(s * n / slots) = i holds from ceil(i * slots / n) on. */
CREATE FUNCTION shardring_internal.slot_blocks(
	shards text[], slot_count integer)
RETURNS TABLE (shard text, slots int4multirange)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
	SELECT b.shard,
		range_agg(int4range((b.start / b.n)::integer,
							((b.start + slot_count) / b.n)::integer))
	FROM (SELECT s.shard, count(*) OVER () AS n,
			  (s.i - 1) * slot_count + count(*) OVER () - 1 AS start
		  FROM unnest(shards) WITH ORDINALITY AS s (shard, i)) AS b
	GROUP BY b.shard;
END;
COMMENT ON FUNCTION shardring_internal.slot_blocks(text[], integer) IS
	'divides slots among shards in contiguous blocks';
REVOKE EXECUTE ON FUNCTION shardring_internal.slot_blocks(text[], integer)
	FROM PUBLIC;

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
	PERFORM shardring_internal.require_room(ring, draft.version, new_count + (
		SELECT coalesce(sum(cardinality(g.points)), 0)::bigint
		FROM shardring.shard_group AS g
		WHERE g.ring = draft.ring AND g.version = draft.version
			AND g.group_name <> set_weight.group_name COLLATE "C"));
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
	SELECT array_agg(g.group_name ORDER BY g.group_name),
		array_agg(shardring_internal.point_count(
			g.group_name, set_vnodes.vnodes, g.weight) ORDER BY g.group_name)
	INTO names, counts
	FROM shardring.shard_group AS g
	WHERE g.ring = draft.ring AND g.version = draft.version;
	PERFORM shardring_internal.require_room(ring, draft.version, (
		SELECT coalesce(sum(c.n), 0) FROM unnest(counts) AS c (n)));
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
		RAISE EXCEPTION 'slots must not be empty'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	outside := slots - int4multirange(int4range(0, edited.slots));
	IF NOT isempty(outside) THEN
		/* without a bound there is no lowest one */
		RAISE EXCEPTION 'group "%" has no slot %', group_name,
			lower(outside * '{[-2147483648,)}')
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Its slots are 0 to %s.', edited.slots - 1);
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

