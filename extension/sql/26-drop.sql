/*
 * 26-drop.sql
 *		Dropping versions and rings.
 */

CREATE FUNCTION shardring.drop_version(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'version', version::text);
	locked := shardring_internal.lock_ring(ring);
	PERFORM shardring_internal.require_row(ring, version);
	IF version = locked.active_version THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is active', version, ring),
			hint => 'Activate a newer version first, or drop the ring.');
	END IF;
	PERFORM shardring_internal.refuse_moving(locked, ARRAY[version]);
	PERFORM shardring_internal.erase_versions(ring, ARRAY[version]);
END
$body$;
COMMENT ON FUNCTION shardring.drop_version(text, integer) IS
	'drops a version that is not active; the history keeps its number';
REVOKE EXECUTE ON FUNCTION shardring.drop_version(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring.prune(ring text, keep integer) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
	old integer[];
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'keep', keep::text);
	locked := shardring_internal.lock_ring(ring);
	old := shardring_internal.prunable(locked, keep);
	PERFORM shardring_internal.refuse_moving(locked, old);
	PERFORM shardring_internal.erase_versions(ring, old);
	RETURN cardinality(old);
END
$body$;
COMMENT ON FUNCTION shardring.prune(text, integer) IS
	'drops sealed versions older than the active one, keeping the newest few';
REVOKE EXECUTE ON FUNCTION shardring.prune(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.prunable(ours shardring.ring, keep integer)
RETURNS integer[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null('keep', keep::text);
	IF keep < 0 THEN
		PERFORM shardring_internal.fail('22023', 'keep must not be negative');
	END IF;
	RETURN ARRAY(
		SELECT k.version
		FROM (SELECT v.version FROM shardring.ring_version AS v
			  WHERE v.ring = ours.ring AND v.sealed_at IS NOT NULL
				  AND v.version < ours.active_version
			  ORDER BY v.version DESC
			  OFFSET keep) AS k
		WHERE NOT EXISTS (SELECT FROM shardring.ring_version AS d
						  WHERE d.ring = ours.ring AND d.sealed_at IS NULL
							  AND d.parent = k.version)
		ORDER BY k.version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.prunable(shardring.ring, integer) IS
	'sealed versions older than the active one, all but the newest few';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.prunable(shardring.ring, integer) FROM PUBLIC;

CREATE FUNCTION shardring.drop_ring(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.dropping = 'on'
AS $body$
DECLARE
	locked shardring.ring;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	locked := shardring_internal.lock_ring(ring);
	PERFORM shardring_internal.refuse_moving(locked);
	PERFORM shardring_internal.refuse_cluster_of(ring);
	PERFORM shardring_internal.erase_versions(ring, NULL);
	DELETE FROM shardring.activation AS a WHERE a.ring = locked.ring;
	DELETE FROM shardring.shard AS s WHERE s.ring = locked.ring;
	DELETE FROM shardring.shard_probe AS p WHERE p.ring = locked.ring;
	DELETE FROM shardring.finding AS f WHERE f.ring = locked.ring;
	DELETE FROM shardring.router AS r WHERE r.ring = locked.ring;
	DELETE FROM shardring.ring AS r WHERE r.ring = locked.ring;
END
$body$;
COMMENT ON FUNCTION shardring.drop_ring(text) IS
	'drops a ring, all its versions and its history';
REVOKE EXECUTE ON FUNCTION shardring.drop_ring(text) FROM PUBLIC;

/*
 * Locking the versions waits for edits that hold them, so that what these
 * added is seen and deleted, or, where the snapshot is older, refused.
 */
CREATE FUNCTION shardring_internal.erase_versions(
	ring text, versions integer[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.dropping = 'on'
AS $body$
BEGIN
	PERFORM FROM shardring.ring_version AS v
	WHERE v.ring = erase_versions.ring COLLATE "C"
		AND (versions IS NULL OR v.version = ANY (versions))
	FOR UPDATE;
	PERFORM shardring_internal.settled_fingerprint(v.ring, v.version)
	FROM shardring.ring_version AS v
	WHERE v.ring = erase_versions.ring COLLATE "C" AND v.sealed_at IS NULL
		AND (versions IS NULL OR v.version = ANY (versions));
	DELETE FROM shardring.ring_version AS v
	WHERE v.ring = erase_versions.ring COLLATE "C"
		AND (versions IS NULL OR v.version = ANY (versions));
	DELETE FROM shardring.shard_group AS g
	WHERE g.ring = erase_versions.ring COLLATE "C"
		AND (versions IS NULL OR g.version = ANY (versions));
	DELETE FROM shardring.shard_map AS m
	WHERE m.ring = erase_versions.ring COLLATE "C"
		AND (versions IS NULL OR m.version = ANY (versions));
	DELETE FROM shardring.shard_pin AS p
	WHERE p.ring = erase_versions.ring COLLATE "C"
		AND (versions IS NULL OR p.version = ANY (versions));
END
$body$;
COMMENT ON FUNCTION shardring_internal.erase_versions(text, integer[]) IS
	'deletes the rows of these versions of a ring; NULL: of all';
REVOKE EXECUTE ON FUNCTION shardring_internal.erase_versions(text, integer[])
	FROM PUBLIC;

