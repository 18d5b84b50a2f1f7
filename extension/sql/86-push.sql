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
			s.active_version, s.fingerprint,
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
 * is taken: there the only copy of a row is elsewhere.
 */
CREATE FUNCTION shardring_internal.require_order(
	ring text, version integer, targets text[], everywhere boolean,
	answers shardring_internal.shard_answer[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	sources text[] COLLATE "C";
	takers text[] COLLATE "C";
	middle text COLLATE "C";
BEGIN
	IF NOT EXISTS (SELECT FROM unnest(answers) AS a WHERE a.guards > 0) THEN
		RETURN;
	END IF;
	PERFORM shardring_internal.require_plannable(
		ring, version, targets, answers);
	SELECT array_agg(h.from_shard ORDER BY h.from_number),
		array_agg(h.to_shard ORDER BY h.from_number)
	INTO sources, takers
	FROM shardring_internal.handovers(ring, version, everywhere, answers) AS h;
	middle := (SELECT min(s.shard) FROM unnest(sources) AS s (shard)
			 WHERE s.shard = ANY (takers));
	IF middle IS NOT NULL THEN
		PERFORM shardring_internal.fail('55000', format(
			'shard "%s" would be source and target of keys at once', middle),
			detail => format('Version %s gives it keys and takes keys from '
				'it, and tables are guarded: whether it is activated '
				'there first or last, two shards would own the '
				'same keys meanwhile.', version),
			hint => 'Make a version of each change to a group and activate '
				'them one after the other, so that a shard only gives keys '
				'or only takes them.');
	ELSIF takers && (targets COLLATE "C") THEN
		PERFORM shardring_internal.refuse_takers(
			ring, version, targets, sources, takers);
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
 * By what each shard has active.  One that does not answer is taken to be as
 * the map is where all are told; who names the shards knows of it.
 */
CREATE FUNCTION shardring_internal.handovers(
	ring text, version integer, everywhere boolean,
	answers shardring_internal.shard_answer[])
RETURNS TABLE (from_shard text, from_number integer, to_shard text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE COST 10000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	assumed integer := CASE WHEN everywhere
		THEN shardring.active_version(ring) END;
BEGIN
	RETURN QUERY
		WITH holder AS MATERIALIZED (
			SELECT a.shard, a.number, CASE WHEN a.error IS NULL
				THEN a.active_version ELSE assumed END AS active
			FROM unnest(answers) AS a),
		old AS MATERIALIZED (
			SELECT v.version FROM shardring.ring_version AS v
			WHERE v.ring = handovers.ring COLLATE "C"
				AND v.sealed_at IS NOT NULL
				AND v.version < handovers.version
				AND v.version IN (SELECT h.active FROM holder AS h))
		SELECT DISTINCT h.shard, h.number, p.to_shard
		FROM old AS o
			CROSS JOIN LATERAL shardring.move_plan(
				ring, o.version, handovers.version) AS p
			JOIN holder AS h
				ON h.shard = p.from_shard AND h.active = o.version
		WHERE NOT EXISTS (SELECT FROM holder AS t
						  WHERE t.shard = p.to_shard
							  AND t.active = handovers.version);
END
$body$;
COMMENT ON FUNCTION shardring_internal.handovers(
	text, integer, boolean, shardring_internal.shard_answer[]) IS
	'which shards still take keys that a version gives to which others';
REVOKE EXECUTE ON FUNCTION shardring_internal.handovers(
	text, integer, boolean, shardring_internal.shard_answer[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_takers(
	ring text, version integer, targets text[], sources text[], takers text[])
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
		hint => format('Activate it on the sources first: SELECT * FROM '
			'shardring.push_version(%L, %s, ARRAY[%s], '
			'activate => true).  Then call '
			'shardring.wait_for_drain on each of them, copy the '
			'rows once more, and activate it on the targets.',
			ring, version, (
			SELECT string_agg(quote_literal(s.shard), ', '
			ORDER BY s.i)
			FROM (SELECT u.shard, min(u.i) AS i
			FROM unnest(sources) WITH ORDINALITY
			AS u (shard, i)
			GROUP BY u.shard) AS s)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.refuse_takers(
	text, integer, text[], text[], text[]) IS
	'raises because targets would be activated before their sources';
REVOKE EXECUTE ON FUNCTION shardring_internal.refuse_takers(
	text, integer, text[], text[], text[]) FROM PUBLIC;

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

