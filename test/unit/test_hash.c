/*
 * test_hash.c
 *		Bytes to positions, against published and independently computed
 *		values.
 */
#include "support.h"

#include <stdio.h>

typedef struct HashVector
{
	const char *key;
	uint32_t	md5;
	uint32_t	fnv1a;
	uint32_t	murmur3;
	uint32_t	crc16;
	uint32_t	keyslot;
} HashVector;

static const HashVector vectors[] = {
	{"", 3558706393, 2166136261, 0, 0, 0},
	{"a", 214005177, 3826002220, 1009084850, 31879, 15495},
	{"0", 3486326916, 890022063, 3530670207, 13907, 13907},
	{"1", 3301589560, 873244444, 2484513939, 9842, 9842},
	{"42", 2714814184, 2279835011, 3159925814, 57152, 8000},
	{"user:1", 3182550288, 1830439627, 3416794175, 27162, 10778},
	{"user:42", 1457184536, 795573122, 3349586805, 15880, 15880},
	{"\xc3\xa9", 1725812119, 513665217, 269551495, 26564, 10180},
	{"\xc3\x9f", 3776766510, 815662359, 336885798, 12625, 12625},
	{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 1116920, 2153733351,
	2779017879, 12788, 12788},
	{"{}", 2576436115, 1415952421, 2315792072, 31641, 15257},
	{"fi", 1970768888, 1545789136, 1836344936, 23555, 7171},
	{"order-1001", 2459046385, 2439986572, 1038198555, 25471, 9087}
};

/*
 * The slot on a ring of 16384 slots with hash tags, as in Redis Cluster.
 */
static uint32_t
keyslot(const char *key)
{
	size_t		len = strlen(key);
	uint32_t	position;

	hash_tag(&key, &len);
	assert_true(hash_once(HASH_CRC16, key, len, &position));
	return position % 16384;
}

static void
hashes_known_keys(void **state)
{
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(vectors); i++)
	{
		const HashVector *v = &vectors[i];

		assert_int_equal(test_hash(HASH_MD5, v->key), v->md5);
		assert_int_equal(test_hash(HASH_FNV1A, v->key), v->fnv1a);
		assert_int_equal(test_hash(HASH_MURMUR3, v->key), v->murmur3);
		assert_int_equal(test_hash(HASH_CRC16, v->key), v->crc16);
		assert_int_equal(keyslot(v->key), v->keyslot);
	}
}

/*
 * B26: every length of the murmur3 tail.
 */
static void
hashes_every_length(void **state)
{
	static const uint32_t murmur3[] = {
		0, 3530670207, 1642882560, 3966566284, 3558446240, 433070448,
		1898502397, 183447976, 1451431763, 1350687357, 1891213601,
		3564907726, 2044149191, 4193546897, 439890777, 2250527230, 919068895
	};
	static const uint32_t fnv1a[] = {
		2166136261, 890022063, 552431802, 1573398040, 3440645553, 1537073247,
		2743617246, 1468505912, 3649004701, 143355839, 4185952242,
		1482818665, 759979345, 2167846326, 991967638, 112933257, 2277258045
	};
	uint32_t	position;
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(murmur3); i++)
	{
		assert_true(hash_once(HASH_MURMUR3, "0123456789abcdef", i,
							   &position));
		assert_int_equal(position, murmur3[i]);
		assert_true(hash_once(HASH_FNV1A, "0123456789abcdef", i,
							   &position));
		assert_int_equal(position, fnv1a[i]);
	}
	assert_true(hash_once(HASH_MURMUR3, "\xff\xff\xff\xff", 4, &position));
	assert_int_equal(position, 1982413648);
}

/*
 * B22, B23, B24: bytes above 127.
 */
static void
hashes_unsigned_bytes(void **state)
{
	static const struct
	{
		const char *key;
		uint32_t	murmur3;
		uint32_t	fnv1a;
	}			v[] = {
		{"\xc3\xa9", 269551495, 513665217},
		{"a\xc3\xa9", 52038863, 2044174844},
		{"ab\xc3\xa9", 3476686716, 4289192870},
		{"abc\xc3\xa9", 3433116993, 695701731},
		{"\xe6\x97\xa5", 1411444746, 2161435901},
		{"a\xe6\x97\xa5", 132164447, 1272200618},
		{"ab\xe6\x97\xa5", 3015211880, 1751204964},
		{"\xe6\x97\xa5\xe6\x9c\xac", 3302619458, 2670128721},
		{"\xc3\xa9\xc3\xa9", 1182274021, 1415168541},
		{"\xc3\xa9\xc3\xa9\xc3\xa9", 2634713608, 845890857},
		{"\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82", 698543816,
		869994847}
	};
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(v); i++)
	{
		assert_int_equal(test_hash(HASH_MURMUR3, v[i].key), v[i].murmur3);
		assert_int_equal(test_hash(HASH_FNV1A, v[i].key), v[i].fnv1a);
	}
	assert_int_equal(test_hash(HASH_FNV1A, "foobar"), 3214735720);
	assert_int_equal(test_hash(HASH_MURMUR3,
							   "My hovercraft is full of eels."), 2953494853);
	assert_int_equal(test_hash(HASH_MURMUR3, "My \xf0\x9f\x9a\x80 is full of "
							   "\xf0\x9f\xa6\x8e."), 1818098979);
	assert_int_equal(test_hash(HASH_MURMUR3, "\xe5\x90\x89 \xe6\x98\x9f "
							   "\xe9\xab\x98 \xe7\x85\xa7"), 3435142074);
}

