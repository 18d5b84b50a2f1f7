/*
 * 70-export.sql
 *		A sealed version as one document.
 */

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
	exported := shardring_internal.exported_version(ring, version);
	RETURN (
		SELECT jsonb_build_object(
			'format', 1, 'ring', r.ring, 'hash', r.hash,
			'hash_tags', r.hash_tags,
			'rejoin_cooldown', extract(epoch FROM r.rejoin_cooldown),
			'version', exported.version, 'parent', exported.parent,
			'drafted_on', exported.base_active, 'vnodes', exported.vnodes,
			'note', exported.note, 'fingerprint', exported.fingerprint,
			'groups', shardring_internal.exported_groups(
				r.ring, exported.version),
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

CREATE FUNCTION shardring_internal.exported_version(ring text, version integer)
RETURNS shardring.ring_version
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	target integer := coalesce(version, shardring.active_version(ring));
	found_row shardring.ring_version;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring);
	IF target IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" has no active version', ring),
			hint => 'Activate a version, or specify the version argument.');
	END IF;
	SELECT v.* INTO found_row FROM shardring.ring_version AS v
	WHERE v.ring = exported_version.ring COLLATE "C" AND v.version = target;
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'version %s of ring "%s" does not exist', target, ring));
	ELSIF found_row.sealed_at IS NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is a draft', target, ring),
			hint => 'Use shardring.seal; only sealed versions can be '
				'exported.');
	END IF;
	PERFORM shardring_internal.require_intact(found_row);
	RETURN found_row;
END
$body$;
COMMENT ON FUNCTION shardring_internal.exported_version(text, integer) IS
	'the row of a version that may be exported';

/* Groups and their shards in the order the fingerprint takes them. */
CREATE FUNCTION shardring_internal.exported_groups(ring text, version integer)
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
COMMENT ON FUNCTION shardring_internal.exported_groups(text, integer) IS
	'the groups of a version in the form of a document';

