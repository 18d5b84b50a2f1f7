/*
 * 86-push.sql
 *		Pushing a version to the shards.
 */

/*
 * The shards are asked first: who each of them is, and, before anything is
 * activated, which version it has.  The ones that are not who they should be
 * are not told anything.  Routers are activated after the shards, so that they
 * send no key to where it is not yet taken.
 */
CREATE FUNCTION shardring.push_version(
	ring text, version integer, shards text[] DEFAULT NULL,
	activate boolean DEFAULT false, expected_active integer DEFAULT NULL)
RETURNS TABLE (shard text, ok boolean, error text, active_version integer,
	fingerprint text, router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	document jsonb;
	targets text[];
	answers shardring_internal.shard_answer[];
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'version', version::text, 'activate', activate::text);
	document := shardring.export_version(ring, version);
	targets := shardring_internal.push_targets(ring, version, shards);
	answers := ARRAY(
		SELECT a FROM shardring_internal.ask_shards(
			ring, targets || CASE WHEN activate THEN
				shardring_internal.shards_involved(ring, version) END,
			shards IS NULL, false) AS a);
	IF activate THEN
		PERFORM shardring_internal.require_order(
			ring, version, targets, shards IS NULL, answers);
	END IF;
	IF shards IS NULL AND NOT activate THEN
		targets := targets || NULL::text;
	END IF;
	RETURN QUERY
		SELECT p.* FROM shardring_internal.push_to(
			answers, targets, document, activate, expected_active) AS p;
	IF shards IS NULL AND activate THEN
		RETURN QUERY
			SELECT p.* FROM shardring_internal.push_to(
				answers, ARRAY[NULL::text], document, activate,
				expected_active) AS p;
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring.push_version(text, integer, text[], boolean, integer) IS
	'imports a version on shards, all at once, and activates it on request';
REVOKE EXECUTE ON FUNCTION
	shardring.push_version(text, integer, text[], boolean, integer)
	FROM PUBLIC;

/* In a list of shards, NULL stands for the routers. */
CREATE FUNCTION shardring_internal.push_to(
	answers shardring_internal.shard_answer[], targets text[], document jsonb,
	activate boolean, expected_active integer)
RETURNS TABLE (shard text, ok boolean, error text, active_version integer,
	fingerprint text, router text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT t.shard,
			t.error IS NULL AND t.hint IS NULL AND s.error IS NULL
				AND s.fingerprint IS NOT DISTINCT FROM document
					->> 'fingerprint'
				AND (s.active_version IS NOT DISTINCT FROM
					 (document ->> 'version')::integer OR NOT activate),
			coalesce(t.error, s.error,
					 'shardring.shard is not set there: ' || t.hint),
			s.active_version, left(s.fingerprint, 16),
			CASE WHEN t.shard IS NULL THEN t.server END
		FROM unnest(answers) AS t
			LEFT JOIN shardring_internal.send_version(
				answers, targets, document, activate, expected_active) AS s
				ON s.server = t.server AND t.error IS NULL
		WHERE array_position(targets COLLATE "C", t.shard) IS NOT NULL
		ORDER BY t.number, t.server;
END
$body$;
COMMENT ON FUNCTION shardring_internal.push_to(
	shardring_internal.shard_answer[], text[], jsonb, boolean, integer) IS
	'pushes to those of these shards that are who they should be';
REVOKE EXECUTE ON FUNCTION shardring_internal.push_to(
	shardring_internal.shard_answer[], text[], jsonb, boolean, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.push_targets(
	ring text, version integer, shards text[])
RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unknown text;
BEGIN
	SELECT n.shard INTO unknown FROM unnest(shards) AS n (shard)
	WHERE NOT EXISTS (SELECT FROM shardring.shard AS s
					  WHERE s.ring = push_targets.ring COLLATE "C"
						  AND s.shard = n.shard COLLATE "C")
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'shard "%s" of ring "%s" does not exist', unknown, ring));
	END IF;
	RETURN coalesce(shards, ARRAY(
		SELECT l.shard FROM shardring.live_shards(push_targets.ring) AS l
		UNION SELECT m.shard FROM shardring.shard_map AS m
		WHERE m.ring = push_targets.ring COLLATE "C"
			AND m.version = push_targets.version));
