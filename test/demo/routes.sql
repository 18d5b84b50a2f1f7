-- routes.sql: where some keys live, and how full the shards are

\pset footer off
\echo == 4. Where a key lives ==================================================
\echo
\echo The hash of a key is a position on the ring.  The group of the next point
\echo owns it, position % 4 is the slot, and the map names its shard.
\echo
\set ECHO queries

SELECT key, l.key_position, l.group_name, l.slot, l.shard
FROM unnest(ARRAY['git', 'gcc', 'postgresql-15', '42']) AS key,
  shardring.locate('demo', key) AS l;

\set ECHO none
SELECT shardring.shard_for('demo', 42) AS shard_of_42 \gset
\echo Account 42 hashes like the text 42.  Its row is in database :shard_of_42
\echo
\connect -reuse-previous=on :shard_of_42
\set ECHO queries

SELECT current_database(), aid, bid, abalance
FROM pgbench_accounts WHERE aid = 42;

\set ECHO none
\connect -reuse-previous=on demo
\echo The exact shares of the shards, and the rows they got:
\echo
\set ECHO queries

WITH a AS (SELECT shardring.shard_for('demo', aid) AS shard, count(*)
           FROM pgbench_accounts GROUP BY 1),
  p AS (SELECT shardring.shard_for('demo', name) AS shard, count(*)
        FROM package GROUP BY 1)
SELECT shard, round(100 * share::numeric, 2) AS "share %",
  a.count AS accounts,
  round(100 * a.count / sum(a.count) OVER (), 2) AS "accounts %",
  p.count AS packages,
  round(100 * p.count / sum(p.count) OVER (), 2) AS "packages %"
FROM shardring.shard_shares('demo') JOIN a USING (shard)
  LEFT JOIN p USING (shard)
ORDER BY shard;
