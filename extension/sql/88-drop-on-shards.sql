/*
 * 88-drop-on-shards.sql
 *		Dropping versions here and on the shards at once.
 *
 * The shards come first: the one that is this database, if there is one,
 * must not wait for what we have locked; and what is here is the only record
 * of what they may still have, so it goes last, when all have said that they
 * do not have it.
 */

CREATE FUNCTION shardring.drop_version_on_shards(
	ring text, version integer, without text[] DEFAULT '{}')
RETURNS TABLE (shard text, ok boolean, error text, dropped integer[],
	router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	answers shardring_internal.shard_answer[];
	used boolean;
	reason text;
BEGIN
	PERFORM shardring_internal.refuse_null('version', version::text);
	PERFORM shardring_internal.require_left_out(ring, without);
	IF version = ours.active_version THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is active', version, ring),
			hint => 'Activate a newer version first, or drop the ring.');
	ELSIF version NOT BETWEEN 1 AND ours.last_version THEN
		PERFORM shardring_internal.fail('42704', format(
			'version %s of ring "%s" does not exist', version, ring));
	END IF;
	PERFORM shardring_internal.refuse_moving(ours, ARRAY[version]);
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, shardring_internal.push_targets(ring, version, NULL), true,
			false) AS a);
	FOR shard, ok, error, dropped, router, used IN
		SELECT d.* FROM shardring_internal.drop_on_shards(
			ring, ARRAY[version], answers) AS d
	LOOP
		reason := coalesce(reason, shardring_internal.keep_reason(
			shard, router, ok, used, without, format(
				'version %s of ring "%s"', version, ring), format(
				'drop_version_on_shards(%L, %s)', ring, version)));
		RETURN NEXT;
	END LOOP;
	RETURN QUERY SELECT NULL, d.error IS NULL, d.error, d.dropped, NULL
		FROM shardring_internal.drop_unless_kept(
			ring, ARRAY[version], reason) AS d;
END
$body$;
COMMENT ON FUNCTION
	shardring.drop_version_on_shards(text, integer, text[]) IS
	'drops a version on all shards and routers, and then here';
REVOKE EXECUTE ON FUNCTION
	shardring.drop_version_on_shards(text, integer, text[]) FROM PUBLIC;

/* Besides what is pruned here, what this server does not have any more. */
CREATE FUNCTION shardring.prune_on_shards(
	ring text, keep integer, without text[] DEFAULT '{}')
RETURNS TABLE (shard text, ok boolean, error text, dropped integer[],
	router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	old integer[];
	answers shardring_internal.shard_answer[];
	used boolean;
	reason text;
BEGIN
	old := shardring_internal.prunable(ours, keep);
	PERFORM shardring_internal.refuse_moving(ours, old);
	PERFORM shardring_internal.require_left_out(ring, without);
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, ARRAY(SELECT l.shard FROM shardring.live_shards(ring) AS l),
			true, false) AS a);
	FOR shard, ok, error, dropped, router, used IN
		SELECT d.* FROM shardring_internal.drop_on_shards(
			ring, shardring_internal.prunable_there(ours, old, answers),
			answers) AS d
	LOOP
		reason := coalesce(reason, shardring_internal.keep_reason(
			shard, router, ok, used, without, format(
				'an old version of ring "%s"', ring), format(
				'prune_on_shards(%L, %s)', ring, keep)));
		RETURN NEXT;
	END LOOP;
	old := ARRAY(SELECT unnest(old) INTERSECT SELECT unnest(
		shardring_internal.prunable(
			shardring_internal.lock_ring(ring), keep)));
	RETURN QUERY SELECT NULL, d.error IS NULL, d.error, d.dropped, NULL
		FROM shardring_internal.drop_unless_kept(ring, old, reason) AS d;
END
$body$;
COMMENT ON FUNCTION shardring.prune_on_shards(text, integer, text[]) IS
	'prunes everywhere, and drops elsewhere what is not here any more';
