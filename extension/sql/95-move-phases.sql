/*
 * 95-move-phases.sql
 *		On the map: the phases of a move, as a table.
 */

/*
 * The phases of each program, in order.  "step" is asked of the shards that
 * "who" says, about the streams of that direction; a phase without a step has
 * a function of its own.
 */
CREATE FUNCTION shardring_internal.move_phases()
RETURNS TABLE (program text, state text, phase text, next_phase text,
	step text, who text, streams text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 50
BEGIN ATOMIC
	SELECT 'fence', p.*
	FROM (VALUES
		('new', 'push', 'set', NULL, NULL, NULL),
		('new', 'set', 'close', 'set', 'all', NULL),
		('closing', 'close', 'settle', 'close', 'sources', NULL),
		('closing', 'settle', 'closed', 'settle', 'sources', NULL),
		('closed', 'closed', NULL, NULL, NULL, NULL),
		('decided', 'activate_targets', 'activate_here', 'activate',
			'targets', NULL),
		('decided', 'activate_here', 'activate_routers', NULL, NULL, NULL),
		('decided', 'activate_routers', 'activate_others', NULL, NULL, NULL),
		('decided', 'activate_others', 'clear', 'activate', 'all', NULL),
		('decided', 'clear', 'finished', 'clear', 'all', NULL),
		('finished', 'finished', NULL, NULL, NULL, NULL),
		('cancelling', 'lift', 'unset', 'lift', 'all', NULL),
		('cancelling', 'unset', 'cancelled', 'clear', 'all', NULL),
		('cancelled', 'cancelled', NULL, NULL, NULL, NULL))
		AS p (state, phase, next_phase, step, who, streams)
	UNION ALL SELECT 'move', p.*
	FROM (VALUES
		('new', 'push', 'set', NULL, NULL, NULL),
		('new', 'set', 'quiet', 'set', 'all', NULL),
		('new', 'quiet', 'empty', 'settle', 'sources', NULL),
		('new', 'empty', 'publish', NULL, NULL, NULL),
		('preparing', 'publish', 'slot', 'publish', 'sources', 'forward'),
		('preparing', 'slot', 'subscribe', 'slot', 'sources', 'forward'),
		('preparing', 'subscribe', 'copy', 'subscribe', 'targets',
			'forward'),
		('copying', 'copy', 'verify', NULL, NULL, 'forward'),
		('turning', 'turn_push', 'turn', NULL, NULL, NULL),
		('turning', 'turn', 'verify', 'set', 'all', NULL),
		('following', 'verify', 'partners', NULL, NULL, 'forward'),
		('following', 'partners', 'ready', NULL, NULL, NULL),
		('ready', 'ready', NULL, NULL, NULL, NULL),
		('arming', 'look', 'sync_routers', NULL, NULL, 'forward'),
		('arming', 'sync_routers', 'back_publish', NULL, NULL, NULL),
		('arming', 'back_publish', 'back_slot', 'publish', 'targets',
			'back'),
		('arming', 'back_slot', 'back_subscribe', 'slot', 'targets', 'back'),
		('arming', 'back_subscribe', 'gate', 'subscribe', 'sources', 'back'),
		('arming', 'gate', 'lease', NULL, NULL, 'forward'),
		('closing', 'lease', 'lease_settle', 'close', 'sources', NULL),
		('closing', 'lease_settle', 'compare', 'settle', 'sources',
			'forward'),
		('closing', 'compare', 'close', NULL, NULL, 'forward'),
		('closing', 'close', 'settle', 'close', 'sources', NULL),
		('closing', 'settle', 'activate_targets', 'settle', 'sources',
			'forward'),
		('decided', 'turn_again', 'activate_targets', 'set', 'all', NULL),
		('decided', 'activate_targets', 'activate_here', 'activate',
			'targets', 'forward'),
		('decided', 'activate_here', 'activate_routers', NULL, NULL, NULL),
		('decided', 'activate_routers', 'activate_others', NULL, NULL, NULL),
		('decided', 'activate_others', 'unsubscribe', 'activate', 'all',
			NULL),
		('decided', 'unsubscribe', 'unslot', 'unsubscribe', 'targets',
			'forward'),
		('decided', 'unslot', 'unpublish', 'unslot', 'sources', 'forward'),
		('decided', 'unpublish', 'start', 'unpublish', 'sources', 'forward'),
		('decided', 'start', 'back_verify', 'start', 'sources', 'back'),
		('switched', 'back_verify', 'switched', NULL, NULL, 'back'),
		('switched', 'switched', NULL, NULL, NULL, NULL),
		('finishing', 'grace', 'drain', NULL, NULL, NULL),
		('finishing', 'drain', 'back_verify_again', NULL, NULL, NULL),
		('finishing', 'back_verify_again', 'back_unsubscribe', NULL, NULL,
			'back'),
		('finishing', 'back_unsubscribe', 'back_unslot', 'unsubscribe',
			'all', 'both'),
		('finishing', 'back_unslot', 'back_unpublish', 'unslot', 'all',
			'both'),
		('finishing', 'back_unpublish', 'delete', 'unpublish', 'all',
			'both'),
		('finishing', 'delete', 'clear', NULL, NULL, 'both'),
		('finishing', 'clear', 'finished', 'clear', 'all', NULL),
		('finished', 'finished', NULL, NULL, NULL, NULL),
		('reopening', 'reopen', 'disarm_unsubscribe', 'lift', 'all', NULL),
		('reopening', 'disarm_unsubscribe', 'disarm_unslot', 'unsubscribe',
			'sources', 'back'),
		('reopening', 'disarm_unslot', 'disarm_unpublish', 'unslot',
			'targets', 'back'),
		('reopening', 'disarm_unpublish', 'ready', 'unpublish', 'targets',
			'back'),
		('cancelling', 'lift', 'undo_unsubscribe', 'lift', 'all', NULL),
		('cancelling', 'turn_lift', 'turn_again', 'lift', 'all', NULL),
		('cancelling', 'undo_unsubscribe', 'undo_unslot', 'unsubscribe',
			'all', 'both'),
		('cancelling', 'undo_unslot', 'undo_unpublish', 'unslot', 'all',
			'both'),
		('cancelling', 'undo_unpublish', 'undo_copies', 'unpublish', 'all',
			'both'),
		('cancelling', 'undo_copies', 'unset', NULL, NULL, 'both'),
		('cancelling', 'unset', 'cancelled', 'clear', 'all', NULL),
		('cancelled', 'cancelled', NULL, NULL, NULL, NULL))
		AS p (state, phase, next_phase, step, who, streams);
END;
COMMENT ON FUNCTION shardring_internal.move_phases() IS
	'the phases of fences and moves, with their successors';
REVOKE EXECUTE ON FUNCTION shardring_internal.move_phases() FROM PUBLIC;
