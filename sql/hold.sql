--
-- hold.sql
--	What the guard, require_here and is_here say while a ring moves.
--
-- Rows: "stay" stays here, "leave" goes from here to a third shard, "come"
-- comes here, "away" has nothing to do with us.
CREATE EXTENSION shardring;
SET shardring.shard = 'here';
SELECT shardring.create_ring('größe'), shardring.add_group('größe', 'g', '{here,there}', 16), shardring.activate('größe');
SELECT shardring.draft_version('größe');
SELECT shardring.assign_slots('größe', 'g', '{[0,4)}', 'third'), shardring.assign_slots('größe', 'g', '{[4,6)}', 'the "4th"'), shardring.assign_slots('größe', 'g', '{[12,14)}', 'here');
SELECT shardring.seal('größe');
CREATE TABLE orders (customer integer NOT NULL, n integer);
SELECT shardring.add_guard('größe', 'orders', 'customer');
CREATE TABLE names AS
SELECT way, (array_agg(i ORDER BY i))[1] AS one, (array_agg(i ORDER BY i))[2] AS two
FROM (SELECT i, CASE (shardring.shard_for('größe', i, 1) = 'here')::text || (shardring.shard_for('größe', i, 2) = 'here')
	WHEN 'truetrue' THEN 'stay' WHEN 'truefalse' THEN 'leave' WHEN 'falsetrue' THEN 'come' ELSE 'away' END AS way
	FROM generate_series(1, 1000) AS i) AS k
WHERE shardring.shard_for('größe', i, 2) <> 'the "4th"' GROUP BY way;
INSERT INTO names SELECT 'other', min(i) FROM generate_series(1, 1000) AS i WHERE shardring.shard_for('größe', i, 2) = 'the "4th"';
SELECT way, shardring.shard_for('größe', one, 1) AS before, shardring.shard_for('größe', one, 2) AS after FROM names ORDER BY way;
CREATE FUNCTION pg_temp.key(way text, second boolean DEFAULT false) RETURNS integer LANGUAGE sql AS $$
	SELECT CASE WHEN second THEN two ELSE one END FROM names WHERE way = $1 $$;
CREATE FUNCTION pg_temp.try(command text, VARIADIC keys integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	detail text;
	hint text;
BEGIN
	EXECUTE format(command, VARIADIC keys);
	RETURN 'ok';
EXCEPTION
	WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		RETURN concat_ws(E'\n', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
-- how many rows a statement changes; what it did is taken back
CREATE FUNCTION pg_temp.change(command text, VARIADIC keys integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format(command, VARIADIC keys);
	GET DIAGNOSTICS n = ROW_COUNT;
	RAISE '% changed', n;
EXCEPTION
	WHEN raise_exception THEN
		RETURN SQLERRM;
	WHEN OTHERS THEN
		RETURN SQLSTATE;
END $$;
-- an INSERT, require_here and is_here of each
CREATE FUNCTION pg_temp.all_of(OUT way text, OUT write text, OUT read text, OUT is_here boolean) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT way, pg_temp.try('INSERT INTO orders VALUES (%s)', one), pg_temp.try($q$SELECT shardring.require_here('größe', %s)$q$, one),
		shardring.is_here('größe', one)
	FROM names ORDER BY way $$;
CREATE FUNCTION pg_temp.step(step text, more jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
	SELECT shardring.move_step('größe', step, 1,
		(SELECT jsonb_build_object('from_version', 1, 'to_version', 2,
			'from_fingerprint', max(fingerprint) FILTER (WHERE version = 1),
			'to_fingerprint', max(fingerprint) FILTER (WHERE version = 2))
		 FROM shardring.ring_version) || more) ->> 'closed_until' $$;
CREATE FUNCTION pg_temp.changes(OUT change text, OUT result text) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT a.way || ' -> ' || b.way, pg_temp.change('UPDATE orders SET customer = %2$s WHERE customer = %1$s', a.one, b.two)
	FROM names AS a, names AS b WHERE a.way IN ('stay', 'leave', 'come') AND b.way IN ('stay', 'leave', 'come')
	UNION ALL SELECT 'delete ' || way, pg_temp.change('DELETE FROM orders WHERE customer = %s', one) FROM names ORDER BY 1 $$;
SET session_replication_role = replica;
INSERT INTO orders SELECT one FROM names;
RESET session_replication_role;
-- open, before and after the columns are set: as ever
SELECT way, left(write, 47) AS write, read = write AS same, is_here FROM pg_temp.all_of();
SELECT pg_temp.step('set');
SELECT way, left(write, 47) AS write, read = write AS same, is_here FROM pg_temp.all_of();
-- only an UPDATE that would change the way of a row is refused, and TRUNCATE
SELECT * FROM pg_temp.changes();
SELECT pg_temp.try('UPDATE orders SET customer = %2$s WHERE customer = %1$s', pg_temp.key('stay'), pg_temp.key('leave', true));
SELECT pg_temp.try('UPDATE orders SET customer = %2$s WHERE customer = %1$s', pg_temp.key('leave'), pg_temp.key('other'));
TRUNCATE orders;
-- a lease: "in a moment"
SELECT pg_temp.step('close', '{"lease": "1 hour"}') > '';
SELECT way, left(write, 47) AS write, left(read, 5) AS read, is_here FROM pg_temp.all_of();
SELECT regexp_replace(write, 'slot=\d+', 'slot=N') AS write FROM pg_temp.all_of() WHERE way IN ('leave', 'other');
SELECT * FROM pg_temp.changes();
-- a lease that has ended
SELECT pg_temp.step('close', '{"lease": "0"}') > '';
SELECT way, left(write, 5) AS write, left(read, 5) AS read, is_here FROM pg_temp.all_of();
-- for good: as if the new version were active, but for what comes
SELECT pg_temp.step('close', '{"for_good": true}');
SELECT way, regexp_replace(write, 'slot=\d+', 'slot=N') AS write, read = write AS same, is_here FROM pg_temp.all_of();
TRUNCATE orders;
-- active
SELECT pg_temp.step('activate');
SELECT way, left(write, 47) AS write, read = write AS same, is_here FROM pg_temp.all_of();
SELECT * FROM pg_temp.changes();
TRUNCATE orders;
-- over
SELECT pg_temp.step('clear');
SELECT way, left(write, 47) AS write, read = write AS same, is_here FROM pg_temp.all_of();
SELECT * FROM pg_temp.changes();
TRUNCATE orders;
DROP TABLE orders, names;
DROP EXTENSION shardring;
