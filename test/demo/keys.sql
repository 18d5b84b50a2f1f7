-- keys.sql: what the demo is about, and where its keys come from

\echo
\echo == 1. Two real sets of keys ==============================================
\echo
\echo A cluster of eight shard groups gets a ninth.  Its keys are the account
\echo numbers of a pgbench database (bigint) and the names of the packages of
\echo Debian (text).
\echo
