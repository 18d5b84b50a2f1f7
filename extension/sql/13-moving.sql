/*
 * 13-moving.sql
 *		Triggers: while a ring moves, only the steps of the move change it.
 *
 * They are enabled ALWAYS, so that a subscription does not go round them.
 */

CREATE FUNCTION shardring_internal.step_runs() RETURNS boolean
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_step_runs';
COMMENT ON FUNCTION shardring_internal.step_runs() IS
	'whether the running UPDATE of a ring is that of a step of a move';

/*
 * What says how a ring moves belongs to this database: it is not restored
 * from a dump, and a change that comes from the map leaves it.
 */
CREATE FUNCTION shardring_internal.protect_move() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	same boolean;
BEGIN
	IF TG_OP = 'INSERT' THEN
		RETURN shardring_internal.without_move(NEW);
	ELSIF shardring_internal.step_runs() THEN
		RETURN NEW;
	END IF;
	same := (NEW.moving_from, NEW.moving_to, NEW.closed_until, NEW.move_token,
			 NEW.back_lsn)
		IS NOT DISTINCT FROM (OLD.moving_from, OLD.moving_to,
			OLD.closed_until, OLD.move_token, OLD.back_lsn);
	IF current_setting('session_replication_role') = 'replica' THEN
		NEW.moving_from := OLD.moving_from;
		NEW.moving_to := OLD.moving_to;
		NEW.closed_until := OLD.closed_until;
		NEW.move_token := OLD.move_token;
		NEW.back_lsn := OLD.back_lsn;
		IF OLD.moving_to IS NOT NULL THEN
			NEW.active_version := OLD.active_version;
			NEW.fingerprint := OLD.fingerprint;
		END IF;
	ELSIF NOT same
		OR NEW.active_version IS DISTINCT FROM OLD.active_version
		OR NEW.fingerprint IS DISTINCT FROM OLD.fingerprint
	THEN
		PERFORM shardring_internal.refuse_moving(OLD);
		IF NOT same THEN
			PERFORM shardring_internal.fail('55000', format(
				'ring "%s" cannot be changed in this way', OLD.ring),
				detail => 'Only the steps of a move change how a ring moves.',
				hint => 'Use shardring.fence on the map.');
		END IF;
	END IF;
	RETURN NEW;
END
$body$;
COMMENT ON FUNCTION shardring_internal.protect_move() IS
	'trigger: only steps of a move change how a ring moves';
REVOKE EXECUTE ON FUNCTION shardring_internal.protect_move() FROM PUBLIC;

CREATE FUNCTION shardring_internal.without_move(ours shardring.ring)
RETURNS shardring.ring
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	ours.moving_from := NULL;
	ours.moving_to := NULL;
	ours.closed_until := NULL;
	ours.move_token := NULL;
	ours.back_lsn := NULL;
	RETURN ours;
END
$body$;
COMMENT ON FUNCTION shardring_internal.without_move(shardring.ring) IS
	'the row of a ring that does not move';

/*
 * Versions: only these are meant; NULL: the whole ring.  The map knows more of
 * a move than a shard.
 */
CREATE FUNCTION shardring_internal.refuse_moving(
	ours shardring.ring, versions integer[] DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_driven(m)
	FROM shardring_internal.current_move(ours.ring) AS m
	WHERE m.ring IS NOT NULL
		AND coalesce(versions && ARRAY[m.from_version, m.to_version], true);
	IF ours.moving_to IS NULL
		OR NOT versions && ARRAY[ours.moving_from, ours.moving_to]
	THEN
		RETURN;
	END IF;
	PERFORM shardring_internal.fail('55000', format(
		'ring "%s" is moving from version %s to version %s', ours.ring,
		ours.moving_from, ours.moving_to),
		detail => CASE
			WHEN ours.active_version = ours.moving_to
			THEN format('Version %s is active here already.', ours.moving_to)
			WHEN ours.closed_until = 'infinity'
			THEN 'Keys that leave this shard are not written here.'
			WHEN ours.closed_until > clock_timestamp()
			THEN 'Keys that leave this shard are not written here now.'
			ELSE 'All keys are written where they were.' END,
		hint => format(
			'On the map: SELECT * FROM shardring.cluster_status(%L);',
			ours.ring));
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_moving(shardring.ring, integer[]) IS
	'raises while a ring moves, from or to one of these versions';

CREATE TRIGGER ring_move
	BEFORE INSERT OR UPDATE ON shardring.ring
	FOR EACH ROW EXECUTE FUNCTION shardring_internal.protect_move();
COMMENT ON TRIGGER ring_move ON shardring.ring IS
	'only the steps of a move change how a ring moves';
ALTER TABLE shardring.ring ENABLE ALWAYS TRIGGER ring_move;

