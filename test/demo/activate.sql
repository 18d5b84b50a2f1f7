-- activate.sql: switches to version 2

\pset footer off
\echo == 11. Activate ==========================================================
\echo
\echo Only if version 1 is still the active one, and only if no more than 12 %
\echo move.  Transactions that are open now keep to version 1: wait for them.
\echo
\set ECHO queries

SELECT shardring.activate('demo', expected_active => 1, max_moved => 0.12);
SELECT count(shardring.wait_for_drain('demo', 2, '1 min')) AS drained;
SELECT version, from_version, round(100 * moved::numeric, 3) AS "moved %",
  shardring.shard_for('demo', 'gcc', version) AS gcc
FROM shardring.activation WHERE ring = 'demo' ORDER BY version;

\set ECHO none
\echo What was copied is deleted where it came from, by the same conditions.
\echo
