/*
 * shardring--1.0.sql
 *		The objects of extension shardring, in reading order: tables, view,
 *		triggers, then the chapters Define, Route, Look, Move, Pictures, and
 *		Proxies and shards.
 *
 * Rules of this file:
 *	- the schema is always written out: the control file says pg_catalog, so
 *	  that nobody can plant a schema "shardring" before the extension exists;
 *	- nothing is replaced and nothing is created "if not exists";
 *	- plpgsql bodies run with search_path = pg_catalog, pg_temp and qualify
 *	  every object of ours; SQL bodies are parsed here, under the same path;
 *	- inside a query, columns carry an alias and arguments the function's
 *	  name, since both are called ring and version;
 *	- names are compared as bytes: our columns have COLLATE "C", and so has
 *	  what plpgsql compares of arguments and variables, which it gives the
 *	  collation of the call; fields of our rows and SQL bodies need none;
 *	- a function that changes something is not executable by PUBLIC, one that
 *	  only reads, checks or raises is; none is SECURITY DEFINER;
 *	- every object has its COMMENT and its grants beside it.
 *
 * Who holds which lock, once for all functions below: what changes the set
 * of versions (draft_version, seal, activate, drop_version, prune, drop_ring)
 * takes the row of the ring first, see lock_ring.  What edits a draft takes
 * the row of the version, see lock_draft.  Plain SQL on the rows of a version
 * holds the version's row FOR SHARE, see keep_rows.  Locks on a ring come
 * before locks on its versions.
 */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION shardring" to load this file. \quit

CREATE SCHEMA shardring;
COMMENT ON SCHEMA shardring IS
	'consistent-hash rings in versions: where a key lives, what moves';
GRANT USAGE ON SCHEMA shardring TO PUBLIC;

/* ---------- Tables ---------- */

/*
 * Fingerprints are checked without a regular expression: where there is no
 * memory to compile one, PostgreSQL raises 2201B and not 53200.
 */