/*
 * B29: keys that differ only far behind.
 */
static void
hashes_all_of_a_key(void **state)
{
	char		key[35];

	(void) state;
	memset(key, 'k', sizeof(key));
	strcpy(key + 32, "A");
	assert_int_equal(test_hash(HASH_MD5, key), 337854761);
	assert_int_equal(test_hash(HASH_FNV1A, key), 1316399980);
	assert_int_equal(test_hash(HASH_MURMUR3, key), 1958569598);
	strcpy(key + 32, "B");
	assert_int_equal(test_hash(HASH_MD5, key), 3727058266);
	assert_int_equal(test_hash(HASH_FNV1A, key), 1366732837);
	assert_int_equal(test_hash(HASH_MURMUR3, key), 2523555341);
	strcpy(key + 32, "kA");
	assert_int_equal(test_hash(HASH_MD5, key), 4024204506);
	strcpy(key + 32, "kB");
	assert_int_equal(test_hash(HASH_MD5, key), 3854185365);
}

/*
 * B27: neighbours of "42" that are other keys.
 */
static void
hashes_text_as_written(void **state)
{
	(void) state;
	assert_int_equal(test_hash(HASH_MD5, "042"), 731971798);
	assert_int_equal(test_hash(HASH_MD5, "42.0"), 2272625586);
	assert_int_equal(test_hash(HASH_MD5, "+42"), 3738865115);
	assert_int_equal(test_hash(HASH_MD5, "\xe9"), 872843126);
}

/*
 * A key in pieces of any size is the key.
 */
static void
hashes_pieces_as_a_whole(void **state)
{
	unsigned char key[300];
	uint32_t	round;
	uint32_t	i;

	(void) state;
	test_seed();
	for (round = 0; round < 400; round++)
	{
		HashKind	kind = (HashKind) (round % 4);
		uint32_t	len = test_random(sizeof(key) + 1);
		HashStream	stream;
		uint32_t	whole;
		uint32_t	pieces;
		uint32_t	piece;

		for (i = 0; i < len; i++)
			key[i] = (unsigned char) test_random(256);
		assert_true(hash_begin(&stream, kind));
		for (i = 0; i < len; i += piece)
		{
			piece = test_random(9);
			if (piece > len - i)
				piece = len - i;
			assert_true(hash_feed(&stream, key + i, piece));
		}
		assert_true(hash_end(&stream, &pieces));
		assert_true(hash_once(kind, key, len, &whole));
		assert_int_equal(pieces, whole);
	}
}

/*
 * A stream that was given up leaves nothing behind.
 */
static void
abandons_a_stream(void **state)
{
	HashStream	stream;

	(void) state;
	assert_true(hash_begin(&stream, HASH_MD5));
	assert_true(hash_feed(&stream, "half", 4));
	assert_int_equal(test_hash(HASH_MD5, "a"), 214005177);
}

/*
 * 2.5 and B20: candidates, also of names that are longer than allowed.
 */
