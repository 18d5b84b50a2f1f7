/*
 * 95-move-ledger.sql
 *		On the map: what moves, how far it is, and what is wanted next.
 *
 * Nothing of it is dumped: a restored copy must not drive somebody's shards.
 * There are no foreign keys; rows of moves that are over stay as history.
 */

CREATE TABLE shardring_internal.row_move
(
	ring text COLLATE "C" NOT NULL,
	move integer NOT NULL,
	program text NOT NULL,
	from_version integer NOT NULL,
	to_version integer NOT NULL,
	from_fingerprint text NOT NULL,
	to_fingerprint text NOT NULL,
	state text NOT NULL,
	phase text NOT NULL,
	wanted text NOT NULL,
	token bigint NOT NULL,
	options jsonb NOT NULL DEFAULT '{}',
	attempts integer NOT NULL DEFAULT 0,
	failures integer NOT NULL DEFAULT 0,
	stuck boolean NOT NULL DEFAULT false,
	error text,
	grace_until timestamp with time zone,
	started_by text NOT NULL DEFAULT current_user,
	started_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	state_since timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	CONSTRAINT row_move_pkey PRIMARY KEY (ring, move)
);
COMMENT ON TABLE shardring_internal.row_move IS
	'moves of rings; the one that is not over drives the shards';
COMMENT ON COLUMN shardring_internal.row_move.ring IS 'name of the ring';
COMMENT ON COLUMN shardring_internal.row_move.move IS
	'number of the move, from 1 in each ring';
COMMENT ON COLUMN shardring_internal.row_move.program IS
	'move: by streams; fence: by hand';
COMMENT ON COLUMN shardring_internal.row_move.from_version IS
	'version that keys move from';
COMMENT ON COLUMN shardring_internal.row_move.to_version IS
	'version that keys move to';
COMMENT ON COLUMN shardring_internal.row_move.from_fingerprint IS
	'fingerprint of the version that keys move from';
COMMENT ON COLUMN shardring_internal.row_move.to_fingerprint IS
	'fingerprint of the version that keys move to';
COMMENT ON COLUMN shardring_internal.row_move.state IS
	'what the move has come to';
COMMENT ON COLUMN shardring_internal.row_move.phase IS
	'part of the state that is done next';
COMMENT ON COLUMN shardring_internal.row_move.wanted IS
	'state that was asked for last';
COMMENT ON COLUMN shardring_internal.row_move.token IS
	'token of the last call';
COMMENT ON COLUMN shardring_internal.row_move.options IS
	'what the calls have asked for, and what phases keep';
COMMENT ON COLUMN shardring_internal.row_move.attempts IS
	'failed attempts to switch since that was asked for';
COMMENT ON COLUMN shardring_internal.row_move.failures IS
	'failures of the phase in a row';
COMMENT ON COLUMN shardring_internal.row_move.stuck IS
	'nothing more is tried before the next call';
COMMENT ON COLUMN shardring_internal.row_move.error IS
	'why the last phase failed; NULL: it did not';
COMMENT ON COLUMN shardring_internal.row_move.grace_until IS
	'until when rows stay where they were';
COMMENT ON COLUMN shardring_internal.row_move.started_by IS
	'role that began the move';
COMMENT ON COLUMN shardring_internal.row_move.started_at IS
	'when the move began';
COMMENT ON COLUMN shardring_internal.row_move.state_since IS
	'when the move came to its state';
GRANT SELECT ON shardring_internal.row_move TO PUBLIC;
CREATE UNIQUE INDEX row_move_current ON shardring_internal.row_move (ring)
	WHERE state NOT IN ('finished', 'cancelled');

CREATE TABLE shardring_internal.move_shard
(
	ring text COLLATE "C" NOT NULL,
	move integer NOT NULL,
	shard text COLLATE "C" NOT NULL,
	source boolean NOT NULL,
	target boolean NOT NULL,
	system_identifier bigint,
	database_oid bigint,
	timeline integer,
	CONSTRAINT move_shard_pkey PRIMARY KEY (ring, move, shard)
);
COMMENT ON TABLE shardring_internal.move_shard IS
	'shards of either version of a move, and who they were when last asked';
COMMENT ON COLUMN shardring_internal.move_shard.ring IS 'name of the ring';
COMMENT ON COLUMN shardring_internal.move_shard.move IS 'number of the move';
COMMENT ON COLUMN shardring_internal.move_shard.shard IS 'name of the shard';
COMMENT ON COLUMN shardring_internal.move_shard.source IS 'keys leave it';
COMMENT ON COLUMN shardring_internal.move_shard.target IS 'keys come to it';
COMMENT ON COLUMN shardring_internal.move_shard.system_identifier IS
	'identifier of its database cluster when it last answered';
COMMENT ON COLUMN shardring_internal.move_shard.database_oid IS
	'OID of its database then';
COMMENT ON COLUMN shardring_internal.move_shard.timeline IS
	'its timeline then';
GRANT SELECT ON shardring_internal.move_shard TO PUBLIC;

