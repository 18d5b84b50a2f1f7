/*
 * 22-add.sql
 *		Adding groups to a draft.
 */

CREATE TYPE shardring_internal.new_group AS
(
	group_name text,
	shards text[],
	slots integer,
	weight numeric,
	zone text
);
COMMENT ON TYPE shardring_internal.new_group IS
	'a group that is to be added to a draft';
COMMENT ON COLUMN shardring_internal.new_group.group_name IS
	'name of the group';
COMMENT ON COLUMN shardring_internal.new_group.shards IS
	'the shards among which its slots are divided';
COMMENT ON COLUMN shardring_internal.new_group.slots IS
	'how many slots it has';
COMMENT ON COLUMN shardring_internal.new_group.weight IS
	'how many times vnodes points it gets';
COMMENT ON COLUMN shardring_internal.new_group.zone IS
	'where it stands; NULL: anywhere';

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
	added shardring_internal.new_group := ROW(
		group_name, shards, coalesce(slots, cardinality(shards)), weight,
		zone);
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'force', force::text);
	PERFORM shardring_internal.require_arguments(added);
	PERFORM shardring_internal.insert_groups(
		shardring_internal.lock_draft(ring, version), ARRAY[added], force);
END
$body$;
COMMENT ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) IS
	'adds a group to a draft; slot s goes to shards[floor(s * n / slots)]';
REVOKE EXECUTE ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) FROM PUBLIC;

CREATE FUNCTION shardring.add_groups(
	ring text,
	groups jsonb,
	force boolean DEFAULT false,
	version integer DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	added shardring_internal.new_group[];
BEGIN
	-- The text of many groups would take longer than all the rest.
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'groups', CASE WHEN groups IS NOT NULL THEN '' END,
		'force', force::text);
	PERFORM shardring_internal.require_fields(groups);
	added := shardring_internal.read_groups(groups);
	PERFORM shardring_internal.require_arguments(a) FROM unnest(added) AS a;
	PERFORM shardring_internal.insert_groups(
		shardring_internal.lock_draft(ring, version), added, force);
	RETURN cardinality(added);
END
$body$;
COMMENT ON FUNCTION shardring.add_groups(text, jsonb, boolean, integer) IS
	'adds groups to a draft, as add_group would one by one; returns how many';
REVOKE EXECUTE ON FUNCTION
	shardring.add_groups(text, jsonb, boolean, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_fields(groups jsonb)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	wrong record;
BEGIN
	IF jsonb_typeof(groups) <> 'array' OR EXISTS (
		SELECT FROM jsonb_array_elements(groups) AS e (g)
		WHERE jsonb_typeof(e.g) <> 'object')
	THEN
		PERFORM shardring_internal.fail(
			'22023', 'groups must be a JSON array of objects');
	END IF;
	SELECT e.n, f.field, w.wanted INTO wrong
	FROM jsonb_array_elements(groups) WITH ORDINALITY AS e (g, n)
		CROSS JOIN LATERAL jsonb_each(e.g) AS f (field, value)
		LEFT JOIN (VALUES
			('group_name', 'string', 'a string'),
			('shards', 'array', 'a list of strings'),
			('slots', 'number', 'an integer'),
			('weight', 'number', 'a number'),
			('zone', 'string', 'a string')) AS w (field, kind, wanted)
			ON w.field = f.field
	WHERE CASE
		WHEN w.field IS NULL THEN true
		WHEN jsonb_typeof(f.value) = 'null' THEN false
		WHEN jsonb_typeof(f.value) <> w.kind THEN true
		WHEN w.field = 'slots' THEN f.value::numeric <> trunc(f.value::numeric)
			OR f.value::numeric NOT BETWEEN -2147483648 AND 2147483647
		WHEN w.field = 'shards' THEN EXISTS (
			SELECT FROM jsonb_array_elements(f.value) AS s (shard)
			WHERE jsonb_typeof(s.shard) <> ALL (ARRAY['string', 'null']))
		ELSE false END
	ORDER BY e.n, f.field COLLATE "C"
	LIMIT 1;
	IF FOUND AND wrong.wanted IS NULL THEN
		PERFORM shardring_internal.fail('22023', format(
			'unknown field "%s" of group number %s', wrong.field, wrong.n),
			hint => 'Valid fields are group_name, shards, slots, weight, and '
				'zone.');
	ELSIF FOUND THEN
		PERFORM shardring_internal.fail('22023', format(
			'field "%s" of group number %s must be %s', wrong.field, wrong.n,
			wrong.wanted));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_fields(jsonb) IS
	'raises if an array is not one of arguments of add_group';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_fields(jsonb)
	FROM PUBLIC;

/* Fields that are left out are what add_group takes where they are. */
CREATE FUNCTION shardring_internal.read_groups(groups jsonb)
RETURNS shardring_internal.new_group[]
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT ROW(e.g ->> 'group_name', l.shards,
				   coalesce((e.g ->> 'slots')::numeric::integer,
							cardinality(l.shards)),
				   CASE WHEN e.g ? 'weight' THEN (e.g ->> 'weight')::numeric
				   ELSE 1 END,
				   e.g ->> 'zone')::shardring_internal.new_group
		FROM jsonb_array_elements(groups) WITH ORDINALITY AS e (g, n)
			CROSS JOIN LATERAL (
				SELECT CASE WHEN jsonb_typeof(e.g -> 'shards') = 'array'
					THEN ARRAY(SELECT s.shard
							   FROM jsonb_array_elements_text(e.g -> 'shards')
								   WITH ORDINALITY AS s (shard, i)
							   ORDER BY s.i) END) AS l (shards)
		ORDER BY e.n);
