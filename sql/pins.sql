--
-- pins.sql
--	One position given to a group: pin, pin_key, unpin.  A pin is an arc of
--	length 1 that is routed, planned, compared and fingerprinted like any
--	other, and no point.
--
CREATE EXTENSION shardring;
SET search_path = shardring;

SELECT create_ring('r', hash => 'murmur3', hash_tags => true);
SELECT add_group('r', 'a', ARRAY['a0', 'a1']),
	add_group('r', 'b', ARRAY['b0', 'b1', 'b2']),
	add_group('r', 'vip', ARRAY['vip0'], weight => 0);
SELECT activate('r');

-- pin_key hashes with the ring's own hash and tags
SELECT draft_version('r');
SELECT pin_key('r', 'order:{tenant-7}:1', 'vip');
SELECT key_position = key_position('tenant-7', 'murmur3') AS by_tag,
	group_name
FROM shard_pin WHERE version = 2;
SELECT k.key, shard_for('r', k.key, 1), shard_for('r', k.key, 2),
	(locate('r', k.key, 2)).group_name
FROM (VALUES ('tenant-7'), ('{tenant-7}'), ('x{tenant-7}y{z}'),
	  ('tenant-8')) AS k (key);

-- a tenant of its own server: only its position moves
SELECT * FROM moved_ranges('r', 1, 2);
SELECT * FROM move_plan('r', 1, 2);
SELECT key, from_shard, to_shard
FROM moving_keys('r', 1, 2, ARRAY['tenant-7', 'a{tenant-7}', 'tenant-8']);
SELECT moves('r', 1, 2, 'tenant-7'), moves('r', 1, 2, 'tenant-8');
SELECT group_name, share * 4294967296 AS positions FROM shares('r', 2)
WHERE group_name = 'vip';

-- an arc of length 1 in arcs, nothing in points
SELECT positions, group_name FROM arcs('r', 2)
WHERE upper(positions) - lower(positions) = 1 AND group_name = 'vip';
SELECT count(*) AS differing FROM (
	(SELECT * FROM points('r', 1) EXCEPT SELECT * FROM points('r', 2))
	UNION ALL
	(SELECT * FROM points('r', 2) EXCEPT SELECT * FROM points('r', 1))) AS d;

-- pinning again changes the group; both ends of the circle can be pinned
SELECT pin('r', 0, 'vip'), pin('r', 4294967295, 'vip'), pin('r', 1, 'b'),
	pin('r', 1, 'vip');
SELECT key_position, group_name FROM shard_pin
WHERE version = 2 AND key_position IN (0, 1, 4294967295)
ORDER BY key_position;
SELECT p.p, shard_at('r', p.p, 2)
FROM (VALUES (0), (1), (4294967295)) AS p (p);
SELECT min(lower(positions)), max(upper(positions)),
	sum(upper(positions) - lower(positions)), bool_and(adjacent)
FROM (SELECT a.positions, lower(a.positions) = coalesce(
		  lag(upper(a.positions)) OVER (ORDER BY a.positions), 0) AS adjacent
	  FROM arcs('r', 2) AS a) AS a;

-- brute force: the ring of version 1, with the pins laid over it
SELECT count(*) AS compared,
	count(*) FILTER (WHERE l.group_name IS DISTINCT FROM
		coalesce(p.group_name, (SELECT a.group_name FROM arcs('r', 1) AS a
								WHERE a.positions @> n.n))) AS differing
FROM (SELECT DISTINCT e.e + d.d AS n
	  FROM (SELECT key_position FROM shard_pin WHERE version = 2
			UNION ALL SELECT key_position FROM points('r', 1)) AS e (e)
		  CROSS JOIN (VALUES (-1), (0), (1)) AS d (d)
	  WHERE e.e + d.d BETWEEN 0 AND 4294967295) AS n
	LEFT JOIN shard_pin AS p ON p.version = 2 AND p.key_position = n.n
	CROSS JOIN LATERAL (
		SELECT a.group_name FROM arcs('r', 2) AS a
		WHERE a.positions @> n.n) AS l;

-- pins are in the fingerprint
SELECT seal('r');
SELECT draft_version('r', 2), unpin('r', 1), seal('r');
SELECT draft_version('r', 3), pin('r', 1, 'vip'), seal('r');
SELECT version, fingerprint = first_value(fingerprint)
	OVER (ORDER BY version) AS same
FROM ring_version WHERE version IN (2, 3, 4) ORDER BY version;

-- a pin to the group that owns the position anyway changes no route
SELECT draft_version('r');
SELECT pin('r', 12345, (SELECT group_name FROM arcs('r', 1)
						WHERE positions @> 12345::bigint));
SELECT count(*) FROM move_plan('r', 1, 5);
SELECT count(*) FROM arcs('r', 1);
SELECT count(*) FROM arcs('r', 5);
SELECT seal('r');
SELECT count(DISTINCT fingerprint) FROM ring_version WHERE version IN (1, 5);

-- activated, its move is in the history
SELECT activate('r', 2);
SELECT version, moved * 4294967296 AS positions FROM activation
ORDER BY version;
SELECT shard_for('r', 'tenant-7');
SELECT * FROM problems();

-- refusals
\set VERBOSITY sqlstate
SELECT draft_version('r');
SELECT pin('r', -1, 'a');
SELECT pin('r', 4294967296, 'a');
SELECT pin('r', 5, 'nobody');
SELECT pin('r', NULL, 'a');
SELECT pin('r', 5, NULL);
SELECT pin(NULL, 5, 'a');
SELECT pin('nowhere', 5, 'a');
SELECT pin('r', 5, 'a', 1);
SELECT pin('r', 5, 'a', 99);
SELECT pin_key('r', NULL, 'a');
SELECT pin_key('r', 'k', 'nobody');
SELECT pin_key('r', 'k', 'a', 1);
SELECT unpin('r', 77);
SELECT unpin('r', NULL);
SELECT unpin('r', 0, 1);

-- a group that leaves takes its pins to nowhere: sealing names one
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT remove_group('r', 'vip');
SELECT seal('r');
SELECT unpin('r', key_position) FROM shard_pin
WHERE version = 6 AND group_name = 'vip';
SELECT seal('r');

-- pins alone make no ring
SELECT create_ring('drained');
SELECT add_group('drained', 'a', ARRAY['a0'], weight => 0),
	pin('drained', 5, 'a');
SELECT activate('drained');
SELECT shard_at('drained', 5, 1);

RESET search_path;
DROP EXTENSION shardring;
