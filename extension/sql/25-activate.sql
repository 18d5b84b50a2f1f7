/*
 * 25-activate.sql
 *		Activating: which version keys are routed by.
 */

CREATE FUNCTION shardring.activate(
	ring text,
	version integer DEFAULT NULL,
	expected_active integer DEFAULT NULL,
	max_moved double precision DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
	target shardring.ring_version;
	sound_active integer;
	moved double precision;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	IF max_moved NOT BETWEEN 0 AND 1 THEN
		PERFORM shardring_internal.fail(
			'22023', 'max_moved must be between 0 and 1');
	END IF;
	locked := shardring_internal.lock_ring(ring);
	PERFORM shardring_internal.refuse_moving(locked);
	target := shardring_internal.activation_target(
		locked, version, expected_active);
	IF version IS NULL THEN
		PERFORM shardring_internal.tell_whose_draft(target);
	END IF;
	IF target.sealed_at IS NULL THEN
		PERFORM shardring.seal(ring, target.version);
	ELSE
		PERFORM shardring_internal.require_intact(target);
	END IF;
	sound_active := shardring_internal.sound_active(locked, expected_active,
													max_moved);
	PERFORM shardring_internal.require_usable(
		ring, target.version, sound_active);
	moved := shardring_internal.moved_share(
		ring, sound_active, target.version);
	IF moved > max_moved THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s would move more than max_moved', target.version),
			detail => format('Version %s moves %s of the positions; '
				'max_moved is %s.',
				target.version, moved, max_moved));
	END IF;
	PERFORM shardring_internal.switch_version(locked, target.version, moved);
	PERFORM shardring_internal.warn_of_shares(ring, target.version);
	PERFORM shardring_internal.warn_of_joins(
		ring, target.version, sound_active);
	RETURN target.version;
END
$body$;
COMMENT ON FUNCTION
	shardring.activate(text, integer, integer, double precision) IS
	'makes a version the one that routes keys, as of the commit';
REVOKE EXECUTE ON FUNCTION
	shardring.activate(text, integer, integer, double precision) FROM PUBLIC;

CREATE FUNCTION shardring_internal.activation_target(
	locked shardring.ring, version integer, expected_active integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target shardring.ring_version;
BEGIN
	IF expected_active <> locked.active_version
		OR (expected_active IS NOT NULL AND locked.active_version IS NULL)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is not the active one', expected_active,
			locked.ring),
			detail => coalesce('Version ' || locked.active_version,
				'No version') || ' is.');
	END IF;
	target := shardring_internal.require_row(locked.ring, coalesce(
		version, shardring_internal.only_newer(locked)));
	IF target.version <= locked.active_version THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is not newer than the active one',
			target.version, locked.ring),
			detail => format('Version %s is active.', locked.active_version),
			hint => 'To go back, draft a new version from the old one.');
	END IF;
	IF coalesce(target.base_active, 0) < locked.active_version
		AND expected_active IS NULL
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" was drafted while %s was active',
			target.version, locked.ring,
			coalesce('version ' || target.base_active, 'no version')),
			detail => format('Version %s is active now, and its changes '
				'might be undone.', locked.active_version),
			hint => format(
				'Draft from version %1$s and repeat the changes; or check the '
				'move plan and specify expected_active => %1$s to activate it '
				'anyway.', locked.active_version));
	END IF;
	RETURN target;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.activation_target(shardring.ring, integer, integer) IS
	'the version to activate, if it may follow the active one';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.activation_target(shardring.ring, integer, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.only_newer(locked shardring.ring)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	newer integer[];
BEGIN
	newer := ARRAY(SELECT v.version FROM shardring.ring_version AS v
				   WHERE v.ring = locked.ring
					   AND v.version > coalesce(locked.active_version, 0)
				   ORDER BY v.version);
	IF cardinality(newer) = 0 THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no version newer than the active one', locked.ring),
			hint => 'Use shardring.draft_version to create one.');
	ELSIF cardinality(newer) > 1 THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has %s versions newer than the active one', locked.ring,
			cardinality(newer)),
			detail => format('They are versions %s.',
				array_to_string(newer, ', ')),
			hint => 'Specify the version argument.');
	END IF;
	RETURN newer[1];
