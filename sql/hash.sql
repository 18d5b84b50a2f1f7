--
-- hash.sql
--	A key's bytes to its position.  The right values come from other
--	implementations of the hashes; a query that compares lists what is wrong,
--	so it should list nothing.
--
\set SHOW_CONTEXT never
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;

-- all hashes of short keys; the last column is Redis' key slot
CREATE TEMP TABLE vectors (
	key text, md5 bigint, fnv1a bigint, murmur3 bigint, crc16 bigint,
	keyslot bigint);
INSERT INTO vectors VALUES
	('', 3558706393, 2166136261, 0, 0, 0),
	('a', 214005177, 3826002220, 1009084850, 31879, 15495),
	('0', 3486326916, 890022063, 3530670207, 13907, 13907),
	('1', 3301589560, 873244444, 2484513939, 9842, 9842),
	('42', 2714814184, 2279835011, 3159925814, 57152, 8000),
	('user:1', 3182550288, 1830439627, 3416794175, 27162, 10778),
	('user:42', 1457184536, 795573122, 3349586805, 15880, 15880),
	('é', 1725812119, 513665217, 269551495, 26564, 10180),
	('ß', 3776766510, 815662359, 336885798, 12625, 12625),
	('日本語', 1116920, 2153733351, 2779017879, 12788, 12788),
	('{}', 2576436115, 1415952421, 2315792072, 31641, 15257),
	('fi', 1970768888, 1545789136, 1836344936, 23555, 7171),
	('order-1001', 2459046385, 2439986572, 1038198555, 25471, 9087);
SELECT v.key, h.hash, h.wanted, shardring.key_position(v.key, h.hash)
FROM vectors AS v
	CROSS JOIN LATERAL (VALUES ('md5', v.md5), ('fnv1a', v.fnv1a),
						('murmur3', v.murmur3), ('crc16', v.crc16))
		AS h (hash, wanted)
WHERE shardring.key_position(v.key, h.hash) IS DISTINCT FROM h.wanted;
SELECT key FROM vectors
WHERE shardring.key_position(key) IS DISTINCT FROM md5
	OR shardring.key_position(key, 'crc16') % 16384 <> keyslot;
-- the bytes of a key are those that bytes_position takes
SELECT v.key, h.hash
FROM vectors AS v
	CROSS JOIN (VALUES ('md5'), ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash)
WHERE shardring.key_position(v.key, h.hash) IS DISTINCT FROM
	shardring.bytes_position(convert_to(v.key, 'UTF8'), h.hash);
-- one key through all of them
SELECT hash, shardring.key_position('user:42', hash)
FROM (VALUES ('md5'), ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash);

-- every length of a tail
SELECT v.len, v.murmur3, v.fnv1a
FROM (VALUES
	(0, 0, 2166136261), (1, 3530670207, 890022063),
	(2, 1642882560, 552431802), (3, 3966566284, 1573398040),
	(4, 3558446240, 3440645553), (5, 433070448, 1537073247),
	(6, 1898502397, 2743617246), (7, 183447976, 1468505912),
	(8, 1451431763, 3649004701), (9, 1350687357, 143355839),
	(10, 1891213601, 4185952242), (11, 3564907726, 1482818665),
	(12, 2044149191, 759979345), (13, 4193546897, 2167846326),
	(14, 439890777, 991967638), (15, 2250527230, 112933257),
	(16, 919068895, 2277258045)) AS v (len, murmur3, fnv1a)
WHERE shardring.key_position(left('0123456789abcdef', v.len), 'murmur3')
		<> v.murmur3
	OR shardring.key_position(left('0123456789abcdef', v.len), 'fnv1a')
		<> v.fnv1a;

-- bytes above 127 are not negative numbers (B22, B23, B26)
SELECT v.key, v.murmur3, shardring.key_position(v.key, 'murmur3'),
	v.fnv1a, shardring.key_position(v.key, 'fnv1a')
