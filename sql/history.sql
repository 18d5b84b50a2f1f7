--
-- history.sql
--	Which version was active when: activation, version_at; together with
--	locate, where a key was then.
--
CREATE EXTENSION shardring;
SET search_path = shardring;
\set SHOW_CONTEXT never

SELECT create_ring('r'), create_ring('other');
SELECT add_group('r', 'a', ARRAY['a0']), add_group('r', 'b', ARRAY['b0']);
-- before the first activation
SELECT clock_timestamp() AS t0 \gset
SELECT version_at('r', now()), version_at('r', 'infinity');
SELECT activate('r');
SELECT clock_timestamp() AS t1 \gset
SELECT draft_version('r'), add_group('r', 'c', ARRAY['c0']);
-- sealed is not active
SELECT seal('r');
SELECT version_at('r', 'infinity');
SELECT activate('r');
SELECT clock_timestamp() AS t2 \gset
SELECT draft_version('r'), remove_group('r', 'a'), activate('r');

SELECT version, from_version, activated_by = current_user AS by_me,
	round(moved::numeric, 3) AS moved
FROM activation ORDER BY version;
-- moved is the sum of the plan
SELECT a.version, a.moved = (SELECT sum(p.share)
							 FROM move_plan('r', a.from_version, a.version)
								 AS p) AS exact
FROM activation AS a WHERE a.from_version IS NOT NULL ORDER BY a.version;

SELECT version_at('r', :'t0') AS t0, version_at('r', :'t1') AS t1,
	version_at('r', :'t2') AS t2, version_at('r', clock_timestamp()) AS now,
	version_at('r', '-infinity') AS never, version_at('other', 'infinity');
-- from the very moment of the activation on
SELECT a.version, version_at('r', a.activated_at) AS at,
	version_at('r', a.activated_at - interval '1 microsecond') AS before
FROM activation AS a ORDER BY a.version;

-- where was this key then?
SELECT t.t, (locate('r', 'user:12', version_at('r', t.at))).group_name,
	(locate('r', 'user:24', version_at('r', t.at))).group_name
FROM (VALUES ('t0', :'t0'::timestamptz), ('t1', :'t1'), ('t2', :'t2'),
	  ('now', clock_timestamp())) AS t (t, at);

-- the history goes on in a transaction that is rolled back, and is not
BEGIN;
SELECT draft_version('r'), activate('r');
SELECT version_at('r', 'infinity');
ROLLBACK;
SELECT version_at('r', 'infinity');

-- two activations in one transaction are two lines of it, in order
BEGIN;
SELECT draft_version('r'), set_weight('r', 'b', 2), activate('r');
SELECT draft_version('r'), set_weight('r', 'b', 1), activate('r');
COMMIT;
SELECT version, from_version, activated_at >= lag(activated_at)
	OVER (ORDER BY version) AS in_order
FROM activation ORDER BY version;

-- dropping a version leaves the history readable
SELECT drop_version('r', 1), drop_version('r', 2);
SELECT version_at('r', :'t1'), version_at('r', :'t2');
SELECT version, from_version FROM activation ORDER BY version;
SELECT * FROM problems();
SELECT locate('r', 'user:12', version_at('r', :'t1'));
-- dropping the ring does not
SELECT drop_ring('r');
SELECT count(*) FROM activation;

SELECT version_at(NULL, now()), version_at('other', NULL);
\set VERBOSITY sqlstate
SELECT version_at('r', now());

RESET search_path;
DROP EXTENSION shardring;
