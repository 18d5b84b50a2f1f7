/*
 * test_canon.c
 *		The canonical byte string, written out by hand, and a fingerprint that
 *		another program computed from it.
 */
#include "support.h"

#include <stdio.h>

/* A definition whose every field can be changed by itself. */
typedef struct Sample
{
	RingRange	ranges[3];
	RingShardDef shards[2];
	uint32_t	points[3];
	RingGroupDef groups[2];
	RingPinDef	pins[1];
	RingDef		def;
} Sample;

static Sample *
make_sample(void)
{
	Sample	   *s = test_alloc(sizeof(Sample));

	memset(s, 0, sizeof(Sample));
	s->ranges[0] = (RingRange) {0, 1};
	s->ranges[1] = (RingRange) {3, 4};
	s->ranges[2] = (RingRange) {1, 3};
	s->shards[0] = (RingShardDef) {{"a", 1}, {"A", 1}, 2, &s->ranges[0]};
	s->shards[1] = (RingShardDef) {{"b", 1}, {"B", 1}, 1, &s->ranges[2]};
	s->points[0] = UINT32_C(0xdeadbeef);
	s->points[1] = 7;
	s->points[2] = UINT32_MAX;
	s->groups[0] = (RingGroupDef) {{"g", 1}, {"G", 1}, 4, 2, 2, s->points, 2,
		s->shards};
	s->groups[1] = (RingGroupDef) {{"\xc3\xa9", 2}, {"\xe9", 1}, 1, 0, 0,
		NULL, 0, NULL};
	s->pins[0] = (RingPinDef) {258, {"\xe9", 1}, {"\xc3\xa9", 2}, 1};
	s->def = (RingDef) {HASH_MURMUR3, true, 2, s->groups, 1, s->pins};
	return s;
}

static char *
fingerprint(const RingDef *def)
{
	char	   *hex = test_alloc(65);

	assert_true(fingerprint_hex(def, hex));
	return hex;
}

