--
-- errors.sql
--	What people see of an error: no lines of ours in its CONTEXT, all lines of
--	theirs, and the names of the rings there are.
--
CREATE EXTENSION shardring;
SET client_min_messages = warning;
\set SHOW_CONTEXT always

-- by hand: none, however deep it was raised, and whatever raised it
SELECT shardring.add_group('r', 'g', '{a}');
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'g', '{a}', 0);
SELECT shardring.add_group('r', 'g', NULL);
SELECT shardring.add_group('r', 'g', '{a}');
SELECT shardring.add_groups('r', '[{"group_name": "h"}]');
SELECT shardring.activate('r');
SELECT shardring.set_weight('r', 'g', 2, 1);
DELETE FROM shardring.shard_group;

-- from functions of theirs: all of them, also where an argument has a type of
-- ours, and none of ours
CREATE FUNCTION ours(r shardring.ring) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.set_weight(r.ring, 'g', 2, 1);
END $$;
CREATE FUNCTION theirs(name text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	n integer;
BEGIN
	n := shardring.activate(name);
	RETURN n;
END $$;
SELECT ours(r) FROM shardring.ring AS r;
SELECT theirs('r');
SELECT theirs('none');
-- what catches it gets all that there is of it, and its own context back
DO $$
DECLARE
	state text; message text; detail text; hint text; context text;
BEGIN
	PERFORM shardring.create_ring('big', 4194304);
	PERFORM shardring.add_group('big', 'g', '{a}', weight => 0.0000001);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
	RAISE WARNING E'%\n%\n%\n%\n%', state, message, detail, hint, context;
	PERFORM theirs('r');
END $$;
-- a trigger of theirs in between: what is beyond it stays too
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.drop_version('r', 99);
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE INSERT ON shardring.shard_group FOR EACH ROW EXECUTE FUNCTION meddle();
SELECT shardring.draft_version('r');
DROP TRIGGER meddle ON shardring.shard_group;

-- the rings there are, as far as a role may read them
\set SHOW_CONTEXT never
SELECT shardring.create_ring('日本');
SELECT shardring.seal('none');
SELECT shardring.shard_for('none', 'k');
SELECT count(shardring.create_ring('ring ' || i)) FROM generate_series(1, 3) AS i;
SELECT shardring.seal('none');
SELECT shardring.create_ring('a');
SELECT shardring.seal('none');
SELECT shardring.shard_for('none', 'k');
CREATE ROLE regress_shardring_blind;
REVOKE SELECT ON shardring.ring FROM PUBLIC;
GRANT USAGE ON SCHEMA shardring TO regress_shardring_blind;
SET ROLE regress_shardring_blind;
SELECT shardring.shard_for('none', 'k');
SELECT shardring_internal.known_rings();
RESET ROLE;

-- fail itself, with arguments that ours never give it
SELECT shardring_internal.fail(s, 'm') FROM unnest('{NULL}'::text[]) AS s;
SELECT shardring_internal.fail('', 'm');
SELECT shardring_internal.fail('00000', 'm');
SELECT shardring_internal.fail('4270é', 'm');
SELECT shardring_internal.fail(repeat('4', 100000), 'm');
SELECT shardring_internal.fail('42704', NULL);
SELECT shardring_internal.fail('SR009', 'é %s %', '% %m', '%n');

DROP FUNCTION ours, theirs, meddle;
DROP EXTENSION shardring;
DROP ROLE regress_shardring_blind;
