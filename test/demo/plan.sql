-- plan.sql: what would move, by ranges and by shards

\pset footer off
\echo == 6. The exact plan =====================================================
\echo
\echo What moves, moves to node-8; between the old groups nothing moves.  This is
\echo no sample: the ranges are compared, and the positions in them counted.
\echo
\set ECHO queries

SELECT shardring.share_bars('demo', 1, 2);
SELECT from_group, to_group, (SELECT count(*) FROM unnest(positions)) AS ranges,
  round(100 * share::numeric, 3) AS "share %"
FROM shardring.moved_ranges('demo', 1, 2);
SELECT r AS "first of node-0", upper(r) - lower(r) AS positions
FROM shardring.moved_ranges('demo', 1, 2) AS m, unnest(m.positions) AS r
WHERE from_group = 'node-0' ORDER BY r LIMIT 3;

\set ECHO none
\echo By shards, with the slots that move:
\echo
\set ECHO queries

SELECT from_shard, to_shard, from_slots,
  round(100 * share::numeric, 4) AS "share %",
  round(share * (SELECT count(*) FROM pgbench_accounts)) AS "accounts, about"
FROM shardring.move_plan('demo', 1, 2)
ORDER BY from_shard, to_shard;
SELECT round(100 * sum(share)::numeric, 3) AS "share % of all",
  round(100 / 9.0, 3) AS "one group of nine",
  round(100 * 8 / 9.0, 3) AS "plain modulo 8 to 9"
FROM shardring.move_plan('demo', 1, 2);

\set ECHO none
\echo 'SELECT shardring.ring_svg(''demo'', 1, 2) \\g ring.svg'
\pset format unaligned
\pset tuples_only
SELECT shardring.ring_svg('demo', 1, 2) \g ring.svg
\echo
\echo draws the same into file ring.svg.
\echo
