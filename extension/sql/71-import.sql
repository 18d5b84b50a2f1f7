/*
 * 71-import.sql
 *		A document becomes a sealed version.
 */

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
	PERFORM shardring_internal.refuse_null('document', jsonb_typeof(document));
	IF jsonb_typeof(document) <> 'object' THEN
		PERFORM shardring_internal.fail(
			'22023', 'a document must be a JSON object');
	END IF;
	IF document -> 'format' IS DISTINCT FROM '1' THEN
		PERFORM shardring_internal.refuse_document('format', '1');
	END IF;
	ring := shardring_internal.document_text(document, 'ring', 63);
	target := shardring_internal.document_integer(
		document, 'version', 1, 999999999);
	print := shardring_internal.document_fingerprint(document);
	IF shardring_internal.has_version(ring, target, print) THEN
		PERFORM shardring_internal.require_content(document, target);
		RETURN target;
	END IF;
	PERFORM shardring_internal.import_ring(document);
	/* somebody else may have been faster */
	IF shardring_internal.has_version(ring, target, print) THEN
		PERFORM shardring_internal.require_content(document, target);
		RETURN target;
	END IF;
	PERFORM shardring_internal.import_shards(ring, document);
	PERFORM shardring_internal.import_rows(ring, target, document);
	PERFORM shardring.seal(ring, target);
	RETURN target;
END
$body$;
COMMENT ON FUNCTION shardring.import_version(jsonb) IS
	'imports a version from a document, sealed and not active';
REVOKE EXECUTE ON FUNCTION shardring.import_version(jsonb) FROM PUBLIC;

/*
 * A fingerprint is that of rows, so the document becomes a ring that is gone
 * before anybody can see it.
 */
CREATE FUNCTION shardring_internal.require_content(
	document jsonb, version integer)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	scratch text := gen_random_uuid();
BEGIN
	PERFORM shardring_internal.import_ring(
		jsonb_set(document, '{ring}', to_jsonb(scratch)));
	PERFORM shardring_internal.import_rows(scratch, version, document);
	IF shardring_internal.zone_fingerprint(scratch, version)
		IS DISTINCT FROM (
			SELECT v.zone_fingerprint FROM shardring.ring_version AS v
			WHERE v.ring = document ->> 'ring' COLLATE "C"
				AND v.version = require_content.version)
	THEN
		PERFORM shardring_internal.fail('42710', format(
			'version %s of ring "%s" already exists with other zones', version,
			document ->> 'ring'));
	END IF;
	PERFORM shardring.drop_ring(scratch);
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_content(jsonb, integer) IS
	'raises if a document does not match its fingerprint';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_content(jsonb, integer)
	FROM PUBLIC;

