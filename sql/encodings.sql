--
-- encodings.sql
--	Rings are the same whatever the encoding and the collation of a database:
--	names and keys are hashed and sorted as UTF-8 bytes.
--
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_encoding = 'UTF8';
SELECT current_database() AS main \gset
CREATE DATABASE regression_shardring_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
CREATE DATABASE regression_shardring_euc_jp ENCODING 'EUC_JP' LOCALE 'C' TEMPLATE template0;
CREATE DATABASE regression_shardring_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0;
CREATE DATABASE regression_shardring_icu ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0;

-- The ring of B05, where alpha-4 and Zeta-646 want the same point, and names
-- that no two of these encodings write alike.  All that is looked at below is
-- the same in every database.
SELECT $$
CREATE EXTENSION shardring;
SELECT shardring.create_ring('Süd', 160), shardring.add_group('Süd', 'mid-1', '{mid-1}'), shardring.add_group('Süd', 'alpha-4', '{alpha-4}'),
	shardring.add_group('Süd', 'Zeta-646', '{Zeta-646}'), shardring.add_group('Süd', 'Äpfel', '{z,é,ß,a}', slots => 16), shardring.pin('Süd', 7, 'Äpfel'),
	shardring.activate('Süd');
SELECT fingerprint FROM shardring.ring;
SELECT shardring.shard_at('Süd', 3195943442) AS "alpha-4", (SELECT max(salt) FROM shardring.points('Süd') WHERE group_name = 'Zeta-646') AS "160",
	shardring.key_position('é') AS "1725812119", (shardring.locate('Süd', 'é')).group_name, shardring.shard_at('Süd', 7);
SELECT group_name, points FROM shardring.shares('Süd');
SELECT string_agg(shard, ' ') AS shards FROM shardring.shard_shares('Süd');
SELECT key_position, salt FROM shardring.points('Süd') WHERE group_name = 'Äpfel' AND salt < 3 ORDER BY salt;
SELECT shardring.draft_version('Süd'), shardring.add_group('Süd', 'É', '{É}');
SELECT key, key_position, from_group, to_shard FROM shardring.moving_keys('Süd', 1, 2, array(SELECT i || 'é' FROM generate_series(1, 12) AS i));
SELECT md5(shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', for_utf8 => true)) AS condition;
SELECT shardring.create_ring('Order', 1), shardring.add_group('Order', 'alpha-4', '{alpha-4}'), shardring.add_group('Order', 'Zeta-646', '{Zeta-646}'),
	shardring.set_vnodes('Order', 160);
SELECT shardring.shard_at('Order', 3195943442, 1) AS "Zeta-646, by bytes", (SELECT max(salt) FROM shardring.points('Order', 1) WHERE group_name = 'alpha-4') AS "160";
SELECT * FROM shardring.problems();
SELECT shardring.create_ring(repeat('é', 31)), shardring.create_ring(repeat('é', 32));
SELECT shardring.shard_for('Süß', 'a');
$$ AS script \gset

:script
DROP EXTENSION shardring;

\c regression_shardring_latin1
SET client_encoding = 'UTF8';
SHOW server_encoding;
:script
SELECT octet_length('é') AS bytes, shardring.key_position('ß') AS "3776766510", shardring.bytes_position('\xe9') <> shardring.key_position('é') AS "other bytes";
CREATE TABLE keys AS SELECT i || 'é' AS key FROM generate_series(1, 12) AS i;
SELECT count(*) FROM shardring.moving_keys('Süd', 1, 2, 'keys', 'key');
-- the condition hashes the bytes that text has where it runs: here the wrong ones
SELECT shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key');
SELECT shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', for_utf8 => false);
\set VERBOSITY default
SELECT shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', 'text');
\set VERBOSITY terse
SELECT num_nulls(shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', 'bigint'), shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', 'uuid'),
	shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', position_expression => 'pos')) AS "ASCII, or hashed already";
SELECT shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key', for_utf8 => NULL) IS NULL AS "null";

\c regression_shardring_euc_jp
SET client_encoding = 'UTF8';
SHOW server_encoding;
:script
SELECT octet_length('日本語') AS bytes, shardring.key_position('日本語') AS "1116920", shardring.key_position('{日本語}', hash_tags => true) AS "1116920";

\c regression_shardring_ascii
SET client_encoding = 'UTF8';
SHOW server_encoding;
:script
-- SQL_ASCII keeps the bytes of UTF-8 as they came
CREATE TABLE keys AS SELECT i || 'é' AS key FROM generate_series(1, 400) AS i;
SELECT shardring.move_predicate('Süd', 1, 2, 'mid-1', 'É', 'key') AS condition \gset
SELECT count(*) > 10 AS some, count(*) = (SELECT count(*) FROM shardring.moving_keys('Süd', 1, 2, 'keys', 'key') WHERE from_shard = 'mid-1' AND to_shard = 'É') AS same
FROM keys WHERE :condition;
-- bytes that are no UTF-8 are refused (B30)
SELECT shardring.key_position(E'\xc3\xa9') AS "1725812119", shardring.bytes_position('\xe9') AS "872843126";
\set VERBOSITY sqlstate
SELECT shardring.key_position(E'\xe9');
SELECT shardring.shard_for('Süd', E'a\xe9');
SELECT shardring.create_ring(E'\xe9');
SELECT shardring.add_group('Süd', E'\xe9', '{a}');
SELECT shardring.add_group('Süd', 'a', ARRAY[E'\xe9']);
SELECT shardring.shard_for(E'\xe9', 'a');
\set VERBOSITY terse
SELECT shardring.shard_for('Süd', 'a');

\c regression_shardring_icu
SET client_encoding = 'UTF8';
SELECT 'a' < 'B' AS "as in English";
:script
-- collations that call different strings equal do not make them one key
CREATE COLLATION ci (PROVIDER = icu, LOCALE = 'und-u-ks-level1', DETERMINISTIC = false);
SELECT 'É' = 'e' COLLATE ci AS equal, shardring.key_position('É' COLLATE ci) = shardring.key_position('e') AS "one key",
	shardring.key_position('E' COLLATE ci) = shardring.key_position('E') AS "by bytes";
\set VERBOSITY sqlstate
SELECT shardring.shard_for('süd' COLLATE ci, 'a');
\set VERBOSITY terse
CREATE TABLE keys AS SELECT (i || 'é') COLLATE ci AS key FROM generate_series(1, 12) AS i;
SELECT count(*) FROM shardring.moving_keys('Süd', 1, 2, 'keys', 'key');
SELECT count(*) FROM keys WHERE shardring.moves('Süd', 1, 2, key);

\c :main
DROP DATABASE regression_shardring_latin1;
DROP DATABASE regression_shardring_euc_jp;
DROP DATABASE regression_shardring_ascii;
DROP DATABASE regression_shardring_icu;
