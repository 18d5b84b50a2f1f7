--
-- warnings.sql
--	What create_ring and activate warn of, and what the hints are worth;
--	prune.
--
CREATE EXTENSION shardring;
SET search_path = shardring;
\set SHOW_CONTEXT never

-- fnv1a, and no other hash
SELECT create_ring('fnv', hash => 'fnv1a');
SELECT create_ring('murmur', hash => 'murmur3'),
	create_ring('crc', hash => 'crc16'), create_ring('r', vnodes => 2),
	create_ring('w', vnodes => 1);
-- its detail says what is so
SELECT count(add_group('fnv', 'node-' || i, ARRAY['s' || i]))
FROM generate_series(0, 7) AS g (i);
SELECT round(min(ratio)::numeric, 2) AS smallest,
	round(max(ratio)::numeric, 2) AS largest
FROM shares('fnv', 1);
SELECT activate('fnv');

-- uneven shares: more vnodes
SELECT count(add_group('r', 'node-' || i, ARRAY['s' || i]))
FROM generate_series(0, 7) AS g (i);
SELECT activate('r');
-- 8 would not do, 16 do
SELECT draft_version('r'), set_vnodes('r', 8);
SELECT round(max(ratio)::numeric, 2) AS largest FROM shares('r', 2);
SELECT drop_version('r', 2);
SELECT draft_version('r'), set_vnodes('r', 16);
SELECT round(max(ratio)::numeric, 2) AS largest FROM shares('r', 3);
SELECT activate('r');

-- what counts is the share per unit of weight
SELECT add_group('w', 'big', ARRAY['s'], weight => 500),
	add_group('w', 'small', ARRAY['t'], weight => 100),
	add_group('w', 'drained', ARRAY['u'], weight => 0);
SELECT activate('w');
-- one group cannot be uneven
SELECT add_group('crc', 'all', ARRAY['s', 't'], slots => 16384);
SELECT activate('crc');

-- over many rings, those are warned of that are uneven, and no other
SELECT count(create_ring('m' || i, vnodes => 1 + i % 7))
FROM generate_series(1, 40) AS m (i);
SELECT count(add_group('m' || i, 'g' || g, ARRAY['s'],
					   weight => 1 + g * (i % 3)))
FROM generate_series(1, 40) AS m (i), generate_series(1, 9) AS g (g)
WHERE g <= 2 + i % 8;
CREATE TEMP TABLE many AS
	SELECT i, (SELECT max(ratio) > 1.5 FROM shares('m' || i, 1)) AS uneven
	FROM generate_series(1, 40) AS m (i);
SELECT uneven, count(*) FROM many GROUP BY uneven ORDER BY uneven;
SELECT array_agg(activate('m' || i, 1) ORDER BY i) FROM many WHERE uneven;
SELECT array_agg(activate('m' || i, 1)) FROM many WHERE NOT uneven;

-- several groups that join an active ring; not the first ones, not one
SELECT add_group('murmur', 'a', ARRAY['s0']),
	add_group('murmur', 'b', ARRAY['s1']);
SELECT activate('murmur'), draft_version('murmur');
SELECT add_group('murmur', 'c', ARRAY['s2']);
SELECT activate('murmur'), draft_version('murmur');
SELECT add_group('murmur', 'd', ARRAY['s3']),
	add_group('murmur', 'e', ARRAY['s4']),
	add_group('murmur', 'f', ARRAY['s5']);
SELECT activate('murmur');
-- a group that takes another's place is one that joins
SELECT draft_version('murmur'), remove_group('murmur', 'f'),
	add_group('murmur', 'g', ARRAY['s5']);
SELECT activate('murmur');

-- somebody else's draft, taken because it is the only one
CREATE ROLE regress_shardring_other;
SELECT create_ring('draft'), add_group('draft', 'a', ARRAY['s0']);
UPDATE ring_version SET created_by = 'regress_shardring_other'
WHERE ring = 'draft';
BEGIN;
SELECT activate('draft');
ROLLBACK;
UPDATE ring_version SET note = 'a bigger "a"' WHERE ring = 'draft';
BEGIN;
SELECT activate('draft', 1);
ROLLBACK;
SELECT activate('draft');
SELECT drop_ring('draft');
DROP ROLE regress_shardring_other;

-- prune: old sealed versions, all but the newest few
SELECT count(draft_version('murmur', 4)) FROM generate_series(5, 9);
SELECT version, sealed_at IS NOT NULL AS sealed FROM ring_version
WHERE ring = 'murmur' ORDER BY version;
SELECT activate('murmur', 7), seal('murmur', 8), draft_version('murmur', 2);
-- 5, 6 and 9 are drafts of 4, 10 is one of 2: those stay, and 8 is no old one
SELECT prune('murmur', 1);
SELECT array_agg(version ORDER BY version) FROM ring_version
WHERE ring = 'murmur';
SELECT drop_version('murmur', 5), drop_version('murmur', 6),
	drop_version('murmur', 9), drop_version('murmur', 10);
SELECT prune('murmur', 1);
SELECT array_agg(version ORDER BY version) FROM ring_version
WHERE ring = 'murmur';
SELECT prune('murmur', 1), prune('murmur', 0);
SELECT array_agg(version ORDER BY version) FROM ring_version
WHERE ring = 'murmur';
SELECT * FROM problems('murmur');
SELECT shard_for('murmur', 'k') = shard_for('murmur', 'k', 7) AS routes;
\set VERBOSITY sqlstate
SELECT prune('murmur', -1);
SELECT prune('murmur', NULL);
SELECT prune(NULL, 1);
SELECT prune('nowhere', 1);

RESET search_path;
DROP EXTENSION shardring;
