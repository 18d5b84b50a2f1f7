/*
 * 98-find-sequences.sql
 *		Findings about sequences: the same numbers on several shards.
 */

/*
 * Two sequences meet if what they count from differs by a multiple of the
 * greatest common divisor of their steps.  Looked at are the next thousand
 * million values, so that those that begin far apart do not count.  A shard
 * is told if it meets one before it, or counts in steps too small for all.
 */
CREATE FUNCTION shardring_internal.sequence_findings(
	facts shardring_internal.shard_fact[])
RETURNS shardring_internal.finding[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN ARRAY(
		WITH sequence AS MATERIALIZED (
			SELECT q.* FROM shardring_internal.fact_sequences(facts) AS q),
		meeting AS (
			SELECT DISTINCT ON (s.relation, s.name, s.nth)
				s.*, o.shard AS other
			FROM sequence AS s
				JOIN sequence AS o
					ON o.name = s.name AND o.relation = s.relation
						AND o.nth <> s.nth
						AND (o.nth < s.nth OR s.increment < s.places)
						AND mod(o.next - s.next, nullif(
							gcd(o.increment, s.increment), 0)) = 0
						AND o.lowest <= s.largest AND s.lowest <= o.largest
			ORDER BY s.relation, s.name, s.nth, o.nth)
		SELECT ROW('warning', m.shard, m.number, m.relation,
			format('sequence %s gives numbers that it also gives on shard '
				   '"%s"', m.name, m.other),
			CASE WHEN m.known THEN format(
				'ALTER SEQUENCE %s INCREMENT BY %s START WITH %s RESTART;',
				m.name, m.step, m.step * ceil(m.highest / m.step) + m.nth)
				END,
			m.place)::shardring_internal.finding
		FROM meeting AS m);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.sequence_findings(shardring_internal.shard_fact[]) IS
	'sequences that would give the same number on two shards';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.sequence_findings(shardring_internal.shard_fact[])
	FROM PUBLIC;

/*
 * "step" is a power of ten that has room for twice as many shards, or what
 * is in use if that is more; "highest" is beyond what any shard has given.
 */
CREATE FUNCTION shardring_internal.fact_sequences(
	facts shardring_internal.shard_fact[])
RETURNS TABLE (shard text, place text, number integer, relation text,
	name text, nth numeric, places numeric, increment numeric, next numeric,
	lowest numeric, largest numeric, step numeric, highest numeric,
	known boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 500
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	far numeric := 1e9;
	shards bigint := greatest(cardinality(facts), 1);
BEGIN
	RETURN QUERY
		SELECT s.shard, s.place, s.number, s.relation, s.name, s.nth::numeric,
			shards::numeric, s.increment, s.next,
			CASE WHEN s.cycle THEN s.min WHEN s.up THEN s.next
				ELSE greatest(s.min, s.next - far * s.increment) END,
			CASE WHEN s.cycle THEN s.max WHEN NOT s.up THEN s.next
				ELSE least(s.max, s.next + far * s.increment) END,
			CASE WHEN max(s.increment) OVER same >= shards
				THEN max(s.increment) OVER same
				ELSE trunc(power(10::numeric,
								 ceil(log(2.0 * shards)))) END,
			max(greatest(coalesce(s.last, s.next - 1), 0)) OVER same,
			bool_and(s.known) OVER same
		FROM (SELECT t.shard, t.place, t.number, t.relation,
				format('%I.%I', q.schema, q.name) COLLATE "C" AS name,
				dense_rank() OVER (ORDER BY t.number, t.shard) AS nth,
				q.increment > 0 AS up, abs(q.increment) AS increment,
				coalesce(q.last, q.start) AS next, q.last, q.min, q.max,
				q.cycle, q.known
			  FROM shardring_internal.fact_tables(facts) AS t
				  CROSS JOIN LATERAL jsonb_to_recordset(
					  t.fact -> 'sequences') AS q (
						  schema text, name text, start numeric,
						  increment numeric, min numeric, max numeric,
						  cycle boolean, last numeric, known boolean)) AS s
		WINDOW same AS (PARTITION BY s.relation, s.name);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.fact_sequences(shardring_internal.shard_fact[]) IS
	'the sequences of guarded tables on all shards, and how they count';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.fact_sequences(shardring_internal.shard_fact[])
	FROM PUBLIC;
