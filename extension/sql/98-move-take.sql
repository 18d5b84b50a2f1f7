/*
 * 98-move-take.sql
 *		On the map: what a call believes before it does anything.
 */

/*
 * What the shards are decides where the move is.  A shard that has the new
 * version active means: forward, all the way.  Before that, a hold that was
 * left is ended, or kept when it is wanted, only after every target has taken
 * the token: a late request to activate is refused from then on.
 */
CREATE FUNCTION shardring_internal.take_move(ring text, token bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	m shardring_internal.row_move := shardring_internal.hold_move(ring, token);
	answers jsonb;
	problem text;
	switched boolean;
	finished boolean;
	cleared boolean;
BEGIN
	SELECT jsonb_object_agg(a.shard, a.answer) FILTER (WHERE a.error IS NULL),
		(array_agg(format('%s: %s', a.shard, coalesce(a.error,
			shardring_internal.not_that_shard(a.shard, a.answer)))
			ORDER BY a.shard)
			FILTER (WHERE a.error IS NOT NULL OR
				shardring_internal.not_that_shard(a.shard, a.answer)
					IS NOT NULL))[1],
		bool_or((a.answer ->> 'active_version')::integer = m.to_version
				AND (a.answer ->> 'moving_to')::integer = m.to_version),
		bool_and(coalesce(
			(a.answer ->> 'active_version')::integer = m.to_version, false)),
		bool_and(coalesce(
			(a.answer ->> 'active_version')::integer = m.to_version
				AND a.answer ->> 'moving_to' IS NULL, false))
	INTO answers, problem, switched, finished, cleared
	FROM shardring_internal.ask_move(
		m, shardring_internal.move_shards(m, 'all'), 'take') AS a;
	PERFORM shardring_internal.note_promoted(m, answers);
	PERFORM shardring_internal.note_identities(m, answers);
	IF cleared AND m.program = 'move' THEN
		/* it was the last thing that was done, by a map that lost it since */
		PERFORM shardring_internal.go_to_phase(m, 'clear');
		RETURN;
	END IF;
	IF shardring_internal.is_decided(
		m, switched OR finished AND m.program = 'fence')
	THEN
		m := shardring_internal.raise_fallen(
			shardring_internal.go_to_phase(m, 'activate_targets'), answers);
		problem := shardring_internal.turn_late(m, answers);
		IF problem IS NOT NULL THEN
			PERFORM shardring_internal.note_failure(m, problem);
		END IF;
		RETURN;
	END IF;
	m := shardring_internal.raise_fallen(m, answers);
	IF problem IS NULL AND m.program = 'fence' AND m.wanted <> 'cancelled'
	THEN
		problem := shardring_internal.fence_problem(m, answers);
		IF problem IS NOT NULL AND m.state = 'closed' THEN
			m := shardring_internal.go_to_phase(m, 'close');
		END IF;
	ELSIF m.program = 'move' AND m.state IN ('arming', 'closing')
		AND shardring_internal.may_reopen(m, answers)
	THEN
		m := shardring_internal.go_to_phase(m, 'reopen');
		problem := NULL;
	END IF;
	problem := coalesce(problem, shardring_internal.turn_late(m, answers));
	PERFORM shardring_internal.keep_streams(m);
	IF problem IS NOT NULL
		AND m.state NOT IN ('decided', 'reopening', 'finishing')
	THEN
		PERFORM shardring_internal.note_failure(m, problem);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.take_move(text, bigint) IS
	'lets all shards take the token, and believes what they are';
REVOKE EXECUTE ON FUNCTION shardring_internal.take_move(text, bigint)
	FROM PUBLIC;

/*
 * Sources may be opened when no target can have the new version: all have
 * taken the token and said so, or this map is on the timeline on which the
 * move began, and so has lost no commit: then no target was ever asked.
 */
CREATE FUNCTION shardring_internal.may_reopen(
	m shardring_internal.row_move, answers jsonb)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	silent boolean := EXISTS (
		SELECT FROM unnest(shardring_internal.move_shards(m, 'targets'))
			AS t (shard)
		WHERE answers -> t.shard IS NULL);
	timeline integer := shardring_internal.wal_timeline();
BEGIN
	IF NOT silent THEN
		UPDATE shardring_internal.row_move AS r
		SET options = r.options || jsonb_build_object('timeline', timeline)
		WHERE r.ring = m.ring AND r.move = m.move;
	END IF;
	RETURN NOT silent
		OR coalesce((m.options ->> 'timeline')::integer = timeline, false);
END
$body$;
COMMENT ON FUNCTION shardring_internal.may_reopen(
	shardring_internal.row_move, jsonb) IS
	'whether no target can own the keys of a move yet';
REVOKE EXECUTE ON FUNCTION shardring_internal.may_reopen(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/*
 * Where the new version is active somewhere, the move goes forward; where it is
 * active everywhere, also when the shards have forgotten the fence: then a map
 * that failed over has lost how it ended.
 */
CREATE FUNCTION shardring_internal.is_decided(
	m shardring_internal.row_move, switched boolean)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(switched AND m.state NOT IN (
		'decided', 'switched', 'finishing'), false);
END;
COMMENT ON FUNCTION shardring_internal.is_decided(
	shardring_internal.row_move, boolean) IS
	'whether shards say that a move has come to its switch';
REVOKE EXECUTE ON FUNCTION shardring_internal.is_decided(
	shardring_internal.row_move, boolean) FROM PUBLIC;

/*
 * Whoever died may have made a subscription, and not noted which.  Those that
 * were stopped by an error, a lost connection for one, flow again: when the
 * error comes back, so does this, five times.
 */
CREATE FUNCTION shardring_internal.keep_streams(
	m shardring_internal.row_move)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	direction text := CASE
		WHEN m.state IN ('copying', 'turning', 'following', 'ready', 'arming',
						 'closing', 'reopening') THEN 'forward'
		WHEN m.state IN ('switched', 'finishing') THEN 'back' END;
	answers jsonb;
BEGIN
	IF m.program <> 'move' THEN
		RETURN;
	END IF;
	SELECT jsonb_object_agg(a.shard, a.answer) INTO answers
	FROM shardring_internal.ask_move(
		m, shardring_internal.move_shards(m, 'all'), 'watch',
		shardring_internal.streams_document(m, 'both')) AS a;
	IF direction IS NOT NULL AND jsonb_path_exists(
		answers, '$.*.subscriptions.* ? (@.enabled == false)')
	THEN
		PERFORM FROM shardring_internal.ask_move(
			m, shardring_internal.move_shards(m, 'all'), 'resume',
			shardring_internal.streams_document(m, direction)) AS a;
	END IF;
	PERFORM shardring_internal.keep_facts(m, answers);
END
$body$;
COMMENT ON FUNCTION shardring_internal.keep_streams(
	shardring_internal.row_move) IS
	'notes which streams a move has, and lets them flow again';
REVOKE EXECUTE ON FUNCTION shardring_internal.keep_streams(
	shardring_internal.row_move) FROM PUBLIC;

/*
 * What was checked may have changed since, by a failover or by hand.  Writes
 * that nobody refused meanwhile were not copied.
 */
CREATE FUNCTION shardring_internal.fence_problem(
	m shardring_internal.row_move, answers jsonb)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unguarded text := shardring_internal.unguarded(answers);
BEGIN
	IF m.state = 'decided' OR m.state = 'cancelling' THEN
		RETURN NULL;
	ELSIF unguarded IS NOT NULL THEN
		RETURN unguarded || CASE m.state WHEN 'closed'
			THEN '; when that is mended, copy the rows again' ELSE '' END;
	ELSIF m.state <> 'closed' THEN
		RETURN NULL;
	END IF;
	RETURN (
		SELECT format('%s: was opened since; copy its rows again when it is '
					  'closed', s.shard)
		FROM shardring_internal.move_shard AS s
		WHERE s.ring = m.ring AND s.move = m.move AND s.source
			AND answers #>> ARRAY[s.shard, 'closed_until']
				IS DISTINCT FROM 'infinity'
		ORDER BY s.shard
		LIMIT 1);
END
$body$;
COMMENT ON FUNCTION shardring_internal.fence_problem(
	shardring_internal.row_move, jsonb) IS
	'why shards do not refuse what a fence is to refuse; NULL: they do';
REVOKE EXECUTE ON FUNCTION shardring_internal.fence_problem(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

/*
 * Every table that one shard guards is guarded on all, by the same column and
 * with all triggers.
 */
CREATE FUNCTION shardring_internal.unguarded(answers jsonb) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		WITH guard AS MATERIALIZED (
			SELECT s.key COLLATE "C" AS shard, g.name COLLATE "C" AS name,
				g.key_column COLLATE "C" AS key_column,
				g.enabled AND g.statement_guard AND g.truncate_guard AS works
			FROM jsonb_each(answers) AS s
				CROSS JOIN LATERAL jsonb_to_recordset(s.value -> 'guards')
					AS g (name text, key_column text, enabled boolean,
						  statement_guard boolean, truncate_guard boolean)),
		known AS (
			SELECT DISTINCT ON (g.name) g.name, g.key_column, g.shard
			FROM guard AS g
			ORDER BY g.name, g.works DESC, g.shard)
		SELECT format(CASE
				WHEN g.name IS NULL
				THEN '%s: table %s is not guarded there as it is on %s'
				WHEN NOT g.works
				THEN '%s: a guard of table %s is missing or disabled'
				ELSE '%s: table %s is guarded by another column than on %s' END,
			s.shard, left(regexp_replace(k.name, '[[:cntrl:]]', ' ', 'g'), 130),
			k.shard)
		FROM known AS k
			CROSS JOIN jsonb_object_keys(answers) AS s (shard)
			LEFT JOIN guard AS g
				ON g.name = k.name AND g.shard = s.shard COLLATE "C"
		WHERE g.name IS NULL OR NOT g.works OR g.key_column <> k.key_column
		ORDER BY k.name, s.shard COLLATE "C"
		LIMIT 1);
END
$body$;
COMMENT ON FUNCTION shardring_internal.unguarded(jsonb) IS
	'a table that not all shards guard alike; NULL: there is none';
REVOKE EXECUTE ON FUNCTION shardring_internal.unguarded(jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.not_that_shard(shard text, answer jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN answer ->> 'shard' = shard COLLATE "C" THEN NULL
		ELSE format('the server is shard "%s"', left(regexp_replace(
			coalesce(answer ->> 'shard', ''), '[[:cntrl:]]', ' ', 'g'), 63))
		END;
END;
COMMENT ON FUNCTION shardring_internal.not_that_shard(text, jsonb) IS
	'that an answer comes from another shard; NULL: it does not';
REVOKE EXECUTE ON FUNCTION shardring_internal.not_that_shard(text, jsonb)
	FROM PUBLIC;

/*
 * A standby that was promoted can lack what its primary had confirmed to the
 * other side: only comparing rows shows that.
 */
CREATE FUNCTION shardring_internal.note_promoted(
	m shardring_internal.row_move, answers jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.row_move AS r
	SET options = r.options || '{"compare_again": true}'
	WHERE r.ring = m.ring AND r.move = m.move
		AND EXISTS (
			SELECT FROM shardring_internal.move_shard AS s
			WHERE s.ring = m.ring AND s.move = m.move
				AND (s.source OR s.target)
				AND s.timeline <> (answers #>> ARRAY[s.shard, 'timeline'])
					::integer);
END
$body$;
COMMENT ON FUNCTION shardring_internal.note_promoted(
	shardring_internal.row_move, jsonb) IS
	'notes that both sides are to be compared, when a shard was promoted';
REVOKE EXECUTE ON FUNCTION shardring_internal.note_promoted(
	shardring_internal.row_move, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.note_identities(
	m shardring_internal.row_move, answers jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	UPDATE shardring_internal.move_shard AS s
	SET system_identifier = (a.value ->> 'system_identifier')::bigint,
		database_oid = (a.value ->> 'database_oid')::bigint,
		timeline = (a.value ->> 'timeline')::integer
	FROM jsonb_each(answers) AS a
	WHERE s.ring = m.ring AND s.move = m.move AND s.shard = a.key
		AND a.value ->> 'shard' = s.shard;
END
$body$;
COMMENT ON FUNCTION shardring_internal.note_identities(
	shardring_internal.row_move, jsonb) IS
	'keeps who the shards of a move are';
REVOKE EXECUTE ON FUNCTION shardring_internal.note_identities(
	shardring_internal.row_move, jsonb) FROM PUBLIC;