FROM (VALUES
	('é', 269551495, 513665217), ('aé', 52038863, 2044174844),
	('abé', 3476686716, 4289192870), ('abcé', 3433116993, 695701731),
	('日', 1411444746, 2161435901), ('a日', 132164447, 1272200618),
	('ab日', 3015211880, 1751204964), ('日本', 3302619458, 2670128721),
	('éé', 1182274021, 1415168541), ('ééé', 2634713608, 845890857),
	('Привет', 698543816, 869994847)) AS v (key, murmur3, fnv1a)
WHERE shardring.key_position(v.key, 'murmur3') <> v.murmur3
	OR shardring.key_position(v.key, 'fnv1a') <> v.fnv1a;
SELECT shardring.bytes_position('\xffffffff', 'murmur3') = 1982413648
	AS murmur3, shardring.key_position('foobar', 'fnv1a') = 3214735720
	AS fnv1a;
-- UTF-8 bytes, not UTF-16 units (B24)
SELECT v.key, v.wanted, shardring.key_position(v.key, 'murmur3')
FROM (VALUES
	('My hovercraft is full of eels.', 2953494853),
	('My 🚀 is full of 🦎.', 1818098979),
	('吉 星 高 照', 3435142074)) AS v (key, wanted)
WHERE shardring.key_position(v.key, 'murmur3') <> v.wanted;
-- MD5 big-endian and unsigned, of the bytes themselves (B25)
SELECT shardring.key_position('a') = x'0cc175b9'::bigint AS a,
	shardring.key_position('') = 3558706393 AS empty;
SELECT count(*) AS keys, count(*) FILTER (WHERE
	shardring.key_position('user:' || i) IS DISTINCT FROM
	('x' || left(md5('user:' || i), 8))::bit(32)::bigint) AS wrong
FROM generate_series(0, 9999) AS i;
-- of every length around the blocks of MD5, and of every byte
SELECT n, k
FROM generate_series(0, 400) AS n, LATERAL (VALUES ('a'), ('é'), ('日')) AS c (c), LATERAL repeat(c, n) AS k
WHERE shardring.key_position(k) <> ('x' || left(md5(k), 8))::bit(32)::bigint;
SELECT n, b
FROM generate_series(0, 400) AS n,
	LATERAL (SELECT string_agg(set_byte('\x00', 0, i * 89 * n % 256), '' ORDER BY i) FROM generate_series(1, n) AS i) AS k (b)
WHERE shardring.bytes_position(b) <> ('x' || left(md5(b), 8))::bit(32)::bigint;

-- keys are told apart by all of their bytes (B29)
SELECT v.key, v.hash
FROM (VALUES
	(repeat('k', 32) || 'A', 'md5', 337854761),
	(repeat('k', 32) || 'B', 'md5', 3727058266),
	(repeat('k', 33) || 'A', 'md5', 4024204506),
	(repeat('k', 33) || 'B', 'md5', 3854185365),
	(repeat('k', 32) || 'A', 'fnv1a', 1316399980),
	(repeat('k', 32) || 'B', 'fnv1a', 1366732837),
	(repeat('k', 32) || 'A', 'murmur3', 1958569598),
	(repeat('k', 32) || 'B', 'murmur3', 2523555341))
	AS v (key, hash, wanted)
WHERE shardring.key_position(v.key, v.hash) <> v.wanted;
-- also of megabytes, at, below and above the piece that is fed at once
SELECT v.len, v.hash, v.wanted,
	shardring.key_position(repeat('kéy!', v.len / 5) || left('abcd', v.len % 5),
						   v.hash)
FROM (VALUES
	(1048575, 'md5', 2758247393), (1048575, 'fnv1a', 3636147654),
	(1048575, 'murmur3', 1345150580), (1048575, 'crc16', 36222),
	(1048576, 'md5', 2216521396), (1048576, 'fnv1a', 3585439205),
	(1048576, 'murmur3', 3258543930), (1048576, 'crc16', 17058),
	(1048577, 'md5', 204839968), (1048577, 'fnv1a', 4087874437),
	(1048577, 'murmur3', 377838474), (1048577, 'crc16', 34402),
	(2097152, 'md5', 876223407), (2097152, 'fnv1a', 1260865168),
	(2097152, 'murmur3', 544366976), (2097152, 'crc16', 42804),
	(3000004, 'md5', 3078655958), (3000004, 'fnv1a', 1848494077),
	(3000004, 'murmur3', 3640183718), (3000004, 'crc16', 54979))
	AS v (len, hash, wanted)
