/*
 * 24-seal.sql
 *		Sealing: everything in a draft is checked, then nothing changes.
 */

/*
 * The rows are checked as they are now, not as a snapshot of the
 * transaction shows them.  Under REPEATABLE READ the two differ when plain
 * SQL edited the draft since; that edit only shared the version's row, so
 * lock_draft could not notice.
 */
CREATE FUNCTION shardring.seal(ring text, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
	print text;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	PERFORM shardring_internal.lock_ring(ring);
	IF EXISTS (SELECT FROM shardring.ring_version AS v
			   WHERE v.ring = seal.ring COLLATE "C"
				   AND v.version = seal.version
				   AND v.sealed_at IS NOT NULL)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is already sealed', version, ring));
	END IF;
	draft := shardring_internal.lock_draft(ring, version);
	PERFORM shardring_internal.require_sound(ring, draft.version);
	print := shardring_internal.settled_fingerprint(ring, draft.version);
	UPDATE shardring.ring_version AS v
	SET sealed_at = clock_timestamp(), fingerprint = print,
		zone_fingerprint = shardring_internal.zone_fingerprint(
			draft.ring, draft.version),
		group_rows = (SELECT count(*) FROM shardring.shard_group AS g
					  WHERE g.ring = v.ring AND g.version = v.version),
		map_rows = (SELECT count(*) FROM shardring.shard_map AS m
					WHERE m.ring = v.ring AND m.version = v.version),
		pin_rows = (SELECT count(*) FROM shardring.shard_pin AS p
					WHERE p.ring = v.ring AND p.version = v.version)
	WHERE v.ring = draft.ring AND v.version = draft.version;
	/* plain SQL may have given the draft a number of its own */
	UPDATE shardring.ring AS r SET last_version = draft.version
	WHERE r.ring = draft.ring AND r.last_version < draft.version;
	PERFORM shardring_internal.number_shards(ring, draft.version);
END
$body$;
COMMENT ON FUNCTION shardring.seal(text, integer) IS
	'checks everything in a draft and makes it unchangeable';
REVOKE EXECUTE ON FUNCTION shardring.seal(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.settled_fingerprint(
	ring text, version integer)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text := shardring.version_fingerprint(ring, version, true);
BEGIN
	IF print <> shardring.version_fingerprint(ring, version) COLLATE "C"
		OR shardring_internal.zone_fingerprint(ring, version, true)
		<> shardring_internal.zone_fingerprint(ring, version) COLLATE "C"
	THEN
		PERFORM shardring_internal.refuse_snapshot(ring, version);
	END IF;
	RETURN print;
END
$body$;
COMMENT ON FUNCTION shardring_internal.settled_fingerprint(text, integer) IS
	'the fingerprint of a locked draft, if the transaction sees it';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.settled_fingerprint(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_sound(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problems text[];
BEGIN
	problems := ARRAY(SELECT shardring_internal.version_problems(
		require_sound.ring, require_sound.version, true));
	IF cardinality(problems) > 0 THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" cannot be sealed', version, ring),
			detail => format(
				CASE cardinality(problems) WHEN 1 THEN 'Problem: %s.'
				ELSE 'First of %2$s problems: %1$s.' END,
				problems[1], cardinality(problems)));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_sound(text, integer) IS
	'raises if a version cannot be sealed, and reports why';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_sound(text, integer)
	FROM PUBLIC;

/*
 * Under the lock on the ring, so numbers are dense and only added: where plain
 * SQL left a gap among them, nothing is numbered.
 */
CREATE FUNCTION shardring_internal.number_shards(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	known bigint;
	highest integer;
BEGIN
	SELECT count(*), max(s.number) INTO known, highest
	FROM shardring.shard AS s
	WHERE s.ring = number_shards.ring COLLATE "C";
	IF highest <> known - 1 THEN
		PERFORM shardring_internal.fail('55000', format(
			'shards of ring "%s" are not numbered from 0 to %s', ring,
			known - 1),
			detail => format('The highest number is %s.', highest),
			hint => 'Use shardring.problems to see what is wrong.');
	END IF;
	INSERT INTO shardring.shard (ring, shard, number)
	SELECT number_shards.ring, n.shard,
		known + row_number() OVER (ORDER BY n.group_bytes, n.slot) - 1
	FROM (SELECT DISTINCT ON (m.shard) m.shard,
			  convert_to(m.group_name, 'UTF8') AS group_bytes,
			  lower(m.slots) AS slot
		  FROM shardring.shard_map AS m
		  WHERE m.ring = number_shards.ring COLLATE "C"
			  AND m.version = number_shards.version
			  AND (SELECT s.number FROM shardring.shard AS s
				   WHERE s.ring = m.ring AND s.shard = m.shard) IS NULL
		  ORDER BY m.shard, 2, 3) AS n;
END
$body$;
COMMENT ON FUNCTION shardring_internal.number_shards(text, integer) IS
	'numbers the new shards of a version, by group and first slot';
REVOKE EXECUTE ON FUNCTION shardring_internal.number_shards(text, integer)
	FROM PUBLIC;