END
$body$;
COMMENT ON FUNCTION shardring_internal.only_newer(shardring.ring) IS
	'the only version newer than the active one';
REVOKE EXECUTE ON FUNCTION shardring_internal.only_newer(shardring.ring)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.tell_whose_draft(
	target shardring.ring_version)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF target.sealed_at IS NULL AND target.created_by <> current_user THEN
		RAISE NOTICE 'version % of ring "%" is a draft of role "%"',
			target.version, target.ring, target.created_by
			USING DETAIL = CASE WHEN target.note IS NULL
				THEN 'It has no note.'
				ELSE format('Its note is "%s".', target.note) END;
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.tell_whose_draft(shardring.ring_version) IS
	'raises a NOTICE if a version chosen by default is not ours';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.tell_whose_draft(shardring.ring_version) FROM PUBLIC;

/*
 * A damaged version must be left by activating another one, and then nothing
 * can be compared with it.
 */
CREATE FUNCTION shardring_internal.sound_active(
	locked shardring.ring, expected_active integer,
	max_moved double precision)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	damage text := shardring_internal.damage(
		locked.ring, locked.active_version);
BEGIN
	IF damage IS NULL THEN
		RETURN locked.active_version;
	ELSIF expected_active IS NULL OR max_moved IS NOT NULL THEN
		PERFORM shardring_internal.fail('XX001', damage,
			detail => 'It is active, so what would move is unknown.',
			hint => format('Use shardring.problems to see what is wrong; to '
				'activate another version anyway, specify '
				'expected_active => %s without max_moved.',
				locked.active_version));
	END IF;
	RAISE WARNING '%', damage
		USING DETAIL = 'It was active, so what moves is unknown.',
		HINT = 'Check that rows are where the new version looks for them.';
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.sound_active(
	shardring.ring, integer, double precision) IS
	'the active version; NULL if none, or damaged and overridden';
REVOKE EXECUTE ON FUNCTION shardring_internal.sound_active(
	shardring.ring, integer, double precision) FROM PUBLIC;

/* The rows first: a session that has loaded them once goes on without. */
CREATE FUNCTION shardring_internal.damage(ring text, version integer)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_intact(v)
	FROM shardring.ring_version AS v
	WHERE v.ring = damage.ring COLLATE "C" AND v.version = damage.version;
	PERFORM FROM shardring.moved_ranges(ring, version, version);
	RETURN NULL;
EXCEPTION
	WHEN data_corrupted THEN
		RETURN SQLERRM;
END
$body$;
COMMENT ON FUNCTION shardring_internal.damage(text, integer) IS
	'the error raised by loading a sealed version; NULL if none';
REVOKE EXECUTE ON FUNCTION shardring_internal.damage(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.moved_share(
	ring text, from_version integer, to_version integer)
RETURNS double precision
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 10000
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (SELECT coalesce(sum(p.share), 0)
			FROM shardring.move_plan(ring, from_version, to_version) AS p);
END
$body$;
COMMENT ON FUNCTION shardring_internal.moved_share(text, integer, integer) IS
	'the exact fraction of the positions that change their shard';

CREATE FUNCTION shardring_internal.require_usable(
	ring text, version integer, active_version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	changed record;
BEGIN
	IF NOT EXISTS (SELECT FROM shardring.shard_group AS g
				   WHERE g.ring = require_usable.ring COLLATE "C"
					   AND g.version = require_usable.version
					   AND cardinality(g.points) > 0)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" has no points', version, ring),
			hint => 'Add a group with a weight greater than 0.');
	END IF;
	/* no self-join: without statistics it becomes a quadratic one */
	SELECT g.group_name, array_agg(g.slots ORDER BY g.version) AS slots
	INTO changed
	FROM shardring.shard_group AS g
	WHERE g.ring = require_usable.ring COLLATE "C"
		AND g.version = ANY (ARRAY[active_version, require_usable.version])
	GROUP BY g.group_name
	HAVING min(g.slots) <> max(g.slots)
	ORDER BY g.group_name
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'number of slots of group "%s" cannot change from %s to %s',
			changed.group_name, changed.slots[1], changed.slots[2]),
			detail => 'The number of slots of an existing group is fixed.',
			hint => 'Add a group with another name, and remove this one.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_usable(text, integer, integer) IS
	'raises when a version cannot route what the active one routed';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_usable(text, integer, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.switch_version(
	locked shardring.ring, version integer, moved double precision)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring.ring AS r
	SET active_version = v.version, fingerprint = v.fingerprint
	FROM shardring.ring_version AS v
	WHERE r.ring = locked.ring
		AND r.active_version IS NOT DISTINCT FROM locked.active_version
		AND v.ring = r.ring AND v.version = switch_version.version;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" was not switched to version %s', locked.ring, version),
			hint => 'Check for a trigger on table shardring.ring.');
	END IF;
	PERFORM shardring_internal.write_history(locked, version, moved);