CREATE TABLE shardring.ring
(
	ring text COLLATE "C" NOT NULL,
	hash text COLLATE "C" NOT NULL,
	hash_tags boolean NOT NULL,
	rejoin_cooldown interval NOT NULL,
	active_version integer,
	fingerprint text COLLATE "C",
	last_version integer NOT NULL,
	created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	CONSTRAINT ring_pkey PRIMARY KEY (ring),
	CONSTRAINT ring_name_length
		CHECK (octet_length(convert_to(ring, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT ring_hash_known
		CHECK (hash = 'md5' OR hash = 'fnv1a' OR hash = 'murmur3'
			   OR hash = 'crc16'),
	CONSTRAINT ring_rejoin_cooldown_range
		CHECK (rejoin_cooldown >= interval '0'
			   AND rejoin_cooldown <= interval '100 years'),
	CONSTRAINT ring_active_complete
		CHECK ((active_version IS NULL) = (fingerprint IS NULL)),
	CONSTRAINT ring_fingerprint_form
		CHECK (octet_length(fingerprint) = 64
			   AND translate(fingerprint, '0123456789abcdef', '') = ''),
	CONSTRAINT ring_last_version_positive
		CHECK (last_version >= 1)
);
COMMENT ON TABLE shardring.ring IS
	'rings: each a named set of versions over one hash function';
COMMENT ON COLUMN shardring.ring.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.ring.hash IS
	'md5, fnv1a, murmur3 or crc16; never changes';
COMMENT ON COLUMN shardring.ring.hash_tags IS
	'hash only what is between { and } in a key, as Redis does; never changes';
COMMENT ON COLUMN shardring.ring.rejoin_cooldown IS
	'how long a group that left the active version may not come back';
COMMENT ON COLUMN shardring.ring.active_version IS
	'the version keys are routed by; NULL before the first activation';
COMMENT ON COLUMN shardring.ring.fingerprint IS
	'fingerprint of the active version';
COMMENT ON COLUMN shardring.ring.last_version IS
	'highest version number given out, also to versions dropped since';
COMMENT ON COLUMN shardring.ring.created_at IS 'when the ring was created';
GRANT SELECT ON shardring.ring TO PUBLIC;

CREATE TABLE shardring.ring_version
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	parent integer,
	drafted_on integer,
	vnodes integer NOT NULL,
	sealed_at timestamp with time zone,
	fingerprint text COLLATE "C",
	note text COLLATE "C",
	created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	created_by text COLLATE "C" NOT NULL DEFAULT current_user,
	group_rows integer,
	map_rows integer,
	pin_rows integer,
	CONSTRAINT ring_version_pkey PRIMARY KEY (ring, version),
	CONSTRAINT ring_version_ring_length
		CHECK (octet_length(convert_to(ring, 'UTF8')) BETWEEN 1 AND 63),
	/* as in documents; a number near the largest would be the last one */
	CONSTRAINT ring_version_number
		CHECK (version BETWEEN 1 AND 999999999),
	CONSTRAINT ring_version_vnodes_range
		CHECK (vnodes BETWEEN 1 AND 4194304),
	CONSTRAINT ring_version_seal_complete
		CHECK (num_nulls(sealed_at, fingerprint, group_rows, map_rows,
						 pin_rows) = 0
			   OR num_nonnulls(sealed_at, fingerprint, group_rows, map_rows,
							   pin_rows) = 0),
	CONSTRAINT ring_version_fingerprint_form
		CHECK (octet_length(fingerprint) = 64
			   AND translate(fingerprint, '0123456789abcdef', '') = '')
);
COMMENT ON TABLE shardring.ring_version IS
	'versions of rings: a draft can be edited, a sealed one never changes';
COMMENT ON COLUMN shardring.ring_version.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.ring_version.version IS
	'number of the version: 1, 2, 3 ..., at most 999999999; never used twice';
COMMENT ON COLUMN shardring.ring_version.parent IS
	'the version it was copied from; NULL for the first';
COMMENT ON COLUMN shardring.ring_version.drafted_on IS
	'the version that was active when it was drafted';
COMMENT ON COLUMN shardring.ring_version.vnodes IS
	'points of a group of weight 1';
COMMENT ON COLUMN shardring.ring_version.sealed_at IS
	'when it was sealed; NULL for a draft';
COMMENT ON COLUMN shardring.ring_version.fingerprint IS
	'SHA-256 of all that decides routing, written when it is sealed';
COMMENT ON COLUMN shardring.ring_version.note IS 'what it is for';
COMMENT ON COLUMN shardring.ring_version.created_at IS 'when it was drafted';
COMMENT ON COLUMN shardring.ring_version.created_by IS
	'the role that drafted it (current_user)';
COMMENT ON COLUMN shardring.ring_version.group_rows IS
	'rows of shard_group it was sealed with';
COMMENT ON COLUMN shardring.ring_version.map_rows IS
	'rows of shard_map it was sealed with';
COMMENT ON COLUMN shardring.ring_version.pin_rows IS
	'rows of shard_pin it was sealed with';
GRANT SELECT ON shardring.ring_version TO PUBLIC;

CREATE TABLE shardring.shard_group
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	weight numeric NOT NULL,
	slots integer NOT NULL,
	zone text COLLATE "C",
	points bigint[] NOT NULL,
	CONSTRAINT shard_group_pkey PRIMARY KEY (ring, version, group_name),
	CONSTRAINT shard_group_name_length
		CHECK (octet_length(convert_to(group_name, 'UTF8'))
			   BETWEEN 1 AND 255),
	CONSTRAINT shard_group_weight_range
		CHECK (weight BETWEEN 0 AND 4194304),
	CONSTRAINT shard_group_slots_range
		CHECK (slots BETWEEN 1 AND 65536),
	CONSTRAINT shard_group_zone_length
		CHECK (octet_length(convert_to(zone, 'UTF8')) BETWEEN 1 AND 255),
	CONSTRAINT shard_group_points_form
		CHECK (CASE WHEN array_ndims(points) > 1 THEN false
			   ELSE array_position(points, NULL) IS NULL END)
);
COMMENT ON TABLE shardring.shard_group IS
	'the shard groups of each version, with their points on the ring';
COMMENT ON COLUMN shardring.shard_group.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_group.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_group.group_name IS
	'name of the group; its points are hashed from it';
COMMENT ON COLUMN shardring.shard_group.weight IS
	'the group has round(vnodes * weight) points; 0: none, drained';
COMMENT ON COLUMN shardring.shard_group.slots IS
	'a position lies in slot (position % slots) of the group';
COMMENT ON COLUMN shardring.shard_group.zone IS
	'where it stands, for replicas_for';
COMMENT ON COLUMN shardring.shard_group.points IS
	'its positions on the ring, in the order they were taken';
GRANT SELECT ON shardring.shard_group TO PUBLIC;

CREATE TABLE shardring.shard_map
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	slots int4multirange NOT NULL,
	CONSTRAINT shard_map_pkey PRIMARY KEY (ring, version, group_name, shard),
	CONSTRAINT shard_map_shard_length
		CHECK (octet_length(convert_to(shard, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT shard_map_slots_range
		CHECK (NOT isempty(slots) AND slots <@ '{[0,65536)}'::int4multirange)
);
COMMENT ON TABLE shardring.shard_map IS
	'which shard holds which slots of a group, one row a shard';
COMMENT ON COLUMN shardring.shard_map.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_map.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_map.group_name IS 'name of the group';
COMMENT ON COLUMN shardring.shard_map.shard IS
	'name of the shard; it may hold slots of several groups';
COMMENT ON COLUMN shardring.shard_map.slots IS
	'the slots of the group that this shard holds';
GRANT SELECT ON shardring.shard_map TO PUBLIC;

CREATE TABLE shardring.shard_pin
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	key_position bigint NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	CONSTRAINT shard_pin_pkey PRIMARY KEY (ring, version, key_position),
	CONSTRAINT shard_pin_position_range
		CHECK (key_position BETWEEN 0 AND 4294967295),
	CONSTRAINT shard_pin_name_length
		CHECK (octet_length(convert_to(group_name, 'UTF8'))
			   BETWEEN 1 AND 255)
);
COMMENT ON TABLE shardring.shard_pin IS
	'single positions that are given to a group whatever the ring says';
COMMENT ON COLUMN shardring.shard_pin.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_pin.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_pin.key_position IS
	'the pinned position, 0 to 4294967295';
COMMENT ON COLUMN shardring.shard_pin.group_name IS
	'the group it is given to';
GRANT SELECT ON shardring.shard_pin TO PUBLIC;

CREATE TABLE shardring.shard
(
	ring text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	number integer NOT NULL,
	server text COLLATE "C",
	CONSTRAINT shard_pkey PRIMARY KEY (ring, shard),
	CONSTRAINT shard_number_key UNIQUE (ring, number),
	CONSTRAINT shard_name_length
		CHECK (octet_length(convert_to(shard, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT shard_number_positive
		CHECK (number >= 0),
	CONSTRAINT shard_server_length
		CHECK (octet_length(server) BETWEEN 1 AND 63)
);
COMMENT ON TABLE shardring.shard IS
	'every shard a sealed version of the ring ever named';
COMMENT ON COLUMN shardring.shard.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard.shard IS 'name of the shard';
COMMENT ON COLUMN shardring.shard.number IS
	'0, 1, 2 ... in order of first appearance; never changes';
COMMENT ON COLUMN shardring.shard.server IS
	'foreign server with its address; NULL: the one named like the shard';
GRANT SELECT ON shardring.shard TO PUBLIC;

CREATE TABLE shardring.activation
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	from_version integer,
	activated_at timestamp with time zone NOT NULL,
	activated_by text COLLATE "C" NOT NULL,
	moved double precision,
	CONSTRAINT activation_pkey PRIMARY KEY (ring, version),
	CONSTRAINT activation_forward
		CHECK (version > from_version),
	CONSTRAINT activation_moved_range
		CHECK (moved BETWEEN 0 AND 1)
);
COMMENT ON TABLE shardring.activation IS
	'history: which version was active from when on';
COMMENT ON COLUMN shardring.activation.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.activation.version IS
	'the version that was activated; it may have been dropped since';
COMMENT ON COLUMN shardring.activation.from_version IS
	'the version that was active before; NULL for the first';
COMMENT ON COLUMN shardring.activation.activated_at IS
	'clock time under the lock on the ring; it rises with the version';
COMMENT ON COLUMN shardring.activation.activated_by IS
	'the role that activated it (current_user)';
COMMENT ON COLUMN shardring.activation.moved IS
	'exact fraction of the positions that changed their shard';
GRANT SELECT ON shardring.activation TO PUBLIC;

CREATE VIEW shardring.shard_slot AS
	SELECT m.ring, m.version, m.group_name, s.slot, m.shard
	FROM shardring.shard_map AS m
		CROSS JOIN LATERAL unnest(m.slots) AS r (slots)
		CROSS JOIN LATERAL generate_series(lower(r.slots),
										   upper(r.slots) - 1) AS s (slot);
COMMENT ON VIEW shardring.shard_slot IS
	'shard_map spread out, one row a slot';
COMMENT ON COLUMN shardring.shard_slot.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_slot.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_slot.group_name IS 'name of the group';
COMMENT ON COLUMN shardring.shard_slot.slot IS 'number of the slot';
COMMENT ON COLUMN shardring.shard_slot.shard IS 'the shard that holds it';
GRANT SELECT ON shardring.shard_slot TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('shardring.ring', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.ring_version', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_group', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_map', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_pin', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.activation', '');

/*
 * ---------- Triggers: a sealed version never changes ----------
 *
 * Rows may come in any order (a restore), so nothing asks for a row in
 * another table.  Deleting whole versions, or the numbers and the history of a
 * whole ring, is let through where shardring.dropping is on, which is so
 * inside erase_versions and drop_ring only.
 */

CREATE FUNCTION shardring.keep_ring() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NEW.ring <> OLD.ring OR NEW.hash <> OLD.hash
		OR NEW.hash_tags <> OLD.hash_tags
		OR NEW.last_version < OLD.last_version
	THEN
		RAISE EXCEPTION 'ring "%" cannot be changed like this', OLD.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'The name, hash and hash_tags of a ring never change, '
				'and last_version only rises.';
	END IF;
	IF NEW.active_version IS NOT DISTINCT FROM OLD.active_version
		AND NEW.fingerprint IS NOT DISTINCT FROM OLD.fingerprint
	THEN
		RETURN NEW;
	END IF;
	IF NEW.active_version IS NULL OR NEW.active_version <= OLD.active_version
	THEN
		RAISE EXCEPTION 'active version of ring "%" only goes forward',
			OLD.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Draft a new version from the old one and activate it.';
	END IF;
	IF NOT EXISTS (SELECT FROM shardring.ring_version AS v
				   WHERE v.ring = NEW.ring
					   AND v.version = NEW.active_version
					   AND v.fingerprint = NEW.fingerprint)
	THEN
		RAISE EXCEPTION
			'ring "%" has no sealed version % with that fingerprint',
			OLD.ring, NEW.active_version
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use shardring.activate.';
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring.keep_ring() IS
	'trigger: what of a ring may change, and how';
REVOKE EXECUTE ON FUNCTION shardring.keep_ring() FROM PUBLIC;

/*
 * The row itself is being locked by whoever fires this, so OLD is the last
 * state: after waiting for a seal, READ COMMITTED fires it with the sealed
 * row, and REPEATABLE READ does not get here.
 */
CREATE FUNCTION shardring.keep_version() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF TG_OP = 'DELETE' AND (OLD.sealed_at IS NULL OR
		coalesce(current_setting('shardring.dropping', true), '') = 'on')
	THEN
		RETURN OLD;
	END IF;
	IF OLD.sealed_at IS NOT NULL THEN
		PERFORM shardring.refuse_sealed(OLD.ring, OLD.version);
	END IF;
	IF NEW.ring <> OLD.ring OR NEW.version <> OLD.version THEN
		PERFORM shardring.refuse_rekey(OLD.ring, OLD.version);
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring.keep_version() IS
	'trigger: a sealed version is not updated or deleted';
REVOKE EXECUTE ON FUNCTION shardring.keep_version() FROM PUBLIC;

/*
 * Holds the version FOR SHARE, so that it is not sealed during an edit.  The
 * row that fired this is locked already; an edit of the same row through a
 * function takes these locks the other way round, and one of the two may end
 * with 40P01.
 */
CREATE FUNCTION shardring.keep_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	sealed boolean;
BEGIN
	IF TG_OP = 'DELETE'
		AND coalesce(current_setting('shardring.dropping', true), '') = 'on'
	THEN
		RETURN OLD;
	END IF;
	SELECT v.sealed_at IS NOT NULL INTO sealed
	FROM shardring.ring_version AS v
	WHERE v.ring = OLD.ring AND v.version = OLD.version
	FOR SHARE;
	IF sealed THEN
		PERFORM shardring.refuse_sealed(OLD.ring, OLD.version);
	END IF;
	IF TG_OP = 'DELETE' THEN
		RETURN OLD;
	END IF;
	IF NEW.ring <> OLD.ring OR NEW.version <> OLD.version THEN
		PERFORM shardring.refuse_rekey(OLD.ring, OLD.version);
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring.keep_rows() IS
	'trigger: rows of a sealed version are not updated or deleted';
REVOKE EXECUTE ON FUNCTION shardring.keep_rows() FROM PUBLIC;

/*
 * A restore brings back at most as many rows as the version was sealed with,
 * before or after the row that says how many.  The rows are in already, so
 * a seal that goes on meanwhile either waits for us or is seen here.  A
 * version that our snapshot is too old to show cannot be held, so rows of it
 * are refused.
 */
CREATE FUNCTION shardring.keep_counts() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	changed record;
BEGIN
	/* what has no version yet gets none before we end */
	PERFORM FROM (SELECT DISTINCT n.ring, n.version FROM inserted AS n) AS i
		JOIN shardring.ring AS r ON r.ring = i.ring
	WHERE NOT EXISTS (SELECT FROM shardring.ring_version AS v
					  WHERE v.ring = i.ring AND v.version = i.version)
	ORDER BY r.ring
	FOR SHARE OF r;
	LOOP
		PERFORM FROM (SELECT DISTINCT n.ring, n.version
					  FROM inserted AS n) AS i
			JOIN shardring.ring_version AS v
				ON v.ring = i.ring AND v.version = i.version
		ORDER BY v.ring, v.version
		FOR SHARE OF v;
		SELECT i.ring, i.version INTO changed
		FROM (SELECT DISTINCT n.ring, n.version FROM inserted AS n) AS i
			LEFT JOIN shardring.ring_version AS v
				ON v.ring = i.ring AND v.version = i.version
		WHERE v.version IS NULL
			AND shardring.version_exists(i.ring, i.version)
		LIMIT 1;
		EXIT WHEN NOT FOUND;
		/* READ COMMITTED sees it the next time */
		IF current_setting('transaction_isolation') = ANY (
			ARRAY['repeatable read', 'serializable'])
		THEN
			PERFORM shardring.refuse_snapshot(changed.ring, changed.version);
		END IF;
	END LOOP;
	SELECT v.ring, v.version INTO changed
	FROM (SELECT DISTINCT n.ring, n.version FROM inserted AS n) AS i
		JOIN shardring.ring_version AS v
			ON v.ring = i.ring AND v.version = i.version
	WHERE v.sealed_at IS NOT NULL
		AND CASE TG_TABLE_NAME
			WHEN 'shard_group' THEN v.group_rows < (
				SELECT count(*) FROM shardring.shard_group AS g
				WHERE g.ring = v.ring AND g.version = v.version)
			WHEN 'shard_map' THEN v.map_rows < (
				SELECT count(*) FROM shardring.shard_map AS m
				WHERE m.ring = v.ring AND m.version = v.version)
			ELSE v.pin_rows < (
				SELECT count(*) FROM shardring.shard_pin AS p
				WHERE p.ring = v.ring AND p.version = v.version) END
	ORDER BY v.ring, v.version
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring.refuse_sealed(changed.ring, changed.version);
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring.keep_counts() IS
	'trigger: a sealed version gets no more rows than it was sealed with';
REVOKE EXECUTE ON FUNCTION shardring.keep_counts() FROM PUBLIC;

CREATE FUNCTION shardring.keep_table() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	kept record;
BEGIN
	/* an older snapshot would not show what is sealed by now */
	IF current_setting('transaction_isolation') = ANY (
		ARRAY['repeatable read', 'serializable'])
	THEN
		RAISE EXCEPTION 'TRUNCATE of "%" needs READ COMMITTED', TG_TABLE_NAME
			USING ERRCODE = 'feature_not_supported';
	END IF;
	SELECT v.ring, v.version INTO kept
	FROM shardring.ring_version AS v
	WHERE v.sealed_at IS NOT NULL
	ORDER BY v.ring, v.version
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring.refuse_sealed(kept.ring, kept.version);
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring.keep_table() IS
	'trigger: no TRUNCATE while there is a sealed version';
REVOKE EXECUTE ON FUNCTION shardring.keep_table() FROM PUBLIC;

CREATE FUNCTION shardring.keep_owner() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.ring_version AS v
			   WHERE v.ring = OLD.ring)
	THEN
		RAISE EXCEPTION 'ring "%" has versions', OLD.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use shardring.drop_ring.';
	END IF;
	RETURN OLD;
END
$body$;
COMMENT ON FUNCTION shardring.keep_owner() IS
	'trigger: a ring is not deleted before its versions';
REVOKE EXECUTE ON FUNCTION shardring.keep_owner() FROM PUBLIC;

/* Clients and open transactions hold the number, not the name. */
CREATE FUNCTION shardring.keep_shard() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF TG_OP = 'DELETE' THEN
		IF coalesce(current_setting('shardring.dropping', true), '') = 'on'
		THEN
			RETURN OLD;
		END IF;
	ELSIF NEW.ring = OLD.ring AND NEW.shard = OLD.shard
		AND NEW.number = OLD.number
	THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'shard "%" of ring "%" keeps its name and number',
		OLD.shard, OLD.ring
		USING ERRCODE = 'object_not_in_prerequisite_state',
		HINT = 'Only its server can be changed.';
END
$body$;
COMMENT ON FUNCTION shardring.keep_shard() IS
	'trigger: of a shard only the server changes';
REVOKE EXECUTE ON FUNCTION shardring.keep_shard() FROM PUBLIC;

CREATE FUNCTION shardring.keep_activation() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF TG_OP = 'DELETE'
		AND coalesce(current_setting('shardring.dropping', true), '') = 'on'
	THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION 'history of ring "%" cannot be changed', OLD.ring
		USING ERRCODE = 'object_not_in_prerequisite_state',
		HINT = 'It goes with the ring, by shardring.drop_ring.';
END
$body$;
COMMENT ON FUNCTION shardring.keep_activation() IS
	'trigger: what was active when is not changed afterwards';
REVOKE EXECUTE ON FUNCTION shardring.keep_activation() FROM PUBLIC;

CREATE FUNCTION shardring.keep_with_rings() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.ring) THEN
		RAISE EXCEPTION 'table "%" cannot be emptied while there are rings',
			TG_TABLE_NAME
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use shardring.drop_ring.';
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring.keep_with_rings() IS
	'trigger: no TRUNCATE while there is a ring';
REVOKE EXECUTE ON FUNCTION shardring.keep_with_rings() FROM PUBLIC;

CREATE FUNCTION shardring.refuse_sealed(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION 'version % of ring "%" is sealed', version, ring
		USING ERRCODE = 'object_not_in_prerequisite_state',
		HINT = 'Draft a new version and edit that.';
END
$body$;
COMMENT ON FUNCTION shardring.refuse_sealed(text, integer) IS
	'internal: the error of whoever edits a sealed version';

CREATE FUNCTION shardring.refuse_snapshot(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION 'could not serialize access due to concurrent changes '
		'of version % of ring "%"', version, ring
		USING ERRCODE = 'serialization_failure';
END
$body$;
COMMENT ON FUNCTION shardring.refuse_snapshot(text, integer) IS
	'internal: the error of whoever sees an old state of a version';

CREATE FUNCTION shardring.version_exists(ring text, version integer)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_version_exists';
COMMENT ON FUNCTION shardring.version_exists(text, integer) IS
	'internal: whether there is such a version, also if it cannot be seen yet';

CREATE FUNCTION shardring.refuse_rekey(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION
		'row of version % of ring "%" cannot go to another ring or version',
		version, ring
		USING ERRCODE = 'object_not_in_prerequisite_state';
END
$body$;
COMMENT ON FUNCTION shardring.refuse_rekey(text, integer) IS
	'internal: the error of whoever gives a row another ring or version';

CREATE TRIGGER ring_keep
	BEFORE UPDATE ON shardring.ring
	FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
	EXECUTE FUNCTION shardring.keep_ring();
COMMENT ON TRIGGER ring_keep ON shardring.ring IS
	'a ring keeps its hash and goes forward';
CREATE TRIGGER ring_keep_owner
	BEFORE DELETE ON shardring.ring
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_owner();
COMMENT ON TRIGGER ring_keep_owner ON shardring.ring IS
	'a ring stays while it has versions';
CREATE TRIGGER ring_keep_table
	BEFORE TRUNCATE ON shardring.ring
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_table();
COMMENT ON TRIGGER ring_keep_table ON shardring.ring IS
	'no TRUNCATE while there is a sealed version';
CREATE TRIGGER ring_version_keep
	BEFORE UPDATE OR DELETE ON shardring.ring_version
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_version();
COMMENT ON TRIGGER ring_version_keep ON shardring.ring_version IS
	'a sealed version stays as it is';
CREATE TRIGGER ring_version_keep_table
	BEFORE TRUNCATE ON shardring.ring_version
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_table();
COMMENT ON TRIGGER ring_version_keep_table ON shardring.ring_version IS
	'no TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_group_keep
	BEFORE UPDATE OR DELETE ON shardring.shard_group
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_rows();
COMMENT ON TRIGGER shard_group_keep ON shardring.shard_group IS
	'rows of a sealed version stay as they are';
CREATE TRIGGER shard_group_keep_counts
	AFTER INSERT ON shardring.shard_group
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_counts();
COMMENT ON TRIGGER shard_group_keep_counts ON shardring.shard_group IS
	'a sealed version gets no more rows';
CREATE TRIGGER shard_group_keep_table
	BEFORE TRUNCATE ON shardring.shard_group
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_table();
COMMENT ON TRIGGER shard_group_keep_table ON shardring.shard_group IS
	'no TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_map_keep
	BEFORE UPDATE OR DELETE ON shardring.shard_map
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_rows();
COMMENT ON TRIGGER shard_map_keep ON shardring.shard_map IS
	'rows of a sealed version stay as they are';
CREATE TRIGGER shard_map_keep_counts
	AFTER INSERT ON shardring.shard_map
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_counts();
COMMENT ON TRIGGER shard_map_keep_counts ON shardring.shard_map IS
	'a sealed version gets no more rows';
CREATE TRIGGER shard_map_keep_table
	BEFORE TRUNCATE ON shardring.shard_map
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_table();
COMMENT ON TRIGGER shard_map_keep_table ON shardring.shard_map IS
	'no TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_pin_keep
	BEFORE UPDATE OR DELETE ON shardring.shard_pin
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_rows();
COMMENT ON TRIGGER shard_pin_keep ON shardring.shard_pin IS
	'rows of a sealed version stay as they are';
CREATE TRIGGER shard_pin_keep_counts
	AFTER INSERT ON shardring.shard_pin
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_counts();
COMMENT ON TRIGGER shard_pin_keep_counts ON shardring.shard_pin IS
	'a sealed version gets no more rows';
CREATE TRIGGER shard_pin_keep_table
	BEFORE TRUNCATE ON shardring.shard_pin
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_table();
COMMENT ON TRIGGER shard_pin_keep_table ON shardring.shard_pin IS
	'no TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_keep
	BEFORE UPDATE OR DELETE ON shardring.shard
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_shard();
COMMENT ON TRIGGER shard_keep ON shardring.shard IS
	'a shard keeps its name and number';
CREATE TRIGGER shard_keep_table
	BEFORE TRUNCATE ON shardring.shard
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_with_rings();
COMMENT ON TRIGGER shard_keep_table ON shardring.shard IS
	'no TRUNCATE while there is a ring';
CREATE TRIGGER activation_keep
	BEFORE UPDATE OR DELETE ON shardring.activation
	FOR EACH ROW EXECUTE FUNCTION shardring.keep_activation();
COMMENT ON TRIGGER activation_keep ON shardring.activation IS
	'the history stays as it is';
CREATE TRIGGER activation_keep_table
	BEFORE TRUNCATE ON shardring.activation
	FOR EACH STATEMENT EXECUTE FUNCTION shardring.keep_with_rings();
COMMENT ON TRIGGER activation_keep_table ON shardring.activation IS
	'no TRUNCATE while there is a ring';

/*
 * ---------- Define: what the functions below share ----------
 *
 * An argument may be NULL where its default is; otherwise NULL is refused.
 */

CREATE FUNCTION shardring.refuse_null(VARIADIC arguments text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	FOR i IN 1 .. cardinality(arguments) BY 2 LOOP
		IF arguments[i + 1] IS NULL THEN
			RAISE EXCEPTION 'argument "%" must not be null', arguments[i]
				USING ERRCODE = 'null_value_not_allowed';
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.refuse_null(text[]) IS
	'internal: takes names and values in turn, raises where a value is NULL';

CREATE FUNCTION shardring.require_name(what text, name text, longest integer)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF octet_length(convert_to(name, 'UTF8')) NOT BETWEEN 1 AND longest THEN
		RAISE EXCEPTION '% must have 1 to % bytes in UTF-8', what, longest
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_name(text, text, integer) IS
	'internal: raises when a name is empty or too long';

CREATE FUNCTION shardring.require_ring(ring text) RETURNS shardring.ring
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_row shardring.ring;
BEGIN
	PERFORM shardring.refuse_null('ring', ring);
	SELECT r.* INTO found_row FROM shardring.ring AS r
	WHERE r.ring = require_ring.ring COLLATE "C";
	IF NOT FOUND THEN
		RAISE EXCEPTION 'ring "%" does not exist', ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring.require_ring(text) IS
	'internal: the row of a ring, which must exist';

/*
 * A real UPDATE, not FOR UPDATE: only that makes a REPEATABLE READ
 * transaction fail cleanly (40001) when somebody else changed the set of
 * versions after its snapshot.
 */
CREATE FUNCTION shardring.lock_ring(ring text) RETURNS shardring.ring
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
		RAISE EXCEPTION 'ring "%" does not exist', ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN locked;
END
$body$;
COMMENT ON FUNCTION shardring.lock_ring(text) IS
	'internal: locks a ring until the transaction ends, returns its row';
REVOKE EXECUTE ON FUNCTION shardring.lock_ring(text) FROM PUBLIC;

CREATE FUNCTION shardring.only_draft(ring text) RETURNS integer
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
		RAISE EXCEPTION 'ring "%" has no draft', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Make one with shardring.draft_version.';
	ELSIF cardinality(drafts) > 1 THEN
		RAISE EXCEPTION 'ring "%" has % drafts', ring, cardinality(drafts)
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('They are the versions %s.',
							array_to_string(drafts, ', ')),
			HINT = 'Say which one with version.';
	END IF;
	RETURN drafts[1];
END
$body$;
COMMENT ON FUNCTION shardring.only_draft(text) IS
	'internal: the number of the only draft of a ring';

/* A real UPDATE for the reason given at lock_ring. */
CREATE FUNCTION shardring.lock_draft(ring text, version integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target integer := version;
	locked shardring.ring_version;
BEGIN
	PERFORM shardring.require_ring(ring);
	IF target IS NULL THEN
		target := shardring.only_draft(ring);
	END IF;
	UPDATE shardring.ring_version AS v SET vnodes = v.vnodes
	WHERE v.ring = lock_draft.ring COLLATE "C" AND v.version = target
		AND v.sealed_at IS NULL
	RETURNING v.* INTO locked;
	IF FOUND THEN
		RETURN locked;
	END IF;
	PERFORM shardring.require_row(ring, target);
	PERFORM shardring.refuse_sealed(ring, target);
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring.lock_draft(text, integer) IS
	'internal: locks a draft until the transaction ends, returns its row';
REVOKE EXECUTE ON FUNCTION shardring.lock_draft(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring.require_row(ring text, version integer)
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
		RAISE EXCEPTION 'version % of ring "%" does not exist', version, ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring.require_row(text, integer) IS
	'internal: the row of a version, which must exist';

CREATE FUNCTION shardring.require_group(
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
		RAISE EXCEPTION
			'group "%" does not exist in version % of ring "%"',
			group_name, version, ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring.require_group(text, integer, text) IS
	'internal: the row of a group, which must exist';

/*
 * Rows without a version can be left by plain SQL that ran beside a drop.
 * They must not become part of a new version that gets their number.
 */
CREATE FUNCTION shardring.require_unused(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.shard_group AS g
			   WHERE g.ring = require_unused.ring COLLATE "C"
				   AND g.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.shard_map AS m
				   WHERE m.ring = require_unused.ring COLLATE "C"
					   AND m.version = require_unused.version)
		OR EXISTS (SELECT FROM shardring.shard_pin AS p
				   WHERE p.ring = require_unused.ring COLLATE "C"
					   AND p.version = require_unused.version)
	THEN
		RAISE EXCEPTION 'there are rows of version % of ring "%" already',
			version, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Delete what shardring.problems() names.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_unused(text, integer) IS
	'internal: raises when a version that is to be made has rows already';

CREATE FUNCTION shardring.require_vnodes(vnodes integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF vnodes NOT BETWEEN 1 AND 4194304 THEN
		RAISE EXCEPTION 'vnodes must be between 1 and 4194304'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_vnodes(integer) IS
	'internal: raises when there cannot be that many points';

CREATE FUNCTION shardring.point_count(
	group_name text, vnodes integer, weight numeric)
RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	wanted numeric;
BEGIN
	IF weight < 0 OR weight >= 'Infinity' THEN
		RAISE EXCEPTION 'weight of group "%" must be finite and not negative',
			group_name
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	/* before the product, which may be too long for a numeric */
	wanted := CASE WHEN weight > 4194304 THEN weight
		ELSE round(vnodes * weight) END;
	IF wanted > 4194304 THEN
		RAISE EXCEPTION 'too many points for group "%"', group_name
			USING ERRCODE = 'program_limit_exceeded',
			DETAIL = 'A version has at most 4194304 points.';
	END IF;
	IF wanted = 0 AND weight <> 0 THEN
		RAISE EXCEPTION 'weight of group "%" is too small for a point',
			group_name
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('With %s vnodes it rounds to no point.', vnodes),
			HINT = 'Weight 0 drains a group on purpose.';
	END IF;
	RETURN wanted;
END
$body$;
COMMENT ON FUNCTION shardring.point_count(text, integer, numeric) IS
	'internal: round(vnodes * weight), half away from zero';

CREATE FUNCTION shardring.require_room(
	ring text, version integer, points bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	room bigint;
BEGIN
	SELECT CASE WHEN r.hash = 'crc16' THEN 4096 ELSE 4194304 END INTO room
	FROM shardring.ring AS r
	WHERE r.ring = require_room.ring COLLATE "C";
	IF points > room THEN
		RAISE EXCEPTION 'too many points for version % of ring "%"',
			version, ring
			USING ERRCODE = 'program_limit_exceeded',
			DETAIL = format('It would have %s points; at most %s are allowed.',
							points, room);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_room(text, integer, bigint) IS
	'internal: raises when a version would have too many points';

CREATE FUNCTION shardring.resize_groups(
	ring text, version integer, group_names text[], counts integer[],
	OUT group_name text, OUT points bigint[])
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_resize_groups';
COMMENT ON FUNCTION
	shardring.resize_groups(text, integer, text[], integer[]) IS
	'internal: the points these groups have once they have so many';
REVOKE EXECUTE ON FUNCTION
	shardring.resize_groups(text, integer, text[], integer[]) FROM PUBLIC;

CREATE FUNCTION shardring.version_problems(
	ring text, version integer, fresh boolean DEFAULT false)
RETURNS SETOF text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_version_problems';
COMMENT ON FUNCTION
	shardring.version_problems(text, integer, boolean) IS
	'internal: what is wrong with the rows of a version';

CREATE FUNCTION shardring.version_fingerprint(
	ring text, version integer, fresh boolean DEFAULT false)
RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10000
AS 'MODULE_PATHNAME', 'shardring_version_fingerprint';
COMMENT ON FUNCTION
	shardring.version_fingerprint(text, integer, boolean) IS
	'internal: the fingerprint of the rows of a version as they are';

CREATE FUNCTION shardring.require_intact(sealed shardring.ring_version)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF shardring.version_fingerprint(sealed.ring, sealed.version)
		<> sealed.fingerprint
	THEN
		RAISE EXCEPTION
			'version % of ring "%" was altered after it was sealed',
			sealed.version, sealed.ring
			USING ERRCODE = 'data_corrupted',
			HINT = 'Use shardring.problems to see what is wrong.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_intact(shardring.ring_version) IS
	'internal: raises when a sealed version is not what it was sealed with';

/* ---------- Define: rings and versions ---------- */

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
	PERFORM shardring.refuse_null(
		'ring', ring, 'vnodes', vnodes::text, 'hash', hash,
		'hash_tags', hash_tags::text,
		'rejoin_cooldown', rejoin_cooldown::text);
	PERFORM shardring.require_name('name of a ring', ring, 63);
	PERFORM shardring.require_vnodes(vnodes);
	IF hash COLLATE "C" <> ALL (ARRAY['md5', 'fnv1a', 'murmur3', 'crc16'])
	THEN
		RAISE EXCEPTION 'unknown hash function "%"', hash
			USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Known are md5, fnv1a, murmur3 and crc16.';
	END IF;
	IF rejoin_cooldown NOT BETWEEN '0' AND '100 years' THEN
		RAISE EXCEPTION 'rejoin_cooldown must be between 0 and 100 years'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	INSERT INTO shardring.ring
		(ring, hash, hash_tags, rejoin_cooldown, last_version)
	VALUES (create_ring.ring, create_ring.hash, create_ring.hash_tags,
			create_ring.rejoin_cooldown, 1)
	ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'ring "%" exists already', ring
			USING ERRCODE = 'duplicate_object';
	END IF;
	PERFORM shardring.require_unused(ring, 1);
	INSERT INTO shardring.ring_version (ring, version, vnodes)
	VALUES (create_ring.ring, 1, create_ring.vnodes);
	IF hash COLLATE "C" = 'fnv1a' THEN
		RAISE WARNING 'hash fnv1a spreads points badly'
			USING DETAIL = 'Of 8 equal groups of 160 points, one got 0.57 '
				'and one 1.56 of the mean.',
			HINT = 'Use md5 or murmur3 unless other clients need fnv1a.';
	END IF;
	RETURN 1;
END
$body$;
COMMENT ON FUNCTION
	shardring.create_ring(text, integer, text, boolean, interval) IS
	'creates a ring with an empty draft, and returns its version: 1';
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
	PERFORM shardring.refuse_null('ring', ring);
	locked := shardring.lock_ring(ring);
	source := coalesce(from_version, locked.active_version);
	IF source IS NULL THEN
		RAISE EXCEPTION 'ring "%" has no active version to draft from', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Name the version to draft from with from_version; while '
				'there is a draft, edit that.';
	END IF;
	PERFORM shardring.require_row(ring, source);
	PERFORM FROM shardring.ring_version AS v
	WHERE v.ring = locked.ring AND v.version = source
	FOR UPDATE;
	PERFORM shardring.require_intact(shardring.require_row(ring, source));
	UPDATE shardring.ring AS r SET last_version = r.last_version + 1
	WHERE r.ring = locked.ring
	RETURNING r.last_version INTO target;
	PERFORM shardring.copy_version(ring, source, target,
								   locked.active_version, note);
	RETURN target;
END
$body$;
COMMENT ON FUNCTION shardring.draft_version(text, integer, text) IS
	'copies a version, by default the active one, into a new draft';
REVOKE EXECUTE ON FUNCTION shardring.draft_version(text, integer, text)
	FROM PUBLIC;

CREATE FUNCTION shardring.copy_version(
	ring text, source integer, target integer, active_version integer,
	note text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.require_unused(ring, target);
	INSERT INTO shardring.ring_version
		(ring, version, parent, drafted_on, vnodes, note)
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
	shardring.copy_version(text, integer, integer, integer, text) IS
	'internal: copies the rows of a version under another number';
REVOKE EXECUTE ON FUNCTION
	shardring.copy_version(text, integer, integer, integer, text) FROM PUBLIC;

/* ---------- Define: groups ---------- */

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
	PERFORM shardring.refuse_null(
		'ring', ring, 'group_name', group_name,
		'shards', cardinality(shards)::text, 'weight', weight::text,
		'force', force::text);
	PERFORM shardring.require_name('name of a group', group_name, 255);
	IF zone IS NOT NULL THEN
		PERFORM shardring.require_name('zone', zone, 255);
	END IF;
	PERFORM shardring.require_shards(shards, slot_count);
	draft := shardring.lock_draft(ring, version);
	PERFORM shardring.require_new_group(ring, draft.version, group_name);
	new_count := shardring.point_count(group_name, draft.vnodes, weight);
	PERFORM shardring.require_room(ring, draft.version, new_count + (
		SELECT coalesce(sum(cardinality(g.points)), 0)::bigint
		FROM shardring.shard_group AS g
		WHERE g.ring = draft.ring AND g.version = draft.version));
	IF NOT force THEN
		PERFORM shardring.require_cooldown(ring, group_name);
	END IF;
	SELECT p.points INTO STRICT new_points
	FROM shardring.resize_groups(add_group.ring, draft.version,
								 ARRAY[add_group.group_name],
								 ARRAY[new_count]) AS p;
	INSERT INTO shardring.shard_group
		(ring, version, group_name, weight, slots, zone, points)
	VALUES (add_group.ring, draft.version, add_group.group_name,
			add_group.weight, slot_count, add_group.zone, new_points);
	INSERT INTO shardring.shard_map (ring, version, group_name, shard, slots)
	SELECT add_group.ring, draft.version, add_group.group_name, b.shard,
		b.slots
	FROM shardring.slot_blocks(shards, slot_count) AS b;
END
$body$;
COMMENT ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) IS
	'adds a group to a draft; slot s goes to shards[floor(s * n / slots)]';
REVOKE EXECUTE ON FUNCTION shardring.add_group(
	text, text, text[], integer, numeric, text, boolean, integer) FROM PUBLIC;

CREATE FUNCTION shardring.require_shards(shards text[], slots integer)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF array_ndims(shards) IS DISTINCT FROM 1 THEN
		RAISE EXCEPTION 'shards must be a list of at least one name'
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
		RAISE EXCEPTION 'name of a shard must not be null'
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	/* all at once, since there may be 65536 */
	PERFORM shardring.require_name('name of a shard', s.shard, 63)
	FROM unnest(shards) AS s (shard)
	WHERE octet_length(convert_to(s.shard, 'UTF8')) NOT BETWEEN 1 AND 63;
END
$body$;
COMMENT ON FUNCTION shardring.require_shards(text[], integer) IS
	'internal: raises when slots cannot be dealt out to these shards';

CREATE FUNCTION shardring.require_new_group(
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
		RAISE EXCEPTION 'group "%" is in version % of ring "%" already',
			group_name, version, ring
			USING ERRCODE = 'duplicate_object';
	END IF;
	IF EXISTS (SELECT FROM shardring.ring AS r
			   JOIN shardring.shard_group AS g ON g.ring = r.ring
			   WHERE r.ring = require_new_group.ring COLLATE "C"
				   AND r.hash = 'crc16'
				   AND g.version = require_new_group.version)
	THEN
		RAISE EXCEPTION 'ring "%" can have one group only', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Hash crc16 has 65536 positions: too few for a ring '
				'of several groups.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_new_group(text, integer, text) IS
	'internal: raises when a version cannot take a group of this name';

/*
 * A group that has just left comes back with empty or stale shards.  What
 * the dropped versions held is not known any more and hinders nobody.
 */
CREATE FUNCTION shardring.require_cooldown(ring text, group_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	time_left interval;
BEGIN
	SELECT max(a.activated_at) + r.rejoin_cooldown - clock_timestamp()
	INTO time_left
	FROM shardring.ring AS r
		JOIN shardring.activation AS a ON a.ring = r.ring
		JOIN shardring.ring_version AS v
			ON v.ring = a.ring AND v.version = a.version
		JOIN shardring.shard_group AS g
			ON g.ring = a.ring AND g.version = a.from_version
	WHERE r.ring = require_cooldown.ring COLLATE "C"
		AND a.activated_at > clock_timestamp() - r.rejoin_cooldown
		AND g.group_name = require_cooldown.group_name COLLATE "C"
		AND NOT EXISTS (SELECT FROM shardring.shard_group AS s
						WHERE s.ring = r.ring
							AND (s.version = a.version
								 OR s.version = r.active_version)
							AND s.group_name = g.group_name)
	GROUP BY r.rejoin_cooldown;
	IF time_left > '0' THEN
		RAISE EXCEPTION 'group "%" has only just left ring "%"',
			group_name, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('It may come back in %s.',
							date_trunc('second', time_left)
							+ interval '1 second'),
			HINT = 'Wait, or say force => true if its shards are empty.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_cooldown(text, text) IS
	'internal: raises when a group left the ring during rejoin_cooldown';

/* floor(s * n / slots) = i holds from ceil(i * slots / n) on. */
CREATE FUNCTION shardring.slot_blocks(shards text[], slot_count integer)
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
COMMENT ON FUNCTION shardring.slot_blocks(text[], integer) IS
	'internal: deals slots out to shards in contiguous blocks';

CREATE FUNCTION shardring.remove_group(
	ring text, group_name text, version integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	draft shardring.ring_version;
BEGIN
	PERFORM shardring.refuse_null('ring', ring, 'group_name', group_name);
	draft := shardring.lock_draft(ring, version);
	PERFORM shardring.require_group(ring, draft.version, group_name);
	DELETE FROM shardring.shard_map AS m
	WHERE m.ring = draft.ring AND m.version = draft.version
		AND m.group_name = remove_group.group_name COLLATE "C";
	DELETE FROM shardring.shard_group AS g
	WHERE g.ring = draft.ring AND g.version = draft.version
		AND g.group_name = remove_group.group_name COLLATE "C";
END
$body$;
COMMENT ON FUNCTION shardring.remove_group(text, text, integer) IS
	'takes a group out of a draft; its pins stay, and sealing names them';
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
	PERFORM shardring.refuse_null(
		'ring', ring, 'group_name', group_name, 'weight', weight::text);
	draft := shardring.lock_draft(ring, version);
	PERFORM shardring.require_group(ring, draft.version, group_name);
	new_count := shardring.point_count(group_name, draft.vnodes, weight);
	PERFORM shardring.require_room(ring, draft.version, new_count + (
		SELECT coalesce(sum(cardinality(g.points)), 0)::bigint
		FROM shardring.shard_group AS g
		WHERE g.ring = draft.ring AND g.version = draft.version
			AND g.group_name <> set_weight.group_name COLLATE "C"));
	UPDATE shardring.shard_group AS g
	SET weight = set_weight.weight, points = p.points
	FROM shardring.resize_groups(set_weight.ring, draft.version,
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
	PERFORM shardring.refuse_null('ring', ring, 'vnodes', vnodes::text);
	PERFORM shardring.require_vnodes(vnodes);
	draft := shardring.lock_draft(ring, version);
	SELECT array_agg(g.group_name ORDER BY g.group_name),
		array_agg(shardring.point_count(g.group_name, set_vnodes.vnodes,
										g.weight) ORDER BY g.group_name)
	INTO names, counts
	FROM shardring.shard_group AS g
	WHERE g.ring = draft.ring AND g.version = draft.version;
	PERFORM shardring.require_room(ring, draft.version, (
		SELECT coalesce(sum(c.n), 0) FROM unnest(counts) AS c (n)));
	UPDATE shardring.ring_version AS v SET vnodes = set_vnodes.vnodes
	WHERE v.ring = draft.ring AND v.version = draft.version;
	UPDATE shardring.shard_group AS g SET points = p.points
	FROM shardring.resize_groups(set_vnodes.ring, draft.version, names,
								 counts) AS p
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
	PERFORM shardring.refuse_null(
		'ring', ring, 'group_name', group_name,
		'slots', CASE WHEN slots IS NOT NULL THEN '' END, 'shard', shard);
	PERFORM shardring.require_name('name of a shard', shard, 63);
	draft := shardring.lock_draft(ring, version);
	edited := shardring.require_group(ring, draft.version, group_name);
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
	'gives slots of a group of a draft to a shard, and takes them from others';
REVOKE EXECUTE ON FUNCTION
	shardring.assign_slots(text, text, int4multirange, text, integer)
	FROM PUBLIC;

/* ---------- Define: pins ---------- */

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
	PERFORM shardring.refuse_null(
		'ring', ring, 'key_position', key_position::text,
		'group_name', group_name);
	IF key_position NOT BETWEEN 0 AND 4294967295 THEN
		RAISE EXCEPTION 'key_position must be between 0 and 4294967295'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	draft := shardring.lock_draft(ring, version);
	PERFORM shardring.require_group(ring, draft.version, group_name);
	INSERT INTO shardring.shard_pin (ring, version, key_position, group_name)
	VALUES (pin.ring, draft.version, pin.key_position, pin.group_name)
	ON CONFLICT ON CONSTRAINT shard_pin_pkey
	DO UPDATE SET group_name = EXCLUDED.group_name;
END
$body$;
COMMENT ON FUNCTION shardring.pin(text, bigint, text, integer) IS
	'gives one position of a draft to a group, or to another one';
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
	PERFORM shardring.refuse_null('ring', ring, 'key', key,
								  'group_name', group_name);
	draft := shardring.lock_draft(ring, version);
	SELECT shardring.key_position(pin_key.key, r.hash, r.hash_tags)
	INTO STRICT key_position
	FROM shardring.ring AS r
	WHERE r.ring = draft.ring;
	PERFORM shardring.pin(ring, key_position, group_name, draft.version);
END
$body$;
COMMENT ON FUNCTION shardring.pin_key(text, text, text, integer) IS
	'pins the position that a key has by the hash and the tags of the ring';
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
	PERFORM shardring.refuse_null('ring', ring,
								  'key_position', key_position::text);
	draft := shardring.lock_draft(ring, version);
	DELETE FROM shardring.shard_pin AS p
	WHERE p.ring = draft.ring AND p.version = draft.version
		AND p.key_position = unpin.key_position;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'position % is not pinned in version % of ring "%"',
			key_position, draft.version, ring
			USING ERRCODE = 'undefined_object';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.unpin(text, bigint, integer) IS
	'gives a pinned position of a draft back to the ring';
REVOKE EXECUTE ON FUNCTION shardring.unpin(text, bigint, integer) FROM PUBLIC;

/* ---------- Define: seal and activate ---------- */

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
	PERFORM shardring.refuse_null('ring', ring);
	PERFORM shardring.lock_ring(ring);
	IF EXISTS (SELECT FROM shardring.ring_version AS v
			   WHERE v.ring = seal.ring COLLATE "C"
				   AND v.version = seal.version
				   AND v.sealed_at IS NOT NULL)
	THEN
		RAISE EXCEPTION 'version % of ring "%" is sealed already',
			version, ring
			USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	draft := shardring.lock_draft(ring, version);
	PERFORM shardring.require_sound(ring, draft.version);
	print := shardring.settled_fingerprint(ring, draft.version);
	UPDATE shardring.ring_version AS v
	SET sealed_at = clock_timestamp(), fingerprint = print,
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
	PERFORM shardring.number_shards(ring, draft.version);
END
$body$;
COMMENT ON FUNCTION shardring.seal(text, integer) IS
	'checks everything in a draft, and ends all changes to it';
REVOKE EXECUTE ON FUNCTION shardring.seal(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring.settled_fingerprint(ring text, version integer)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text := shardring.version_fingerprint(ring, version, true);
BEGIN
	IF print <> shardring.version_fingerprint(ring, version) COLLATE "C" THEN
		PERFORM shardring.refuse_snapshot(ring, version);
	END IF;
	RETURN print;
END
$body$;
COMMENT ON FUNCTION shardring.settled_fingerprint(text, integer) IS
	'internal: the fingerprint of a locked draft, if the transaction sees it';

CREATE FUNCTION shardring.require_sound(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	problems text[];
BEGIN
	problems := ARRAY(SELECT shardring.version_problems(
		require_sound.ring, require_sound.version, true));
	IF cardinality(problems) > 0 THEN
		RAISE EXCEPTION 'version % of ring "%" cannot be sealed',
			version, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format(
				CASE cardinality(problems) WHEN 1 THEN 'Problem: %s.'
				ELSE 'First of %2$s problems: %1$s.' END,
				problems[1], cardinality(problems));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_sound(text, integer) IS
	'internal: raises when a version cannot be sealed, and says why';

/* Under the lock on the ring, so numbers are dense and only added. */
CREATE FUNCTION shardring.number_shards(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.shard (ring, shard, number)
	SELECT number_shards.ring, n.shard,
		(SELECT count(*) FROM shardring.shard AS s
		 WHERE s.ring = number_shards.ring COLLATE "C")
		+ row_number() OVER (ORDER BY n.group_bytes, n.slot) - 1
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
COMMENT ON FUNCTION shardring.number_shards(text, integer) IS
	'internal: numbers the new shards of a version, by group and first slot';
REVOKE EXECUTE ON FUNCTION shardring.number_shards(text, integer) FROM PUBLIC;

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
	PERFORM shardring.refuse_null('ring', ring);
	IF max_moved NOT BETWEEN 0 AND 1 THEN
		RAISE EXCEPTION 'max_moved must be between 0 and 1'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	locked := shardring.lock_ring(ring);
	target := shardring.activation_target(locked, version, expected_active);
	IF version IS NULL THEN
		PERFORM shardring.tell_whose_draft(target);
	END IF;
	IF target.sealed_at IS NULL THEN
		PERFORM shardring.seal(ring, target.version);
	ELSE
		PERFORM shardring.require_intact(target);
	END IF;
	sound_active := shardring.sound_active(locked, expected_active,
										   max_moved);
	PERFORM shardring.require_usable(ring, target.version, sound_active);
	moved := shardring.moved_share(ring, sound_active, target.version);
	IF moved > max_moved THEN
		RAISE EXCEPTION 'too much moves for max_moved'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Version %s moves %s of the positions; '
							'max_moved is %s.',
							target.version, moved, max_moved);
	END IF;
	PERFORM shardring.switch_version(locked, target.version, moved);
	PERFORM shardring.warn_of_shares(ring, target.version);
	PERFORM shardring.warn_of_joins(ring, target.version, sound_active);
	RETURN target.version;
END
$body$;
COMMENT ON FUNCTION
	shardring.activate(text, integer, integer, double precision) IS
	'makes a version the one keys are routed by, from the commit on';
REVOKE EXECUTE ON FUNCTION
	shardring.activate(text, integer, integer, double precision) FROM PUBLIC;

CREATE FUNCTION shardring.activation_target(
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
		RAISE EXCEPTION 'version % of ring "%" is not the active one',
			expected_active, locked.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = coalesce('Version ' || locked.active_version,
							  'No version') || ' is.';
	END IF;
	target := shardring.require_row(locked.ring, coalesce(
		version, shardring.only_newer(locked)));
	IF target.version <= locked.active_version THEN
		RAISE EXCEPTION
			'version % of ring "%" is not newer than the active one',
			target.version, locked.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Version %s is active.', locked.active_version),
			HINT = 'To go back, draft a new version from the old one.';
	END IF;
	IF coalesce(target.drafted_on, 0) < locked.active_version
		AND expected_active IS NULL
	THEN
		RAISE EXCEPTION 'version % of ring "%" was drafted while % was active',
			target.version, locked.ring,
			coalesce('version ' || target.drafted_on, 'no version')
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('Version %s is active now, and what it changed '
							'may be undone.', locked.active_version),
			HINT = format('Draft from version %1$s and repeat the changes; or '
						  'look at the move plan, and to activate all the '
						  'same say expected_active => %1$s.',
						  locked.active_version);
	END IF;
	RETURN target;
END
$body$;
COMMENT ON FUNCTION
	shardring.activation_target(shardring.ring, integer, integer) IS
	'internal: the version to activate, if it may follow the active one';

CREATE FUNCTION shardring.only_newer(locked shardring.ring) RETURNS integer
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
		RAISE EXCEPTION 'ring "%" has no version newer than the active one',
			locked.ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Make one with shardring.draft_version.';
	ELSIF cardinality(newer) > 1 THEN
		RAISE EXCEPTION
			'ring "%" has % versions newer than the active one',
			locked.ring, cardinality(newer)
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('They are the versions %s.',
							array_to_string(newer, ', ')),
			HINT = 'Say which one with version.';
	END IF;
	RETURN newer[1];
END
$body$;
COMMENT ON FUNCTION shardring.only_newer(shardring.ring) IS
	'internal: the only version newer than the active one';

CREATE FUNCTION shardring.tell_whose_draft(target shardring.ring_version)
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
	shardring.tell_whose_draft(shardring.ring_version) IS
	'internal: tells that a version nobody named is the draft of another';

/*
 * A damaged version must be left by activating another one, and then nothing
 * can be compared with it.
 */
CREATE FUNCTION shardring.sound_active(
	locked shardring.ring, expected_active integer,
	max_moved double precision)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	damage text := shardring.damage(locked.ring, locked.active_version);
BEGIN
	IF damage IS NULL THEN
		RETURN locked.active_version;
	ELSIF expected_active IS NULL OR max_moved IS NOT NULL THEN
		RAISE EXCEPTION '%', damage
			USING ERRCODE = 'data_corrupted',
			DETAIL = 'It is active, so it is not known what would move.',
			HINT = format('Use shardring.problems to see what is wrong; to '
						  'activate another version all the same, say '
						  'expected_active => %s, and not max_moved.',
						  locked.active_version);
	END IF;
	RAISE WARNING '%', damage
		USING DETAIL = 'It was active, so it is not known what moves.',
		HINT = 'Check that rows are where the new version looks for them.';
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring.sound_active(
	shardring.ring, integer, double precision) IS
	'internal: the active version; NULL if none, or damaged and to be left';

/* The rows first: a session that has loaded them once goes on without. */
CREATE FUNCTION shardring.damage(ring text, version integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.require_intact(v)
	FROM shardring.ring_version AS v
	WHERE v.ring = damage.ring COLLATE "C" AND v.version = damage.version;
	PERFORM FROM shardring.moved_ranges(ring, version, version);
	RETURN NULL;
EXCEPTION
	WHEN data_corrupted THEN
		RETURN SQLERRM;
END
$body$;
COMMENT ON FUNCTION shardring.damage(text, integer) IS
	'internal: the error of loading a sealed version; NULL when it is sound';

CREATE FUNCTION shardring.moved_share(
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
COMMENT ON FUNCTION shardring.moved_share(text, integer, integer) IS
	'internal: the exact fraction of the positions that change their shard';

CREATE FUNCTION shardring.require_usable(
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
		RAISE EXCEPTION 'version % of ring "%" has no points', version, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'It needs a group whose weight is not 0.';
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
		RAISE EXCEPTION 'slots of group "%" cannot change from % to %',
			changed.group_name, changed.slots[1], changed.slots[2]
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'The number of slots of a group that stays is fixed.',
			HINT = 'Add a group of another name, and remove this one.';
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring.require_usable(text, integer, integer) IS
	'internal: raises when a version cannot route what the active one routed';

CREATE FUNCTION shardring.switch_version(
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
		RAISE EXCEPTION 'ring "%" was not switched to version %',
			locked.ring, version
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Look for a trigger on table shardring.ring.';
	END IF;
	INSERT INTO shardring.activation
		(ring, version, from_version, activated_at, activated_by, moved)
	SELECT locked.ring, switch_version.version, locked.active_version,
		greatest(max(a.activated_at), clock_timestamp()), current_user,
		switch_version.moved
	FROM shardring.activation AS a
	WHERE a.ring = locked.ring;
END
$body$;
COMMENT ON FUNCTION shardring.switch_version(
	shardring.ring, integer, double precision) IS
	'internal: points a locked ring to another version, writes the history';
REVOKE EXECUTE ON FUNCTION shardring.switch_version(
	shardring.ring, integer, double precision) FROM PUBLIC;

/*
 * The number in the hint is tried out, doubling by doubling, as far as that
 * takes no more than a second or so.
 */
CREATE FUNCTION shardring.warn_of_shares(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	worst record;
	wanted bigint;
BEGIN
	SELECT s.group_name, s.ratio, v.vnodes, sum(s.weight) OVER () AS weights
	INTO worst
	FROM shardring.shares(warn_of_shares.ring, warn_of_shares.version) AS s
		JOIN shardring.ring_version AS v
			ON v.ring = warn_of_shares.ring COLLATE "C"
			AND v.version = warn_of_shares.version
	WHERE s.weight > 0
	ORDER BY s.ratio DESC, s.group_name COLLATE "C"
	LIMIT 1;
	IF worst.ratio > 1.5 THEN
		wanted := 2 * worst.vnodes;
		WHILE wanted <= 4194304 AND wanted * worst.weights < 250000
			AND shardring.largest_ratio(ring, version, wanted::integer) > 1.5
		LOOP
			wanted := 2 * wanted;
		END LOOP;
		RAISE WARNING 'shares of version % of ring "%" are uneven',
			version, ring
			USING DETAIL = format('Group "%s" has %s times the mean share '
								  'of its weight.', worst.group_name,
								  round(worst.ratio::numeric, 2)),
			HINT = CASE WHEN wanted <= 4194304
					AND wanted * worst.weights < 250000
				THEN format('%s vnodes would do.', wanted)
				ELSE 'No reasonable number of vnodes would do: take another '
					'hash, or weights that differ less.' END;
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.warn_of_shares(text, integer) IS
	'internal: warns when a group has over 1.5 times the share of its weight';

CREATE FUNCTION shardring.largest_ratio(
	ring text, version integer, vnodes integer)
RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 100000
BEGIN ATOMIC
	WITH groups AS (
		SELECT g.group_name, g.weight / sum(g.weight) OVER () AS expected,
			shardring.point_count(g.group_name, largest_ratio.vnodes,
								  g.weight) AS points
		FROM shardring.shard_group AS g
		WHERE g.ring = largest_ratio.ring
			AND g.version = largest_ratio.version AND g.weight > 0
	), resized AS (
		SELECT r.group_name, r.points
		FROM (SELECT array_agg(g.group_name) AS names,
				  array_agg(g.points) AS counts FROM groups AS g) AS g
			CROSS JOIN LATERAL shardring.resize_groups(
				largest_ratio.ring, largest_ratio.version, g.names,
				g.counts) AS r
	), arcs AS (
		SELECT r.group_name, p.position - coalesce(
				lag(p.position) OVER (ORDER BY p.position),
				max(p.position) OVER () - 4294967296) AS length
		FROM resized AS r
			CROSS JOIN LATERAL unnest(r.points) AS p (position)
	), owned AS (
		SELECT a.group_name, sum(a.length) / 4294967296 AS share
		FROM arcs AS a
		GROUP BY a.group_name
	)
	SELECT max(o.share / g.expected)
	FROM owned AS o
		JOIN groups AS g ON g.group_name = o.group_name;
END;
COMMENT ON FUNCTION shardring.largest_ratio(text, integer, integer) IS
	'internal: the largest share per weight a version would have with vnodes';
REVOKE EXECUTE ON FUNCTION
	shardring.largest_ratio(text, integer, integer) FROM PUBLIC;

CREATE FUNCTION shardring.warn_of_joins(
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
COMMENT ON FUNCTION shardring.warn_of_joins(text, integer, integer) IS
	'internal: warns when several groups join an active ring at once';

/* ---------- Define: drop ---------- */

CREATE FUNCTION shardring.drop_version(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	locked shardring.ring;
BEGIN
	PERFORM shardring.refuse_null('ring', ring, 'version', version::text);
	locked := shardring.lock_ring(ring);
	PERFORM shardring.require_row(ring, version);
	IF version = locked.active_version THEN
		RAISE EXCEPTION 'version % of ring "%" is active', version, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Activate a newer version first, or drop the ring.';
	END IF;
	PERFORM shardring.erase_versions(ring, ARRAY[version]);
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
	PERFORM shardring.refuse_null('ring', ring, 'keep', keep::text);
	IF keep < 0 THEN
		RAISE EXCEPTION 'keep must not be negative'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	locked := shardring.lock_ring(ring);
	old := ARRAY(
		SELECT k.version
		FROM (SELECT v.version FROM shardring.ring_version AS v
			  WHERE v.ring = locked.ring AND v.sealed_at IS NOT NULL
				  AND v.version < locked.active_version
			  ORDER BY v.version DESC
			  OFFSET keep) AS k
		WHERE NOT EXISTS (SELECT FROM shardring.ring_version AS d
						  WHERE d.ring = locked.ring AND d.sealed_at IS NULL
							  AND d.parent = k.version));
	PERFORM shardring.erase_versions(ring, old);
	RETURN cardinality(old);
END
$body$;
COMMENT ON FUNCTION shardring.prune(text, integer) IS
	'drops sealed versions older than the active one, all but the newest few';
REVOKE EXECUTE ON FUNCTION shardring.prune(text, integer) FROM PUBLIC;

CREATE FUNCTION shardring.drop_ring(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.dropping = 'on'
AS $body$
DECLARE
	locked shardring.ring;
BEGIN
	PERFORM shardring.refuse_null('ring', ring);
	locked := shardring.lock_ring(ring);
	PERFORM shardring.erase_versions(ring, NULL);
	DELETE FROM shardring.activation AS a WHERE a.ring = locked.ring;
	DELETE FROM shardring.shard AS s WHERE s.ring = locked.ring;
	DELETE FROM shardring.shard_probe AS p WHERE p.ring = locked.ring;
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
CREATE FUNCTION shardring.erase_versions(ring text, versions integer[])
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
	PERFORM shardring.settled_fingerprint(v.ring, v.version)
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
COMMENT ON FUNCTION shardring.erase_versions(text, integer[]) IS
	'internal: deletes the rows of these versions of a ring; NULL: of all';
REVOKE EXECUTE ON FUNCTION shardring.erase_versions(text, integer[])
	FROM PUBLIC;

/* ---------- Route ---------- */

CREATE TYPE shardring.location AS
(
	version integer,
	key_position bigint,
	group_name text,
	slot integer,
	shard text
);
COMMENT ON TYPE shardring.location IS 'where a key lives, step by step';
COMMENT ON COLUMN shardring.location.version IS
	'the version that was asked';
COMMENT ON COLUMN shardring.location.key_position IS 'the hash of the key';
COMMENT ON COLUMN shardring.location.group_name IS
	'the group that owns the position';
COMMENT ON COLUMN shardring.location.slot IS 'key_position % slots';
COMMENT ON COLUMN shardring.location.shard IS 'the shard that holds the slot';

CREATE FUNCTION shardring.key_position(
	key text, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_text';
COMMENT ON FUNCTION shardring.key_position(text, text, boolean) IS
	'the position of a text key: the hash of its UTF-8 bytes';

CREATE FUNCTION shardring.key_position(
	key bigint, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_int8';
COMMENT ON FUNCTION shardring.key_position(bigint, text, boolean) IS
	'the position of an integer key: the hash of its decimal text';

CREATE FUNCTION shardring.key_position(
	key uuid, hash text DEFAULT 'md5', hash_tags boolean DEFAULT false)
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_uuid';
COMMENT ON FUNCTION shardring.key_position(uuid, text, boolean) IS
	'the position of a uuid key: the hash of its lower-case text';

CREATE FUNCTION shardring.bytes_position(
	bytes bytea, hash text DEFAULT 'md5')
RETURNS bigint
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_bytes_position';
COMMENT ON FUNCTION shardring.bytes_position(bytea, text) IS
	'the hash of bytes as they are';

CREATE FUNCTION shardring.shard_for(ring text, key text)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_text';
COMMENT ON FUNCTION shardring.shard_for(text, text) IS
	'the shard of a text key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key bigint)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_int8';
COMMENT ON FUNCTION shardring.shard_for(text, bigint) IS
	'the shard of an integer key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key uuid)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_uuid';
COMMENT ON FUNCTION shardring.shard_for(text, uuid) IS
	'the shard of a uuid key in the active version';

CREATE FUNCTION shardring.shard_for(ring text, key text, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_text';
COMMENT ON FUNCTION shardring.shard_for(text, text, integer) IS
	'the shard of a text key in a version';

CREATE FUNCTION shardring.shard_for(ring text, key bigint, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_int8';
COMMENT ON FUNCTION shardring.shard_for(text, bigint, integer) IS
	'the shard of an integer key in a version';

CREATE FUNCTION shardring.shard_for(ring text, key uuid, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_for_uuid';
COMMENT ON FUNCTION shardring.shard_for(text, uuid, integer) IS
	'the shard of a uuid key in a version';

CREATE FUNCTION shardring.shard_at(ring text, key_position bigint)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_at';
COMMENT ON FUNCTION shardring.shard_at(text, bigint) IS
	'the shard of a position in the active version';

CREATE FUNCTION shardring.shard_at(
	ring text, key_position bigint, version integer)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_shard_at';
COMMENT ON FUNCTION shardring.shard_at(text, bigint, integer) IS
	'the shard of a position in a version';

CREATE FUNCTION shardring.locate(ring text, key text)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_text';
COMMENT ON FUNCTION shardring.locate(text, text) IS
	'where a text key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key bigint)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_int8';
COMMENT ON FUNCTION shardring.locate(text, bigint) IS
	'where an integer key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key uuid)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_uuid';
COMMENT ON FUNCTION shardring.locate(text, uuid) IS
	'where a uuid key lives in the active version';

CREATE FUNCTION shardring.locate(ring text, key text, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_text';
COMMENT ON FUNCTION shardring.locate(text, text, integer) IS
	'where a text key lives in a version';

CREATE FUNCTION shardring.locate(ring text, key bigint, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_int8';
COMMENT ON FUNCTION shardring.locate(text, bigint, integer) IS
	'where an integer key lives in a version';

CREATE FUNCTION shardring.locate(ring text, key uuid, version integer)
RETURNS shardring.location
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_locate_uuid';
COMMENT ON FUNCTION shardring.locate(text, uuid, integer) IS
	'where a uuid key lives in a version';

CREATE FUNCTION shardring.replicas_for(
	ring text, key text, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_text';
COMMENT ON FUNCTION shardring.replicas_for(text, text, integer) IS
	'where n copies of a text key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key bigint, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_int8';
COMMENT ON FUNCTION shardring.replicas_for(text, bigint, integer) IS
	'where n copies of an integer key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key uuid, n integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_uuid';
COMMENT ON FUNCTION shardring.replicas_for(text, uuid, integer) IS
	'where n copies of a uuid key go: other groups, new zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key text, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_text';
COMMENT ON FUNCTION shardring.replicas_for(text, text, integer, integer) IS
	'where n copies of a text key go in a version: new groups and zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key bigint, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_int8';
COMMENT ON FUNCTION shardring.replicas_for(text, bigint, integer, integer) IS
	'where n copies of a bigint key go in a version: new groups, zones first';

CREATE FUNCTION shardring.replicas_for(
	ring text, key uuid, n integer, version integer)
RETURNS TABLE (rank integer, group_name text, zone text, slot integer,
	shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 20 ROWS 3
AS 'MODULE_PATHNAME', 'shardring_replicas_for_uuid';
COMMENT ON FUNCTION shardring.replicas_for(text, uuid, integer, integer) IS
	'where n copies of a uuid key go in a version: new groups and zones first';

CREATE FUNCTION shardring.active_version(ring text)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_active_version';
COMMENT ON FUNCTION shardring.active_version(text) IS
	'the active version of a ring; NULL when there is none yet';

CREATE FUNCTION shardring.require_version(ring text, version integer)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_require_version';
COMMENT ON FUNCTION shardring.require_version(text, integer) IS
	'returns the version, or raises SR002 when it is not the active one';

CREATE FUNCTION shardring.version_at(
	ring text, moment timestamp with time zone)
RETURNS integer
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE COST 100
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.require_ring(ring);
	RETURN (SELECT a.version
			FROM shardring.activation AS a
			WHERE a.ring = version_at.ring COLLATE "C"
				AND a.activated_at <= moment
			ORDER BY a.version DESC
			LIMIT 1);
END
$body$;
COMMENT ON FUNCTION
	shardring.version_at(text, timestamp with time zone) IS
	'the version that was active then; NULL before the first';

/* ---------- Look ---------- */

CREATE FUNCTION shardring.points(ring text, version integer DEFAULT NULL)
RETURNS TABLE (key_position bigint, group_name text, salt integer)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_points';
COMMENT ON FUNCTION shardring.points(text, integer) IS
	'the points of a version, ascending, with the number of the candidate';

CREATE FUNCTION shardring.arcs(ring text, version integer DEFAULT NULL)
RETURNS TABLE (positions int8range, group_name text)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_arcs';
COMMENT ON FUNCTION shardring.arcs(text, integer) IS
	'who owns which positions, ascending, pins included';

CREATE FUNCTION shardring.shares(ring text, version integer DEFAULT NULL)
RETURNS TABLE (group_name text, weight numeric, points integer,
	share double precision, expected double precision,
	ratio double precision)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_shares';
COMMENT ON FUNCTION shardring.shares(text, integer) IS
	'the exact share of each group, and what its weight would give it';

CREATE FUNCTION shardring.shard_shares(
	ring text, version integer DEFAULT NULL)
RETURNS TABLE (shard text, groups integer, slots bigint,
	share double precision)
LANGUAGE C STABLE PARALLEL SAFE COST 1000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_shard_shares';
COMMENT ON FUNCTION shardring.shard_shares(text, integer) IS
	'the exact share of each shard, over all groups it serves';

CREATE TYPE shardring.problem AS
(
	ring text,
	version integer,
	problem text
);
COMMENT ON TYPE shardring.problem IS 'something inconsistent in our tables';
COMMENT ON COLUMN shardring.problem.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.problem.version IS
	'number of the version; NULL: of the ring as a whole';
COMMENT ON COLUMN shardring.problem.problem IS 'what is wrong';

/*
 * Drafts are not looked at: sealing does that.  STABLE, so that all of it is
 * told from one snapshot.
 */
CREATE FUNCTION shardring.problems(ring text DEFAULT NULL)
RETURNS SETOF shardring.problem
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	one text COLLATE "C";
	known boolean := false;
BEGIN
	FOR one IN
		SELECT r.ring FROM shardring.ring AS r
		UNION SELECT v.ring FROM shardring.ring_version AS v
		UNION SELECT g.ring FROM shardring.shard_group AS g
		UNION SELECT m.ring FROM shardring.shard_map AS m
		UNION SELECT p.ring FROM shardring.shard_pin AS p
		UNION SELECT s.ring FROM shardring.shard AS s
		UNION SELECT a.ring FROM shardring.activation AS a
		UNION SELECT p.ring FROM shardring.shard_probe AS p
		ORDER BY 1
	LOOP
		CONTINUE WHEN one <> problems.ring COLLATE "C";
		known := true;
		RETURN QUERY SELECT one, NULL::integer, p.problem
			FROM shardring.ring_problems(one) AS p;
		RETURN QUERY SELECT one, NULL::integer, p.problem
			FROM shardring.history_problems(one) AS p;
		RETURN QUERY SELECT one, p.version, p.problem
			FROM shardring.stray_rows(one) AS p;
		RETURN QUERY SELECT one, v.version, p.problem
			FROM shardring.ring_version AS v
				JOIN shardring.ring AS r ON r.ring = v.ring
				CROSS JOIN LATERAL shardring.sealed_problems(v) AS p
			WHERE v.ring = one AND v.sealed_at IS NOT NULL
			ORDER BY v.version;
	END LOOP;
	IF NOT known AND ring IS NOT NULL THEN
		RAISE EXCEPTION 'ring "%" does not exist', ring
			USING ERRCODE = 'undefined_object';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.problems(text) IS
	'everything inconsistent in the tables of a ring, or of all rings';

CREATE FUNCTION shardring.counted(n bigint, thing text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format(CASE n WHEN 1 THEN '%s %s' ELSE '%s %ss' END, n, thing);
END;
COMMENT ON FUNCTION shardring.counted(bigint, text) IS
	'internal: a number of things, in the singular or plural';

CREATE FUNCTION shardring.ring_problems(ring text)
RETURNS TABLE (problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT 'there is no ring of this name, but rows that belong to it'
	WHERE NOT EXISTS (SELECT FROM shardring.ring AS r
					  WHERE r.ring = ring_problems.ring)
	UNION ALL
	SELECT CASE
		WHEN v.version IS NULL THEN
			format('active version %s does not exist', r.active_version)
		WHEN v.sealed_at IS NULL THEN
			format('active version %s is not sealed', r.active_version)
		ELSE format('fingerprint of the active version is %s, '
					'version %s was sealed with %s', r.fingerprint,
					v.version, v.fingerprint) END
	FROM shardring.ring AS r
		LEFT JOIN shardring.ring_version AS v
			ON v.ring = r.ring AND v.version = r.active_version
	WHERE r.ring = ring_problems.ring AND r.active_version IS NOT NULL
		AND r.fingerprint IS DISTINCT FROM v.fingerprint
	UNION ALL
	SELECT format('last_version is %s, but there is a version %s',
				  r.last_version, max(v.version))
	FROM shardring.ring AS r
		JOIN shardring.ring_version AS v ON v.ring = r.ring
	WHERE r.ring = ring_problems.ring
	GROUP BY r.last_version
	HAVING max(v.version) > r.last_version
	UNION ALL
	SELECT CASE count(*) WHEN 1
		THEN format('the only shard has number %s, not 0', min(s.number))
		ELSE format('%s shards have numbers from %s to %s, not from 0 to %s',
					count(*), min(s.number), max(s.number), count(*) - 1) END
	FROM shardring.shard AS s
	WHERE s.ring = ring_problems.ring
	HAVING min(s.number) <> 0 OR max(s.number) <> count(*) - 1;
END;
COMMENT ON FUNCTION shardring.ring_problems(text) IS
	'internal: problems of a ring that belong to no version';

CREATE FUNCTION shardring.history_problems(ring text)
RETURNS TABLE (problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT format('the history ends with %s, the active version is %s',
				  coalesce('version ' || max(a.version), 'nothing'),
				  coalesce(r.active_version::text, 'none'))
	FROM shardring.ring AS r
		LEFT JOIN shardring.activation AS a ON a.ring = r.ring
	WHERE r.ring = history_problems.ring
	GROUP BY r.active_version
	HAVING max(a.version) IS DISTINCT FROM r.active_version
	UNION ALL
	SELECT CASE WHEN h.from_version IS DISTINCT FROM h.version_before THEN
			format('version %s was activated after %s, the history has %s '
				   'before it', h.version,
				   coalesce('version ' || h.from_version, 'nothing'),
				   coalesce('version ' || h.version_before, 'nothing'))
		ELSE format('version %s was activated earlier than version %s',
					h.version, h.version_before) END
	FROM (SELECT a.version, a.from_version, a.activated_at,
			  lag(a.version) OVER history AS version_before,
			  lag(a.activated_at) OVER history AS activated_before
		  FROM shardring.activation AS a
		  WHERE a.ring = history_problems.ring
		  WINDOW history AS (ORDER BY a.version)) AS h
	WHERE h.from_version IS DISTINCT FROM h.version_before
		OR h.activated_at < h.activated_before;
END;
COMMENT ON FUNCTION shardring.history_problems(text) IS
	'internal: what is missing or out of order in the history of a ring';

CREATE FUNCTION shardring.stray_rows(ring text)
RETURNS TABLE (version integer, problem text)
LANGUAGE sql STABLE PARALLEL SAFE COST 1000 ROWS 10
BEGIN ATOMIC
	SELECT s.version, format('%s has %s of a version that does not exist',
							 s.relation, shardring.counted(count(*), 'row'))
	FROM (SELECT g.version, 'shard_group' AS relation
		  FROM shardring.shard_group AS g WHERE g.ring = stray_rows.ring
		  UNION ALL
		  SELECT m.version, 'shard_map'
		  FROM shardring.shard_map AS m WHERE m.ring = stray_rows.ring
		  UNION ALL
		  SELECT p.version, 'shard_pin'
		  FROM shardring.shard_pin AS p WHERE p.ring = stray_rows.ring) AS s
	GROUP BY s.version, s.relation
	HAVING (SELECT v.version FROM shardring.ring_version AS v
			WHERE v.ring = stray_rows.ring AND v.version = s.version) IS NULL
	ORDER BY s.version, s.relation;
END;
COMMENT ON FUNCTION shardring.stray_rows(text) IS
	'internal: rows of versions that do not exist';

CREATE FUNCTION shardring.sealed_problems(
	sealed shardring.ring_version)
RETURNS TABLE (problem text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text;
BEGIN
	RETURN QUERY SELECT shardring.version_problems(sealed.ring,
												   sealed.version);
	RETURN QUERY
		SELECT format('%s has %s, the version was sealed with %s',
					  c.relation, shardring.counted(c.found, 'row'), c.wanted)
		FROM (VALUES
			('shard_group', sealed.group_rows,
			 (SELECT count(*) FROM shardring.shard_group AS g
			  WHERE g.ring = sealed.ring AND g.version = sealed.version)),
			('shard_map', sealed.map_rows,
			 (SELECT count(*) FROM shardring.shard_map AS m
			  WHERE m.ring = sealed.ring AND m.version = sealed.version)),
			('shard_pin', sealed.pin_rows,
			 (SELECT count(*) FROM shardring.shard_pin AS p
			  WHERE p.ring = sealed.ring AND p.version = sealed.version))
			) AS c (relation, wanted, found)
		WHERE c.found <> c.wanted;
	RETURN QUERY
		SELECT format('shard "%s" has no number', m.shard)
		FROM shardring.shard_map AS m
		WHERE m.ring = sealed.ring AND m.version = sealed.version
			AND (SELECT s.number FROM shardring.shard AS s
				 WHERE s.ring = m.ring AND s.shard = m.shard) IS NULL
		GROUP BY m.shard
		ORDER BY m.shard;
	print := shardring.version_fingerprint(sealed.ring, sealed.version);
	IF print IS DISTINCT FROM sealed.fingerprint THEN
		RETURN QUERY SELECT format(
			'fingerprint of the rows is %s, the version was sealed with %s',
			print, sealed.fingerprint);
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring.sealed_problems(shardring.ring_version) IS
	'internal: what is wrong with a sealed version';

/* ---------- Move ---------- */

CREATE FUNCTION shardring.moved_ranges(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (from_group text, to_group text, positions int8multirange,
	share double precision)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_moved_ranges';
COMMENT ON FUNCTION shardring.moved_ranges(text, integer, integer) IS
	'the positions that change their group, one row a pair of groups';

CREATE FUNCTION shardring.move_plan(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (from_shard text, to_shard text, from_group text,
	to_group text, from_slots int4multirange, to_slots int4multirange,
	positions int8multirange, share double precision)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_move_plan';
COMMENT ON FUNCTION shardring.move_plan(text, integer, integer) IS
	'what changes its shard: positions, and slots in the group on either side';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key text)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_text';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, text) IS
	'whether a text key changes its shard between two versions';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key bigint)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_int8';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, bigint) IS
	'whether an integer key changes its shard between two versions';

CREATE FUNCTION shardring.moves(
	ring text, from_version integer, to_version integer, key uuid)
RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_moves_uuid';
COMMENT ON FUNCTION shardring.moves(text, integer, integer, uuid) IS
	'whether a uuid key changes its shard between two versions';

CREATE FUNCTION shardring.moving_keys(
	ring text, from_version integer, to_version integer, keys text[])
RETURNS TABLE (key text, key_position bigint, from_group text,
	from_slot integer, from_shard text, to_group text, to_slot integer,
	to_shard text)
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1000 ROWS 1000
AS 'MODULE_PATHNAME', 'shardring_moving_keys_array';
COMMENT ON FUNCTION
	shardring.moving_keys(text, integer, integer, text[]) IS
	'which of these keys change their shard, from where to where';

CREATE FUNCTION shardring.moving_keys(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name)
RETURNS TABLE (key text, key_position bigint, from_group text,
	from_slot integer, from_shard text, to_group text, to_slot integer,
	to_shard text)
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED COST 100000 ROWS 10000
AS 'MODULE_PATHNAME', 'shardring_moving_keys_relation';
COMMENT ON FUNCTION
	shardring.moving_keys(text, integer, integer, regclass, name) IS
	'which keys of a table change their shard, read with your own rights';

CREATE FUNCTION shardring.move_predicate(
	ring text, from_version integer, to_version integer, from_shard text,
	to_shard text, key_expression text,
	position_expression text DEFAULT NULL, key_type text DEFAULT 'text')
RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 10000
AS 'MODULE_PATHNAME', 'shardring_move_predicate';
COMMENT ON FUNCTION shardring.move_predicate(
	text, integer, integer, text, text, text, text, text) IS
	'SQL for a stock server: true for the rows that go from shard to shard';

CREATE FUNCTION shardring.simulate(
	groups_before integer, groups_after integer,
	vnodes integer DEFAULT 160, keys integer DEFAULT 20000,
	hash text DEFAULT 'md5')
RETURNS TABLE (scheme text, moved double precision,
	largest double precision, smallest double precision,
	stddev double precision)
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100000 ROWS 4
AS 'MODULE_PATHNAME', 'shardring_simulate';
COMMENT ON FUNCTION
	shardring.simulate(integer, integer, integer, integer, text) IS
	'what four ways to share keys out move, and how even they are';

/*
 * Errors of the query would come with all of its text as their context; what
 * a caller may have done wrong is raised again without it.
 */
CREATE FUNCTION shardring.rehearse(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name, load_column name DEFAULT NULL)
RETURNS TABLE (shard text, rows_before bigint, rows_after bigint,
	rows_in bigint, rows_out bigint, bytes_before bigint, bytes_after bigint,
	load_before numeric, load_after numeric)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	hint text;
BEGIN
	IF num_nulls(ring, from_version, to_version, relation, key_column) > 0
	THEN
		RETURN;
	END IF;
	RETURN QUERY EXECUTE shardring.rehearse_query(
		ring, from_version, to_version, relation, key_column, load_column);
EXCEPTION
	WHEN null_value_not_allowed THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE, HINT = hint;
	WHEN insufficient_privilege OR undefined_column OR undefined_object THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE;
END
$body$;
COMMENT ON FUNCTION shardring.rehearse(
	text, integer, integer, regclass, name, name) IS
	'rows, bytes and load of each shard before and after, from a real table';

/*
 * key_position for rehearse.  What is volatile stays where it is written, so
 * that a position is not computed anew for each of its uses, and the planner
 * expects a few hundred pairs of shards instead of one for every key.
 */
CREATE FUNCTION shardring.position_once(
	key text, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_text';
COMMENT ON FUNCTION shardring.position_once(text, text, boolean) IS
	'internal: key_position of a text key, computed where it is written';

CREATE FUNCTION shardring.position_once(
	key bigint, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_int8';
COMMENT ON FUNCTION shardring.position_once(bigint, text, boolean) IS
	'internal: key_position of an integer key, computed where it is written';

CREATE FUNCTION shardring.position_once(
	key uuid, hash text, hash_tags boolean)
RETURNS bigint
LANGUAGE C VOLATILE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_key_position_uuid';
COMMENT ON FUNCTION shardring.position_once(uuid, text, boolean) IS
	'internal: key_position of a uuid key, computed where it is written';

/*
 * One pass: every key is hashed once, rows are counted by pairs of shards in
 * workers, and the few pairs are shared out to shards at the end.  Shards
 * without rows are added as pairs of nothing.
 */
CREATE FUNCTION shardring.rehearse_query(
	ring text, from_version integer, to_version integer, relation regclass,
	key_column name, load_column name DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	hashed_by shardring.ring;
	key text := shardring.key_expression(relation, key_column);
	bytes text := (
		SELECT string_agg(format(
			'coalesce(pg_catalog.pg_column_size(%I), 0)', a.attname),
			' OPERATOR(pg_catalog.+) '
			ORDER BY a.attnum)
		FROM pg_catalog.pg_attribute AS a
		WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped);
	no_load text := CASE WHEN load_column IS NULL
		THEN 'NULL::pg_catalog.numeric' ELSE '0' END;
	load text := CASE WHEN load_column IS NULL THEN no_load
		ELSE format('%I::pg_catalog.numeric', load_column) END;
	load_sum text := CASE WHEN load_column IS NULL THEN no_load
		ELSE 'coalesce(pg_catalog.sum(k.load), 0)' END;
BEGIN
	IF load_column COLLATE "C" = '' THEN
		RAISE EXCEPTION 'column "" of relation "%" does not exist', relation
			USING ERRCODE = 'undefined_column';
	END IF;
	SELECT * INTO hashed_by
	FROM shardring.ring AS r WHERE r.ring = rehearse_query.ring COLLATE "C";
	IF NOT FOUND AND ring IS NOT NULL THEN
		RAISE EXCEPTION 'ring "%" does not exist', ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN format(
$query$SELECT s.shard,
	pg_catalog.sum(p.rows) FILTER (WHERE s.before)::pg_catalog.int8
		AS rows_before,
	pg_catalog.sum(p.rows) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS rows_after,
	pg_catalog.sum(p.moving) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS rows_in,
	pg_catalog.sum(p.moving) FILTER (WHERE s.before)::pg_catalog.int8
		AS rows_out,
	pg_catalog.sum(p.bytes) FILTER (WHERE s.before)::pg_catalog.int8
		AS bytes_before,
	pg_catalog.sum(p.bytes) FILTER (WHERE NOT s.before)::pg_catalog.int8
		AS bytes_after,
	pg_catalog.sum(p.load) FILTER (WHERE s.before) AS load_before,
	pg_catalog.sum(p.load) FILTER (WHERE NOT s.before) AS load_after
FROM (
	SELECT c.from_shard, c.to_shard, c.rows,
		CASE WHEN c.from_shard OPERATOR(pg_catalog.=) c.to_shard THEN 0
			ELSE c.rows END AS moving,
		c.bytes, c.load
	FROM (
		SELECT shardring.shard_at(%1$L, k.key_position, %2$s) AS from_shard,
			shardring.shard_at(%1$L, k.key_position, %3$s) AS to_shard,
			pg_catalog.count(*) AS rows,
			pg_catalog.sum(k.bytes) AS bytes,
			%10$s AS load
		FROM (
			SELECT shardring.position_once(%4$s, %11$L, %12$L)
					AS key_position,
				%5$s AS bytes, %6$s AS load
			FROM %7$s
		) AS k
		GROUP BY 1, 2
	) AS c
	UNION ALL
	SELECT n.shard, n.shard, 0, 0, 0, %8$s
	FROM (
		SELECT b.shard FROM shardring.shard_shares(%1$L, %2$s) AS b
		UNION ALL
		SELECT a.shard FROM shardring.shard_shares(%1$L, %3$s) AS a
	) AS n
) AS p
	CROSS JOIN LATERAL (VALUES
		(CASE WHEN p.from_shard IS NULL
			THEN shardring.refuse_null_keys(%9$L, p.rows)
			ELSE p.from_shard END, true),
		(p.to_shard, false)
	) AS s (shard, before)
GROUP BY s.shard
ORDER BY s.shard COLLATE pg_catalog."C"$query$,
		ring, from_version, to_version, key, bytes, load, relation, no_load,
		key_column, load_sum, hashed_by.hash, hashed_by.hash_tags);
END
$body$;
COMMENT ON FUNCTION shardring.rehearse_query(
	text, integer, integer, regclass, name, name) IS
	'the query that rehearse runs, for EXPLAIN';

CREATE FUNCTION shardring.refuse_null_keys(key_column name, keys bigint)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION 'column "%" has %', key_column,
		shardring.counted(keys, 'NULL key')
		USING ERRCODE = 'null_value_not_allowed',
		HINT = 'A NULL key has no shard.';
END
$body$;
COMMENT ON FUNCTION shardring.refuse_null_keys(name, bigint) IS
	'internal: raises that there are NULL keys, and how many';

CREATE FUNCTION shardring.key_expression(relation regclass, key_column name)
RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_key_expression';
COMMENT ON FUNCTION shardring.key_expression(regclass, name) IS
	'internal: SQL for the values of a column as one of the key types';

CREATE FUNCTION shardring.wait_for_drain(
	ring text, version integer, timeout interval DEFAULT '1 min')
RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_wait_for_drain';
COMMENT ON FUNCTION shardring.wait_for_drain(text, integer, interval) IS
	'waits until no open transaction can use an older version than this one';

/* ---------- Pictures: look and move at a glance ---------- */

CREATE FUNCTION shardring.ring_svg(
	ring text, version integer DEFAULT NULL,
	from_version integer DEFAULT NULL)
RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_ring_svg';
COMMENT ON FUNCTION shardring.ring_svg(text, integer, integer) IS
	'a picture of a version as SVG, and of what moves since from_version';

/*
 * Before and after are told by one bar: # stays with the group, + comes to
 * it, - leaves it.  Rounding is done at the ends of the parts, so that equal
 * sums have equal bars.
 */
CREATE FUNCTION shardring.share_bars(
	ring text, version integer DEFAULT NULL,
	from_version integer DEFAULT NULL)
RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE COST 100000 ROWS 10
BEGIN ATOMIC
	WITH asked AS (
		SELECT coalesce(share_bars.version,
						shardring.active_version(share_bars.ring)) AS version
	), moved AS (
		SELECT m.from_group, m.to_group, m.share
		FROM asked AS a
			CROSS JOIN LATERAL shardring.moved_ranges(
				share_bars.ring, share_bars.from_version, a.version) AS m
	), groups AS (
		SELECT s.group_name, s.share,
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.to_group = s.group_name) AS gained,
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.from_group = s.group_name) AS lost
		FROM shardring.shares(share_bars.ring, share_bars.version) AS s
		UNION ALL
		SELECT s.group_name, 0, 0, s.share
		FROM shardring.shares(share_bars.ring, share_bars.from_version) AS s
		WHERE share_bars.from_version IS NOT NULL
			AND NOT EXISTS (
				SELECT FROM shardring.shares(share_bars.ring,
											 share_bars.version) AS n
				WHERE n.group_name = s.group_name)
	), scaled AS (
		SELECT g.*,
			coalesce(40 / nullif(max(g.share + g.lost) OVER (), 0), 0)
				AS scale,
			least(max(length(g.group_name)) OVER (), 20) AS width,
			regexp_replace(CASE WHEN length(g.group_name) > 20
				THEN left(g.group_name, 17) || '...' ELSE g.group_name END,
				'[[:cntrl:]]', '?', 'g') AS label
		FROM groups AS g
	), lines AS (
		SELECT 2 AS part, s.group_name, rtrim(
			rpad(s.label, s.width) || to_char(100 * s.share, '990.00') || ' %'
			|| CASE WHEN share_bars.from_version IS NULL THEN ''
				WHEN s.gained = s.lost THEN repeat(' ', 9)
				ELSE lpad(to_char(100 * (s.gained - s.lost), 'FMSG990.00'),
						  9) END
			|| '  '
			|| repeat('#', round((s.share - s.gained) * s.scale)::integer)
			|| repeat('+', (round(s.share * s.scale)
							- round((s.share - s.gained) * s.scale))::integer)
			|| repeat('-', (round((s.share + s.lost) * s.scale)
							- round(s.share * s.scale))::integer)) AS line
		FROM scaled AS s
		UNION ALL
		SELECT 1, '', CASE WHEN share_bars.from_version IS NULL
			THEN format('ring %s, version %s', share_bars.ring, a.version)
			ELSE format('ring %s, from version %s to version %s: %s %% move',
				share_bars.ring, share_bars.from_version, a.version,
				round(100 * shardring.moved_share(
					share_bars.ring, share_bars.from_version,
					a.version)::numeric, 2)) END
		FROM asked AS a
		WHERE share_bars.ring IS NOT NULL
		UNION ALL
		SELECT 3, '', '# stays   + comes   - leaves'
		WHERE share_bars.from_version IS NOT NULL
			AND share_bars.ring IS NOT NULL
	)
	SELECT l.line
	FROM lines AS l
	ORDER BY l.part, l.group_name COLLATE "C";
END;
COMMENT ON FUNCTION shardring.share_bars(text, integer, integer) IS
	'the shares of a version as bars, and what changed since from_version';

/* ---------- Proxies and shards: one document ---------- */

/*
 * A version as clients in other languages and other servers read it.  What is
 * in it is told field by field in doc/reference.md.
 */
CREATE FUNCTION shardring.export_version(
	ring text, version integer DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 10000
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	exported shardring.ring_version;
BEGIN
	exported := shardring.exported_version(ring, version);
	RETURN (
		SELECT jsonb_build_object(
			'format', 1, 'ring', r.ring, 'hash', r.hash,
			'hash_tags', r.hash_tags,
			'rejoin_cooldown', extract(epoch FROM r.rejoin_cooldown),
			'version', exported.version, 'parent', exported.parent,
			'drafted_on', exported.drafted_on, 'vnodes', exported.vnodes,
			'note', exported.note, 'fingerprint', exported.fingerprint,
			'groups', shardring.exported_groups(r.ring, exported.version),
			'pins', coalesce((
				SELECT jsonb_agg(jsonb_build_object(
					'position', p.key_position, 'group', p.group_name)
					ORDER BY p.key_position)
				FROM shardring.shard_pin AS p
				WHERE p.ring = r.ring AND p.version = exported.version), '[]'),
			'shards', coalesce((
				SELECT jsonb_agg(s.shard ORDER BY s.number)
				FROM shardring.shard AS s
				WHERE s.ring = r.ring), '[]'))
		FROM shardring.ring AS r
		WHERE r.ring = exported.ring);
END
$body$;
COMMENT ON FUNCTION shardring.export_version(text, integer) IS
	'a sealed version as one document, for clients and other servers';

CREATE FUNCTION shardring.exported_version(ring text, version integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target integer := coalesce(version, shardring.active_version(ring));
	found_row shardring.ring_version;
BEGIN
	IF ring IS NULL THEN
		RAISE EXCEPTION 'argument "ring" must not be null'
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF target IS NULL THEN
		RAISE EXCEPTION 'ring "%" has no active version', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Activate a version, or say which one with version.';
	END IF;
	SELECT v.* INTO found_row FROM shardring.ring_version AS v
	WHERE v.ring = exported_version.ring COLLATE "C" AND v.version = target;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'version % of ring "%" does not exist', target, ring
			USING ERRCODE = 'undefined_object';
	ELSIF found_row.sealed_at IS NULL THEN
		RAISE EXCEPTION 'version % of ring "%" is a draft', target, ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use shardring.seal; what may change is not passed on.';
	END IF;
	PERFORM shardring.require_intact(found_row);
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring.exported_version(text, integer) IS
	'internal: the row of a version that may be passed on';

/* Groups and their shards in the order the fingerprint takes them. */
CREATE FUNCTION shardring.exported_groups(ring text, version integer)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE COST 10000
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object(
		'name', g.group_name, 'weight', g.weight, 'slots', g.slots,
		'zone', g.zone, 'points', to_jsonb(g.points), 'shards', (
			SELECT coalesce(jsonb_agg(jsonb_build_object(
				'shard', m.shard, 'slots', (
					SELECT jsonb_agg(jsonb_build_array(lower(s.r),
													   upper(s.r))
									 ORDER BY lower(s.r))
					FROM unnest(m.slots) AS s (r)))
				ORDER BY convert_to(m.shard, 'UTF8')), '[]')
			FROM shardring.shard_map AS m
			WHERE m.ring = g.ring AND m.version = g.version
				AND m.group_name = g.group_name))
		ORDER BY convert_to(g.group_name, 'UTF8')), '[]')
	FROM shardring.shard_group AS g
	WHERE g.ring = exported_groups.ring
		AND g.version = exported_groups.version;
END;
COMMENT ON FUNCTION shardring.exported_groups(text, integer) IS
	'internal: the groups of a version as a document has them';

/*
 * The rows are those of a draft until everything is checked; then the draft
 * is sealed like any other.  A document may come from anybody: whatever is
 * wrong with it is 22023.
 */
CREATE FUNCTION shardring.import_version(document jsonb) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text;
	target integer;
	print text;
BEGIN
	PERFORM shardring.refuse_null('document', jsonb_typeof(document));
	IF jsonb_typeof(document) <> 'object' THEN
		RAISE EXCEPTION 'a document must be a JSON object'
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF document -> 'format' IS DISTINCT FROM '1' THEN
		PERFORM shardring.refuse_document('format', '1');
	END IF;
	ring := shardring.document_text(document, 'ring', 63);
	target := shardring.document_integer(document, 'version', 1, 999999999);
	print := shardring.document_fingerprint(document);
	IF shardring.has_version(ring, target, print) THEN
		PERFORM shardring.require_content(document, target);
		RETURN target;
	END IF;
	PERFORM shardring.import_ring(document);
	/* somebody else may have been faster */
	IF shardring.has_version(ring, target, print) THEN
		PERFORM shardring.require_content(document, target);
		RETURN target;
	END IF;
	PERFORM shardring.import_shards(ring, document);
	PERFORM shardring.import_rows(ring, target, document);
	PERFORM shardring.seal(ring, target);
	RETURN target;
END
$body$;
COMMENT ON FUNCTION shardring.import_version(jsonb) IS
	'takes over a version from a document, sealed and not active';
REVOKE EXECUTE ON FUNCTION shardring.import_version(jsonb) FROM PUBLIC;

/*
 * A fingerprint is that of rows, so the document becomes a ring that is gone
 * before anybody can see it.
 */
CREATE FUNCTION shardring.require_content(document jsonb, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	scratch text := gen_random_uuid();
BEGIN
	PERFORM shardring.import_ring(
		jsonb_set(document, '{ring}', to_jsonb(scratch)));
	PERFORM shardring.import_rows(scratch, version, document);
	PERFORM shardring.drop_ring(scratch);
END
$body$;
COMMENT ON FUNCTION shardring.require_content(jsonb, integer) IS
	'internal: raises when a document has not the fingerprint it says';
REVOKE EXECUTE ON FUNCTION shardring.require_content(jsonb, integer)
	FROM PUBLIC;

/* Returns with the ring locked. */
CREATE FUNCTION shardring.import_ring(document jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text := shardring.document_text(document, 'ring', 63);
	hash text := shardring.document_text(document, 'hash', 63);
	hash_tags boolean := shardring.document_boolean(document, 'hash_tags');
	number integer := shardring.document_integer(document, 'version', 1,
												 999999999);
	seconds numeric := shardring.document_number(document, 'rejoin_cooldown',
												 0, 3155760000);
	locked shardring.ring;
BEGIN
	IF hash <> ALL (ARRAY['md5', 'fnv1a', 'murmur3', 'crc16']) THEN
		PERFORM shardring.refuse_document(
			'hash', 'md5, fnv1a, murmur3 or crc16');
	END IF;
	INSERT INTO shardring.ring
		(ring, hash, hash_tags, rejoin_cooldown, last_version)
	VALUES (ring, hash, hash_tags,
			least(round(seconds, 6) * interval '1 second',
				  interval '100 years'),
			number)
	ON CONFLICT DO NOTHING;
	locked := shardring.lock_ring(ring);
	IF locked.hash <> hash OR locked.hash_tags <> hash_tags THEN
		RAISE EXCEPTION 'ring "%" exists with another hash', ring
			USING ERRCODE = 'duplicate_object',
			DETAIL = 'The hash and hash_tags of a ring never change.';
	END IF;
	UPDATE shardring.ring AS r SET last_version = number
	WHERE r.ring = locked.ring AND r.last_version < number;
END
$body$;
COMMENT ON FUNCTION shardring.import_ring(jsonb) IS
	'internal: the ring of a document, made when there is none';
REVOKE EXECUTE ON FUNCTION shardring.import_ring(jsonb) FROM PUBLIC;

CREATE FUNCTION shardring.has_version(
	ring text, version integer, fingerprint text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_row shardring.ring_version;
BEGIN
	SELECT v.* INTO found_row FROM shardring.ring_version AS v
	WHERE v.ring = has_version.ring COLLATE "C"
		AND v.version = has_version.version;
	IF FOUND AND found_row.sealed_at IS NULL THEN
		RAISE EXCEPTION 'version % of ring "%" exists as a draft',
			version, ring
			USING ERRCODE = 'duplicate_object',
			HINT = 'Drop it; versions are drafted on one server only.';
	ELSIF FOUND AND found_row.fingerprint <> fingerprint COLLATE "C" THEN
		RAISE EXCEPTION 'version % of ring "%" exists with other content',
			version, ring
			USING ERRCODE = 'duplicate_object',
			DETAIL = format('Its fingerprint is %s, the document has %s.',
							found_row.fingerprint, fingerprint);
	END IF;
	RETURN found_row.version IS NOT NULL;
END
$body$;
COMMENT ON FUNCTION shardring.has_version(text, integer, text) IS
	'internal: whether a version is there; raises if it is another one';
REVOKE EXECUTE ON FUNCTION shardring.has_version(text, integer, text)
	FROM PUBLIC;

/*
 * Numbers are the same on every server, or the maps were not drafted on one.
 */
CREATE FUNCTION shardring.import_shards(ring text, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring.document_list(document, 'shards', 'string');
	other text;
BEGIN
	IF (SELECT count(*) <> count(DISTINCT l.shard)
		FROM jsonb_array_elements_text(list) AS l (shard))
	THEN
		PERFORM shardring.refuse_document('shards', 'a list without doubles');
	END IF;
	PERFORM shardring.require_name('name of a shard', l.shard, 63)
	FROM jsonb_array_elements_text(list) AS l (shard);
	INSERT INTO shardring.shard (ring, shard, number)
	SELECT import_shards.ring, l.shard, l.number - 1
	FROM jsonb_array_elements_text(list) WITH ORDINALITY AS l (shard, number)
	ON CONFLICT DO NOTHING;
	SELECT l.shard INTO other
	FROM jsonb_array_elements_text(list) WITH ORDINALITY AS l (shard, number)
	WHERE NOT EXISTS (SELECT FROM shardring.shard AS s
					  WHERE s.ring = import_shards.ring COLLATE "C"
						  AND s.shard = l.shard AND s.number = l.number - 1)
	ORDER BY l.number
	LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'shard "%" of ring "%" has another number here',
			other, ring
			USING ERRCODE = 'duplicate_object',
			HINT = 'Versions are drafted on one server only; drop the ring '
				'here to take over the one of the document.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.import_shards(text, jsonb) IS
	'internal: the shards of a document, with their numbers';
REVOKE EXECUTE ON FUNCTION shardring.import_shards(text, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring.import_rows(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.ring_version
		(ring, version, parent, drafted_on, vnodes, note)
	VALUES (ring, version,
		shardring.document_integer(document, 'parent', 1, version - 1, true),
		shardring.document_integer(document, 'drafted_on', 1, version - 1,
								   true),
		shardring.document_integer(document, 'vnodes', 1, 4194304),
		shardring.document_text(document, 'note', NULL, true));
	PERFORM shardring.import_groups(ring, version, document);
	PERFORM shardring.import_pins(ring, version, document);
	PERFORM shardring.require_document(ring, version, document);
END
$body$;
COMMENT ON FUNCTION shardring.import_rows(text, integer, jsonb) IS
	'internal: a version of a document as a draft, checked';
REVOKE EXECUTE ON FUNCTION shardring.import_rows(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring.import_groups(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	imported jsonb;
	name text;
BEGIN
	FOR imported IN SELECT l.g FROM jsonb_array_elements(
		shardring.document_list(document, 'groups', 'object')) AS l (g)
	LOOP
		name := shardring.document_text(imported, 'name', 255);
		INSERT INTO shardring.shard_group
			(ring, version, group_name, weight, slots, zone, points)
		VALUES (ring, version, name,
			shardring.document_number(imported, 'weight', 0, 4194304),
			shardring.document_integer(imported, 'slots', 1, 65536),
			shardring.document_text(imported, 'zone', 255, true),
			shardring.document_points(imported))
		ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			PERFORM shardring.refuse_document('groups',
											  'a list without doubles');
		END IF;
		PERFORM shardring.import_map(ring, version, name, imported, document);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.import_groups(text, integer, jsonb) IS
	'internal: the groups of a document';
REVOKE EXECUTE ON FUNCTION shardring.import_groups(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring.import_map(
	ring text, version integer, group_name text, imported jsonb,
	document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	holder jsonb;
	shard text;
BEGIN
	FOR holder IN SELECT l.s FROM jsonb_array_elements(
		shardring.document_list(imported, 'shards', 'object')) AS l (s)
	LOOP
		shard := shardring.document_text(holder, 'shard', 63);
		IF NOT document -> 'shards' ? shard THEN
			PERFORM shardring.refuse_document(
				'shards', format('a list with shard "%s"', shard));
		END IF;
		INSERT INTO shardring.shard_map
			(ring, version, group_name, shard, slots)
		VALUES (ring, version, group_name, shard,
				shardring.document_slots(holder))
		ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			PERFORM shardring.refuse_document('shards',
											  'a list without doubles');
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION
	shardring.import_map(text, integer, text, jsonb, jsonb) IS
	'internal: the shards of a group of a document';
REVOKE EXECUTE ON FUNCTION
	shardring.import_map(text, integer, text, jsonb, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring.import_pins(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.shard_pin (ring, version, key_position, group_name)
	SELECT import_pins.ring, import_pins.version,
		shardring.document_integer(l.p, 'position', 0, 4294967295),
		shardring.document_text(l.p, 'group', 255)
	FROM jsonb_array_elements(
		shardring.document_list(document, 'pins', 'object')) AS l (p)
	ON CONFLICT DO NOTHING;
	IF jsonb_array_length(document -> 'pins') <> (
		SELECT count(*) FROM shardring.shard_pin AS p
		WHERE p.ring = import_pins.ring COLLATE "C"
			AND p.version = import_pins.version)
	THEN
		PERFORM shardring.refuse_document('pins', 'a list without doubles');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.import_pins(text, integer, jsonb) IS
	'internal: the pins of a document';
REVOKE EXECUTE ON FUNCTION shardring.import_pins(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring.require_document(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	first_problem text;
	print text;
BEGIN
	SELECT p.problem INTO first_problem
	FROM shardring.version_problems(ring, version) AS p (problem)
	LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'document of version % of ring "%" is not consistent',
			version, document ->> 'ring'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Problem: %s.', first_problem);
	END IF;
	print := shardring.version_fingerprint(ring, version);
	IF print COLLATE "C" <> document ->> 'fingerprint' THEN
		RAISE EXCEPTION
			'document of version % of ring "%" has a wrong fingerprint',
			version, document ->> 'ring'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('Its content has %s, it says %s.', print,
							document ->> 'fingerprint');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.require_document(text, integer, jsonb) IS
	'internal: raises when the rows of a document are not what it says';
REVOKE EXECUTE ON FUNCTION shardring.require_document(text, integer, jsonb)
	FROM PUBLIC;

/*
 * Reading fields: each returns a value that the tables take, or raises.
 */

CREATE FUNCTION shardring.refuse_document(field text, wanted text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RAISE EXCEPTION 'field "%" of a document must be %', field, wanted
		USING ERRCODE = 'invalid_parameter_value';
END
$body$;
COMMENT ON FUNCTION shardring.refuse_document(text, text) IS
	'internal: the error of a malformed document';
REVOKE EXECUTE ON FUNCTION shardring.refuse_document(text, text) FROM PUBLIC;

CREATE FUNCTION shardring.document_number(
	document jsonb, field text, lowest numeric, highest numeric)
RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	result numeric;
BEGIN
	IF jsonb_typeof(document -> field) = 'number' THEN
		result := document ->> field;
		IF result BETWEEN lowest AND highest THEN
			RETURN result;
		END IF;
	END IF;
	PERFORM shardring.refuse_document(
		field, format('a number from %s to %s', lowest, highest));
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION
	shardring.document_number(jsonb, text, numeric, numeric) IS
	'internal: a number in a document';
REVOKE EXECUTE ON FUNCTION
	shardring.document_number(jsonb, text, numeric, numeric) FROM PUBLIC;

CREATE FUNCTION shardring.document_integer(
	document jsonb, field text, lowest bigint, highest bigint,
	nullable boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	result numeric;
BEGIN
	IF nullable AND jsonb_typeof(document -> field) = 'null' THEN
		RETURN NULL;
	END IF;
	result := shardring.document_number(document, field, lowest, highest);
	IF result <> trunc(result) THEN
		PERFORM shardring.refuse_document(field, 'an integer');
	END IF;
	RETURN result;
END
$body$;
COMMENT ON FUNCTION
	shardring.document_integer(jsonb, text, bigint, bigint, boolean) IS
	'internal: an integer in a document';
REVOKE EXECUTE ON FUNCTION
	shardring.document_integer(jsonb, text, bigint, bigint, boolean)
	FROM PUBLIC;

CREATE FUNCTION shardring.document_boolean(document jsonb, field text)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF jsonb_typeof(document -> field) IS DISTINCT FROM 'boolean' THEN
		PERFORM shardring.refuse_document(field, 'true or false');
	END IF;
	RETURN document ->> field;
END
$body$;
COMMENT ON FUNCTION shardring.document_boolean(jsonb, text) IS
	'internal: a truth value in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_boolean(jsonb, text)
	FROM PUBLIC;

CREATE FUNCTION shardring.document_text(
	document jsonb, field text, longest integer,
	nullable boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF nullable AND jsonb_typeof(document -> field) = 'null' THEN
		RETURN NULL;
	END IF;
	IF jsonb_typeof(document -> field) IS DISTINCT FROM 'string' THEN
		PERFORM shardring.refuse_document(field, 'a string');
	END IF;
	IF longest IS NOT NULL THEN
		PERFORM shardring.require_name(
			format('field "%s" of a document', field), document ->> field,
			longest);
	END IF;
	RETURN document ->> field;
END
$body$;
COMMENT ON FUNCTION
	shardring.document_text(jsonb, text, integer, boolean) IS
	'internal: a string in a document';
REVOKE EXECUTE ON FUNCTION
	shardring.document_text(jsonb, text, integer, boolean) FROM PUBLIC;

CREATE FUNCTION shardring.document_fingerprint(document jsonb) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text := shardring.document_text(document, 'fingerprint', 64);
BEGIN
	IF print !~ '^[0-9a-f]{64}$' THEN
		PERFORM shardring.refuse_document(
			'fingerprint', '64 hexadecimal digits in lower case');
	END IF;
	RETURN print;
END
$body$;
COMMENT ON FUNCTION shardring.document_fingerprint(jsonb) IS
	'internal: the fingerprint in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_fingerprint(jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring.document_list(
	document jsonb, field text, kind text)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF jsonb_typeof(document -> field) IS DISTINCT FROM 'array' THEN
		PERFORM shardring.refuse_document(field, 'a list');
	END IF;
	IF EXISTS (SELECT FROM jsonb_array_elements(document -> field) AS l (e)
			   WHERE jsonb_typeof(l.e) <> kind COLLATE "C")
	THEN
		PERFORM shardring.refuse_document(
			field, format('a list of type %s', kind));
	END IF;
	RETURN document -> field;
END
$body$;
COMMENT ON FUNCTION shardring.document_list(jsonb, text, text) IS
	'internal: a list of values of one type in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_list(jsonb, text, text)
	FROM PUBLIC;

CREATE FUNCTION shardring.document_points(imported jsonb) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring.document_list(imported, 'points', 'number');
	points numeric[];
BEGIN
	IF jsonb_array_length(list) > 4194304 THEN
		PERFORM shardring.refuse_document(
			'points', 'a list of at most 4194304 numbers');
	END IF;
	points := ARRAY(
		SELECT l.p::numeric
		FROM jsonb_array_elements(list) WITH ORDINALITY AS l (p, i)
		ORDER BY l.i);
	IF EXISTS (SELECT FROM unnest(points) AS u (p)
			   WHERE u.p NOT BETWEEN 0 AND 4294967295
				   OR u.p <> trunc(u.p))
	THEN
		PERFORM shardring.refuse_document(
			'points', 'a list of integers from 0 to 4294967295');
	END IF;
	RETURN points;
END
$body$;
COMMENT ON FUNCTION shardring.document_points(jsonb) IS
	'internal: the points of a group in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_points(jsonb) FROM PUBLIC;

/* One by one, a sum of ranges takes time with the square of their number. */
CREATE FUNCTION shardring.document_slots(holder jsonb)
RETURNS int4multirange
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring.document_list(holder, 'slots', 'array');
	result int4multirange;
BEGIN
	SELECT range_agg(shardring.document_range(l.b)) INTO result
	FROM jsonb_array_elements(list) AS l (b);
	IF result IS NULL THEN
		PERFORM shardring.refuse_document('slots', 'a list of slots');
	END IF;
	RETURN result;
END
$body$;
COMMENT ON FUNCTION shardring.document_slots(jsonb) IS
	'internal: the slots of a shard in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_slots(jsonb) FROM PUBLIC;

CREATE FUNCTION shardring.document_range(bounds jsonb) RETURNS int4range
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ends jsonb := jsonb_build_object('lo', bounds -> 0, 'hi', bounds -> 1);
	lo integer;
BEGIN
	IF jsonb_array_length(bounds) <> 2 THEN
		PERFORM shardring.refuse_document('slots',
										  'a list of pairs of integers');
	END IF;
	lo := shardring.document_integer(ends, 'lo', 0, 65535);
	RETURN int4range(
		lo, shardring.document_integer(ends, 'hi', lo + 1, 65536)::integer);
END
$body$;
COMMENT ON FUNCTION shardring.document_range(jsonb) IS
	'internal: some slots of a shard in a document';
REVOKE EXECUTE ON FUNCTION shardring.document_range(jsonb) FROM PUBLIC;

/* ---------- Proxies and shards: the guard ---------- */

/*
 * VOLATILE and PARALLEL UNSAFE: they look at what is active now, not at what
 * the statement sees.
 */

CREATE FUNCTION shardring.guard() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_guard';
COMMENT ON FUNCTION shardring.guard() IS
	'trigger (ring, key column): refuses rows whose key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key text) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_text';
COMMENT ON FUNCTION shardring.require_here(text, text) IS
	'returns this shard, or raises SR001 when a text key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key bigint) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_int8';
COMMENT ON FUNCTION shardring.require_here(text, bigint) IS
	'returns this shard, or raises SR001 when an integer key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key uuid) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_uuid';
COMMENT ON FUNCTION shardring.require_here(text, uuid) IS
	'returns this shard, or raises SR001 when a uuid key lives elsewhere';

/* ---------- Proxies and shards: addresses ---------- */

CREATE FUNCTION shardring.live_shards(ring text)
RETURNS TABLE (shard text, number integer, server text)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring.require_ring(ring);
BEGIN
	RETURN QUERY
		SELECT s.shard, s.number, coalesce(s.server, s.shard)
		FROM shardring.shard AS s
		WHERE s.ring = ours.ring
			AND EXISTS (
				SELECT FROM shardring.ring_version AS v
					JOIN shardring.shard_map AS m
						ON m.ring = v.ring AND m.version = v.version
				WHERE v.ring = s.ring AND v.sealed_at IS NOT NULL
					AND v.version >= coalesce(ours.active_version, 1)
					AND m.shard = s.shard)
		ORDER BY s.number;
END
$body$;
COMMENT ON FUNCTION shardring.live_shards(text) IS
	'shards of the active version and of sealed newer ones, with servers';

CREATE FUNCTION shardring.connect_string(server text) RETURNS text
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_connect_string';
COMMENT ON FUNCTION shardring.connect_string(text) IS
	'internal: the address of a foreign server, without secrets';
REVOKE EXECUTE ON FUNCTION shardring.connect_string(text) FROM PUBLIC;

/*
 * Numbers stay, so a shard that is retired keeps its partition, with the
 * address of another one: RUN ON ALL calls equal addresses once.
 */
CREATE FUNCTION shardring.plproxy_sync(ring text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	addresses text[] COLLATE "C";
	wrapper text COLLATE "C";
	old_names text[];
	old_addresses text[] COLLATE "C";
BEGIN
	PERFORM shardring.require_ring(ring);
	addresses := shardring.partition_addresses(ring);
	SELECT w.fdwname, p.names, p.addresses
	INTO wrapper, old_names, old_addresses
	FROM pg_foreign_server AS f
		JOIN pg_foreign_data_wrapper AS w ON w.oid = f.srvfdw
		CROSS JOIN LATERAL shardring.partition_options(f.srvoptions) AS p
	WHERE f.srvname = plproxy_sync.ring COLLATE "C";
	IF NOT FOUND THEN
		EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER plproxy '
					   'OPTIONS (%s)', ring,
					   shardring.partition_clauses(addresses, ''));
	ELSIF wrapper <> 'plproxy' THEN
		RAISE EXCEPTION 'server "%" exists and is none of PL/Proxy''s', ring
			USING ERRCODE = 'duplicate_object',
			HINT = 'The name of the ring is the name of the cluster.';
	ELSIF old_addresses IS DISTINCT FROM (addresses || text '1') THEN
		EXECUTE format('ALTER SERVER %I OPTIONS (%s)', ring, concat_ws(', ',
			(SELECT string_agg(format('DROP %I', n.name), ', ')
			 FROM unnest(old_names) AS n (name)),
			shardring.partition_clauses(addresses, 'ADD ')));
	END IF;
	RETURN cardinality(addresses);
END
$body$;
COMMENT ON FUNCTION shardring.plproxy_sync(text) IS
	'makes the server of PL/Proxy for a ring what the shards are';
REVOKE EXECUTE ON FUNCTION shardring.plproxy_sync(text) FROM PUBLIC;

CREATE FUNCTION shardring.partition_addresses(ring text) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	stand_in text;
	numbers text COLLATE "C";
BEGIN
	SELECT shardring.connect_string(l.server) INTO stand_in
	FROM shardring.live_shards(ring) AS l
	WHERE EXISTS (SELECT FROM shardring.shard_map AS m
				  WHERE m.ring = partition_addresses.ring COLLATE "C"
					  AND m.version = shardring.active_version(m.ring)
					  AND m.shard = l.shard)
	ORDER BY l.number
	LIMIT 1;
	IF stand_in IS NULL THEN
		RAISE EXCEPTION 'ring "%" has no active version', ring
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Use shardring.activate to activate one.';
	END IF;
	SELECT string_agg(s.number::text, ' ' ORDER BY s.number) INTO numbers
	FROM shardring.shard AS s
	WHERE s.ring = partition_addresses.ring COLLATE "C";
	IF numbers <> (SELECT string_agg(i::text, ' ' ORDER BY i)
				   FROM generate_series(0, (
					   SELECT count(*) - 1 FROM shardring.shard AS s
					   WHERE s.ring = partition_addresses.ring
						   COLLATE "C")) AS i)
	THEN
		RAISE EXCEPTION 'shards of ring "%" are not numbered 0, 1, 2 ...',
			ring
			USING ERRCODE = 'data_corrupted',
			HINT = 'Use shardring.problems to see what is wrong.';
	END IF;
	RETURN ARRAY(
		SELECT CASE WHEN l.server IS NULL THEN stand_in
			ELSE shardring.connect_string(l.server) END
		FROM shardring.shard AS s
			LEFT JOIN shardring.live_shards(partition_addresses.ring) AS l
				ON l.shard = s.shard
		WHERE s.ring = partition_addresses.ring COLLATE "C"
		ORDER BY s.number);
END
$body$;
COMMENT ON FUNCTION shardring.partition_addresses(text) IS
	'internal: the addresses of all shards, by number';
REVOKE EXECUTE ON FUNCTION shardring.partition_addresses(text) FROM PUBLIC;

/* Those that plproxy_sync writes; others belong to whoever set them. */
CREATE FUNCTION shardring.partition_options(
	options text[], OUT names text[], OUT addresses text[])
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT array_agg(o.option_name ORDER BY o.i),
		array_agg(o.option_value ORDER BY o.i)
	FROM pg_options_to_table(options) WITH ORDINALITY
		AS o (option_name, option_value, i)
	WHERE o.option_name ~ '^p[0-9]+$' OR o.option_name = 'modular_mapping';
END;
COMMENT ON FUNCTION shardring.partition_options(text[]) IS
	'internal: the partitions among the options of a server';
REVOKE EXECUTE ON FUNCTION shardring.partition_options(text[]) FROM PUBLIC;

CREATE FUNCTION shardring.partition_clauses(addresses text[], verb text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT string_agg(format('%sp%s %L', verb, a.i - 1, a.address), ', '
					  ORDER BY a.i)
		|| format(', %smodular_mapping %L', verb, 1)
	FROM unnest(addresses) WITH ORDINALITY AS a (address, i);
END;
COMMENT ON FUNCTION shardring.partition_clauses(text[], text) IS
	'internal: partitions as options of CREATE or ALTER SERVER';
REVOKE EXECUTE ON FUNCTION shardring.partition_clauses(text[], text)
	FROM PUBLIC;

CREATE FUNCTION shardring.plproxy_partition(ring text, key text)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_text';
COMMENT ON FUNCTION shardring.plproxy_partition(text, text) IS
	'the number of the shard of a text key, for RUN ON';

CREATE FUNCTION shardring.plproxy_partition(ring text, key bigint)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_int8';
COMMENT ON FUNCTION shardring.plproxy_partition(text, bigint) IS
	'the number of the shard of an integer key, for RUN ON';

CREATE FUNCTION shardring.plproxy_partition(ring text, key uuid)
RETURNS integer
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 2
AS 'MODULE_PATHNAME', 'shardring_plproxy_partition_uuid';
COMMENT ON FUNCTION shardring.plproxy_partition(text, uuid) IS
	'the number of the shard of a uuid key, for RUN ON';

/*
 * Values are in apostrophes, doubled inside; for names pgbouncer has nothing
 * of the kind.
 */
CREATE FUNCTION shardring.pgbouncer_databases(ring text) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	line record;
BEGIN
	FOR line IN
		SELECT l.shard, l.server, f.oid IS NULL AS missing, (
			SELECT string_agg(format('%s=''%s''', o.option_name,
									 replace(o.option_value, '''', '''''')),
							  ' ' ORDER BY o.option_name)
			FROM pg_options_to_table(f.srvoptions) AS o
			WHERE o.option_name = ANY (ARRAY['host', 'port', 'dbname'])
			) AS address
		FROM shardring.live_shards(ring) AS l
			LEFT JOIN pg_foreign_server AS f ON f.srvname = l.server
		ORDER BY l.number
	LOOP
		IF line.missing THEN
			RAISE EXCEPTION 'server "%" does not exist', line.server
				USING ERRCODE = 'undefined_object';
		ELSIF line.shard !~ '^[-_.A-Za-z0-9]+$' OR line.shard = 'pgbouncer'
		THEN
			RAISE EXCEPTION 'shard "%" cannot be a database of pgbouncer',
				line.shard
				USING ERRCODE = 'invalid_parameter_value',
				DETAIL = 'It takes ASCII letters, digits, ".", "-" and "_".';
		ELSIF line.address ~ '[[:cntrl:]]' THEN
			RAISE EXCEPTION 'server "%" has options with control characters',
				line.server
				USING ERRCODE = 'invalid_parameter_value';
		END IF;
		RETURN NEXT format('%s = %s', line.shard, line.address);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.pgbouncer_databases(text) IS
	'lines for the databases section of pgbouncer.ini, one a shard';

/* ---------- Proxies and shards: asking the shards ---------- */

CREATE TABLE shardring.shard_probe
(
	ring text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	failures integer NOT NULL,
	succeeded_at timestamp with time zone,
	failed_at timestamp with time zone,
	error text COLLATE "C",
	CONSTRAINT shard_probe_pkey PRIMARY KEY (ring, shard),
	CONSTRAINT shard_probe_failures_positive
		CHECK (failures >= 0)
);
COMMENT ON TABLE shardring.shard_probe IS
	'what probe found about the shards';
COMMENT ON COLUMN shardring.shard_probe.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_probe.shard IS 'name of the shard';
COMMENT ON COLUMN shardring.shard_probe.failures IS
	'how often it failed in a row; 0 after a success';
COMMENT ON COLUMN shardring.shard_probe.succeeded_at IS
	'when it answered last; NULL: never';
COMMENT ON COLUMN shardring.shard_probe.failed_at IS
	'when it failed last; NULL: never';
COMMENT ON COLUMN shardring.shard_probe.error IS
	'why it failed last';
GRANT SELECT ON shardring.shard_probe TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_probe', '');

/*
 * The only way to other servers.  With the caller's rights: USAGE on the
 * foreign server, and his user mapping.
 */
CREATE FUNCTION shardring.ask_servers(
	servers text[], statement text, arguments text[])
RETURNS TABLE (server text, server_version text, error text, answer text[],
	round_trip interval)
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000000 ROWS 10
AS 'MODULE_PATHNAME', 'shardring_ask_servers';
COMMENT ON FUNCTION shardring.ask_servers(text[], text, text[]) IS
	'internal: runs a statement on servers at once, each a transaction';
REVOKE EXECUTE ON FUNCTION shardring.ask_servers(text[], text, text[])
	FROM PUBLIC;

/*
 * The fingerprint is computed by the shard from its rows, so that altered
 * ones are noticed.
 */
CREATE FUNCTION shardring.shard_status(ring text)
RETURNS TABLE (shard text, server text, reachable boolean, error text,
	server_version text, active_version integer, fingerprint text,
	in_sync boolean, round_trip interval)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring;
BEGIN
	ours := shardring.require_ring(ring);
	RETURN QUERY
		SELECT l.shard, l.server, a.server_version IS NOT NULL, a.error,
			a.server_version, a.active_version, a.fingerprint,
			a.error IS NULL
				AND a.active_version IS NOT DISTINCT FROM ours.active_version
				AND a.fingerprint IS NOT DISTINCT FROM ours.fingerprint,
			a.round_trip
		FROM shardring.live_shards(ring) AS l
			JOIN shardring.ask_versions(
				ARRAY(SELECT DISTINCT s.server
					  FROM shardring.live_shards(ring) AS s
					  ORDER BY s.server),
				'SELECT r.active_version, shardring.version_fingerprint('
				'r.ring, r.active_version) FROM shardring.ring AS r '
				'WHERE r.ring OPERATOR(pg_catalog.=) $1',
				ARRAY[shard_status.ring]) AS a ON a.server = l.server
		ORDER BY l.number;
END
$body$;
COMMENT ON FUNCTION shardring.shard_status(text) IS
	'asks every shard at once which version it has active';
REVOKE EXECUTE ON FUNCTION shardring.shard_status(text) FROM PUBLIC;

/* What comes from elsewhere is not trusted to be a version. */
CREATE FUNCTION shardring.ask_versions(
	servers text[], statement text, arguments text[])
RETURNS TABLE (server text, server_version text, error text,
	active_version integer, fingerprint text, round_trip interval)
LANGUAGE sql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
BEGIN ATOMIC
	SELECT a.server, a.server_version, a.error,
		CASE WHEN a.answer[1] ~ '^[1-9][0-9]{0,8}$'
			THEN a.answer[1]::integer END,
		CASE WHEN a.answer[2] ~ '^[0-9a-f]{64}$' THEN a.answer[2] END,
		a.round_trip
	FROM shardring.ask_servers(servers, statement, arguments) AS a;
END;
COMMENT ON FUNCTION shardring.ask_versions(text[], text, text[]) IS
	'internal: asks servers something that is a version and a fingerprint';
REVOKE EXECUTE ON FUNCTION shardring.ask_versions(text[], text, text[])
	FROM PUBLIC;

CREATE FUNCTION shardring.push_version(
	ring text, version integer, shards text[] DEFAULT NULL,
	activate boolean DEFAULT false)
RETURNS TABLE (shard text, ok boolean, error text, active_version integer,
	fingerprint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	document jsonb;
	targets shardring.shard[];
BEGIN
	PERFORM shardring.refuse_null('ring', ring, 'version', version::text,
								  'activate', activate::text);
	document := shardring.export_version(ring, version);
	targets := shardring.push_targets(ring, version, shards);
	RETURN QUERY
		SELECT t.shard,
			a.error IS NULL
				AND a.fingerprint IS NOT DISTINCT FROM document
					->> 'fingerprint'
				AND (a.active_version IS NOT DISTINCT FROM
					 push_version.version OR NOT push_version.activate),
			a.error, a.active_version, a.fingerprint
		FROM unnest(targets) AS t
			JOIN shardring.ask_versions(
				ARRAY(SELECT DISTINCT s.server FROM unnest(targets) AS s
					  ORDER BY s.server),
				'SELECT * FROM shardring.receive_version($1, $2)',
				ARRAY[document::text, push_version.activate::text]) AS a
				ON a.server = t.server
		ORDER BY t.number;
END
$body$;
COMMENT ON FUNCTION
	shardring.push_version(text, integer, text[], boolean) IS
	'imports a version on shards, all at once, and activates it if told to';
REVOKE EXECUTE ON FUNCTION
	shardring.push_version(text, integer, text[], boolean) FROM PUBLIC;

CREATE FUNCTION shardring.push_targets(
	ring text, version integer, shards text[])
RETURNS shardring.shard[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unknown text;
BEGIN
	SELECT n.shard INTO unknown FROM unnest(shards) AS n (shard)
	WHERE NOT EXISTS (SELECT FROM shardring.shard AS s
					  WHERE s.ring = push_targets.ring COLLATE "C"
						  AND s.shard = n.shard COLLATE "C")
	LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'shard "%" of ring "%" does not exist', unknown, ring
			USING ERRCODE = 'undefined_object';
	END IF;
	RETURN ARRAY(
		SELECT ROW(s.ring, s.shard, s.number, coalesce(s.server, s.shard))
			::shardring.shard
		FROM shardring.shard AS s
		WHERE s.ring = push_targets.ring COLLATE "C"
			AND CASE WHEN shards IS NOT NULL
				THEN s.shard = ANY (shards COLLATE "C")
			ELSE EXISTS (SELECT
						 FROM shardring.live_shards(push_targets.ring) AS l
						 WHERE l.shard = s.shard)
				OR EXISTS (SELECT FROM shardring.shard_map AS m
						   WHERE m.ring = s.ring
							   AND m.version = push_targets.version
							   AND m.shard = s.shard) END
		ORDER BY s.number);
END
$body$;
COMMENT ON FUNCTION shardring.push_targets(text, integer, text[]) IS
	'internal: the shards to push to, each with its server';
REVOKE EXECUTE ON FUNCTION shardring.push_targets(text, integer, text[])
	FROM PUBLIC;

/* The other end of push_version. */
CREATE FUNCTION shardring.receive_version(
	document jsonb, activate boolean,
	OUT active_version integer, OUT fingerprint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text;
	target integer;
BEGIN
	target := shardring.import_version(document);
	ring := document ->> 'ring';
	IF activate AND target IS DISTINCT FROM shardring.active_version(ring)
	THEN
		PERFORM shardring.activate(ring, target);
	END IF;
	active_version := shardring.active_version(ring);
	fingerprint := shardring.version_fingerprint(ring, target);
	IF fingerprint <> document ->> 'fingerprint' THEN
		RAISE EXCEPTION
			'version % of ring "%" was altered after it was sealed',
			target, ring
			USING ERRCODE = 'data_corrupted',
			HINT = 'Use shardring.problems to see what is wrong.';
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring.receive_version(jsonb, boolean) IS
	'internal: imports a version that is pushed, and activates it';
REVOKE EXECUTE ON FUNCTION shardring.receive_version(jsonb, boolean)
	FROM PUBLIC;

/*
 * A shard fails that does not answer, or not what was asked.  That it has
 * another version is no failure.
 */
CREATE FUNCTION shardring.probe(ring text)
RETURNS SETOF shardring.shard_probe
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.refuse_null('ring', ring);
	RETURN QUERY
		INSERT INTO shardring.shard_probe AS p
			(ring, shard, failures, succeeded_at, failed_at, error)
		SELECT probe.ring, s.shard,
			CASE WHEN s.error IS NULL THEN 0 ELSE 1 END,
			CASE WHEN s.error IS NULL THEN clock_timestamp() END,
			CASE WHEN s.error IS NOT NULL THEN clock_timestamp() END,
			s.error
		FROM shardring.shard_status(probe.ring) AS s
		ON CONFLICT ON CONSTRAINT shard_probe_pkey DO UPDATE
		SET failures = CASE WHEN EXCLUDED.error IS NULL THEN 0
				ELSE p.failures + 1 END,
			succeeded_at = coalesce(EXCLUDED.succeeded_at, p.succeeded_at),
			failed_at = coalesce(EXCLUDED.failed_at, p.failed_at),
			error = coalesce(EXCLUDED.error, p.error)
		RETURNING p.*;
END
$body$;
COMMENT ON FUNCTION shardring.probe(text) IS
	'asks every shard at once, and counts how often each failed in a row';
REVOKE EXECUTE ON FUNCTION shardring.probe(text) FROM PUBLIC;

CREATE FUNCTION shardring.suspects(ring text, failures integer DEFAULT 3)
RETURNS SETOF shardring.shard_probe
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring.require_ring(ring);
	RETURN QUERY
		SELECT p.*
		FROM shardring.shard_probe AS p
			JOIN shardring.live_shards(suspects.ring) AS l
				ON l.shard = p.shard
		WHERE p.ring = suspects.ring COLLATE "C"
			AND p.failures >= suspects.failures
		ORDER BY l.number;
END
$body$;
COMMENT ON FUNCTION shardring.suspects(text, integer) IS
	'shards that failed so often in a row, by what probe found';