WHERE shardring.key_position(repeat('kéy!', v.len / 5) ||
							 left('abcd', v.len % 5), v.hash) <> v.wanted;
-- no matter how the value is stored
CREATE TEMP TABLE stored (kind text, key text);
ALTER TABLE stored ALTER COLUMN key SET STORAGE EXTERNAL;
INSERT INTO stored VALUES ('toasted', repeat('0123456789', 100000));
ALTER TABLE stored ALTER COLUMN key SET STORAGE EXTENDED;
INSERT INTO stored VALUES
	('compressed', repeat('0123456789', 100000)),
	('inline, compressed', repeat('0123456789', 300));
SELECT kind, shardring.key_position(key) =
	('x' || left(md5(key), 8))::bit(32)::bigint AS right
FROM stored ORDER BY kind;

-- an integer is its decimal text, a uuid its lower-case text (B27)
SELECT shardring.key_position(42) AS "int", shardring.key_position(42::bigint)
	AS "bigint", shardring.key_position(42::smallint) AS "smallint",
	shardring.key_position('42') AS literal,
	shardring.key_position('42'::varchar(5)) AS "varchar";
SELECT v.key, shardring.key_position(v.key)
FROM (VALUES ('042', 731971798), ('42.0', 2272625586), ('+42', 3738865115))
	AS v (key, wanted)
WHERE shardring.key_position(v.key) <> v.wanted;
SELECT i, h.hash
FROM (VALUES (0), (-1), (1), (-42), (2147483647), (2147483648),
			 (-2147483648), (9223372036854775807),
			 (-9223372036854775808), (100), (-100), (1000000)) AS v (i)
	CROSS JOIN (VALUES ('md5'), ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash)
WHERE shardring.key_position(i, h.hash) <>
	shardring.key_position(i::text, h.hash);
SELECT shardring.key_position('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid)
	= shardring.key_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') AS uuid,
	shardring.key_position('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')
	= shardring.key_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')
	AS "text keeps its case";
-- nothing is trimmed, folded or normalised
SELECT count(DISTINCT shardring.key_position(k)) AS positions
FROM unnest(ARRAY['a', 'A', ' a', 'a ', E'a\t', 'é', E'e\u0301', 'É', 'fi', 'ﬁ'])
	AS k;
-- except that char(n) loses its padding when it becomes text, as always
SELECT shardring.key_position('42'::char(5)) = shardring.key_position('42')
	AS "char(5)", shardring.key_position('42'::name) =
	shardring.key_position('42') AS name;
\set VERBOSITY sqlstate
SELECT shardring.key_position(42::numeric);
SELECT shardring.key_position(42::real);
SELECT shardring.key_position('2020-02-02'::date);
SELECT shardring.key_position('\x42'::bytea);
SELECT shardring.key_position(true);
\set VERBOSITY default

-- NULL in, NULL out; '' is a key (B28)
SELECT shardring.key_position(NULL) IS NULL AS key,
	shardring.key_position('a', NULL) IS NULL AS hash,
	shardring.key_position('a', 'md5', NULL) IS NULL AS hash_tags,
	shardring.key_position(NULL::bigint) IS NULL AS "bigint",
	shardring.key_position(NULL::uuid) IS NULL AS uuid,
	shardring.bytes_position(NULL) IS NULL AS bytes,
	shardring.bytes_position('a', NULL) IS NULL AS "bytes' hash",
	shardring.bytes_position('a', 'md5', NULL) IS NULL AS "bytes' tags";
SELECT shardring.key_position('') AS "text", shardring.bytes_position('')
	AS bytes;

-- hashes have these names and no others
SELECT shardring.key_position('a', 'MD5');
SELECT shardring.key_position('a', 'sha256');
\set VERBOSITY sqlstate
SELECT shardring.key_position('a', '');
SELECT shardring.key_position('a', 'md5 ');
SELECT shardring.key_position(1, 'md55');
SELECT shardring.key_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid,
							  'é');