static void
hashes_candidates(void **state)
{
	static const struct
	{
		const char *name;
		uint32_t	salt;
		uint32_t	position;
	}			v[] = {
		{"pg-89", 13, 3766252915}, {"pg-97", 141, 3766252915},
		{"node356", 72, 553273401}, {"node380", 32, 553273401},
		{"db712", 101, 2490588315}, {"db732", 8, 2490588315},
		{"group-309", 159, 2592291438}, {"group-317", 99, 2592291438},
		{"alpha-4", 25, 3195943442}, {"Zeta-646", 21, 3195943442},
		{"node-71341", 7, 2811814590}, {"node-71341", 46, 2811814590},
		{"shard-0044", 53, 2019534522}, {"shard-0486", 192, 2019534522},
		{"pg-89", 160, 199427115}, {"pg-97", 160, 3643741701},
		{"Zeta-646", 160, 3287102293}, {"shard-0486", 160, 3401215949}
	};
	char		name[1001];
	uint32_t	position;
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(v); i++)
	{
		assert_true(hash_candidate(HASH_MD5, v[i].name, strlen(v[i].name),
								   v[i].salt, &position));
		assert_int_equal(position, v[i].position);
	}
	memset(name, 'n', sizeof(name));
	name[86] = '1';
	assert_true(hash_candidate(HASH_MD5, name, 87, 0, &position));
	assert_int_equal(position, 2288805583);
	name[86] = '2';
	assert_true(hash_candidate(HASH_MD5, name, 87, 0, &position));
	assert_int_equal(position, 4109730296);
	name[86] = 'n';
	assert_true(hash_candidate(HASH_MD5, name, 255, 0, &position));
	assert_int_equal(position, 219400855);
	assert_true(hash_candidate(HASH_MD5, name, 1000, 0, &position));
	assert_int_equal(position, 2119065704);
}

/*
 * A candidate is the name, '#' and the number, written in decimal.
 */
static void
writes_salts_in_decimal(void **state)
{
	static const uint32_t salts[] = {0, 9, 10, 4194304, UINT32_MAX};
	uint32_t	position;
	int			kind;
	size_t		i;

	(void) state;
	for (kind = HASH_MD5; kind <= HASH_CRC16; kind++)
	{
		for (i = 0; i < LENGTH(salts); i++)
		{
			assert_true(hash_candidate((HashKind) kind, "{g}", 3, salts[i],
									   &position));
			assert_int_equal(position,
							 test_hash((HashKind) kind,
									   test_format("{g}#%u", salts[i])));
		}
	}
}

/*
 * B31, B32: what a hash tag is.
 */
static void
finds_hash_tags(void **state)
{
	static const struct
	{
		const char *key;
		uint32_t	slot;
	}			v[] = {
		{"{}{a}", 13650}, {"foo{}{bar}", 8363}, {"a{}b{c}", 7353},
		{"{}", 15257}, {"{}a", 10875}, {"a{}", 6082}, {"{a", 10276},
		{"a}", 5921}, {"}{", 12793}, {"A}B{C", 7939}, {"123456789", 12739},
		{"foo", 12182}, {"{user1000}.following", 3443},
		{"{user1000}.followers", 3443}, {"user1000", 3443},
		{"foo{bar}{zap}", 5061}, {"bar", 5061}
	};
	const char *key;
	size_t		len;
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(v); i++)
		assert_int_equal(keyslot(v[i].key), v[i].slot);
	key = "foo{{bar}}zap";
	len = strlen(key);
	hash_tag(&key, &len);
	assert_int_equal(len, 4);
	assert_memory_equal(key, "{bar", 4);
	key = NULL;
	len = 0;
	hash_tag(&key, &len);
	assert_null(key);
	assert_int_equal(len, 0);
}

static void
knows_its_names(void **state)
{
	HashKind	kind = HASH_CRC16;
	int			i;

	(void) state;
	for (i = HASH_MD5; i <= HASH_CRC16; i++)
	{
		const char *name = hash_kind_name((HashKind) i);

		assert_true(hash_parse_kind(name, strlen(name), &kind));
		assert_int_equal(kind, i);
	}
	assert_string_equal(hash_kind_name(HASH_MD5), "md5");
	assert_string_equal(hash_kind_name(HASH_FNV1A), "fnv1a");
	assert_string_equal(hash_kind_name(HASH_MURMUR3), "murmur3");
	assert_string_equal(hash_kind_name(HASH_CRC16), "crc16");
	assert_false(hash_parse_kind("md", 2, &kind));
	assert_false(hash_parse_kind("md55", 4, &kind));
	assert_false(hash_parse_kind("MD5", 3, &kind));
	assert_false(hash_parse_kind("", 0, &kind));
}

static void
computes_sha256(void **state)
{
	static const uint8_t empty[] = {
		0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
		0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
		0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55
	};
	static const uint8_t abc[] = {
		0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
		0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
		0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad
	};
	uint8_t		digest[32];

	(void) state;
	test_sha256("", 0, digest);
	assert_memory_equal(digest, empty, 32);
	test_sha256("abc", 3, digest);
	assert_memory_equal(digest, abc, 32);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hashes_known_keys),
		TEST(hashes_every_length),
		TEST(hashes_unsigned_bytes),
		TEST(hashes_all_of_a_key),
		TEST(hashes_text_as_written),
		TEST(hashes_pieces_as_a_whole),
		TEST(abandons_a_stream),
		TEST(hashes_candidates),
		TEST(writes_salts_in_decimal),
		TEST(finds_hash_tags),
		TEST(knows_its_names),
		TEST(computes_sha256)
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