static void
writes_every_byte(void **state)
{
	static const uint8_t expected[] = {
		0, 0, 0, 1,				/* format */
		0, 0, 0, 7, 'm', 'u', 'r', 'm', 'u', 'r', '3',
		1,						/* hash tags */
		0, 0, 0, 2,				/* groups */
		0, 0, 0, 1, 'g',
		0, 0, 0, 4,				/* slots */
		0, 0, 0, 2,				/* points */
		0xde, 0xad, 0xbe, 0xef,
		0, 0, 0, 7,
		0, 0, 0, 2,				/* shards */
		0, 0, 0, 1, 'a',
		0, 0, 0, 2,				/* ranges */
		0, 0, 0, 0, 0, 0, 0, 1,
		0, 0, 0, 3, 0, 0, 0, 4,
		0, 0, 0, 1, 'b',
		0, 0, 0, 1,
		0, 0, 0, 1, 0, 0, 0, 3,
		0, 0, 0, 2, 0xc3, 0xa9,
		0, 0, 0, 1,
		0, 0, 0, 0,
		0, 0, 0, 0,
		0, 0, 0, 1,				/* pins */
		0, 0, 1, 2,
		0, 0, 0, 2, 0xc3, 0xa9
	};
	Sample	   *s = make_sample();
	size_t		size;
	uint8_t    *bytes = test_canon(&s->def, &size);

	(void) state;
	assert_int_equal(size, sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_string_equal(fingerprint(&s->def),
						"d62c98c005ce4a4d8f446aaee91d8346"
						"d2e978e13c407049eb80e63de64f2e5f");
}

static void
writes_the_empty_version(void **state)
{
	static const uint8_t expected[] = {
		0, 0, 0, 1, 0, 0, 0, 3, 'm', 'd', '5', 0, 0, 0, 0, 0, 0, 0, 0, 0
	};
	RingDef		def = {HASH_MD5, false, 0, NULL, 0, NULL};
	size_t		size;
	uint8_t    *bytes = test_canon(&def, &size);

	(void) state;
	assert_int_equal(size, sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_string_equal(fingerprint(&def),
						"5348e04076425e5d72b13d6caa1e2e48"
						"e96c3ddbd36db3e41ee05060882bd80f");
}

/*
 * What decides routing is in the fingerprint, each field by itself.
 */
static void
changes_with_every_field(void **state)
{
	Sample	   *s[16];
	char	   *hex[16];
	uint32_t	n;
	uint32_t	i;
	uint32_t	j;

	(void) state;
	for (i = 0; i < LENGTH(s); i++)
		s[i] = make_sample();
	s[1]->def.hash = HASH_MD5;
	s[2]->def.hash_tags = false;
	s[3]->def.ngroups = 1;
	s[4]->groups[0].utf8 = test_name("f");
	s[5]->groups[0].slots = 5;
	s[6]->groups[0].npoints = 3;
	s[7]->points[1] = 8;
	s[8]->points[0] = 7;		/* the same points in another order */
	s[8]->points[1] = UINT32_C(0xdeadbeef);
	s[9]->groups[0].nshards = 1;
	s[10]->shards[1].utf8 = test_name("c");
	s[11]->shards[0].nranges = 1;
	s[12]->ranges[0].hi = 2;
	s[13]->def.npins = 0;
	s[14]->pins[0].position = 259;
	s[15]->pins[0].group_utf8 = test_name("g");
	for (n = 0; n < LENGTH(s); n++)
		hex[n] = fingerprint(&s[n]->def);
	for (i = 0; i < n; i++)
		for (j = i + 1; j < n; j++)
			assert_string_not_equal(hex[i], hex[j]);
}

/*
 * What does not decide it is not: weights, and the server's encoding.
 */
static void
ignores_the_rest(void **state)
{
	Sample	   *s = make_sample();
	char	   *before = fingerprint(&s->def);

	(void) state;
	s->groups[0].wanted_points = 99;
	s->groups[0].name = test_name("another");
	s->shards[0].name = test_name("another");
	s->pins[0].group_name = test_name("another");
	s->pins[0].group = RING_NONE;
	assert_string_equal(fingerprint(&s->def), before);
}

/*
 * What lies next to each other cannot be mistaken for each other: lengths and
 * counts stand before everything.
 */
static void
separates_neighbours(void **state)
{
	Sample	   *a = make_sample();
	Sample	   *b = make_sample();

	(void) state;
	a->shards[0].utf8 = test_name("ab");
	a->shards[1].utf8 = test_name("c");
	b->shards[0].utf8 = test_name("a");
	b->shards[1].utf8 = test_name("bc");
	assert_string_not_equal(fingerprint(&a->def), fingerprint(&b->def));
}

static bool
refuse_second(void *arg, const uint8_t *bytes, size_t len)
{
	(void) bytes;
	(void) len;
	return ++*(int *) arg != 2;
}

/*
 * Pieces of whatever length make the same string, and one that is refused is
 * the last that is offered.
 */
static void
writes_in_pieces(void **state)
{
	TestRing   *model = test_ring_of(2000, "a", "b", NULL);
	RingDef    *def = test_def(model);
	uint8_t		digest[32];
	char	   *hex = fingerprint(def);
	int			offered = 0;
	size_t		size;
	uint8_t    *bytes = test_canon(def, &size);
	int			i;

	(void) state;
	assert_true(size > 16000);
	test_sha256(bytes, size, digest);
	for (i = 0; i < 32; i++)
		assert_memory_equal(hex + 2 * i, test_format("%02x", digest[i]), 2);
	assert_false(fingerprint_bytes(def, refuse_second, &offered));
	assert_int_equal(offered, 2);
}

static void
zones_have_their_own(void **state)
{
	static const uint8_t expected[] = {
		0, 0, 0, 1, 0, 0, 0, 2,
		0, 0, 0, 1, 'a', 0,
		0, 0, 0, 1, 'b', 1, 0, 0, 0, 2, 'z', '1'
	};
	RingZone	zones[] = {
		{{"a", 1}, {NULL, 0}}, {{"b", 1}, {"z1", 2}}
	};
	uint8_t		digest[32];
	char		hex[65];
	char		other[65];
	int			i;

	(void) state;
	assert_true(fingerprint_zones_hex(zones, 2, hex));
	test_sha256(expected, sizeof(expected), digest);
	for (i = 0; i < 32; i++)
		assert_memory_equal(hex + 2 * i, test_format("%02x", digest[i]), 2);
	/* a zone without a name is none of those that may be given */
	zones[0].zone = (RingName) {"", 0};
	assert_true(fingerprint_zones_hex(zones, 2, other));
	assert_string_not_equal(hex, other);
	assert_true(fingerprint_zones_hex(NULL, 0, other));
	assert_string_equal(other, "cbbc48750debb8535093b3deaf88ac7f"
						"4cff87425576a58de2bac754acdb4616");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_every_byte),
		TEST(writes_in_pieces),
		TEST(writes_the_empty_version),
		TEST(changes_with_every_field),
		TEST(ignores_the_rest),
		TEST(separates_neighbours),
		TEST(zones_have_their_own)
	};

	return cmocka_run_group_tests_name("canon", tests, NULL, NULL);
}
