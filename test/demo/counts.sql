-- counts.sql: how many keys there are

\pset footer off
\echo
\set ECHO queries

SELECT (SELECT count(*) FROM pgbench_accounts) AS accounts,
  (SELECT count(*) FROM package) AS packages;