END
$body$;
COMMENT ON FUNCTION shardring_internal.push_targets(text, integer, text[]) IS
	'the shards to push to, which must exist';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.push_targets(text, integer, text[])
	FROM PUBLIC;

/*
 * Also those that only the version before had: they may still take keys that
 * go elsewhere now.
 */
CREATE FUNCTION shardring_internal.shards_involved(ring text, version integer)
RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		SELECT l.shard FROM shardring.live_shards(ring) AS l
		UNION SELECT m.shard
		FROM shardring.ring_version AS v
			JOIN shardring.shard_map AS m
				ON m.ring = v.ring
					AND m.version IN (v.version, v.parent, v.base_active)
		WHERE v.ring = shards_involved.ring COLLATE "C"
			AND v.version = shards_involved.version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.shards_involved(text, integer) IS
	'shards between which keys may go when a version is activated';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.shards_involved(text, integer) FROM PUBLIC;

/*
 * A key that goes from one shard to another must be refused by the one before
 * the other takes it.  Without guards nothing is refused anyway, and nothing
 * is taken: there the only copy of a row is elsewhere.  A shard that does not
 * answer may have guards that we do not see; when all are told at once, those
 * that are in use already and have none speak for it.
 */
CREATE FUNCTION shardring_internal.require_order(
	ring text, version integer, targets text[], everywhere boolean,
	answers shardring_internal.shard_answer[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	guarded boolean := EXISTS (
		SELECT FROM unnest(answers) AS a WHERE a.guards > 0);
	sources text[] COLLATE "C";
	takers text[] COLLATE "C";
	middle text COLLATE "C";
	way text := shardring_internal.way_by_fence(ring, version, answers);
BEGIN
	IF guarded THEN
		PERFORM shardring_internal.require_plannable(
			ring, version, targets, answers);
	END IF;
	IF guarded OR NOT everywhere OR NOT EXISTS (
		SELECT FROM unnest(answers) AS a
		WHERE a.error IS NULL AND a.active_version IS NOT NULL)
	THEN
		PERFORM shardring_internal.require_known(
			ring, version, targets, answers);
	END IF;
	IF NOT guarded THEN
		RETURN;
	END IF;
	SELECT array_agg(h.from_shard ORDER BY h.from_number),
		array_agg(h.to_shard ORDER BY h.from_number)
	INTO sources, takers
	FROM shardring_internal.handovers(ring, version, answers) AS h
	WHERE NOT h.guessed;
	middle := (SELECT min(s.shard) FROM unnest(sources) AS s (shard)
			 WHERE s.shard = ANY (takers));
	IF middle IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'shard "%s" would be source and target of keys at once', middle),
			detail => format('Version %s gives it keys and takes keys from '
				'it, and tables are guarded: whether it is activated '
				'there first or last, two shards would own the '
				'same keys meanwhile.', version),
			hint => coalesce(way, 'Make a version of each change to a group '
				'and activate them one after the other, so that a shard only '
				'gives keys or only takes them.'));
	ELSIF takers && (targets COLLATE "C") THEN
		PERFORM shardring_internal.refuse_takers(
			ring, version, targets, sources, takers, way);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_order(text, integer, text[],
	boolean, shardring_internal.shard_answer[]) IS
	'raises when activating on these shards would make two owners of keys';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_order(text, integer,
	text[], boolean, shardring_internal.shard_answer[]) FROM PUBLIC;

/*
 * What a shard gives away can be planned from versions that are here; one that
 * was left behind by a version that was dropped since is brought forward
 * first, by itself.
 */
CREATE FUNCTION shardring_internal.require_plannable(
	ring text, version integer, targets text[],
	answers shardring_internal.shard_answer[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	behind shardring_internal.shard_answer;
BEGIN
	SELECT a.* INTO behind
	FROM unnest(answers) AS a
	WHERE a.error IS NULL AND a.shard IS NOT NULL
		AND a.active_version < require_plannable.version
		AND NOT EXISTS (SELECT FROM shardring.ring_version AS v
						WHERE v.ring = require_plannable.ring COLLATE "C"
							AND v.version = a.active_version
							AND v.sealed_at IS NOT NULL)
		AND targets <> ARRAY[a.shard] COLLATE "C"
	ORDER BY a.number
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'shard "%s" has version %s active, which is not here any more',
			behind.shard, behind.active_version),
			detail => 'So it is not known which keys it still takes.',
			hint => format('SELECT * FROM shardring.push_version(%L, %s, '
				'ARRAY[%L], activate => true);', ring,
				coalesce(shardring.active_version(ring), version),
				behind.shard));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_plannable(text, integer, text[],
	shardring_internal.shard_answer[]) IS
	'raises when a shard takes keys by a version that was dropped here';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_plannable(text, integer,
	text[], shardring_internal.shard_answer[]) FROM PUBLIC;

