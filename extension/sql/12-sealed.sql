/*
 * 12-sealed.sql
 *		Triggers: a sealed version never changes.
 *
 * Rows may come in any order (a restore), so nothing asks for a row in
 * another table.  Deleting whole versions, or the numbers and the history of a
 * whole ring, is let through where shardring.dropping is on, which is so
 * inside erase_versions and drop_ring only.
 */

CREATE FUNCTION shardring_internal.protect_ring() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NEW.ring <> OLD.ring OR NEW.hash <> OLD.hash
		OR NEW.hash_tags <> OLD.hash_tags
		OR NEW.last_version < OLD.last_version
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" cannot be changed in this way', OLD.ring),
			detail => 'The name, hash, and hash_tags of a ring never change, '
				'and last_version only increases.');
	END IF;
	IF NEW.active_version IS NOT DISTINCT FROM OLD.active_version
		AND NEW.fingerprint IS NOT DISTINCT FROM OLD.fingerprint
	THEN
		RETURN NEW;
	END IF;
	IF NEW.active_version IS NULL OR NEW.active_version <= OLD.active_version
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'active version of ring "%s" can only increase', OLD.ring),
			hint => 'Draft a new version from the old one and activate it.');
	END IF;
	IF NOT EXISTS (SELECT FROM shardring.ring_version AS v
				   WHERE v.ring = NEW.ring
					   AND v.version = NEW.active_version
					   AND v.fingerprint = NEW.fingerprint)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no sealed version %s with that fingerprint',
			OLD.ring, NEW.active_version),
			hint => 'Use shardring.activate.');
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_ring() IS
	'trigger: restricts what may change in a ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_ring() FROM PUBLIC;

/*
 * The row itself is being locked by whoever fires this, so OLD is the last
 * state: after waiting for a seal, READ COMMITTED fires it with the sealed
 * row, and REPEATABLE READ does not get here.
 */
CREATE FUNCTION shardring_internal.protect_version() RETURNS trigger
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
		PERFORM shardring_internal.refuse_sealed(OLD.ring, OLD.version);
	END IF;
	IF NEW.ring <> OLD.ring OR NEW.version <> OLD.version THEN
		PERFORM shardring_internal.refuse_rekey(OLD.ring, OLD.version);
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_version() IS
	'trigger: refuses to update or delete a sealed version';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_version() FROM PUBLIC;

/*
 * Holds the version FOR SHARE, so that it is not sealed during an edit.  The
 * row that fired this is locked already; an edit of the same row through a
 * function takes these locks the other way round, and one of the two may end
 * with 40P01.
 */
CREATE FUNCTION shardring_internal.protect_rows() RETURNS trigger
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
		PERFORM shardring_internal.refuse_sealed(OLD.ring, OLD.version);
	END IF;
	IF TG_OP = 'DELETE' THEN
		RETURN OLD;
	END IF;
	IF NEW.ring <> OLD.ring OR NEW.version <> OLD.version THEN
		PERFORM shardring_internal.refuse_rekey(OLD.ring, OLD.version);
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_rows() IS
	'trigger: refuses to update or delete rows of a sealed version';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_rows() FROM PUBLIC;

/*
 * A restore brings back at most as many rows as the version was sealed with,
 * before or after the row that says how many.  The rows are in already, so
 * a seal that goes on meanwhile either waits for us or is seen here.  A
 * version that our snapshot is too old to show cannot be held, so rows of it
 * are refused.
 */
CREATE FUNCTION shardring_internal.limit_rows() RETURNS trigger
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
			AND shardring_internal.version_exists(i.ring, i.version)
		LIMIT 1;
		EXIT WHEN NOT FOUND;
		/* READ COMMITTED sees it the next time */
		IF current_setting('transaction_isolation') = ANY (
			ARRAY['repeatable read', 'serializable'])
		THEN
			PERFORM shardring_internal.refuse_snapshot(
				changed.ring, changed.version);
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
		PERFORM shardring_internal.refuse_sealed(
			changed.ring, changed.version);
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.limit_rows() IS
	'trigger: refuses more rows than a version was sealed with';
