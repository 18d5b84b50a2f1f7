/*
 * 72-fields.sql
 *		Reading the fields of a document.
 *
 * Each returns a value that the tables take, or raises.
 */

CREATE FUNCTION shardring_internal.refuse_document(field text, wanted text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.fail('22023', format(
		'field "%s" of a document must be %s', field, wanted));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_document(text, text) IS
	'raises the error for a malformed document';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_document(text, text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_number(
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
	PERFORM shardring_internal.refuse_document(
		field, format('a number from %s to %s', lowest, highest));
	RETURN NULL;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.document_number(jsonb, text, numeric, numeric) IS
	'a number in a document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.document_number(jsonb, text, numeric, numeric)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_integer(
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
	result := shardring_internal.document_number(
		document, field, lowest, highest);
	IF result <> trunc(result) THEN
		PERFORM shardring_internal.refuse_document(field, 'an integer');
	END IF;
	RETURN result;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_integer(
	jsonb, text, bigint, bigint, boolean) IS
	'an integer in a document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.document_integer(jsonb, text, bigint, bigint, boolean)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_boolean(document jsonb, field text)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF jsonb_typeof(document -> field) IS DISTINCT FROM 'boolean' THEN
		PERFORM shardring_internal.refuse_document(field, 'true or false');
	END IF;
	RETURN document ->> field;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_boolean(jsonb, text) IS
	'a boolean in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_boolean(jsonb, text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_text(
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
		PERFORM shardring_internal.refuse_document(field, 'a string');
	END IF;
	IF longest IS NOT NULL THEN
		PERFORM shardring_internal.require_name(
			format('field "%s" of a document', field), document ->> field,
			longest);
	END IF;
	RETURN document ->> field;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.document_text(jsonb, text, integer, boolean) IS
	'a string in a document';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.document_text(jsonb, text, integer, boolean)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_fingerprint(document jsonb)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	print text := shardring_internal.document_text(
		document, 'fingerprint', 64);
BEGIN
	IF print !~ '^[0-9a-f]{64}$' THEN
		PERFORM shardring_internal.refuse_document(
			'fingerprint', '64 hexadecimal digits in lower case');
	END IF;
	RETURN print;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_fingerprint(jsonb) IS
	'the fingerprint in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_fingerprint(jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_list(
	document jsonb, field text, kind text)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF jsonb_typeof(document -> field) IS DISTINCT FROM 'array' THEN
		PERFORM shardring_internal.refuse_document(field, 'a list');
	END IF;
	IF EXISTS (SELECT FROM jsonb_array_elements(document -> field) AS l (e)
			   WHERE jsonb_typeof(l.e) <> kind COLLATE "C")
	THEN
		PERFORM shardring_internal.refuse_document(
			field, format('a list of type %s', kind));
	END IF;
	RETURN document -> field;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_list(jsonb, text, text) IS
	'a list of values of one type in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_list(jsonb, text, text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_points(imported jsonb)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring_internal.document_list(
		imported, 'points', 'number');
	points numeric[];
BEGIN
	IF jsonb_array_length(list) > 4194304 THEN
		PERFORM shardring_internal.refuse_document(
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
		PERFORM shardring_internal.refuse_document(
			'points', 'a list of integers from 0 to 4294967295');
	END IF;
	RETURN points;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_points(jsonb) IS
	'the points of a group in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_points(jsonb)
	FROM PUBLIC;

/* One by one, a sum of ranges takes time with the square of their number. */
CREATE FUNCTION shardring_internal.document_slots(holder jsonb)
RETURNS int4multirange
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	list jsonb := shardring_internal.document_list(holder, 'slots', 'array');
	result int4multirange;
BEGIN
	SELECT range_agg(shardring_internal.document_range(l.b)) INTO result
	FROM jsonb_array_elements(list) AS l (b);
	IF result IS NULL THEN
		PERFORM shardring_internal.refuse_document('slots', 'a list of slots');
	END IF;
	RETURN result;
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_slots(jsonb) IS
	'the slots of a shard in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_slots(jsonb)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.document_range(bounds jsonb)
RETURNS int4range
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ends jsonb := jsonb_build_object('lo', bounds -> 0, 'hi', bounds -> 1);
	lo integer;
BEGIN
	IF jsonb_array_length(bounds) <> 2 THEN
		PERFORM shardring_internal.refuse_document(
			'slots', 'a list of pairs of integers');
	END IF;
	lo := shardring_internal.document_integer(ends, 'lo', 0, 65535);
	RETURN int4range(lo, shardring_internal.document_integer(
		ends, 'hi', lo + 1, 65536)::integer);
END
$body$;
COMMENT ON FUNCTION shardring_internal.document_range(jsonb) IS
	'some slots of a shard in a document';
REVOKE EXECUTE ON FUNCTION shardring_internal.document_range(jsonb)
	FROM PUBLIC;