/*
 * Whether a shard that does not answer, or answers with another name or none,
 * refuses the keys by now is not known, be it among the targets or not.
 */
CREATE FUNCTION shardring_internal.require_known(
	ring text, version integer, targets text[],
	answers shardring_internal.shard_answer[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	unknown record;
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(answers) AS a
				   WHERE num_nonnulls(a.error, a.hint) > 0
					   AND a.shard IS NOT NULL)
	THEN
		RETURN;
	END IF;
	SELECT h.from_shard, h.to_shard, coalesce(
		shardring_internal.short_error(a.error, 200),
		'shardring.shard is not set there') AS error
	INTO unknown
	FROM shardring_internal.handovers(ring, version, answers) AS h
		JOIN unnest(answers) AS a ON a.shard = h.from_shard
	WHERE h.guessed AND h.to_shard = ANY (targets COLLATE "C")
	ORDER BY h.from_number, h.to_shard
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'shard "%s" would take keys that shard "%s" may still take',
			unknown.to_shard, unknown.from_shard),
			detail => format('Shard "%s" has not said that it refuses them: '
				'%s.', unknown.from_shard, unknown.error),
			hint => format('Repeat the command when it answers.  If it is '
				'lost for good, call shardring.activate(%L, %s) on shard '
				'"%s" itself.', ring, version, unknown.to_shard));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_known(text, integer, text[],
	shardring_internal.shard_answer[]) IS
	'raises when a shard that may give keys to these has not answered';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_known(text, integer,
	text[], shardring_internal.shard_answer[]) FROM PUBLIC;

/*
 * By what each shard has active.  One that does not answer may have whatever
 * the map, the version itself or another shard leads to expect.
 */
CREATE FUNCTION shardring_internal.handovers(
	ring text, version integer, answers shardring_internal.shard_answer[])
