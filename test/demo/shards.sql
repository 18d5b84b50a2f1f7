-- shards.sql: says what make_shards of demo.sh does

\echo == 3. Sixteen shards =====================================================
\echo
\echo Each shard is a database of its own, db00 to db15, without this extension.
\echo A row goes to the one that shard_for names.
\echo
\echo 'COPY (SELECT shardring.shard_for(''demo'', aid), t.*'
\echo '      FROM pgbench_accounts AS t) TO STDOUT;'
\echo
