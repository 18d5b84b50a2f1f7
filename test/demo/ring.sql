-- ring.sql: defines and activates version 1

\pset footer off
\echo == 2. A ring of eight groups =============================================
\echo
\echo Groups node-0 to node-7 have 160 points and 4 slots each.  Each group lies
\echo on two shards: slots 0 and 1 on the first, 2 and 3 on the second.  A new
\echo ring is a draft; activating it checks it, seals it and routes by it.
\echo
\set ECHO queries

CREATE EXTENSION shardring;
SELECT shardring.create_ring('demo', vnodes => 160);
SELECT count(shardring.add_group('demo', 'node-' || n, slots => 4,
    shards => ARRAY[to_char(2 * n, '"db"FM00'),
                    to_char(2 * n + 1, '"db"FM00')])) AS groups
FROM generate_series(0, 7) AS n;
SELECT shardring.activate('demo');

\set ECHO none
\echo The exact share of each group; its due is 12.5 %.
\echo
\set ECHO queries

SELECT group_name, points, round(100 * share::numeric, 3) AS "share %",
  round(ratio::numeric, 3) AS "share / due"
FROM shardring.shares('demo');
