/*
 * 97-move-verify.sql
 *		On the map: comparing both sides of a move while they change.
 *
 * Three rounds: ranges of positions that differ, keys in these ranges that
 * differ, and these keys alone, again and again, until each was equal once.
 * No stream is stopped for it.
 */

/* What one side of each pair says: table, pair, unit, digest. */
CREATE FUNCTION shardring_internal.ask_digests(
	m shardring_internal.row_move, more jsonb)
RETURNS TABLE (relation text, pair text, unit text, digest text,
	source boolean, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10000
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH answer AS MATERIALIZED (
			SELECT a.* FROM shardring_internal.ask_move(m, ARRAY(
				SELECT s.shard FROM shardring_internal.move_shard AS s
				WHERE s.ring = m.ring AND s.move = m.move
					AND (s.source OR s.target)), 'digest', more) AS a)
		SELECT t.key, p.key, u.key, u.value, f.from_shard = a.shard, a.error
		FROM answer AS a
			LEFT JOIN LATERAL jsonb_each(a.answer -> 'digests') AS t ON true
			LEFT JOIN LATERAL jsonb_each(t.value) AS p ON true
			LEFT JOIN LATERAL jsonb_each_text(p.value) AS u ON true
			LEFT JOIN shardring_internal.move_pair AS f
				ON f.ring = m.ring AND f.move = m.move
					AND p.key = jsonb_build_array(
						f.from_shard, f.to_shard)::text
		WHERE a.error IS NOT NULL OR u.key IS NOT NULL;
END
$body$;
COMMENT ON FUNCTION shardring_internal.ask_digests(
	shardring_internal.row_move, jsonb) IS
	'asks both sides of a move for digests of its rows';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_digests(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/* Units of which the two sides have different digests. */
CREATE FUNCTION shardring_internal.differences(
	m shardring_internal.row_move, more jsonb, OUT units jsonb,
	OUT number bigint, OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	WITH digest AS MATERIALIZED (
		SELECT d.* FROM shardring_internal.ask_digests(m, more) AS d),
	different AS (
		SELECT d.relation, d.pair, d.unit
		FROM digest AS d
		WHERE d.error IS NULL
		GROUP BY d.relation, d.pair, d.unit
		HAVING min(d.digest) FILTER (WHERE d.source)
			IS DISTINCT FROM min(d.digest) FILTER (WHERE NOT d.source))
	SELECT (SELECT min(d.error) FROM digest AS d),
		(SELECT count(*) FROM different),
		(SELECT jsonb_object_agg(t.relation, t.pairs)
		 FROM (SELECT p.relation, jsonb_object_agg(p.pair, p.units) AS pairs
			   FROM (SELECT d.relation, d.pair, jsonb_agg(d.unit) AS units
					 FROM different AS d
					 GROUP BY d.relation, d.pair) AS p
			   GROUP BY p.relation) AS t)
	INTO error, number, units;
END
$body$;
COMMENT ON FUNCTION shardring_internal.differences(
	shardring_internal.row_move, jsonb) IS
	'what differs between both sides of a move: tables, pairs, units';
REVOKE EXECUTE ON FUNCTION shardring_internal.differences(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/* So many ranges that an answer stays far below a megabyte. */
CREATE FUNCTION shardring_internal.digest_shift(
	m shardring_internal.row_move)
RETURNS integer
LANGUAGE sql STABLE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT least(20 + ceil(log(2, greatest(count(*), 1)::numeric))::integer, 31)
	FROM shardring_internal.move_pair AS p
	WHERE p.ring = m.ring AND p.move = m.move;
END;
COMMENT ON FUNCTION shardring_internal.digest_shift(
	shardring_internal.row_move) IS
	'bits by which positions are shifted to make ranges of them';
REVOKE EXECUTE ON FUNCTION shardring_internal.digest_shift(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * Many ranges differ while a stream is behind: then it is given time.  Keys
 * that are not found equal are hot, and looked at again while nobody writes;
 * after the switch nobody will wait for that, so there every key has to have
 * been equal, and once more before anything is deleted: since then a side may
 * have lost rows, or the way back have ended.
 */
CREATE FUNCTION shardring_internal.act_verify(
	m shardring_internal.row_move, direction text)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.remote_timeout = '1 h'
AS $body$
DECLARE
	d record;
	keys boolean := false;
	shift jsonb := jsonb_build_object(
		'shift', shardring_internal.digest_shift(m));
BEGIN
	SELECT r.* INTO STRICT d
	FROM shardring_internal.differences(m, shift) AS r;
	IF d.error IS NULL AND d.number BETWEEN 1 AND 200 THEN
		SELECT r.* INTO STRICT d
		FROM shardring_internal.differences(m, shift || jsonb_build_object(
			'tables', shardring_internal.as_numbers(d.units))) AS r;
	END IF;
	IF d.error IS NULL AND d.number BETWEEN 1 AND 1000 THEN
		SELECT r.* INTO STRICT d
		FROM shardring_internal.until_equal(m, d.units) AS r;
		keys := true;
	END IF;
	IF d.error IS NULL AND direction = 'forward' AND d.number <= 1000 THEN
		RETURN ROW(true, NULL, NULL, jsonb_build_object(
				'hot', d.units, 'compare_again', false), NULL)
			::shardring_internal.move_outcome;
	END IF;
	IF d.error IS NULL AND d.number > 0 THEN
		d.error := (
			SELECT min(coalesce(w.error, shardring_internal.stream_problem(
				w.publisher, w.subscriber, w.name, w.slot, w.subscription)))
			FROM shardring_internal.watch_streams(m, direction) AS w);
		IF d.error IS NULL AND keys THEN
			d.error := shardring_internal.different(d.number);
		END IF;
	END IF;
	RETURN ROW(d.error IS NULL AND d.number = 0, d.error, 0.5, NULL,
		format('comparing: %s ranges or keys differ', d.number))
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_verify(
	shardring_internal.row_move, text) IS
	'phase of a move: both sides were equal, key by key';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_verify(
	shardring_internal.row_move, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.as_numbers(found jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_object_agg(t.key, (
		SELECT jsonb_object_agg(p.key, (
			SELECT jsonb_agg(u.value::bigint)
			FROM jsonb_array_elements_text(p.value) AS u (value)))
		FROM jsonb_each(t.value) AS p))
	FROM jsonb_each(found) AS t;
END;
COMMENT ON FUNCTION shardring_internal.as_numbers(jsonb) IS
	'ranges that differ, as shards are asked for their keys';
REVOKE EXECUTE ON FUNCTION shardring_internal.as_numbers(jsonb) FROM PUBLIC;

/* The keys of all pairs together, as shards are asked for them. */
CREATE FUNCTION shardring_internal.as_keys(found jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_object_agg(t.key, (
		SELECT jsonb_agg(u.value)
		FROM jsonb_each(t.value) AS p,
			jsonb_array_elements(p.value) AS u (value)))
	FROM jsonb_each(found) AS t;
END;
COMMENT ON FUNCTION shardring_internal.as_keys(jsonb) IS
	'keys that differ, as shards are asked for them again';
REVOKE EXECUTE ON FUNCTION shardring_internal.as_keys(jsonb) FROM PUBLIC;

/* Each of these keys drops out when it was found equal once. */
CREATE FUNCTION shardring_internal.until_equal(
	m shardring_internal.row_move, keys jsonb, OUT units jsonb,
	OUT number bigint, OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	deadline timestamptz := clock_timestamp() + interval '10 s';
BEGIN
	units := keys;
	LOOP
		SELECT d.* INTO STRICT units, number, error
		FROM shardring_internal.differences(m, jsonb_build_object(
			'tables', shardring_internal.as_keys(units))) AS d;
		EXIT WHEN error IS NOT NULL OR number = 0
			OR clock_timestamp() >= deadline;
		PERFORM pg_sleep(0.02);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.until_equal(
	shardring_internal.row_move, jsonb) IS
	'those of the keys that were not equal for a while';
REVOKE EXECUTE ON FUNCTION shardring_internal.until_equal(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.different(number bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE number WHEN 1 THEN '1 key differs between both sides'
		ELSE format('%s keys differ between both sides', number) END;
END;
COMMENT ON FUNCTION shardring_internal.different(bigint) IS
	'that so many keys differ';
REVOKE EXECUTE ON FUNCTION shardring_internal.different(bigint) FROM PUBLIC;

/* While nobody writes, keys that were always written must be equal. */
CREATE FUNCTION shardring_internal.hot_problem(
	m shardring_internal.row_move)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	d record;
BEGIN
	IF jsonb_typeof(m.options -> 'hot') IS DISTINCT FROM 'object' THEN
		RETURN NULL;
	END IF;
	SELECT r.* INTO STRICT d
	FROM shardring_internal.differences(m, jsonb_build_object(
		'tables', shardring_internal.as_keys(m.options -> 'hot'))) AS r;
	RETURN coalesce(d.error, CASE WHEN d.number > 0
		THEN shardring_internal.different(d.number) END);
END
$body$;
COMMENT ON FUNCTION shardring_internal.hot_problem(
	shardring_internal.row_move) IS
	'that keys which never held still differ; NULL: they are equal';
REVOKE EXECUTE ON FUNCTION shardring_internal.hot_problem(
	shardring_internal.row_move) FROM PUBLIC;
