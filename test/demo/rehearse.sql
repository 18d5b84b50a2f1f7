-- rehearse.sql: what the draft would do to the table

\pset footer off
\echo == 7. Rehearse it on the table ==========================================
\echo
\echo Rows and bytes of each shard before and after, in one pass over the table.
\echo
\set ECHO queries

SELECT shard, rows_before, rows_in, rows_out, rows_after,
  bytes_before / 1000 AS kb_before, bytes_after / 1000 AS kb_after
FROM shardring.rehearse('demo', 1, 2, 'pgbench_accounts', 'aid')
ORDER BY shard;
