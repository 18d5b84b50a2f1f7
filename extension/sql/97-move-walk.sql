/*
 * 97-move-walk.sql
 *		On the map: which rows a move deletes, and that it finds none before.
 */

/* Rows that are there before the copy would be taken for copies. */
CREATE FUNCTION shardring_internal.act_empty(m shardring_internal.row_move)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.remote_timeout = '1 h'
AS $body$
DECLARE
	problem text := (
		SELECT min(a.shard || ': ' || coalesce(a.error, (
			SELECT format('%s has rows already that are to come there', t.key)
			FROM jsonb_each(a.answer -> 'digests') AS t
				CROSS JOIN LATERAL jsonb_object_keys(t.value) AS p (pair)
			WHERE p.pair::jsonb ->> 1 = a.shard COLLATE "C"
			ORDER BY t.key
			LIMIT 1)))
		FROM shardring_internal.ask_move(
			m, shardring_internal.move_shards(m, 'targets'), 'digest',
			jsonb_build_object('shift', shardring_internal.digest_shift(m)))
			AS a);
BEGIN
	RETURN ROW(problem IS NULL, problem, NULL,
		jsonb_build_object('empty', problem IS NULL), NULL)
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_empty(
	shardring_internal.row_move) IS
	'phase of a move: targets have none of the rows that are to come';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_empty(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * Each call deletes one stretch on every shard that has something left.  No
 * shard may have a subscription of the move any more: it would carry what is
 * deleted to the other side.  A move that was not seen to begin with targets
 * without the rows has brought none there, so what is there is not its own.
 */
CREATE FUNCTION shardring_internal.act_delete(
	m shardring_internal.row_move, cancel boolean)
RETURNS shardring_internal.move_outcome
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET shardring.remote_timeout = '1 h'
AS $body$
DECLARE
	positions jsonb := coalesce(m.options -> 'positions', '{}');
	shards text[] := ARRAY(
		SELECT s.shard FROM shardring_internal.move_shard AS s
		WHERE s.ring = m.ring AND s.move = m.move
			AND CASE WHEN cancel THEN s.target ELSE s.source END
			AND positions -> s.shard -> 'over' IS DISTINCT FROM 'true'
		ORDER BY s.shard);
	problem text;
	answer record;
	rows bigint := 0;
BEGIN
	IF cancel AND m.options -> 'empty' IS DISTINCT FROM 'true' THEN
		RETURN ROW(true, NULL, NULL, NULL, NULL)
			::shardring_internal.move_outcome;
	ELSIF positions = '{}' THEN
		problem := (
			SELECT min(coalesce(w.error,
				format('%s: subscription "%s" is still there', w.subscriber,
					   w.name)))
			FROM shardring_internal.watch_streams(m, 'both') AS w
			WHERE w.error IS NOT NULL
				OR w.subscription -> 'subscription' <> 'null');
	END IF;
	IF problem IS NULL AND cardinality(shards) > 0 THEN
		FOR answer IN
			SELECT a.* FROM unnest(shards[:1]) AS s (shard)
				CROSS JOIN LATERAL shardring_internal.ask_move(
					m, ARRAY[s.shard], 'delete',
					coalesce(positions -> s.shard, '{}')
					|| jsonb_build_object('cancel', cancel, 'blocks', 256))
					AS a
		LOOP
			problem := answer.shard || ': '
				|| coalesce(answer.error, answer.answer ->> 'problem');
			IF answer.error IS NULL THEN
				positions := positions || jsonb_build_object(
					answer.shard, answer.answer);
			END IF;
			rows := coalesce((answer.answer ->> 'deleted')::bigint, 0);
		END LOOP;
	END IF;
	RETURN ROW(problem IS NULL AND cardinality(shards) = 0, problem,
		rows::float8 / (m.options ->> 'rows_per_second')::float8,
		jsonb_build_object('positions', positions, 'deleted',
			coalesce((m.options ->> 'deleted')::bigint, 0) + rows),
		format('deleting: %s rows so far',
			   coalesce((m.options ->> 'deleted')::bigint, 0) + rows))
		::shardring_internal.move_outcome;
END
$body$;
COMMENT ON FUNCTION shardring_internal.act_delete(
	shardring_internal.row_move, boolean) IS
	'phase of a move: rows are deleted where they do not belong any more';
REVOKE EXECUTE ON FUNCTION shardring_internal.act_delete(
	shardring_internal.row_move, boolean) FROM PUBLIC;