/* Returns with the ring locked. */
CREATE FUNCTION shardring_internal.import_ring(document jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ring text := shardring_internal.document_text(document, 'ring', 63);
	hash text := shardring_internal.document_text(document, 'hash', 63);
	hash_tags boolean := shardring_internal.document_boolean(
		document, 'hash_tags');
	number integer := shardring_internal.document_integer(
		document, 'version', 1, 999999999);
	seconds numeric := shardring_internal.document_number(
		document, 'rejoin_cooldown', 0, 3155760000);
	locked shardring.ring;
BEGIN
	IF hash <> ALL (ARRAY['md5', 'fnv1a', 'murmur3', 'crc16']) THEN
		PERFORM shardring_internal.refuse_document(
			'hash', 'md5, fnv1a, murmur3 or crc16');
	END IF;
	INSERT INTO shardring.ring
		(ring, hash, hash_tags, rejoin_cooldown, last_version)
	VALUES (ring, hash, hash_tags,
			least(round(seconds, 6) * interval '1 second',
				  interval '100 years'),
			number)
	ON CONFLICT DO NOTHING;
	locked := shardring_internal.lock_ring(ring);
	IF locked.hash <> hash OR locked.hash_tags <> hash_tags THEN
		PERFORM shardring_internal.fail('42710', format(
			'ring "%s" already exists with another hash', ring),
			detail => 'The hash and hash_tags of a ring never change.');
	END IF;
	UPDATE shardring.ring AS r SET last_version = number
	WHERE r.ring = locked.ring AND r.last_version < number;
END
$body$;
COMMENT ON FUNCTION shardring_internal.import_ring(jsonb) IS
	'the ring of a document, created if there is none';
REVOKE EXECUTE ON FUNCTION shardring_internal.import_ring(jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.has_version(
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
		PERFORM shardring_internal.fail('42710', format(
			'version %s of ring "%s" already exists as a draft', version,
			ring),
			hint => 'Drop it; versions are drafted on one server only.');
	ELSIF FOUND AND found_row.fingerprint <> fingerprint COLLATE "C" THEN
		PERFORM shardring_internal.fail('42710', format(
			'version %s of ring "%s" already exists with other content',
			version, ring),
			detail => format('Its fingerprint is %s, but the document has %s.',
				found_row.fingerprint, fingerprint));
	END IF;
	RETURN found_row.version IS NOT NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.has_version(text, integer, text) IS
	'whether a version exists; raises if its content differs';
REVOKE EXECUTE ON FUNCTION shardring_internal.has_version(text, integer, text)
	FROM PUBLIC;

/*
 * Numbers are the same on every server, or the maps were not drafted on one.
 */
CREATE FUNCTION shardring_internal.import_shards(ring text, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring_internal.document_list(
		document, 'shards', 'string');
	other text;
BEGIN
	IF (SELECT count(*) <> count(DISTINCT l.shard)
		FROM jsonb_array_elements_text(list) AS l (shard))
	THEN
		PERFORM shardring_internal.refuse_document(
			'shards', 'a list without duplicates');
	END IF;
	PERFORM shardring_internal.require_name('shard name', l.shard, 63)
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
		PERFORM shardring_internal.fail('42710', format(
			'shard "%s" of ring "%s" has a different number here', other,
			ring),
			hint => 'Versions are drafted on one server only; drop the ring '
				'here to import it from the document.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.import_shards(text, jsonb) IS
	'the shards of a document, with their numbers';
REVOKE EXECUTE ON FUNCTION shardring_internal.import_shards(text, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.import_rows(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.ring_version
		(ring, version, parent, base_active, vnodes, note)
	VALUES (ring, version,
		shardring_internal.document_integer(
			document, 'parent', 1, version - 1, true),
		shardring_internal.document_integer(
			document, 'drafted_on', 1, version - 1, true),
		shardring_internal.document_integer(document, 'vnodes', 1, 4194304),
		shardring_internal.document_text(document, 'note', NULL, true));
	PERFORM shardring_internal.import_groups(ring, version, document);
	PERFORM shardring_internal.import_pins(ring, version, document);
	PERFORM shardring_internal.require_document(ring, version, document);
END
$body$;
COMMENT ON FUNCTION shardring_internal.import_rows(text, integer, jsonb) IS
	'a version of a document as a draft, checked';
REVOKE EXECUTE ON FUNCTION shardring_internal.import_rows(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.import_groups(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	imported jsonb;
	name text;
BEGIN
	FOR imported IN SELECT l.g
		FROM jsonb_array_elements(shardring_internal.document_list(
			document, 'groups', 'object')) AS l (g)
	LOOP
		name := shardring_internal.document_text(imported, 'name', 255);
		INSERT INTO shardring.shard_group
			(ring, version, group_name, weight, slots, zone, points)
		VALUES (ring, version, name,
			shardring_internal.document_number(imported, 'weight', 0, 4194304),
			shardring_internal.document_integer(imported, 'slots', 1, 65536),
			shardring_internal.document_text(imported, 'zone', 255, true),
			shardring_internal.document_points(imported))
		ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			PERFORM shardring_internal.refuse_document(
				'groups', 'a list without duplicates');
		END IF;
		PERFORM shardring_internal.import_map(
			ring, version, name, imported, document);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.import_groups(text, integer, jsonb) IS
	'the groups of a document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.import_groups(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.import_map(
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
	FOR holder IN SELECT l.s
		FROM jsonb_array_elements(shardring_internal.document_list(
			imported, 'shards', 'object')) AS l (s)
	LOOP
		shard := shardring_internal.document_text(holder, 'shard', 63);
		IF NOT document -> 'shards' ? shard THEN
			PERFORM shardring_internal.refuse_document(
				'shards', format('a list that contains shard "%s"', shard));
		END IF;
		INSERT INTO shardring.shard_map
			(ring, version, group_name, shard, slots)
		VALUES (ring, version, group_name, shard,
				shardring_internal.document_slots(holder))
		ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			PERFORM shardring_internal.refuse_document(
				'shards', 'a list without duplicates');
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.import_map(text, integer, text, jsonb, jsonb) IS
	'the shards of a group of a document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.import_map(text, integer, text, jsonb, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.import_pins(
	ring text, version integer, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	INSERT INTO shardring.shard_pin (ring, version, key_position, group_name)
	SELECT import_pins.ring, import_pins.version,
		shardring_internal.document_integer(l.p, 'position', 0, 4294967295),
		shardring_internal.document_text(l.p, 'group', 255)
	FROM jsonb_array_elements(
		shardring_internal.document_list(document, 'pins', 'object')) AS l (p)
	ON CONFLICT DO NOTHING;
	IF jsonb_array_length(document -> 'pins') <> (
		SELECT count(*) FROM shardring.shard_pin AS p
		WHERE p.ring = import_pins.ring COLLATE "C"
			AND p.version = import_pins.version)
	THEN
		PERFORM shardring_internal.refuse_document(
			'pins', 'a list without duplicates');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.import_pins(text, integer, jsonb) IS
	'the pins of a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.import_pins(text, integer, jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_document(
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
	FROM shardring_internal.version_problems(ring, version) AS p (problem)
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('22023', format(
			'document for version %s of ring "%s" is not consistent', version,
			document ->> 'ring'),
			detail => format('Problem: %s.', first_problem));
	END IF;
	print := shardring.version_fingerprint(ring, version);
	IF print COLLATE "C" <> document ->> 'fingerprint' THEN
		PERFORM shardring_internal.fail('22023', format(
			'document for version %s of ring "%s" has the wrong fingerprint',
			version, document ->> 'ring'),
			detail => format('Its content has %s, but it states %s.', print,
				document ->> 'fingerprint'));
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_document(text, integer, jsonb) IS
	'raises if imported rows do not match their document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_document(text, integer, jsonb)
	FROM PUBLIC;

