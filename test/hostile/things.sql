-- things.sql
--	What hostile calls find: a ring "x" with group "x" on shard "x", versions 1
--	(sealed), 2 (active) and 3 (a draft); tables that suit and do not.
--
-- Everything is called "x", so that one and the same string is right in one
-- place and wrong in another.

\set ON_ERROR_STOP on
SET client_min_messages = error;
CREATE EXTENSION shardring;
CREATE EXTENSION postgres_fdw;
CREATE SCHEMA hostile;

DO $$
BEGIN
	PERFORM shardring.create_ring('x', vnodes => 10);
	PERFORM shardring.add_group('x', 'x', '{x,y}', 4);
	PERFORM shardring.activate('x');
	PERFORM shardring.draft_version('x');
	PERFORM shardring.add_group('x', 'y', '{z}', 6);
	PERFORM shardring.activate('x');
	PERFORM shardring.draft_version('x');
	PERFORM shardring.add_group('x', 'z', '{z,x}', 65536);
	PERFORM shardring.pin('x', 0, 'y');
END
$$;

CREATE TABLE hostile.document AS SELECT shardring.export_version('x') AS x;
CREATE TABLE hostile.huge AS
SELECT array_agg('s' || n) AS texts, array_agg(n) AS integers,
	range_agg(int4range(2 * n, 2 * n + 1)) FILTER (WHERE n < 32768) AS slots
FROM generate_series(0, 69999) n;
CREATE TABLE hostile.x (x text, y bigint);
INSERT INTO hostile.x SELECT n, n FROM generate_series(1, 100) n;
CREATE TABLE hostile.nulls AS SELECT NULL::text AS x;
CREATE TABLE hostile.wrong AS SELECT true AS x, point '(1,1)' AS y;
CREATE INDEX x_index ON hostile.x (x);
CREATE VIEW hostile.broken AS SELECT 1 / (y - y) AS y, x FROM hostile.x;
CREATE SEQUENCE hostile.sequence;
CREATE TABLE hostile.dropped (x text);
CREATE TABLE hostile.oids AS
	SELECT 'hostile.dropped'::regclass::oid AS dropped;
DROP TABLE hostile.dropped;
CREATE SERVER nowhere FOREIGN DATA WRAPPER postgres_fdw;
CREATE FOREIGN TABLE hostile.abroad (x text) SERVER nowhere;
