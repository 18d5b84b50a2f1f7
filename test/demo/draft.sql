-- draft.sql: drafts version 2 with a ninth group

\pset footer off
\echo == 5. A draft with a ninth group =========================================
\echo
\echo Version 2 starts as a copy of version 1, points included.  It can be edited
\echo and looked at; nobody is routed by it yet.
\echo
\set ECHO queries

SELECT shardring.draft_version('demo', note => 'node-8 joins');
SELECT count(shardring.add_group('demo', 'node-8', ARRAY['db16', 'db17'],
    slots => 4)) AS groups;
SELECT shardring.active_version('demo') AS active,
  shardring.shard_for('demo', 'gcc') AS gcc_now,
  shardring.shard_for('demo', 'gcc', 2) AS gcc_then,
  shardring.shard_for('demo', 'git') AS git_now,
  shardring.shard_for('demo', 'git', 2) AS git_then;
