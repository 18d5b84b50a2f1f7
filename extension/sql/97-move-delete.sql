/*
 * 97-move-delete.sql
 *		On a shard: deleting rows where a move has left them.
 *
 * A table is walked by blocks, a stretch in each transaction.  Under the lock
 * of the ring's row, which the step has taken, the active version cannot
 * change between the check and the delete.
 */

/*
 * finish: rows that lived here by the version before.  cancel: copies of rows
 * that were to live here.  Guards, cascades and checks do not fire: the rows
 * that refer to each other are in the move together.
 */
CREATE FUNCTION shardring_internal.step_delete(
	ours shardring.ring, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET session_replication_role = replica
AS $body$
DECLARE
	cancel boolean := document -> 'cancel' = 'true';
	place integer := coalesce((document ->> 'table')::integer, 1);
	block bigint := coalesce((document ->> 'block')::bigint, 0);
	blocks bigint := (document ->> 'blocks')::bigint;
	deleted bigint := 0;
	relation oid;
	key text;
BEGIN
	IF cancel AND ours.moving_to IS NULL
		AND ours.active_version = (document ->> 'from_version')::integer
	THEN
		/* nothing was copied here before the ring was said to move */
		RETURN jsonb_build_object('over', true, 'deleted', 0);
	END IF;
	PERFORM shardring_internal.require_deletable(ours, cancel);
	SELECT o.relation, shardring_internal.key_expression(
		o.relation, o.key_column)
	INTO relation, key
	FROM shardring_internal.children_first(ours.ring) AS o
	WHERE o.number = place;
	IF NOT FOUND THEN
		RETURN shardring_internal.deleted_all(
			ours, cancel, coalesce(document -> 'again' = 'true', false));
	END IF;
	EXECUTE format(
		'DELETE FROM ONLY %s AS t WHERE t.ctid >= $5 AND t.ctid < $6 AND %s',
		relation::regclass, shardring_internal.left_here(key, cancel))
	USING ours.ring, ours.moving_from, ours.moving_to,
		shardring_internal.this_shard(),
		format('(%s,0)', block)::tid, format('(%s,0)', block + blocks)::tid;
	GET DIAGNOSTICS deleted = ROW_COUNT;
	block := block + blocks;
	IF block >= pg_relation_size(relation)
		/ current_setting('block_size')::bigint
	THEN
		place := place + 1;
		block := 0;
	END IF;
	RETURN jsonb_build_object('over', false, 'deleted', deleted,
							  'table', place, 'block', block,
							  'again', coalesce(document -> 'again' = 'true', false));
END
$body$;
COMMENT ON FUNCTION shardring_internal.step_delete(shardring.ring, jsonb) IS
	'step of a move: deletes one stretch of what was left here';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_delete(shardring.ring, jsonb) FROM PUBLIC;

/* Needs ring, both versions and this shard as $1 to $4. */
CREATE FUNCTION shardring_internal.left_here(key text, cancel boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('shardring.moves($1, $2, $3, %1$s) '
		'AND shardring.shard_for($1, %1$s, %2$s) = $4',
		key, CASE WHEN cancel THEN '$3' ELSE '$2' END);
END;
COMMENT ON FUNCTION shardring_internal.left_here(text, boolean) IS
	'SQL for: the row of this key is one that a move deletes here';
REVOKE EXECUTE ON FUNCTION shardring_internal.left_here(text, boolean)
	FROM PUBLIC;

/*
 * Whoever rewrites a table while it is walked, VACUUM FULL for one, can put
 * rows where the walk has been: then there is another one.
 */
CREATE FUNCTION shardring_internal.deleted_all(
	ours shardring.ring, cancel boolean, again boolean)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $body$
DECLARE
	guarded record;
	here text := shardring_internal.this_shard();
	found_one boolean;
BEGIN
	FOR guarded IN
		SELECT g.relation, g.name, shardring_internal.key_expression(
			g.relation, g.key_column) AS key
		FROM shardring_internal.guards(ours.ring) AS g
		ORDER BY g.name
	LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s AS t WHERE %s)',
			guarded.relation::regclass,
			shardring_internal.left_here(guarded.key, cancel))
		INTO found_one
		USING ours.ring, ours.moving_from, ours.moving_to, here;
		IF found_one THEN
			RETURN jsonb_strip_nulls(jsonb_build_object(
				'over', false, 'deleted', 0, 'again', true,
				'problem', CASE WHEN again THEN format(
					'rows of %s were not deleted; look for triggers and rules '
					'that are enabled ALWAYS', guarded.name) END));
		END IF;
	END LOOP;
	RETURN '{"over": true, "deleted": 0}'::jsonb;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.deleted_all(shardring.ring, boolean, boolean) IS
	'whether all rows are gone that a move deletes here';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.deleted_all(shardring.ring, boolean, boolean)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_deletable(
	ours shardring.ring, cancel boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF ours.moving_to IS NULL OR ours.active_version IS DISTINCT FROM (
		CASE WHEN cancel THEN ours.moving_from ELSE ours.moving_to END)
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is active here', ours.active_version,
			ours.ring),
			detail => 'The rows that were to be deleted may be the only ones.');
	ELSIF EXISTS (SELECT FROM shardring_internal.stream_leftovers(ours.ring)
				  AS l WHERE l.kind = 'subscription')
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" still has a subscription here', ours.ring),
			detail => 'It would carry what is deleted to the other side.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_deletable(shardring.ring, boolean) IS
	'raises where rows of a move must not be deleted';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_deletable(shardring.ring, boolean) FROM PUBLIC;

/* A table is later than all that refer to it; circles end somewhere. */
CREATE FUNCTION shardring_internal.children_first(ring text)
RETURNS TABLE (number bigint, relation oid, key_column text)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH RECURSIVE guarded AS MATERIALIZED (
			SELECT g.* FROM shardring_internal.guards(ring) AS g),
		path AS (
			SELECT g.relation, ARRAY[g.relation] AS seen FROM guarded AS g
			UNION ALL
			SELECT c.confrelid, p.seen || c.confrelid
			FROM path AS p
				JOIN pg_constraint AS c
					ON c.conrelid = p.relation AND c.contype = 'f'
						AND c.confrelid <> ALL (p.seen)
			WHERE c.confrelid IN (SELECT g.relation FROM guarded AS g)
				AND cardinality(p.seen) < 10)
		SELECT row_number() OVER (
				ORDER BY max(cardinality(p.seen)), g.name),
			g.relation, g.key_column
		FROM guarded AS g
			JOIN path AS p ON p.relation = g.relation
		GROUP BY g.relation, g.key_column, g.name;
END
$body$;
COMMENT ON FUNCTION shardring_internal.children_first(text) IS
	'the guarded tables, those that refer to others before these';
REVOKE EXECUTE ON FUNCTION shardring_internal.children_first(text)
	FROM PUBLIC;
