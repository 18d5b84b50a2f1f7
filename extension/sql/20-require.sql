/*
 * 20-require.sql
 *		What the functions that define rings share.
 *
 * An argument may be NULL where its default is; otherwise NULL is refused.
 */

/*
 * How functions of ours refuse: as RAISE, but without the CONTEXT that only
 * tells where in here.  Any role may call it, since RAISE is for all too.
 */
CREATE FUNCTION shardring_internal.fail(
	sqlstate text, message text, detail text DEFAULT NULL,
	hint text DEFAULT NULL)
RETURNS void
LANGUAGE C VOLATILE PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_fail';
COMMENT ON FUNCTION shardring_internal.fail(text, text, text, text) IS
	'raises this error, as if the outermost function had raised it';

CREATE FUNCTION shardring_internal.refuse_null(VARIADIC arguments text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	FOR i IN 1 .. cardinality(arguments) BY 2 LOOP
		IF arguments[i + 1] IS NULL THEN
			PERFORM shardring_internal.fail('22004', format(
				'argument "%s" must not be null', arguments[i]));
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_null(text[]) IS
	'takes pairs of name and value, raises if a value is NULL';

CREATE FUNCTION shardring_internal.require_name(
	what text, name text, longest integer)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF octet_length(convert_to(name, 'UTF8')) NOT BETWEEN 1 AND longest THEN
		PERFORM shardring_internal.fail('22023', format(
			'%s must be 1 to %s bytes long in UTF-8', what, longest));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_name(text, text, integer) IS
	'raises when a name is empty or too long';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_name(text, text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.known_rings() RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 1000
AS 'MODULE_PATHNAME', 'shardring_known_rings';
COMMENT ON FUNCTION shardring_internal.known_rings() IS
	'a sentence that names the first few rings';

CREATE FUNCTION shardring_internal.refuse_ring(ring text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('42704', format(
		'ring "%s" does not exist', ring),
		hint => shardring_internal.known_rings());
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_ring(text) IS
	'raises the error for a ring that does not exist';

CREATE FUNCTION shardring_internal.require_ring(ring text)
RETURNS shardring.ring
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_row shardring.ring;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	SELECT r.* INTO found_row FROM shardring.ring AS r
	WHERE r.ring = require_ring.ring COLLATE "C";
	IF NOT FOUND THEN
		PERFORM shardring_internal.refuse_ring(ring);
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_ring(text) IS
	'the row of a ring, which must exist';

CREATE FUNCTION shardring_internal.require_active(ring text)
RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
BEGIN
	IF ours.active_version IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no active version', ring),
			hint => format('SELECT shardring.activate(%L);', ring));
	END IF;
	RETURN ours.active_version;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_active(text) IS
	'the active version of a ring, which must have one';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_active(text)
	FROM PUBLIC;

/*
 * A real UPDATE, not FOR UPDATE: only that makes a REPEATABLE READ
 * transaction fail cleanly (40001) when somebody else changed the set of
 * versions after its snapshot.
 */
CREATE FUNCTION shardring_internal.lock_ring(ring text) RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
BEGIN
	UPDATE shardring.ring AS r SET last_version = r.last_version
	WHERE r.ring = lock_ring.ring COLLATE "C"
	RETURNING r.* INTO locked;
	IF NOT FOUND THEN
		PERFORM shardring_internal.refuse_ring(ring);
	END IF;
	RETURN locked;
END
$body$;
COMMENT ON FUNCTION shardring_internal.lock_ring(text) IS
	'locks a ring until the transaction ends, returns its row';
REVOKE EXECUTE ON FUNCTION shardring_internal.lock_ring(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.only_draft(ring text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	drafts integer[];
BEGIN
	drafts := ARRAY(SELECT v.version FROM shardring.ring_version AS v
					WHERE v.ring = only_draft.ring COLLATE "C"
						AND v.sealed_at IS NULL
					ORDER BY v.version);
	IF cardinality(drafts) = 0 THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no draft', ring),
			hint => 'Use shardring.draft_version to create one.');
	ELSIF cardinality(drafts) > 1 THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has %s drafts', ring, cardinality(drafts)),
			detail => format('They are versions %s.',
				array_to_string(drafts, ', ')),
			hint => 'Specify the version argument.');
	END IF;
	RETURN drafts[1];
END
$body$;
COMMENT ON FUNCTION shardring_internal.only_draft(text) IS
	'the number of the only draft of a ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.only_draft(text) FROM PUBLIC;

/* A real UPDATE for the reason given at lock_ring. */
CREATE FUNCTION shardring_internal.lock_draft(ring text, version integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target integer := version;
	locked shardring.ring_version;
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	IF target IS NULL THEN
		target := shardring_internal.only_draft(ring);
	END IF;
	UPDATE shardring.ring_version AS v SET vnodes = v.vnodes
	WHERE v.ring = lock_draft.ring COLLATE "C" AND v.version = target
		AND v.sealed_at IS NULL
	RETURNING v.* INTO locked;
	IF FOUND THEN
		RETURN locked;
	END IF;
	PERFORM shardring_internal.require_row(ring, target);
	PERFORM shardring_internal.refuse_sealed(ring, target);
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.lock_draft(text, integer) IS
	'locks a draft until the transaction ends, returns its row';
REVOKE EXECUTE ON FUNCTION shardring_internal.lock_draft(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_row(ring text, version integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_row shardring.ring_version;
BEGIN
	SELECT v.* INTO found_row FROM shardring.ring_version AS v
	WHERE v.ring = require_row.ring COLLATE "C"
		AND v.version = require_row.version;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'version %s of ring "%s" does not exist', version, ring));
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_row(text, integer) IS
	'the row of a version, which must exist';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_row(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_group(
	ring text, version integer, group_name text)
RETURNS shardring.shard_group
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_row shardring.shard_group;
BEGIN
	SELECT g.* INTO found_row FROM shardring.shard_group AS g
	WHERE g.ring = require_group.ring COLLATE "C"
		AND g.version = require_group.version
		AND g.group_name = require_group.group_name COLLATE "C";
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'group "%s" does not exist in version %s of ring "%s"', group_name,
			version, ring));
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_group(text, integer, text) IS
	'the row of a group, which must exist';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_group(text, integer, text) FROM PUBLIC;

/*
 * Rows without a version can be left by plain SQL that ran beside a drop, or
 * that made them by itself.  They must not become part of a new version that
 * gets their number.
 */
CREATE FUNCTION shardring_internal.require_unused(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.ring_version AS v
			   WHERE v.ring = require_unused.ring COLLATE "C"
				   AND v.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.activation AS a
				   WHERE a.ring = require_unused.ring COLLATE "C"
					   AND a.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.shard_group AS g
				   WHERE g.ring = require_unused.ring COLLATE "C"
					   AND g.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.shard_map AS m
				   WHERE m.ring = require_unused.ring COLLATE "C"
					   AND m.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.shard_pin AS p
				   WHERE p.ring = require_unused.ring COLLATE "C"
					   AND p.version = require_unused.version)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" already has rows', version, ring),
			hint => 'Delete the rows that shardring.problems() reports.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_unused(text, integer) IS
	'raises if a version to be created already has rows';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_unused(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_vnodes(vnodes integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF vnodes NOT BETWEEN 1 AND 4194304 THEN
		PERFORM shardring_internal.fail(
			'22023', 'vnodes must be between 1 and 4194304');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_vnodes(integer) IS
	'raises when there cannot be that many points';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_vnodes(integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.point_count(
	group_name text, vnodes integer, weight numeric)
RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	wanted numeric;
BEGIN
	IF weight < 0 OR weight >= 'Infinity' THEN
		PERFORM shardring_internal.fail('22023', format(
			'weight of group "%s" must be finite and not negative',
			group_name));
	END IF;
	/* before the product, which may be too long for a numeric */
	wanted := CASE WHEN weight > 4194304 THEN weight
		ELSE round(vnodes * weight) END;
	IF wanted > 4194304 THEN
		PERFORM shardring_internal.fail('54000', format(
			'too many points for group "%s"', group_name),
			detail => 'A version has at most 4194304 points.');
	END IF;
	IF wanted = 0 AND weight <> 0 THEN
		PERFORM shardring_internal.fail('22023', format(
			'weight of group "%s" is too small for one point', group_name),
			detail => format('With %s vnodes it rounds to 0 points.', vnodes),
			hint => 'Use weight 0 to drain a group.');
	END IF;
	RETURN wanted;
END
$body$;
COMMENT ON FUNCTION shardring_internal.point_count(text, integer, numeric) IS
	'round(vnodes * weight), half away from zero';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.point_count(text, integer, numeric) FROM PUBLIC;

CREATE FUNCTION shardring_internal.resize_groups(
	ring text, version integer, group_names text[], counts integer[],
	OUT group_name text, OUT points bigint[])
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_resize_groups';
COMMENT ON FUNCTION
	shardring_internal.resize_groups(text, integer, text[], integer[]) IS
	'the points of these groups for these numbers of points, one by one';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.resize_groups(text, integer, text[], integer[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.version_problems(
	ring text, version integer, fresh boolean DEFAULT false)
RETURNS SETOF text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_version_problems';
COMMENT ON FUNCTION
	shardring_internal.version_problems(text, integer, boolean) IS
	'what is wrong with the rows of a version';

CREATE FUNCTION shardring.version_fingerprint(
	ring text, version integer, fresh boolean DEFAULT false)
RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000
AS 'MODULE_PATHNAME', 'shardring_version_fingerprint';
COMMENT ON FUNCTION
	shardring.version_fingerprint(text, integer, boolean) IS
	'the fingerprint of the rows of a version as they are';

CREATE FUNCTION shardring_internal.zone_fingerprint(
	ring text, version integer, fresh boolean DEFAULT false)
RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000
AS 'MODULE_PATHNAME', 'shardring_zone_fingerprint';
COMMENT ON FUNCTION
	shardring_internal.zone_fingerprint(text, integer, boolean) IS
	'the fingerprint of the zones of a version as they are';

CREATE FUNCTION shardring_internal.require_intact(
	sealed shardring.ring_version)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF shardring.version_fingerprint(sealed.ring, sealed.version)
		<> sealed.fingerprint
		OR shardring_internal.zone_fingerprint(sealed.ring, sealed.version)
		<> sealed.zone_fingerprint
	THEN
		PERFORM shardring_internal.fail('XX001', format(
			'version %s of ring "%s" was altered after it was sealed',
			sealed.version, sealed.ring),
			hint => 'Use shardring.problems to see what is wrong.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_intact(shardring.ring_version) IS
	'raises if a sealed version was altered';

