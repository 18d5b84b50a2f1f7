-- final.sql: every row is where version 2 says, once

\pset footer off
\echo == 12. Is every row where it belongs? ====================================
\echo
\echo Held: what is in all 18 databases now.
\echo
CREATE TABLE held (relation text, shard text, key text);
\copy held FROM 'held.tsv'
\set ECHO queries

SELECT relation, count(*) AS held, count(DISTINCT key) AS keys,
  count(*) FILTER (WHERE shard = shardring.shard_for('demo', key))
    AS "where they belong"
FROM held GROUP BY relation ORDER BY relation;

\set ECHO none
DO $$
BEGIN
  IF EXISTS (
    SELECT FROM held AS h
      FULL JOIN (SELECT 'account' AS relation, aid::text AS key,
                   shardring.shard_for('demo', aid) AS shard
                 FROM pgbench_accounts
                 UNION ALL
                 SELECT 'package', name, shardring.shard_for('demo', name)
                 FROM package) AS a USING (relation, key, shard)
    WHERE h.relation IS NULL OR a.relation IS NULL)
    OR (SELECT count(*) FROM held) <> (SELECT count(*) FROM pgbench_accounts)
      + (SELECT count(*) FROM package)
  THEN
    RAISE EXCEPTION 'a row is not where it belongs';
  END IF;
END
$$;
\echo No row is lost, none is there twice, none is in the wrong place.
\echo
