/*
 * 91-ddl.sql
 *		One statement of DDL on all shards, or on none.
 *
 * Each shard prepares its transaction, and notes the statement's id in it.
 * When all have, one of them, the first by number, decides: it commits before
 * any other is asked to.  So whoever finds prepared transactions later asks it
 * first.  If it cannot be rolled back there, because it was committed, it is
 * committed everywhere; if it was rolled back there, nobody can commit it any
 * more, not even with a request that arrives late.
 */

/* On the shards; nothing is ever dumped of it. */
CREATE TABLE shardring_internal.ddl_statement
(
	id text COLLATE "C" NOT NULL,
	ring text COLLATE "C" NOT NULL,
	statement text NOT NULL,
	run_by text NOT NULL DEFAULT session_user,
	run_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	CONSTRAINT ddl_statement_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE shardring_internal.ddl_statement IS
	'statements that ddl_on_shards has run here';
COMMENT ON COLUMN shardring_internal.ddl_statement.id IS
	'id of the statement, the same on all shards';
COMMENT ON COLUMN shardring_internal.ddl_statement.ring IS 'name of the ring';
COMMENT ON COLUMN shardring_internal.ddl_statement.statement IS
	'the statement';
COMMENT ON COLUMN shardring_internal.ddl_statement.run_by IS
	'role that ran it here';
COMMENT ON COLUMN shardring_internal.ddl_statement.run_at IS 'when it was run';

CREATE FUNCTION shardring.ddl_on_shards(
	ring text, statement text, dry_run boolean DEFAULT true,
	shards text[] DEFAULT NULL, atomic boolean DEFAULT true)
RETURNS TABLE (shard text, ok boolean, result text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	answers shardring_internal.shard_answer[];
	steps shardring_internal.ddl_answer[];
BEGIN
	PERFORM shardring_internal.refuse_null('ring', ring, 'statement',
		statement, 'dry_run', dry_run::text, 'atomic', atomic::text);
	PERFORM shardring_internal.lock_ddl(ring);
	answers := shardring_internal.sound_answers(ring, shards, false);
	PERFORM shardring_internal.require_ddl(
		ring, answers, atomic AND NOT dry_run);
	steps := shardring_internal.run_ddl(
		answers, ring, statement, CASE WHEN dry_run OR NOT atomic
			THEN 'rollback' ELSE 'prepare' END);
	IF NOT shardring_internal.any_error(steps) AND NOT dry_run THEN
		steps := CASE WHEN atomic
			THEN shardring_internal.commit_ddl(steps)
			ELSE shardring_internal.run_ddl(
				answers, ring, statement, 'commit') END;
	ELSIF NOT dry_run AND atomic THEN
		steps := shardring_internal.rollback_ddl(steps);
	END IF;
	RETURN QUERY
		SELECT s.shard, s.error IS NULL AND s.outcome IN ('done', 'would work'),
			shardring_internal.short_error(
				coalesce(s.error, s.outcome), 57)
		FROM unnest(steps) AS s
		ORDER BY s.number, s.shard;
END
$body$;
COMMENT ON FUNCTION
	shardring.ddl_on_shards(text, text, boolean, text[], boolean) IS
	'runs a statement on all shards, or on none; by default only tries it';
REVOKE EXECUTE ON FUNCTION
	shardring.ddl_on_shards(text, text, boolean, text[], boolean) FROM PUBLIC;

CREATE TYPE shardring_internal.ddl_answer AS
(
	shard text COLLATE "C",
	number integer,
	server text,
	id text,
	outcome text,
	error text
);
COMMENT ON TYPE shardring_internal.ddl_answer IS
	'how far a statement of DDL has come on a shard';
COMMENT ON COLUMN shardring_internal.ddl_answer.shard IS 'name of the shard';
COMMENT ON COLUMN shardring_internal.ddl_answer.number IS
	'number of the shard; the lowest decides';
COMMENT ON COLUMN shardring_internal.ddl_answer.server IS
	'foreign server of the shard';
COMMENT ON COLUMN shardring_internal.ddl_answer.id IS
	'id of the statement, and name of the prepared transaction';
COMMENT ON COLUMN shardring_internal.ddl_answer.outcome IS
	'would work, prepared, done, or not done';
COMMENT ON COLUMN shardring_internal.ddl_answer.error IS
	'why it went no further; NULL: nothing is wrong';

/* A call that recovers must not meet one that is between its two phases. */
CREATE FUNCTION shardring_internal.lock_ddl(ring text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.require_ring(ring);
	IF NOT pg_try_advisory_xact_lock(
		'shardring_internal.ddl_statement'::regclass::oid::integer,
		hashtext(ring COLLATE "C"))
	THEN
		PERFORM shardring_internal.fail('55006', format(
			'another call runs DDL on the shards of ring "%s"', ring),
			hint => 'Wait for it, or end it and call recover_ddl.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.lock_ddl(text) IS
	'keeps other calls from running DDL until the transaction ends';
REVOKE EXECUTE ON FUNCTION shardring_internal.lock_ddl(text) FROM PUBLIC;

CREATE FUNCTION shardring_internal.ddl_prefix(ring text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'shardring_ddl_' || lpad(
		to_hex(shardring.key_position(ring, 'md5')), 8, '0') || '_';
END;
COMMENT ON FUNCTION shardring_internal.ddl_prefix(text) IS
	'what the ids of all statements of a ring begin with';
REVOKE EXECUTE ON FUNCTION shardring_internal.ddl_prefix(text) FROM PUBLIC;

/*
 * On a shard, for the map, which calls it by name.  The statement is the only
 * text that travels to be run; its names are found in pg_catalog alone.
 */
CREATE FUNCTION shardring.receive_ddl(
	ring text, id text, statement text, expected_shards jsonb DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'id', id, 'statement', statement);
	PERFORM shardring_internal.require_expected(expected_shards);
	INSERT INTO shardring_internal.ddl_statement (id, ring, statement)
	VALUES (receive_ddl.id, receive_ddl.ring, receive_ddl.statement);
	EXECUTE statement;
END
$body$;
COMMENT ON FUNCTION shardring.receive_ddl(text, text, text, jsonb) IS
	'runs a statement of DDL, and notes its id';
REVOKE EXECUTE ON FUNCTION shardring.receive_ddl(text, text, text, jsonb)
	FROM PUBLIC;

/*
 * On a shard: whether it can prepare transactions, those of the ring that it
 * has prepared, and which of these statements it has committed.
 */
CREATE FUNCTION shardring_internal.ddl_state(
	ring text, ids text[], OUT can_prepare boolean, OUT prepared text[],
	OUT committed text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	can_prepare :=
		current_setting('max_prepared_transactions')::integer > 0;
	prepared := ARRAY(
		SELECT p.gid FROM pg_prepared_xacts AS p
		WHERE starts_with(p.gid, shardring_internal.ddl_prefix(ring))
			AND p.database = current_database()
		ORDER BY p.gid COLLATE "C");
	committed := ARRAY(
		SELECT d.id FROM shardring_internal.ddl_statement AS d
		WHERE d.id = ANY (ids COLLATE "C") ORDER BY d.id);
END
$body$;
COMMENT ON FUNCTION shardring_internal.ddl_state(text, text[]) IS
	'what this shard has prepared or committed of statements of DDL';
REVOKE EXECUTE ON FUNCTION shardring_internal.ddl_state(text, text[])
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.ask_ddl_state(
	answers shardring_internal.shard_answer[], ring text, ids text[])
RETURNS TABLE (shard text, number integer, server text, error text,
	can_prepare boolean, prepared text[], committed text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT s.shard, s.number, s.server,
			coalesce(s.error, a.error, CASE WHEN a.answer[1] IS NULL
				THEN 'the answer is not that of a shard' END),
			a.answer[1] = 't', a.answer[2]::text[], a.answer[3]::text[]
		FROM unnest(answers) AS s
			LEFT JOIN shardring_internal.ask_servers(
				shardring_internal.sound_servers(answers, ARRAY(
					SELECT u.shard FROM unnest(answers) AS u)),
				'SELECT d.can_prepare, d.prepared, d.committed '
				'FROM shardring_internal.ddl_state('
				'$1, $2::pg_catalog.text[]) AS d',
				ARRAY[ring, ids::text]) AS a
				ON a.server = s.server
		ORDER BY s.number, s.shard;
END
$body$;
COMMENT ON FUNCTION shardring_internal.ask_ddl_state(
	shardring_internal.shard_answer[], text, text[]) IS
	'asks all shards what they have prepared or committed';
REVOKE EXECUTE ON FUNCTION shardring_internal.ask_ddl_state(
	shardring_internal.shard_answer[], text, text[]) FROM PUBLIC;

/* All is checked before anything is tried. */
CREATE FUNCTION shardring_internal.require_ddl(
	ring text, answers shardring_internal.shard_answer[], prepare boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	state record;
BEGIN
	FOR state IN
		SELECT d.* FROM shardring_internal.ask_ddl_state(
			answers, ring, '{}') AS d
	LOOP
		IF state.error IS NOT NULL THEN
			PERFORM shardring_internal.fail('55000', format(
				'shard "%s" cannot be asked', state.shard),
				detail => state.error || '.');
		ELSIF cardinality(state.prepared) > 0 THEN
			PERFORM shardring_internal.fail('55000', format(
				'an earlier statement is not decided on shard "%s"',
				state.shard),
				hint => format(
					'SELECT * FROM shardring.recover_ddl(%L);', ring));
		ELSIF prepare AND NOT state.can_prepare THEN
			PERFORM shardring_internal.fail('55000', format(
				'shard "%s" cannot prepare transactions', state.shard),
				detail => 'So the statement might be run on some shards '
					'and not on others.',
				hint => 'Set max_prepared_transactions there, or accept that '
					'with atomic => false.');
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_ddl(
	text, shardring_internal.shard_answer[], boolean) IS
	'raises unless all shards can run a statement of DDL';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_ddl(
	text, shardring_internal.shard_answer[], boolean) FROM PUBLIC;
