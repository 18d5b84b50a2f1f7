-- copy.sql: says what copy_moving of demo.sh does

\echo == 9. Copy what moves ====================================================
\echo
\echo The shards know nothing of rings.  move_predicate gives them the plan as
\echo plain SQL, for COPY as here, or for CREATE PUBLICATION ... WHERE:
\echo
\echo 'SELECT shardring.move_predicate(''demo'', 1, 2, ''db00'', ''db16'','
\echo '  ''aid'', key_type => ''bigint'');'
\echo
SELECT left(condition, 52) AS head, right(condition, 67) AS tail,
  strpos(condition, '(bit_in') AS middle, condition
FROM shardring.move_predicate('demo', 1, 2, 'db00', 'db16', 'aid',
  key_type => 'bigint') AS condition \gset
\echo :head ...
\echo '  ...' :tail
\echo
\echo Rows copied by COPY (SELECT * FROM pgbench_accounts WHERE ...), and so on:
\echo
