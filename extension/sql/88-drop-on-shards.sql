/*
 * 88-drop-on-shards.sql
 *		Dropping versions here and on the shards at once.
 *
 * The shards come first: the one that is this database, if there is one,
 * must not wait for what we have locked.
 */

CREATE FUNCTION shardring.drop_version_on_shards(ring text, version integer)
RETURNS TABLE (shard text, ok boolean, error text, dropped integer[],
	router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	answers shardring_internal.shard_answer[];
	used boolean;
	used_by text;
BEGIN
	PERFORM shardring_internal.refuse_null('version', version::text);
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
		used_by := coalesce(used_by, CASE
			WHEN used AND shard IS NULL THEN format('router "%s"', router)
			WHEN used THEN format('shard "%s"', shard) END);
		RETURN NEXT;
	END LOOP;
	RETURN QUERY SELECT NULL, d.error IS NULL, d.error, d.dropped, NULL
		FROM shardring_internal.drop_unless_used(ring, version, used_by) AS d;
END
$body$;
COMMENT ON FUNCTION shardring.drop_version_on_shards(text, integer) IS
	'drops a version on all shards and routers, and here';
REVOKE EXECUTE ON FUNCTION
	shardring.drop_version_on_shards(text, integer) FROM PUBLIC;

/* Besides what is pruned here, what this server does not have any more. */
CREATE FUNCTION shardring.prune_on_shards(ring text, keep integer)
RETURNS TABLE (shard text, ok boolean, error text, dropped integer[],
	router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_ring(ring);
	old integer[];
	kept integer[];
	answers shardring_internal.shard_answer[];
BEGIN
	old := shardring_internal.prunable(ours, keep);
	PERFORM shardring_internal.refuse_moving(ours, old);
	kept := ARRAY(SELECT v.version FROM shardring.ring_version AS v
				  WHERE v.ring = ours.ring AND v.version <> ALL (old));
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, ARRAY(SELECT l.shard FROM shardring.live_shards(ring) AS l),
			true, false) AS a);
	RETURN QUERY
		SELECT d.shard, d.ok, d.error, d.dropped, d.router
		FROM shardring_internal.drop_on_shards(
			ring, ARRAY(SELECT DISTINCT v.version
						FROM unnest(answers) AS a
							CROSS JOIN LATERAL unnest(a.versions)
								AS v (version)
						WHERE v.version < ours.active_version
							AND v.version <> ALL (kept)), answers) AS d;
	PERFORM shardring.prune(ring, keep);
	RETURN QUERY SELECT NULL, true, NULL, old, NULL;
END
$body$;
COMMENT ON FUNCTION shardring.prune_on_shards(text, integer) IS
	'prunes here, and drops elsewhere what is not here any more';
REVOKE EXECUTE ON FUNCTION shardring.prune_on_shards(text, integer)
	FROM PUBLIC;

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

CREATE FUNCTION shardring_internal.drop_unless_used(
	ring text, version integer, used_by text,
	OUT dropped integer[], OUT error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	dropped := '{}';
	IF used_by IS NOT NULL THEN
		error := format('version %s of ring "%s" is active on %s',
						version, ring, used_by);
	ELSIF EXISTS (SELECT FROM shardring.ring_version AS v
				  WHERE v.ring = drop_unless_used.ring COLLATE "C"
					  AND v.version = drop_unless_used.version)
	THEN
		PERFORM shardring.drop_version(ring, version);
		dropped := ARRAY[version];
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.drop_unless_used(
	text, integer, text) IS
	'drops a version here, unless a shard has it active';
REVOKE EXECUTE ON FUNCTION shardring_internal.drop_unless_used(
	text, integer, text) FROM PUBLIC;

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