END
$body$;
COMMENT ON FUNCTION shardring_internal.read_groups(jsonb) IS
	'an array of arguments of add_group, checked by require_fields';
REVOKE EXECUTE ON FUNCTION shardring_internal.read_groups(jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_arguments(
	added shardring_internal.new_group)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null(
		'group_name', added.group_name,
		'shards', cardinality(added.shards)::text,
		'weight', added.weight::text);
	PERFORM shardring_internal.require_name(
		'group name', added.group_name, 255);
	IF added.zone IS NOT NULL THEN
		PERFORM shardring_internal.require_name('zone', added.zone, 255);
	END IF;
	PERFORM shardring_internal.require_shards(added.shards, added.slots);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_arguments(shardring_internal.new_group) IS
	'raises if no draft could take such a group';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_arguments(shardring_internal.new_group)
	FROM PUBLIC;

/* All points are chosen at once, and all rows of a table are one statement. */
CREATE FUNCTION shardring_internal.insert_groups(
	draft shardring.ring_version, added shardring_internal.new_group[],
	force boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	names text[] := ARRAY(SELECT a.group_name
						  FROM unnest(added) WITH ORDINALITY AS a
						  ORDER BY a.ordinality);
	counts integer[];
BEGIN
	PERFORM shardring_internal.require_new_groups(
		draft.ring, draft.version, names);
	counts := ARRAY(SELECT shardring_internal.point_count(
						a.group_name, draft.vnodes, a.weight)
					FROM unnest(added) WITH ORDINALITY AS a
					ORDER BY a.ordinality);
	IF NOT force THEN
		PERFORM shardring_internal.require_cooldown(draft.ring, names);
	END IF;
	INSERT INTO shardring.shard_group
		(ring, version, group_name, weight, slots, zone, points)
	SELECT draft.ring, draft.version, a.group_name, a.weight, a.slots, a.zone,
		a.points
	FROM ROWS FROM (
		unnest(added),
		shardring_internal.resize_groups(draft.ring, draft.version, names,
										 counts))
		AS a (group_name, shards, slots, weight, zone, resized, points);
	INSERT INTO shardring.shard_map (ring, version, group_name, shard, slots)
	SELECT draft.ring, draft.version, a.group_name, b.shard, b.slots
	FROM unnest(added) AS a
		CROSS JOIN LATERAL shardring_internal.slot_blocks(
			a.shards, a.slots) AS b;
END
$body$;
COMMENT ON FUNCTION shardring_internal.insert_groups(
	shardring.ring_version, shardring_internal.new_group[], boolean) IS
	'adds groups to a locked draft in this order';
REVOKE EXECUTE ON FUNCTION shardring_internal.insert_groups(
	shardring.ring_version, shardring_internal.new_group[], boolean)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_shards(shards text[], slots integer)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF array_ndims(shards) IS DISTINCT FROM 1 THEN
		PERFORM shardring_internal.fail(
			'22023', 'shards must be a nonempty one-dimensional array');
	END IF;
	IF slots NOT BETWEEN 1 AND 65536 THEN
		PERFORM shardring_internal.fail(
			'22023', 'slots must be between 1 and 65536');
	END IF;
	IF cardinality(shards) > slots THEN
		PERFORM shardring_internal.fail('22023', format(
			'%s shards are too many for %s %s', cardinality(shards), slots,
			CASE slots WHEN 1 THEN 'slot' ELSE 'slots' END));
	END IF;
	IF array_position(shards, NULL) IS NOT NULL THEN
		PERFORM shardring_internal.fail(
			'22004', 'shard name must not be null');
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

CREATE FUNCTION shardring_internal.require_new_groups(
	ring text, version integer, group_names text[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	doubled text;
BEGIN
	SELECT g.group_name INTO doubled FROM shardring.shard_group AS g
	WHERE g.ring = require_new_groups.ring COLLATE "C"
		AND g.version = require_new_groups.version
		AND g.group_name = ANY (group_names COLLATE "C")
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('42710', format(
			'group "%s" already exists in version %s of ring "%s"', doubled,
			version, ring));
	END IF;
	SELECT n.group_name INTO doubled
	FROM unnest(group_names COLLATE "C") AS n (group_name)
	GROUP BY n.group_name
	HAVING count(*) > 1
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('42710', format(
			'group "%s" is given twice', doubled));
	END IF;
	IF EXISTS (SELECT FROM shardring.ring AS r
			   WHERE r.ring = require_new_groups.ring COLLATE "C"
				   AND r.hash = 'crc16')
		AND (SELECT count(*) FROM shardring.shard_group AS g
			 WHERE g.ring = require_new_groups.ring COLLATE "C"
				 AND g.version = require_new_groups.version)
			+ cardinality(group_names) > 1
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" can have only one group', ring),
			detail => 'Hash crc16 has 65536 positions, too few for a ring '
				'of several groups.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_new_groups(text, integer, text[]) IS
	'raises if a version cannot take groups of these names';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_new_groups(text, integer, text[]) FROM PUBLIC;

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
	absent text[] COLLATE "C" := group_names;
	left_at timestamp with time zone;
	kept record;
	had text[] COLLATE "C";
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
							WHERE n.group_name <> ALL (had));
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
	PERFORM shardring_internal.fail('55000', format(
		'group "%s" left ring "%s" less than rejoin_cooldown ago', group_name,
		ring),
		detail => format('It may rejoin in %s.',
			date_trunc('second', time_left)
			+ interval '1 second'),
		hint => 'Wait, or specify force => true if its shards are empty.');
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

