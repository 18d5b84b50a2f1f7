-- run.sql
--	Makes all calls, each in a transaction that is rolled back, and then some of
--	them again; says what memory the backend has after the first and after the
--	second time.

\set VERBOSITY sqlstate
\set memory 'SELECT sum(total_bytes) AS bytes FROM pg_backend_memory_contexts'
SET client_min_messages = error;
SET statement_timeout = :'timeout';

\o /dev/null
\set ECHO queries
SELECT 'BEGIN', call, 'ROLLBACK' FROM hostile.call ORDER BY n \gexec
\set ECHO none
:memory \gset first_
\set ECHO queries
SELECT 'BEGIN', call, 'ROLLBACK' FROM hostile.call WHERE n % 8 = 0 ORDER BY n
\gexec
\set ECHO none
:memory \gset second_
\o

\echo memory :first_bytes :second_bytes
