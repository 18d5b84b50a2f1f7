/*
 * 93-move-step.sql
 *		On a shard: the steps of a move, which the map asks for.
 *
 * The map may die between any two of them, and requests of a dead call may
 * arrive late, so:
 *	- each call of the map has a token above all earlier ones.  A step writes
 *	  its token into the row of the ring, under the lock of that row, and is
 *	  refused where a greater one stands;
 *	- a step may be repeated: what is so already is no error;
 *	- a shard without the columns of a move refuses what belongs to one;
 *	- what the map sends is never executed.  Versions are those that are here,
 *	  whose fingerprints are compared.
 */

CREATE FUNCTION shardring.move_step(
	ring text, step text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring;
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'step', step,
		'token', token::text, 'document', document::text);
	PERFORM shardring_internal.require_step(step, token, document);
	PERFORM shardring_internal.require_expected(document -> 'expected_shards');
	PERFORM shardring_internal.refuse_promoted(step, document -> 'timelines');
	PERFORM shardring_internal.commit_for_good();
	IF step = 'settle' THEN
		RETURN shardring_internal.step_settle(ring, token, document);
	ELSIF step = 'slot' THEN
		RETURN shardring_internal.step_slot(ring, token, document);
	ELSIF step = 'watch' THEN
		RETURN shardring_internal.step_watch(ring, token, document);
	ELSIF step = 'digest' THEN
		RETURN shardring_internal.step_digest(ring, token, document);
	ELSIF step = 'partners' THEN
		RETURN shardring_internal.step_partners(ring, token, document);
	ELSIF step = 'drain' THEN
		RETURN shardring_internal.step_drain(ring, token, document);
	END IF;
	ours := shardring_internal.take_token(ring, token);
	IF step = ANY ('{publish,subscribe,start,resume}') THEN
		PERFORM shardring_internal.step_make_streams(ours, step, document);
	ELSIF step = ANY ('{unsubscribe,unslot,unpublish}') THEN
		PERFORM shardring_internal.step_drop_streams(ours, step, document);
	END IF;
	ours := CASE step
		WHEN 'set' THEN shardring_internal.step_set(ours, document)
		WHEN 'close' THEN shardring_internal.step_close(ours, document)
		WHEN 'lift' THEN shardring_internal.step_lift(ours, document)
		WHEN 'activate' THEN shardring_internal.step_activate(ours, document)
		WHEN 'clear' THEN shardring_internal.step_clear(ours, document)
		ELSE ours END;
	PERFORM shardring_internal.change_ring(ours);
	RETURN shardring_internal.move_facts(ours)
		|| CASE step
			WHEN 'set' THEN jsonb_build_object(
				'tables', shardring_internal.tables_digests(ring))
			WHEN 'take' THEN shardring_internal.shard_facts(ring)
			WHEN 'subscribe' THEN shardring_internal.step_watch(
				ring, token, document)
			WHEN 'delete' THEN shardring_internal.step_delete(ours, document)
		ELSE '{}' END;
END
$body$;
COMMENT ON FUNCTION shardring.move_step(text, text, bigint, jsonb) IS
	'takes a step of a move on this shard, and says what it has come to';
REVOKE EXECUTE ON FUNCTION shardring.move_step(text, text, bigint, jsonb)
	FROM PUBLIC;

/*
 * Since the map has looked, a standby was promoted, which may lack something:
 * the map has to look again first.
 */
