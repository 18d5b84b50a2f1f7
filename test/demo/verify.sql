-- verify.sql: compares the rows that were copied with the plan

\pset footer off
\echo == 10. Are the rows that moved the rows of the plan? =====================
\echo
\echo Planned: the keys in the files of step 8, listed by moving_keys.
\echo Copied: the keys that went through step 9, chosen by move_predicate.
\echo
CREATE TABLE planned (relation text DEFAULT 'account', key text,
  from_shard text, to_shard text);
CREATE TABLE copied (relation text, from_shard text, to_shard text, key text);
\copy planned (key, from_shard, to_shard) FROM 'accounts.csv' (FORMAT csv, HEADER)
ALTER TABLE planned ALTER relation SET DEFAULT 'package';
\copy planned (key, from_shard, to_shard) FROM 'packages.csv' (FORMAT csv, HEADER)
\copy copied FROM 'copied.tsv'
ANALYZE planned, copied;
\set ECHO queries

CREATE VIEW compared AS
SELECT relation, from_shard, to_shard, count(p.key) AS planned,
  count(c.key) AS copied, count(*) FILTER (WHERE p.key = c.key) AS same
FROM planned AS p
  FULL JOIN copied AS c USING (relation, from_shard, to_shard, key)
GROUP BY relation, from_shard, to_shard;

SELECT from_shard, to_shard, a.planned AS accounts, a.copied, a.same,
  p.planned AS packages, p.copied, p.same
FROM (SELECT * FROM compared WHERE relation = 'account') AS a
  FULL JOIN (SELECT * FROM compared WHERE relation = 'package') AS p
    USING (from_shard, to_shard)
ORDER BY from_shard, to_shard;

\set ECHO none
DO $$
BEGIN
  IF (SELECT count(*) FROM compared WHERE relation = 'account') < 16
    OR EXISTS (SELECT FROM compared WHERE planned <> copied OR copied <> same)
  THEN
    RAISE EXCEPTION 'the rows copied are not the rows of the plan';
  END IF;
END
$$;
\echo The same, pair by pair and key by key.
\echo