REVOKE EXECUTE ON FUNCTION
	shardring.prune_on_shards(text, integer, text[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.prunable_there(
	ours shardring.ring, old integer[],
	answers shardring_internal.shard_answer[])
RETURNS integer[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT DISTINCT v.version
		FROM unnest(answers) AS a
			CROSS JOIN LATERAL unnest(a.versions) AS v (version)
		WHERE v.version < ours.active_version
			AND NOT EXISTS (SELECT FROM shardring.ring_version AS k
							WHERE k.ring = ours.ring
								AND k.version = v.version
								AND k.version <> ALL (old)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.prunable_there(
	shardring.ring, integer[], shardring_internal.shard_answer[]) IS
	'the old versions of shards that are dropped here, or were';
REVOKE EXECUTE ON FUNCTION shardring_internal.prunable_there(
	shardring.ring, integer[], shardring_internal.shard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_left_out(
	ring text, without text[])
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unknown text;
BEGIN
	PERFORM shardring_internal.refuse_null('without', without::text);
	SELECT n.name INTO unknown
	FROM unnest(without) AS n (name)
	WHERE NOT EXISTS (SELECT FROM shardring.shard AS s
					  WHERE s.ring = require_left_out.ring COLLATE "C"
						  AND s.shard = n.name COLLATE "C")
		AND NOT EXISTS (SELECT FROM shardring.router AS r
						WHERE r.ring = require_left_out.ring COLLATE "C"
							AND r.server = n.name COLLATE "C")
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'shard or router "%s" of ring "%s" does not exist', unknown,
			ring));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_left_out(text, text[]) IS
	'raises unless these are shards or routers of the ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_left_out(text, text[])
	FROM PUBLIC;

/* One that has the version active is not left out on purpose: it answers. */
CREATE FUNCTION shardring_internal.keep_reason(
	shard text, router text, ok boolean, used boolean, without text[],
	what text, again text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	holder text := CASE WHEN router IS NULL THEN format('shard "%s"', shard)
		ELSE format('router "%s"', router) END;
	name text := coalesce(router, shard);
BEGIN
	RETURN CASE
		WHEN used THEN format('%s is active on %s', what, holder)
		WHEN NOT ok AND array_position(without COLLATE "C", name) IS NULL
		THEN format('kept here: %s has not said that it dropped %s.  When it '
			'can: SELECT * FROM shardring.%s.  If it is lost: add without '
			'=> ARRAY[%L]', holder, what, again, name) END;
END
$body$;
COMMENT ON FUNCTION shardring_internal.keep_reason(
	text, text, boolean, boolean, text[], text, text) IS
	'why the answer of a shard keeps a version here; NULL: it does not';
REVOKE EXECUTE ON FUNCTION shardring_internal.keep_reason(
	text, text, boolean, boolean, text[], text, text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.drop_on_shards(
	ring text, versions integer[],
	answers shardring_internal.shard_answer[])
RETURNS TABLE (shard text, ok boolean, error text, dropped integer[],
	router text, used boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	shards text[] := ARRAY(SELECT a.shard FROM unnest(answers) AS a);
BEGIN
	RETURN QUERY
		SELECT t.shard,
			coalesce(t.error, t.hint, s.error, s.answer[2]) IS NULL,
			coalesce(t.error, s.error,
				left(regexp_replace(s.answer[2], '\s+', ' ', 'g'), 1000),
				'shardring.shard is not set there: ' || t.hint),
			CASE WHEN s.answer[1]
				~ '^\{([1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*)?\}$'
				THEN s.answer[1]::integer[] END,
			CASE WHEN t.shard IS NULL THEN t.server END,
			s.answer[2] IS NOT NULL
		FROM unnest(answers) AS t
			LEFT JOIN shardring_internal.ask_servers(
				shardring_internal.sound_servers(answers, shards),
				'SELECT d.dropped, d.error '
				'FROM shardring.receive_drop($1, $2, $3) AS d',
				ARRAY[ring, drop_on_shards.versions::text,
					  shardring_internal.expected_shards(answers, shards)
						  ::text]) AS s
				ON s.server = t.server AND t.error IS NULL
		ORDER BY t.number, t.server;
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_on_shards(
	text, integer[], shardring_internal.shard_answer[]) IS
	'drops versions on those shards that are who they should be';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_on_shards(
	text, integer[], shardring_internal.shard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.drop_unless_kept(
	ring text, versions integer[], reason text,
	OUT dropped integer[], OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	dropped := ARRAY(
		SELECT v.version FROM shardring.ring_version AS v
		WHERE v.ring = drop_unless_kept.ring COLLATE "C"
			AND v.version = ANY (versions)
		ORDER BY v.version);
	IF cardinality(dropped) > 0 AND reason IS NOT NULL THEN
		dropped := '{}';
		error := reason;
	END IF;
	PERFORM shardring.drop_version(ring, d.version)
	FROM unnest(dropped) AS d (version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_unless_kept(
	text, integer[], text) IS
	'drops versions here, unless there is a reason to keep them';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_unless_kept(
	text, integer[], text) FROM PUBLIC;

/* The other end of drop_version_on_shards and prune_on_shards. */
CREATE FUNCTION shardring.receive_drop(
	ring text, versions integer[], expected_shards jsonb DEFAULT NULL,
	OUT dropped integer[], OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	active integer;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'versions', versions::text);
	PERFORM shardring_internal.require_expected(expected_shards);
	active := (SELECT r.active_version FROM shardring.ring AS r
			   WHERE r.ring = receive_drop.ring COLLATE "C");
	IF active = ANY (versions) THEN
		error := format('version %s of ring "%s" is active', active, ring);
	END IF;
	dropped := ARRAY(
		SELECT v.version FROM shardring.ring_version AS v
		WHERE v.ring = receive_drop.ring COLLATE "C"
			AND v.version = ANY (versions) AND v.sealed_at IS NOT NULL
			AND v.version IS DISTINCT FROM active
		ORDER BY v.version);
	PERFORM shardring.drop_version(ring, d.version)
	FROM unnest(dropped) AS d (version);
END
$body$;
COMMENT ON FUNCTION shardring.receive_drop(text, integer[], jsonb) IS
	'drops versions that the map wants to be dropped, but not the active one';
REVOKE EXECUTE ON FUNCTION shardring.receive_drop(text, integer[], jsonb)
	FROM PUBLIC;

