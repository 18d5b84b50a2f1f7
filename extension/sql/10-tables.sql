/*
 * 10-tables.sql
 *		The tables, and the view that spreads slots out.
 */

/*
 * Fingerprints are checked without a regular expression: where there is no
 * memory to compile one, PostgreSQL raises 2201B and not 53200.
 */

CREATE TABLE shardring.ring
(
	ring text COLLATE "C" NOT NULL,
	hash text COLLATE "C" NOT NULL,
	hash_tags boolean NOT NULL,
	rejoin_cooldown interval NOT NULL,
	active_version integer,
	fingerprint text COLLATE "C",
	last_version integer NOT NULL,
	created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	cluster text COLLATE "C",
	moving_from integer,
	moving_to integer,
	closed_until timestamp with time zone,
	move_token bigint,
	back_lsn pg_lsn,
	CONSTRAINT ring_pkey PRIMARY KEY (ring),
	CONSTRAINT ring_name_length
		CHECK (octet_length(convert_to(ring, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT ring_hash_known
		CHECK (hash = 'md5' OR hash = 'fnv1a' OR hash = 'murmur3'
			   OR hash = 'crc16'),
	CONSTRAINT ring_rejoin_cooldown_range
		CHECK (rejoin_cooldown >= interval '0'
			   AND rejoin_cooldown <= interval '100 years'),
	CONSTRAINT ring_active_complete
		CHECK ((active_version IS NULL) = (fingerprint IS NULL)),
	CONSTRAINT ring_fingerprint_form
		CHECK (octet_length(fingerprint) = 64
			   AND translate(fingerprint, '0123456789abcdef', '') = ''),
	CONSTRAINT ring_last_version_positive
		CHECK (last_version >= 1),
	/* the name of a foreign server, too */
	CONSTRAINT ring_cluster_length
		CHECK (octet_length(cluster) BETWEEN 1 AND 63),
	CONSTRAINT ring_cluster_other
		CHECK (cluster <> ring),
	CONSTRAINT ring_move_complete
		CHECK (CASE WHEN moving_to IS NULL
			   THEN num_nonnulls(moving_from, closed_until, back_lsn) = 0
			   ELSE moving_from IS NOT NULL AND move_token IS NOT NULL END),
	CONSTRAINT ring_move_forward
		CHECK (moving_to > moving_from)
);
COMMENT ON TABLE shardring.ring IS
	'rings: each a named set of versions over one hash function';
COMMENT ON COLUMN shardring.ring.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.ring.hash IS
	'md5, fnv1a, murmur3 or crc16; never changes';
COMMENT ON COLUMN shardring.ring.hash_tags IS
	'hash only the part of a key between { and }, like Redis; never changes';
COMMENT ON COLUMN shardring.ring.rejoin_cooldown IS
	'how long a group that left the active version must stay out';
COMMENT ON COLUMN shardring.ring.active_version IS
	'the version that routes keys; NULL before the first activation';
COMMENT ON COLUMN shardring.ring.fingerprint IS
	'fingerprint of the active version';
COMMENT ON COLUMN shardring.ring.last_version IS
	'highest version number assigned, including versions dropped since';
COMMENT ON COLUMN shardring.ring.created_at IS 'when the ring was created';
COMMENT ON COLUMN shardring.ring.cluster IS
	'the ring in whose PL/Proxy cluster it is called; NULL: its own';
COMMENT ON COLUMN shardring.ring.moving_from IS
	'the version that rows move from; NULL: nothing moves';
COMMENT ON COLUMN shardring.ring.moving_to IS
	'the version that rows move to; NULL: nothing moves';
COMMENT ON COLUMN shardring.ring.closed_until IS
	'until when moving keys are not written here; infinity: for good';
COMMENT ON COLUMN shardring.ring.move_token IS
	'the token of the last step, which stays when the move is over';
COMMENT ON COLUMN shardring.ring.back_lsn IS
	'where in the WAL the way back begins';
GRANT SELECT ON shardring.ring TO PUBLIC;

CREATE TABLE shardring.ring_version
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	parent integer,
	base_active integer,
	vnodes integer NOT NULL,
	sealed_at timestamp with time zone,
	fingerprint text COLLATE "C",
	zone_fingerprint text COLLATE "C",
	note text COLLATE "C",
	created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
	created_by text COLLATE "C" NOT NULL DEFAULT current_user,
	group_rows integer,
	map_rows integer,
	pin_rows integer,
	CONSTRAINT ring_version_pkey PRIMARY KEY (ring, version),
	CONSTRAINT ring_version_ring_length
		CHECK (octet_length(convert_to(ring, 'UTF8')) BETWEEN 1 AND 63),
	/* as in documents; a number near the largest would be the last one */
	CONSTRAINT ring_version_number
		CHECK (version BETWEEN 1 AND 999999999),
	CONSTRAINT ring_version_vnodes_range
		CHECK (vnodes BETWEEN 1 AND 4194304),
	CONSTRAINT ring_version_seal_complete
		CHECK (num_nulls(sealed_at, fingerprint, zone_fingerprint, group_rows,
						 map_rows, pin_rows) = 0
			   OR num_nonnulls(sealed_at, fingerprint, zone_fingerprint,
							   group_rows, map_rows, pin_rows) = 0),
	CONSTRAINT ring_version_fingerprint_form
		CHECK (octet_length(fingerprint) = 64
			   AND translate(fingerprint, '0123456789abcdef', '') = ''),
	CONSTRAINT ring_version_zone_fingerprint_form
		CHECK (octet_length(zone_fingerprint) = 64
			   AND translate(zone_fingerprint, '0123456789abcdef', '') = '')
);
COMMENT ON TABLE shardring.ring_version IS
	'versions of rings: a draft can be edited, a sealed one never changes';
COMMENT ON COLUMN shardring.ring_version.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.ring_version.version IS
	'number of the version: 1, 2, 3 ..., at most 999999999; never reused';
COMMENT ON COLUMN shardring.ring_version.parent IS
	'the version it was copied from; NULL for the first';
COMMENT ON COLUMN shardring.ring_version.base_active IS
	'the version that was active when it was drafted';
COMMENT ON COLUMN shardring.ring_version.vnodes IS
	'points of a group of weight 1';
COMMENT ON COLUMN shardring.ring_version.sealed_at IS
	'when it was sealed; NULL for a draft';
COMMENT ON COLUMN shardring.ring_version.fingerprint IS
	'SHA-256 of everything that decides routing, written on sealing';
COMMENT ON COLUMN shardring.ring_version.zone_fingerprint IS
	'SHA-256 of the zones of its groups, written on sealing';
COMMENT ON COLUMN shardring.ring_version.note IS 'purpose of the version';
COMMENT ON COLUMN shardring.ring_version.created_at IS 'when it was drafted';
COMMENT ON COLUMN shardring.ring_version.created_by IS
	'the role that drafted it (current_user)';
COMMENT ON COLUMN shardring.ring_version.group_rows IS
	'number of shard_group rows when it was sealed';
COMMENT ON COLUMN shardring.ring_version.map_rows IS
	'number of shard_map rows when it was sealed';
COMMENT ON COLUMN shardring.ring_version.pin_rows IS
	'number of shard_pin rows when it was sealed';
GRANT SELECT ON shardring.ring_version TO PUBLIC;

CREATE TABLE shardring.shard_group
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	weight numeric NOT NULL,
	slots integer NOT NULL,
	zone text COLLATE "C",
	points bigint[] NOT NULL,
	CONSTRAINT shard_group_pkey PRIMARY KEY (ring, version, group_name),
	CONSTRAINT shard_group_name_length
		CHECK (octet_length(convert_to(group_name, 'UTF8'))
			   BETWEEN 1 AND 255),
	CONSTRAINT shard_group_weight_range
		CHECK (weight BETWEEN 0 AND 4194304),
	CONSTRAINT shard_group_slots_range
		CHECK (slots BETWEEN 1 AND 65536),
	CONSTRAINT shard_group_zone_length
		CHECK (octet_length(convert_to(zone, 'UTF8')) BETWEEN 1 AND 255),
	CONSTRAINT shard_group_points_form
		CHECK (CASE WHEN array_ndims(points) > 1 THEN false
			   ELSE array_position(points, NULL) IS NULL END)
);
COMMENT ON TABLE shardring.shard_group IS
	'the shard groups of each version, with their points on the ring';
COMMENT ON COLUMN shardring.shard_group.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_group.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_group.group_name IS
	'name of the group; its points are hashed from it';
COMMENT ON COLUMN shardring.shard_group.weight IS
	'the group has round(vnodes * weight) points; 0 means drained';
COMMENT ON COLUMN shardring.shard_group.slots IS
	'a position lies in slot (position % slots) of the group';
COMMENT ON COLUMN shardring.shard_group.zone IS
	'location of the group, for replicas_for';
COMMENT ON COLUMN shardring.shard_group.points IS
	'its positions on the ring, in the order they were taken';
GRANT SELECT ON shardring.shard_group TO PUBLIC;

CREATE TABLE shardring.shard_map
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	slots int4multirange NOT NULL,
	CONSTRAINT shard_map_pkey PRIMARY KEY (ring, version, group_name, shard),
	CONSTRAINT shard_map_shard_length
		CHECK (octet_length(convert_to(shard, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT shard_map_slots_range
		CHECK (NOT isempty(slots) AND slots <@ '{[0,65536)}'::int4multirange)
);
COMMENT ON TABLE shardring.shard_map IS
	'which shard holds which slots of a group, one row per shard';
COMMENT ON COLUMN shardring.shard_map.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_map.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_map.group_name IS 'name of the group';
COMMENT ON COLUMN shardring.shard_map.shard IS
	'name of the shard; it may hold slots of several groups';
COMMENT ON COLUMN shardring.shard_map.slots IS
	'the slots of the group that this shard holds';
GRANT SELECT ON shardring.shard_map TO PUBLIC;

CREATE TABLE shardring.shard_pin
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	key_position bigint NOT NULL,
	group_name text COLLATE "C" NOT NULL,
	CONSTRAINT shard_pin_pkey PRIMARY KEY (ring, version, key_position),
	CONSTRAINT shard_pin_position_range
		CHECK (key_position BETWEEN 0 AND 4294967295),
	CONSTRAINT shard_pin_name_length
		CHECK (octet_length(convert_to(group_name, 'UTF8'))
			   BETWEEN 1 AND 255)
);
COMMENT ON TABLE shardring.shard_pin IS
	'single positions assigned to a group regardless of the ring';
COMMENT ON COLUMN shardring.shard_pin.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_pin.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_pin.key_position IS
	'the pinned position, 0 to 4294967295';
COMMENT ON COLUMN shardring.shard_pin.group_name IS
	'the group it is assigned to';
GRANT SELECT ON shardring.shard_pin TO PUBLIC;

CREATE TABLE shardring.shard
(
	ring text COLLATE "C" NOT NULL,
	shard text COLLATE "C" NOT NULL,
	number integer NOT NULL,
	server text COLLATE "C",
	CONSTRAINT shard_pkey PRIMARY KEY (ring, shard),
	CONSTRAINT shard_number_key UNIQUE (ring, number),
	CONSTRAINT shard_name_length
		CHECK (octet_length(convert_to(shard, 'UTF8')) BETWEEN 1 AND 63),
	CONSTRAINT shard_number_positive
		CHECK (number >= 0),
	CONSTRAINT shard_server_length
		CHECK (octet_length(server) BETWEEN 1 AND 63)
);
COMMENT ON TABLE shardring.shard IS
	'every shard that a sealed version of the ring has ever named';
COMMENT ON COLUMN shardring.shard.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard.shard IS 'name of the shard';
COMMENT ON COLUMN shardring.shard.number IS
	'0, 1, 2 ... in order of first appearance; never changes';
COMMENT ON COLUMN shardring.shard.server IS
	'foreign server with its address; NULL: the server of the same name';
GRANT SELECT ON shardring.shard TO PUBLIC;

CREATE TABLE shardring.activation
(
	ring text COLLATE "C" NOT NULL,
	version integer NOT NULL,
	from_version integer,
	activated_at timestamp with time zone NOT NULL,
	activated_by text COLLATE "C" NOT NULL,
	moved double precision,
	CONSTRAINT activation_pkey PRIMARY KEY (ring, version),
	CONSTRAINT activation_forward
		CHECK (version > from_version),
	CONSTRAINT activation_moved_range
		CHECK (moved BETWEEN 0 AND 1)
);
COMMENT ON TABLE shardring.activation IS
	'history: which version became active when';
COMMENT ON COLUMN shardring.activation.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.activation.version IS
	'the version that was activated; it may have been dropped since';
COMMENT ON COLUMN shardring.activation.from_version IS
	'the version that was active before; NULL for the first';
COMMENT ON COLUMN shardring.activation.activated_at IS
	'clock time, read under the lock on the ring; rises with the version';
COMMENT ON COLUMN shardring.activation.activated_by IS
	'the role that activated it (current_user)';
COMMENT ON COLUMN shardring.activation.moved IS
	'exact fraction of the positions that changed shard';
GRANT SELECT ON shardring.activation TO PUBLIC;

CREATE VIEW shardring.shard_slot AS
	SELECT m.ring, m.version, m.group_name, s.slot, m.shard
	FROM shardring.shard_map AS m
		CROSS JOIN LATERAL unnest(m.slots) AS r (slots)
		CROSS JOIN LATERAL generate_series(lower(r.slots),
										   upper(r.slots) - 1) AS s (slot);
COMMENT ON VIEW shardring.shard_slot IS
	'shard_map expanded to one row per slot';
COMMENT ON COLUMN shardring.shard_slot.ring IS 'name of the ring';
COMMENT ON COLUMN shardring.shard_slot.version IS 'number of the version';
COMMENT ON COLUMN shardring.shard_slot.group_name IS 'name of the group';
COMMENT ON COLUMN shardring.shard_slot.slot IS 'number of the slot';
COMMENT ON COLUMN shardring.shard_slot.shard IS 'the shard that holds it';
GRANT SELECT ON shardring.shard_slot TO PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('shardring.ring', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.ring_version', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_group', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_map', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard_pin', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.shard', '');
SELECT pg_catalog.pg_extension_config_dump('shardring.activation', '');

