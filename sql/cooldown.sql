--
-- cooldown.sql
--	The cool-down of a group that left: what is remembered of it when versions
--	are dropped or pruned, and what is not.
--
CREATE EXTENSION shardring;
SET search_path = '';
SET client_min_messages = error;
-- the time that is left is never the same
\set VERBOSITY terse

CREATE FUNCTION public.leave(ring text, groups text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	version integer := shardring.draft_version(ring);
BEGIN
	PERFORM shardring.remove_group(ring, g, version) FROM unnest(groups) AS g;
	PERFORM shardring.activate(ring, version);
	RETURN version;
END $$;
CREATE FUNCTION public.ring(ring text, groups text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardring.create_ring(ring, 10, rejoin_cooldown => '1 hour');
	PERFORM shardring.add_group(ring, g, ARRAY[g]) FROM unnest(groups) AS g;
	PERFORM shardring.activate(ring);
END $$;

-- The version that left b out is dropped; version 1, which had it, stays.
SELECT public.ring('r', '{a,b,c}');
SELECT public.leave('r', '{b}');
SELECT public.leave('r', '{}');
SELECT shardring.drop_version('r', 2);
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.add_group('r', 'b', ARRAY['b'], force => true);
-- what never left, and what was never there, need not wait
SELECT shardring.remove_group('r', 'a');
SELECT shardring.add_group('r', 'a', ARRAY['a']);
SELECT shardring.add_group('r', 'd', ARRAY['d']);
SELECT shardring.drop_version('r', 4);
-- It left at version 3 at the latest: the time runs from there.
SET session_replication_role = replica;
UPDATE shardring.activation SET activated_at = activated_at - interval '1 hour'
WHERE version = 2;
RESET session_replication_role;
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SET session_replication_role = replica;
UPDATE shardring.activation SET activated_at = activated_at - interval '1 hour';
RESET session_replication_role;
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.drop_ring('r');

-- prune: the middle goes because a draft holds on to the oldest.
SELECT public.ring('r', '{a,b,c}');
SELECT public.leave('r', '{b}');
SELECT public.leave('r', '{}');
SELECT shardring.draft_version('r', 1);
SELECT shardring.remove_group('r', 'b');
SELECT shardring.prune('r', 0);
SELECT version FROM shardring.ring_version ORDER BY version;
SELECT shardring.add_group('r', 'b', ARRAY['b']);
-- Once no version is left that had it, nothing remembers it.
SELECT shardring.drop_version('r', 4);
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.prune('r', 0);
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.drop_ring('r');

-- It came back and left again: the last time counts.
SELECT public.ring('r', '{a,b}');
SELECT public.leave('r', '{b}');
SET session_replication_role = replica;
UPDATE shardring.activation SET activated_at = activated_at - interval '2 hours';
RESET session_replication_role;
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b']);
SELECT shardring.activate('r');
SELECT public.leave('r', '{b}');
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'b', ARRAY['b']);
-- A draft or a sealed version that was never active had nothing.
SELECT shardring.add_group('r', 'c', ARRAY['c']);
SELECT shardring.seal('r');
SELECT shardring.draft_version('r');
SELECT shardring.add_group('r', 'c', ARRAY['c']);
SELECT shardring.drop_ring('r');

DROP FUNCTION public.ring, public.leave;
DROP EXTENSION shardring;