REVOKE EXECUTE ON FUNCTION shardring_internal.limit_rows() FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_truncate_sealed() RETURNS trigger
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
		PERFORM shardring_internal.fail('0A000', format(
			'TRUNCATE of "%s" requires isolation level READ COMMITTED',
			TG_TABLE_NAME));
	END IF;
	SELECT v.ring, v.version INTO kept
	FROM shardring.ring_version AS v
	WHERE v.sealed_at IS NOT NULL
	ORDER BY v.ring, v.version
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.refuse_sealed(kept.ring, kept.version);
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_truncate_sealed() IS
	'trigger: refuses TRUNCATE while there is a sealed version';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_truncate_sealed()
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_delete_ring() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.ring_version AS v
			   WHERE v.ring = OLD.ring)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" still has versions', OLD.ring),
			hint => 'Use shardring.drop_ring.');
	END IF;
	RETURN OLD;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_delete_ring() IS
	'trigger: refuses to delete a ring that has versions';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_delete_ring() FROM PUBLIC;

/* Clients and open transactions hold the number, not the name. */
CREATE FUNCTION shardring_internal.protect_shard() RETURNS trigger
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
	PERFORM shardring_internal.fail('55000', format(
		'name and number of shard "%s" of ring "%s" cannot be changed',
		OLD.shard, OLD.ring),
		hint => 'Only its server can be changed.');
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_shard() IS
	'trigger: allows changes only to the server of a shard';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_shard() FROM PUBLIC;