CREATE FUNCTION shardring_internal.refuse_promoted(
	step text, timelines jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF step = 'take' OR timelines IS NULL THEN
		RETURN;
	ELSIF (timelines ->> shardring_internal.this_shard())::integer
		<> shardring_internal.wal_timeline()
	THEN
		PERFORM shardring_internal.fail('55000',
			'this server was promoted since it was asked last',
			hint => 'Call again what this step belongs to.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_promoted(text, jsonb) IS
	'raises when a shard is on another timeline than the map has seen';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.refuse_promoted(text, jsonb) FROM PUBLIC;

/* What is asked next rests on what this transaction commits. */
CREATE FUNCTION shardring_internal.commit_for_good() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF current_setting('synchronous_commit') IN ('off', 'local') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.commit_for_good() IS
	'lets this transaction wait until its commit cannot be lost';
REVOKE EXECUTE ON FUNCTION shardring_internal.commit_for_good() FROM PUBLIC;

CREATE FUNCTION shardring_internal.change_ring(ours shardring.ring)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 1000
AS 'MODULE_PATHNAME', 'shardring_change_ring';
COMMENT ON FUNCTION shardring_internal.change_ring(shardring.ring) IS
	'writes active version and move of a ring, as only a step may';
REVOKE EXECUTE ON FUNCTION shardring_internal.change_ring(shardring.ring)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_step(
	step text, token bigint, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	known text[] := '{take,set,close,settle,lift,activate,clear,publish,'
		'slot,subscribe,start,resume,watch,digest,partners,drain,unsubscribe,'
		'unslot,unpublish,delete}';
	name text;
BEGIN
	IF step COLLATE "C" <> ALL (known) THEN
		PERFORM shardring_internal.fail('22023', 'no such step of a move',
			hint => format('Steps are %s.', array_to_string(known, ', ')));
	ELSIF token < 1 THEN
		PERFORM shardring_internal.fail('22023', 'token must be positive');
	ELSIF jsonb_typeof(document) <> 'object' THEN
		PERFORM shardring_internal.fail(
			'22023', 'document must be a JSON object');
	ELSIF step = 'take' THEN
		RETURN;
	END IF;
	FOREACH name IN ARRAY '{from_version,to_version}'::text[] LOOP
		IF jsonb_typeof(document -> name) IS DISTINCT FROM 'number'
			OR document ->> name !~ '^[1-9][0-9]{0,8}$'
		THEN
			PERFORM shardring_internal.fail('22023', format(
				'document must have the number "%s"', name));
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_step(text, bigint, jsonb) IS
	'raises unless this can be a step of a move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_step(text, bigint, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.take_token(ring text, token bigint)
RETURNS shardring.ring
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.lock_ring(ring);
BEGIN
	PERFORM shardring_internal.refuse_token(ours, token);
	ours.move_token := token;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.take_token(text, bigint) IS
	'locks a ring for a step, unless a later call has been here';
REVOKE EXECUTE ON FUNCTION shardring_internal.take_token(text, bigint)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_token(
	ours shardring.ring, token bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF token < ours.move_token THEN
		PERFORM shardring_internal.fail('55006', format(
			'a later call has ring "%s"', ours.ring),
			detail => format('Its token is %s, that of this step is %s.',
				ours.move_token, token),
			hint => 'Call again what this step belongs to.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_token(shardring.ring, bigint) IS
	'raises when a step of a later call has been here';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.refuse_token(shardring.ring, bigint) FROM PUBLIC;

/* The document names the move; a shard in another one refuses. */
CREATE FUNCTION shardring_internal.in_move(
	ours shardring.ring, document jsonb)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF ours.moving_from <> (document ->> 'from_version')::integer
		OR ours.moving_to <> (document ->> 'to_version')::integer
	THEN
		PERFORM shardring_internal.refuse_moving(ours);
	END IF;
	RETURN ours.moving_to IS NOT NULL;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.in_move(shardring.ring, jsonb) IS
	'whether this shard is in the move; raises when it is in another';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.in_move(shardring.ring, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_in_move(
	ours shardring.ring, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF NOT shardring_internal.in_move(ours, document) THEN
		PERFORM shardring_internal.fail('55000', format(
			'ring "%s" is not moving here from version %s to version %s',
			ours.ring, document ->> 'from_version',
			document ->> 'to_version'));
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.require_in_move(shardring.ring, jsonb) IS
	'raises unless this shard is in the move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_in_move(shardring.ring, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_switched(
	ours shardring.ring, document jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF ours.active_version >= (document ->> 'to_version')::integer THEN
		PERFORM shardring_internal.fail('55000', format(
			'version %s of ring "%s" is active here already',
			ours.active_version, ours.ring),
			hint => 'The way is forward: go on with the switch.');
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_switched(shardring.ring, jsonb) IS
	'raises where a move has come to its switch';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.refuse_switched(shardring.ring, jsonb) FROM PUBLIC;

CREATE FUNCTION shardring_internal.move_facts(ours shardring.ring)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN jsonb_build_object(
		'active_version', ours.active_version,
		'fingerprint', ours.fingerprint,
		'moving_from', ours.moving_from, 'moving_to', ours.moving_to,
		'closed_until', ours.closed_until, 'move_token', ours.move_token,
		'back_lsn', ours.back_lsn);
END
$body$;
COMMENT ON FUNCTION shardring_internal.move_facts(shardring.ring) IS
	'what the row of a ring says of its active version and its move';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.move_facts(shardring.ring) FROM PUBLIC;

/*
 * The timeline is that of the WAL that is written now: the control file has
 * the one before until the first checkpoint after a promotion.
 */
CREATE FUNCTION shardring_internal.shard_facts(ring text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	here record;
BEGIN
	SELECT i.* INTO STRICT here FROM shardring.shard_identity() AS i;
	RETURN jsonb_build_object(
		'shard', here.shard, 'system_identifier', here.system_identifier,
		'database_oid', here.database_oid::bigint,
		'timeline', shardring_internal.wal_timeline(),
		'versions', (
			SELECT coalesce(jsonb_object_agg(v.version, v.fingerprint), '{}')
			FROM shardring.ring_version AS v
			WHERE v.ring = shard_facts.ring COLLATE "C"
				AND v.sealed_at IS NOT NULL),
		'guards', (
			SELECT coalesce(jsonb_agg(to_jsonb(g) - 'relation'
									  ORDER BY g.name), '[]')
			FROM shardring_internal.guards(ring) AS g));
END
$body$;
COMMENT ON FUNCTION shardring_internal.shard_facts(text) IS
	'what this shard is, which versions it has, and what it guards';
REVOKE EXECUTE ON FUNCTION shardring_internal.shard_facts(text) FROM PUBLIC;