END
$body$;
COMMENT ON FUNCTION shardring_internal.switch_version(
	shardring.ring, integer, double precision) IS
	'points a locked ring to another version, writes the history';
REVOKE EXECUTE ON FUNCTION shardring_internal.switch_version(
	shardring.ring, integer, double precision) FROM PUBLIC;

CREATE FUNCTION shardring_internal.write_history(
	before shardring.ring, version integer, moved double precision)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.activation
		(ring, version, from_version, activated_at, activated_by, moved)
	SELECT before.ring, write_history.version, before.active_version,
		greatest(max(a.activated_at), clock_timestamp()), current_user,
		write_history.moved
	FROM shardring.activation AS a
	WHERE a.ring = before.ring;
END
$body$;
COMMENT ON FUNCTION shardring_internal.write_history(
	shardring.ring, integer, double precision) IS
	'notes that a version was activated after that of this row';
REVOKE EXECUTE ON FUNCTION shardring_internal.write_history(
	shardring.ring, integer, double precision) FROM PUBLIC;

CREATE FUNCTION shardring_internal.warn_of_shares(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	worst record;
BEGIN
	SELECT s.group_name, s.ratio INTO worst
	FROM shardring.shares(warn_of_shares.ring, warn_of_shares.version) AS s
	WHERE s.weight > 0
	ORDER BY s.ratio DESC, s.group_name COLLATE "C"
	LIMIT 1;
	IF worst.ratio > 1.5 THEN
		RAISE WARNING 'shares of version % of ring "%" are uneven',
			version, ring
			USING DETAIL = format('Group "%s" has %s times the mean share '
								  'for its weight.', worst.group_name,
								  round(worst.ratio::numeric, 2)),
			HINT = 'Use more vnodes; shardring.simulate shows how even '
				'rings become.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.warn_of_shares(text, integer) IS
	'warns when a group has over 1.5 times the share of its weight';
REVOKE EXECUTE ON FUNCTION shardring_internal.warn_of_shares(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.warn_of_joins(
	ring text, version integer, active_version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	joining bigint;
BEGIN
	IF active_version IS NULL THEN
		RETURN;
	END IF;
	SELECT count(*) INTO STRICT joining
	FROM (SELECT g.group_name FROM shardring.shard_group AS g
		  WHERE g.ring = warn_of_joins.ring COLLATE "C"
			  AND g.version = ANY (ARRAY[warn_of_joins.active_version,
										 warn_of_joins.version])
		  GROUP BY g.group_name
		  HAVING min(g.version) = warn_of_joins.version) AS n;
	IF joining > 1 THEN
		RAISE WARNING '% groups join ring "%" at once', joining, ring
			USING HINT = 'Groups that join one at a time move about '
				'1/(N+1) of the keys each.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.warn_of_joins(text, integer, integer) IS
	'warns when several groups join an active ring at once';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.warn_of_joins(text, integer, integer) FROM PUBLIC;

