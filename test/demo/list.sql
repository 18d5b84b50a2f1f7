-- list.sql: writes the moving keys into files

\pset footer off
\echo == 8. The moving keys in a file ==========================================
\echo
\echo One line a key, for a migration script, or to warm a cache beforehand:
\echo
\echo 'COPY (SELECT key, from_shard, to_shard FROM'
\echo '      shardring.moving_keys(''demo'', 1, 2, ''pgbench_accounts'', ''aid''))'
\echo 'TO ''accounts.csv'' (FORMAT csv, HEADER);'
\echo
\copy (SELECT key, from_shard, to_shard FROM shardring.moving_keys('demo', 1, 2, 'pgbench_accounts', 'aid')) TO 'accounts.csv' (FORMAT csv, HEADER)
\copy (SELECT key, from_shard, to_shard FROM shardring.moving_keys('demo', 1, 2, 'package', 'name')) TO 'packages.csv' (FORMAT csv, HEADER)