CREATE TABLE shardring_internal.move_pair
(
	ring text COLLATE "C" NOT NULL,
	move integer NOT NULL,
	from_shard text COLLATE "C" NOT NULL,
	to_shard text COLLATE "C" NOT NULL,
	name text NOT NULL,
	subscription oid,
	back_subscription oid,
	l1 pg_lsn,
	l2 pg_lsn,
	back_lsn pg_lsn,
	lag_bytes bigint,
	retained_bytes bigint,
	/* shards that exchange keys exchange their rows here when a move turns */
	CONSTRAINT move_pair_pkey PRIMARY KEY (ring, move, from_shard, to_shard)
		DEFERRABLE INITIALLY IMMEDIATE
);
COMMENT ON TABLE shardring_internal.move_pair IS
	'pairs of shards between which a move carries rows, with their streams';
COMMENT ON COLUMN shardring_internal.move_pair.ring IS 'name of the ring';
COMMENT ON COLUMN shardring_internal.move_pair.move IS 'number of the move';
COMMENT ON COLUMN shardring_internal.move_pair.from_shard IS
	'shard that rows leave';
COMMENT ON COLUMN shardring_internal.move_pair.to_shard IS
	'shard that they go to';
COMMENT ON COLUMN shardring_internal.move_pair.name IS
	'name of the stream there; see back_name for that of the way back';
COMMENT ON COLUMN shardring_internal.move_pair.subscription IS
	'OID of the subscription on the target';
COMMENT ON COLUMN shardring_internal.move_pair.back_subscription IS
	'OID of the subscription of the way back';
COMMENT ON COLUMN shardring_internal.move_pair.l1 IS
	'where the source was when it was held';
COMMENT ON COLUMN shardring_internal.move_pair.l2 IS
	'where the source was when it was closed for good';
COMMENT ON COLUMN shardring_internal.move_pair.back_lsn IS
	'where on the target the way back begins';
COMMENT ON COLUMN shardring_internal.move_pair.lag_bytes IS
	'WAL that the other side had not confirmed when last asked';
COMMENT ON COLUMN shardring_internal.move_pair.retained_bytes IS
	'WAL that was kept for the other side then';
GRANT SELECT ON shardring_internal.move_pair TO PUBLIC;

CREATE TABLE shardring_internal.move_event
(
	ring text COLLATE "C" NOT NULL,
	move integer NOT NULL,
	number integer NOT NULL,
	at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	token bigint NOT NULL,
	state text NOT NULL,
	phase text NOT NULL,
	event text NOT NULL,
	detail text,
	CONSTRAINT move_event_pkey PRIMARY KEY (ring, move, number)
);
COMMENT ON TABLE shardring_internal.move_event IS
	'one row before each step of a move and one after it';
COMMENT ON COLUMN shardring_internal.move_event.ring IS 'name of the ring';
COMMENT ON COLUMN shardring_internal.move_event.move IS 'number of the move';
COMMENT ON COLUMN shardring_internal.move_event.number IS
	'number of the event, from 1 in each move';
COMMENT ON COLUMN shardring_internal.move_event.at IS 'when it was noted';
COMMENT ON COLUMN shardring_internal.move_event.token IS 'token of the call';
COMMENT ON COLUMN shardring_internal.move_event.state IS 'state of the move';
COMMENT ON COLUMN shardring_internal.move_event.phase IS 'phase of the move';
COMMENT ON COLUMN shardring_internal.move_event.event IS
	'begin, done, waiting, failed, or fallen: shards lost the switch';
COMMENT ON COLUMN shardring_internal.move_event.detail IS
	'why it failed, or which shards';

/*
 * What a phase comes to: it is done, or an error says why not, or neither and
 * it is tried again after a pause.
 */
CREATE TYPE shardring_internal.move_outcome AS
(
	done boolean,
	error text,
	pause double precision,
	facts jsonb,
	note text
);
COMMENT ON TYPE shardring_internal.move_outcome IS
	'what a phase of a move has come to';
COMMENT ON COLUMN shardring_internal.move_outcome.done IS
	'the next phase follows';
COMMENT ON COLUMN shardring_internal.move_outcome.error IS
	'why it is not done, with the shard';
COMMENT ON COLUMN shardring_internal.move_outcome.pause IS
	'when to look again, in seconds';
COMMENT ON COLUMN shardring_internal.move_outcome.facts IS
	'what is to be kept of the answers';
COMMENT ON COLUMN shardring_internal.move_outcome.note IS
	'how far it is, for who waits';

/* The move of a ring that is not over; NULL: there is none. */
CREATE FUNCTION shardring_internal.current_move(ring text)
RETURNS shardring_internal.row_move
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT m FROM shardring_internal.row_move AS m
	WHERE m.ring = current_move.ring COLLATE "C"
		AND m.state NOT IN ('finished', 'cancelled');
END;
COMMENT ON FUNCTION shardring_internal.current_move(text) IS
	'the move of a ring that is not over';

/* Whether a move goes back along the streams of the one before. */
CREATE FUNCTION shardring_internal.is_turned(m shardring_internal.row_move)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(
		(m.options #>> '{turned,to_version}')::integer = m.from_version, false);
END;
COMMENT ON FUNCTION shardring_internal.is_turned(
	shardring_internal.row_move) IS
	'whether a move was turned round';
REVOKE EXECUTE ON FUNCTION shardring_internal.is_turned(
	shardring_internal.row_move) FROM PUBLIC;
