/*
 * 21-rings.sql
 *		Rings and versions: creating, drafting.
 */

CREATE FUNCTION shardring.create_ring(
	ring text,
	vnodes integer DEFAULT 160,
	hash text DEFAULT 'md5',
	hash_tags boolean DEFAULT false,
	rejoin_cooldown interval DEFAULT '5 min')
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'vnodes', vnodes::text, 'hash', hash,
		'hash_tags', hash_tags::text,
		'rejoin_cooldown', rejoin_cooldown::text);
	PERFORM shardring_internal.require_name('ring name', ring, 63);
	PERFORM shardring_internal.require_vnodes(vnodes);
	IF hash COLLATE "C" <> ALL (ARRAY['md5', 'fnv1a', 'murmur3', 'crc16'])
	THEN
		PERFORM shardring_internal.fail('22023', format(
			'unknown hash function "%s"', hash),
			hint => 'Valid hash functions are md5, fnv1a, murmur3, and '
				'crc16.');
	END IF;
	IF rejoin_cooldown NOT BETWEEN '0' AND '100 years' THEN
		PERFORM shardring_internal.fail(
			'22023', 'rejoin_cooldown must be between 0 and 100 years');
	END IF;
	INSERT INTO shardring.ring
		(ring, hash, hash_tags, rejoin_cooldown, last_version)
	VALUES (create_ring.ring, create_ring.hash, create_ring.hash_tags,
			create_ring.rejoin_cooldown, 1)
	ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42710', format(
			'ring "%s" already exists', ring));
	END IF;
	PERFORM shardring_internal.require_unused(ring, 1);
	INSERT INTO shardring.ring_version (ring, version, vnodes)
	VALUES (create_ring.ring, 1, create_ring.vnodes);
	IF hash COLLATE "C" = 'fnv1a' THEN
		RAISE WARNING 'hash fnv1a spreads points unevenly'
			USING DETAIL = 'Of 8 equal groups of 160 points, one got 0.57 '
				'and one 1.56 times the mean.',
			HINT = 'Use md5 or murmur3 unless other clients need fnv1a.';
	END IF;
	RETURN 1;
END
$body$;
COMMENT ON FUNCTION
	shardring.create_ring(text, integer, text, boolean, interval) IS
	'creates a ring with an empty draft and returns its version, 1';
REVOKE EXECUTE ON FUNCTION
	shardring.create_ring(text, integer, text, boolean, interval) FROM PUBLIC;

/*
 * A parent that is a draft is taken FOR UPDATE, so that no edit of it is
 * copied by half.
 */
CREATE FUNCTION shardring.draft_version(
	ring text,
	from_version integer DEFAULT NULL,
	note text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
	source integer;
	target integer;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	locked := shardring_internal.lock_ring(ring);
	source := coalesce(from_version, locked.active_version);
	IF source IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no active version to draft from', ring),
			hint => 'Specify from_version to draft from that version; if '
				'there already is a draft, edit it instead.');
	END IF;
	PERFORM shardring_internal.require_row(ring, source);
	PERFORM FROM shardring.ring_version AS v
	WHERE v.ring = locked.ring AND v.version = source
	FOR UPDATE;
	PERFORM shardring_internal.require_intact(
		shardring_internal.require_row(ring, source));
	target := shardring_internal.next_version(locked);
	UPDATE shardring.ring AS r SET last_version = target
	WHERE r.ring = locked.ring;
	PERFORM shardring_internal.copy_version(ring, source, target,
											locked.active_version, note);
	RETURN target;
END
$body$;
COMMENT ON FUNCTION shardring.draft_version(text, integer, text) IS
	'copies a version, by default the active one, into a new draft';
REVOKE EXECUTE ON FUNCTION shardring.draft_version(text, integer, text)
	FROM PUBLIC;

/* Plain SQL may have given a draft a number that is not given out yet. */
CREATE FUNCTION shardring_internal.next_version(locked shardring.ring)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	highest integer := greatest(locked.last_version, (
		SELECT max(v.version) FROM shardring.ring_version AS v
		WHERE v.ring = locked.ring));
BEGIN
	IF highest >= 999999999 THEN
		PERFORM shardring_internal.fail('54000', format(
			'ring "%s" has no version number left', locked.ring),
			detail => 'The largest is 999999999, and none is given out twice.',
			hint => 'Export its active version, and import that as version 1 '
				'of a ring of another name.');
	END IF;
	RETURN highest + 1;
END
$body$;
COMMENT ON FUNCTION shardring_internal.next_version(shardring.ring) IS
	'the number of the next draft of a locked ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.next_version(shardring.ring)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.copy_version(
	ring text, source integer, target integer, active_version integer,
	note text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_unused(ring, target);
	INSERT INTO shardring.ring_version
		(ring, version, parent, base_active, vnodes, note)
	SELECT v.ring, copy_version.target, v.version,
		copy_version.active_version, v.vnodes, copy_version.note
	FROM shardring.ring_version AS v
	WHERE v.ring = copy_version.ring COLLATE "C"
		AND v.version = copy_version.source;
	INSERT INTO shardring.shard_group
		(ring, version, group_name, weight, slots, zone, points)
	SELECT g.ring, copy_version.target, g.group_name, g.weight, g.slots,
		g.zone, g.points
	FROM shardring.shard_group AS g
	WHERE g.ring = copy_version.ring COLLATE "C"
		AND g.version = copy_version.source;
	INSERT INTO shardring.shard_map (ring, version, group_name, shard, slots)
	SELECT m.ring, copy_version.target, m.group_name, m.shard, m.slots
	FROM shardring.shard_map AS m
	WHERE m.ring = copy_version.ring COLLATE "C"
		AND m.version = copy_version.source;
	INSERT INTO shardring.shard_pin (ring, version, key_position, group_name)
	SELECT p.ring, copy_version.target, p.key_position, p.group_name
	FROM shardring.shard_pin AS p
	WHERE p.ring = copy_version.ring COLLATE "C"
		AND p.version = copy_version.source;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.copy_version(text, integer, integer, integer, text) IS
	'copies the rows of a version under another number';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.copy_version(text, integer, integer, integer, text)
	FROM PUBLIC;