RETURNS TABLE (from_shard text, from_number integer, to_shard text,
	guessed boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH old AS MATERIALIZED (
			SELECT v.version
			FROM shardring.ring_version AS v
				JOIN shardring.ring_version AS n
					ON n.ring = v.ring AND n.version = handovers.version
				JOIN shardring.ring AS r ON r.ring = v.ring
			WHERE v.ring = handovers.ring COLLATE "C"
				AND v.sealed_at IS NOT NULL
				AND v.version < n.version
				AND (v.version IN (r.active_version, n.parent, n.base_active)
					 OR EXISTS (SELECT FROM shardring.activation AS e
								WHERE e.ring = v.ring
									AND e.from_version = v.version
									AND e.version >= n.version)
					 OR EXISTS (SELECT FROM unnest(answers) AS a
								WHERE a.active_version = v.version)))
		SELECT DISTINCT a.shard, a.number, p.to_shard,
			num_nonnulls(a.error, a.hint) > 0
		FROM old AS o
			CROSS JOIN LATERAL shardring.move_plan(
				ring, o.version, handovers.version) AS p
			JOIN unnest(answers) AS a
				ON a.shard = p.from_shard
					AND (num_nonnulls(a.error, a.hint) > 0
						 OR a.active_version = o.version)
		WHERE NOT EXISTS (SELECT FROM unnest(answers) AS t
						  WHERE t.shard = p.to_shard
							  AND num_nonnulls(t.error, t.hint) = 0
							  AND t.active_version = handovers.version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.handovers(
	text, integer, shardring_internal.shard_answer[]) IS
	'which shards still take keys that a version gives to which others';
REVOKE EXECUTE ON FUNCTION shardring_internal.handovers(
	text, integer, shardring_internal.shard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_takers(
	ring text, version integer, targets text[], sources text[], takers text[],
	way text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	example record;
BEGIN
	SELECT h.source, h.taker INTO example
	FROM unnest(sources, takers) WITH ORDINALITY AS h (source, taker, i)
	WHERE h.taker = ANY (targets COLLATE "C")
	ORDER BY h.i
	LIMIT 1;
	PERFORM shardring_internal.fail('55000', format(
		'shard "%s" would take keys that shard "%s" still takes',
		example.taker, example.source),
		detail => format('Version %s moves keys between shards with guards: '
			'the sources must refuse them before the targets take '
			'them.', version),
		hint => coalesce(way, format('Activate it on the sources first: '
			'SELECT * FROM shardring.push_version(%L, %s, ARRAY[%s], '
			'activate => true).  Then call shardring.wait_for_drain on each '
			'of them, copy the rows once more, and activate it on the '
			'targets.', ring, version, (
				SELECT string_agg(quote_literal(s.shard), ', ' ORDER BY s.i)
				FROM (SELECT u.shard, min(u.i) AS i
					  FROM unnest(sources) WITH ORDINALITY AS u (shard, i)
					  GROUP BY u.shard) AS s))));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_takers(
	text, integer, text[], text[], text[], text) IS
	'raises because targets would be activated before their sources';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_takers(
	text, integer, text[], text[], text[], text) FROM PUBLIC;

/* Each database gets the names that it may have, since all get the same. */
CREATE FUNCTION shardring_internal.send_version(
	answers shardring_internal.shard_answer[], shards text[], document jsonb,
	activate boolean, expected_active integer)
RETURNS TABLE (server text, error text, active_version integer,
	fingerprint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		SELECT a.server,
			coalesce(a.error,
				left(regexp_replace(a.answer[3], '\s+', ' ', 'g'), 1000)),
			CASE WHEN a.answer[1] ~ '^[1-9][0-9]{0,8}$'
				THEN a.answer[1]::integer END,
			CASE WHEN a.answer[2] ~ '^[0-9a-f]{64}$' THEN a.answer[2] END
		FROM shardring_internal.ask_servers(
			shardring_internal.sound_servers(answers, shards),
			'SELECT v.active_version, v.fingerprint, v.error '
			'FROM shardring.receive_version($1, $2, '
			'CASE WHEN $3 OPERATOR(pg_catalog.<>) '''' '
			'THEN $3::pg_catalog.int4 END, $4) AS v',
			ARRAY[document::text, activate::text,
				  coalesce(expected_active::text, ''),
				  shardring_internal.expected_shards(answers, shards)::text])
			AS a;
END
$body$;
COMMENT ON FUNCTION shardring_internal.send_version(
	shardring_internal.shard_answer[], text[], jsonb, boolean, integer) IS
	'sends a version to those of these shards that are who they should be';
REVOKE EXECUTE ON FUNCTION shardring_internal.send_version(
	shardring_internal.shard_answer[], text[], jsonb, boolean, integer)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.sound_servers(
	answers shardring_internal.shard_answer[], shards text[])
RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(array_agg(s.server ORDER BY s.server), '{}')
	FROM (SELECT DISTINCT a.server FROM unnest(answers) AS a
		  WHERE a.error IS NULL
			  AND array_position(shards COLLATE "C", a.shard) IS NOT NULL)
		AS s;
END;
COMMENT ON FUNCTION shardring_internal.sound_servers(
	shardring_internal.shard_answer[], text[]) IS
	'the servers of those of these shards that are who they should be';
REVOKE EXECUTE ON FUNCTION shardring_internal.sound_servers(
	shardring_internal.shard_answer[], text[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.expected_shards(
	answers shardring_internal.shard_answer[], shards text[])
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(jsonb_object_agg(d.database, d.names), '{}')
	FROM (SELECT a.system_identifier || '/' || a.database_oid AS database,
			coalesce(jsonb_agg(DISTINCT n.shard)
						 FILTER (WHERE n.shard IS NOT NULL), '[]') AS names
		  FROM unnest(answers) AS a
			  LEFT JOIN LATERAL unnest(a.names) AS n (shard) ON true
		  WHERE a.error IS NULL
			  AND array_position(shards COLLATE "C", a.shard) IS NOT NULL
		  GROUP BY a.system_identifier, a.database_oid) AS d;
END;
COMMENT ON FUNCTION shardring_internal.expected_shards(
	shardring_internal.shard_answer[], text[]) IS
	'the names that each database may have, for what is sent to all of them';
REVOKE EXECUTE ON FUNCTION shardring_internal.expected_shards(
	shardring_internal.shard_answer[], text[]) FROM PUBLIC;