CREATE FUNCTION shardring_internal.protect_activation() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF TG_OP = 'DELETE'
		AND coalesce(current_setting('shardring.dropping', true), '') = 'on'
	THEN
		RETURN OLD;
	END IF;
	PERFORM shardring_internal.fail('55000', format(
		'history of ring "%s" cannot be changed', OLD.ring),
		hint => 'It is deleted with the ring, by shardring.drop_ring.');
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_activation() IS
	'trigger: refuses to change the history';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_activation() FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_truncate_rings() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF EXISTS (SELECT FROM shardring.ring) THEN
		PERFORM shardring_internal.fail('55000', format(
			'cannot truncate table "%s" while there are rings', TG_TABLE_NAME),
			hint => 'Use shardring.drop_ring.');
	END IF;
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_truncate_rings() IS
	'trigger: refuses TRUNCATE while there is a ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_truncate_rings()
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_sealed(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('55000', format(
		'version %s of ring "%s" is sealed', version, ring),
		hint => 'Draft a new version and edit that.');
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_sealed(text, integer) IS
	'raises the error for editing a sealed version';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_sealed(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_snapshot(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('40001', format(
		'could not serialize access due to concurrent changes to version %s '
		'of ring "%s"', version, ring));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_snapshot(text, integer) IS
	'raises the error for an outdated view of a version';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_snapshot(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.version_exists(ring text, version integer)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 100
AS 'MODULE_PATHNAME', 'shardring_version_exists';
COMMENT ON FUNCTION shardring_internal.version_exists(text, integer) IS
	'whether a version exists, even if it is not visible yet';
REVOKE EXECUTE ON FUNCTION shardring_internal.version_exists(text, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_rekey(ring text, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('55000', format(
		'row of version %s of ring "%s" cannot move to another ring or '
		'version', version, ring));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_rekey(text, integer) IS
	'raises the error for moving a row to another version';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_rekey(text, integer)
	FROM PUBLIC;

CREATE TRIGGER ring_protect
	BEFORE UPDATE ON shardring.ring
	FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
	EXECUTE FUNCTION shardring_internal.protect_ring();
COMMENT ON TRIGGER ring_protect ON shardring.ring IS
	'the hash of a ring is fixed, its versions only increase';
CREATE TRIGGER ring_refuse_delete
	BEFORE DELETE ON shardring.ring
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.refuse_delete_ring();
COMMENT ON TRIGGER ring_refuse_delete ON shardring.ring IS
	'a ring that has versions cannot be deleted';
CREATE TRIGGER ring_refuse_truncate
	BEFORE TRUNCATE ON shardring.ring
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_sealed();
COMMENT ON TRIGGER ring_refuse_truncate ON shardring.ring IS
	'refuses TRUNCATE while there is a sealed version';
CREATE TRIGGER ring_version_protect
	BEFORE UPDATE OR DELETE ON shardring.ring_version
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_version();
COMMENT ON TRIGGER ring_version_protect ON shardring.ring_version IS
	'a sealed version cannot be changed';
CREATE TRIGGER ring_version_refuse_truncate
	BEFORE TRUNCATE ON shardring.ring_version
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_sealed();
COMMENT ON TRIGGER ring_version_refuse_truncate ON shardring.ring_version IS
	'refuses TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_group_protect
	BEFORE UPDATE OR DELETE ON shardring.shard_group
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_rows();
COMMENT ON TRIGGER shard_group_protect ON shardring.shard_group IS
	'rows of a sealed version cannot be changed';
CREATE TRIGGER shard_group_limit
	AFTER INSERT ON shardring.shard_group
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring_internal.limit_rows();
COMMENT ON TRIGGER shard_group_limit ON shardring.shard_group IS
	'a sealed version cannot gain rows';
CREATE TRIGGER shard_group_refuse_truncate
	BEFORE TRUNCATE ON shardring.shard_group
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_sealed();
COMMENT ON TRIGGER shard_group_refuse_truncate ON shardring.shard_group IS
	'refuses TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_map_protect
	BEFORE UPDATE OR DELETE ON shardring.shard_map
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_rows();
COMMENT ON TRIGGER shard_map_protect ON shardring.shard_map IS
	'rows of a sealed version cannot be changed';
CREATE TRIGGER shard_map_limit
	AFTER INSERT ON shardring.shard_map
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring_internal.limit_rows();
COMMENT ON TRIGGER shard_map_limit ON shardring.shard_map IS
	'a sealed version cannot gain rows';
CREATE TRIGGER shard_map_refuse_truncate
	BEFORE TRUNCATE ON shardring.shard_map
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_sealed();
COMMENT ON TRIGGER shard_map_refuse_truncate ON shardring.shard_map IS
	'refuses TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_pin_protect
	BEFORE UPDATE OR DELETE ON shardring.shard_pin
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_rows();
COMMENT ON TRIGGER shard_pin_protect ON shardring.shard_pin IS
	'rows of a sealed version cannot be changed';
CREATE TRIGGER shard_pin_limit
	AFTER INSERT ON shardring.shard_pin
	REFERENCING NEW TABLE AS inserted
	FOR EACH STATEMENT EXECUTE FUNCTION shardring_internal.limit_rows();
COMMENT ON TRIGGER shard_pin_limit ON shardring.shard_pin IS
	'a sealed version cannot gain rows';
CREATE TRIGGER shard_pin_refuse_truncate
	BEFORE TRUNCATE ON shardring.shard_pin
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_sealed();
COMMENT ON TRIGGER shard_pin_refuse_truncate ON shardring.shard_pin IS
	'refuses TRUNCATE while there is a sealed version';
CREATE TRIGGER shard_protect
	BEFORE UPDATE OR DELETE ON shardring.shard
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_shard();
COMMENT ON TRIGGER shard_protect ON shardring.shard IS
	'the name and number of a shard are fixed';
CREATE TRIGGER shard_refuse_truncate
	BEFORE TRUNCATE ON shardring.shard
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_rings();
COMMENT ON TRIGGER shard_refuse_truncate ON shardring.shard IS
	'refuses TRUNCATE while there is a ring';
CREATE TRIGGER activation_protect
	BEFORE UPDATE OR DELETE ON shardring.activation
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_activation();
COMMENT ON TRIGGER activation_protect ON shardring.activation IS
	'the history cannot be changed';
CREATE TRIGGER activation_refuse_truncate
	BEFORE TRUNCATE ON shardring.activation
	FOR EACH STATEMENT
	EXECUTE FUNCTION shardring_internal.refuse_truncate_rings();
COMMENT ON TRIGGER activation_refuse_truncate ON shardring.activation IS
	'refuses TRUNCATE while there is a ring';