SELECT shardring.bytes_position('a', 'crc');
\set VERBOSITY default

-- hash tags: Redis' key slots, with and without tags (B31, B32)
SELECT v.key, v.wanted, shardring.key_position(v.key, 'crc16', true) % 16384
FROM (VALUES
	('{}{a}', 13650), ('foo{}{bar}', 8363), ('a{}b{c}', 7353), ('{}', 15257),
	('{}a', 10875), ('a{}', 6082), ('{a', 10276), ('a}', 5921), ('}{', 12793),
	('A}B{C', 7939), ('123456789', 12739), ('foo', 12182),
	('{user1000}.following', 3443), ('{user1000}.followers', 3443),
	('user1000', 3443), ('foo{bar}{zap}', 5061), ('bar', 5061))
	AS v (key, wanted)
WHERE shardring.key_position(v.key, 'crc16', true) % 16384 <> v.wanted;
-- what is hashed, for every hash; off by default
SELECT v.key, h.hash
FROM (VALUES
	('{a}', 'a'), ('x{a}y', 'a'), ('x{a}y{b}', 'a'), ('{{a}}', '{a'),
	('}{a}', 'a'), ('{}{a}', '{}{a}'), ('{a', '{a'), ('a}', 'a}'),
	('{é}日', 'é'), ('日{本}', '本'), ('{ }', ' '), ('', ''), ('{', '{'),
	('{a}{}', 'a')) AS v (key, hashed)
	CROSS JOIN (VALUES ('md5'), ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash)
WHERE shardring.key_position(v.key, h.hash, true) <>
		shardring.key_position(v.hashed, h.hash)
	OR shardring.key_position(v.key, h.hash, false) <>
		shardring.bytes_position(convert_to(v.key, 'UTF8'), h.hash)
	OR shardring.key_position(v.key, h.hash) <>
		shardring.key_position(v.key, h.hash, false);
-- bytes have tags too, whatever their encoding: Redis' slot of this is 16212
SELECT shardring.bytes_position('\x817b41817d', 'crc16', true) % 16384 AS "16212",
	shardring.bytes_position('\x817b41817d', 'crc16') % 16384 AS "14821",
	shardring.bytes_position('\x817b41817d', 'crc16', true) =
	shardring.bytes_position('\x4181', 'crc16') AS same;
SELECT v.key, h.hash
FROM (VALUES
	('{a}'::bytea, 'a'::bytea), ('x{a}y', 'a'), ('{{a}}', '{a'), ('{}{a}', '{}{a}'), ('{a', '{a'), ('a}', 'a}'), ('', ''),
	('\x007b007d00', '\x00'), ('\xff7b7d7b617d', '\xff7b7d7b617d'), ('\x7bff'::bytea || repeat('a', 3000000)::bytea || '}', '\xff'::bytea || repeat('a', 3000000)::bytea)) AS v (key, hashed)
	CROSS JOIN (VALUES ('md5'), ('fnv1a'), ('murmur3'), ('crc16')) AS h (hash)
WHERE shardring.bytes_position(v.key, h.hash, true) <> shardring.bytes_position(v.hashed, h.hash)
	OR shardring.bytes_position(v.key, h.hash, false) <> shardring.bytes_position(v.key, h.hash);
SELECT shardring.key_position(-42, 'md5', true) =
	shardring.key_position(-42) AS "bigint",
	shardring.key_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, 'md5',
						   true) =
	shardring.key_position('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid)
	AS uuid;

-- usable where IMMUTABLE is asked for
CREATE TEMP TABLE orders (
	id bigint, name text,
	key_position bigint GENERATED ALWAYS AS (shardring.key_position(id)) STORED);
CREATE INDEX ON orders (shardring.key_position(name));
INSERT INTO orders VALUES (42, '42');
SELECT key_position FROM orders WHERE shardring.key_position(name) = 2714814184;

DROP TABLE orders;
DROP EXTENSION shardring;
