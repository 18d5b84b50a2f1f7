/*
 * test_check.c
 *		Every fault is planted by itself and named; a sound definition is
 *		accepted.
 *
 * The sound definition is small: group "g" of 16 slots on shards "a" (0 to 7)
 * and "b" (8 to 15), group "h" of 4 slots on "a", two points each, one pin.
 * A test spoils a copy of it.
 */
#include "support.h"

#include <stdio.h>

/* A definition whose every part can be spoiled, and what is said about it. */
typedef struct Sound
{
	RingRange	g_a[3];
	RingRange	g_b[3];
	RingRange	h_a[1];
	RingShardDef g_shards[3];
	RingShardDef h_shards[1];
	uint32_t	g_points[3];
	uint32_t	h_points[3];
	RingGroupDef groups[3];
	RingPinDef	pins[2];
	RingDef		def;
	uint32_t	nreports;
	uint32_t	wanted_reports;
	char		reports[8][1200];
} Sound;

static bool
take_report(void *arg, const char *problem)
{
	Sound	   *sound = arg;

	assert_true(sound->nreports < sound->wanted_reports);
	snprintf(sound->reports[sound->nreports++], sizeof(sound->reports[0]),
			 "%s", problem);
	return sound->nreports < sound->wanted_reports;
}

static RingShardDef
shard_on(const char *name, uint32_t nranges, const RingRange *ranges)
{
	return (RingShardDef) {test_name(name), test_name(name), nranges, ranges};
}

static Sound *
make_sound(HashKind hash)
{
	Sound	   *s = test_alloc(sizeof(Sound));
	uint32_t	i;

	memset(s, 0, sizeof(Sound));
	s->g_a[0] = (RingRange) {0, 8};
	s->g_b[0] = (RingRange) {8, 16};
	s->h_a[0] = (RingRange) {0, 4};
	s->g_shards[0] = shard_on("a", 1, s->g_a);
	s->g_shards[1] = shard_on("b", 1, s->g_b);
	s->h_shards[0] = shard_on("a", 1, s->h_a);
	for (i = 0; i < 3; i++)
	{
		assert_true(hash_candidate(hash, "g", 1, i, &s->g_points[i]));
		assert_true(hash_candidate(hash, "h", 1, i, &s->h_points[i]));
	}
	s->groups[0] = (RingGroupDef) {test_name("g"), test_name("g"), 16, 2, 2,
		s->g_points, 2, s->g_shards};
	s->groups[1] = (RingGroupDef) {test_name("h"), test_name("h"), 4, 2, 2,
		s->h_points, 1, s->h_shards};
	s->pins[0] = (RingPinDef) {5, test_name("h"), test_name("h"), 1};
	s->def = (RingDef) {hash, false, 2, s->groups, 1, s->pins};
	s->wanted_reports = 8;
	return s;
}

/*
 * The structure is refused with exactly this sentence.
 */
static void
expect_fault(Sound *s, const char *sentence)
{
	s->nreports = 0;
	assert_false(check_structure(&s->def, &test_env, take_report, s));
	assert_int_equal(s->nreports, 1);
	assert_string_equal(s->reports[0], sentence);
	ring_build(&s->def, &test_env); /* must survive it */
}

static void
expect_bad_points(Sound *s, const char *sentence)
{
	assert_true(check_structure(&s->def, &test_env, take_report, s));
	assert_int_equal(check_points(&s->def, &test_env, take_report, s),
					 RING_INVALID);
	assert_int_equal(s->nreports, 1);
	assert_string_equal(s->reports[0], sentence);
}

static void
accepts_what_is_sound(void **state)
{
	static const HashKind kinds[] = {HASH_MD5, HASH_FNV1A, HASH_MURMUR3};
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(kinds); i++)
	{
		Sound	   *s = make_sound(kinds[i]);

		assert_true(check_structure(&s->def, &test_env, take_report, s));
		assert_int_equal(check_points(&s->def, &test_env, take_report, s),
						 RING_OK);
		s->def.ngroups = s->def.npins = 0;
		assert_true(check_structure(&s->def, &test_env, take_report, s));
		assert_int_equal(check_points(&s->def, &test_env, take_report, s),
						 RING_OK);
		assert_int_equal(s->nreports, 0);
	}
}

static void
names_holes(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->g_a[0].lo = 1;
	expect_fault(s, "slot 0 of group \"g\" is not on any shard");
	s->g_a[0] = (RingRange) {0, 2};
	expect_fault(s, "slots 2 to 7 of group \"g\" are not on any shard");
	s->g_a[0] = (RingRange) {0, 8};
	s->g_b[0].hi = 15;
	expect_fault(s, "slot 15 of group \"g\" is not on any shard");
	s->g_b[0] = (RingRange) {8, 11};
	s->g_b[1] = (RingRange) {12, 16};
	s->g_shards[1].nranges = 2;
	expect_fault(s, "slot 11 of group \"g\" is not on any shard");
	s->groups[0].nshards = 0;
	expect_fault(s, "group \"g\" is not on any shard");
	s->groups[0].nshards = 1;
	expect_fault(s, "slots 8 to 15 of group \"g\" are not on any shard");
}

static void
names_overlaps(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->g_b[0].lo = 7;
	expect_fault(s, "slot 7 of group \"g\" is on both shard \"a\" and"
				 " shard \"b\"");
	s->g_b[0].lo = 3;
	expect_fault(s, "slots 3 to 7 of group \"g\" are on both shard \"a\" and"
				 " shard \"b\"");
	s->g_b[0].lo = 0;
	s->g_a[0] = (RingRange) {2, 4};
	expect_fault(s, "slots 2 to 3 of group \"g\" are on both shard \"b\" and"
				 " shard \"a\"");
}

/*
 * The shard that reaches furthest is the one an overlap is with, also when
 * other pieces lie between.
 */
static void
names_overlaps_with_the_longest(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);
	RingRange	c[] = {{1, 2}, {9, 10}};

	(void) state;
	s->g_a[0] = (RingRange) {0, 16};
	s->g_shards[1] = shard_on("c", 2, c);
	s->nreports = 0;
	assert_false(check_structure(&s->def, &test_env, take_report, s));
	assert_int_equal(s->nreports, 2);
	assert_string_equal(s->reports[0], "slot 1 of group \"g\" is on both"
						" shard \"a\" and shard \"c\"");
	assert_string_equal(s->reports[1], "slot 9 of group \"g\" is on both"
						" shard \"a\" and shard \"c\"");
}

static void
names_slots_outside(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->g_b[0].hi = 17;
	expect_fault(s, "slot 16 of group \"g\" on shard \"b\" is outside 0 to"
				 " 15");
	s->g_b[0].hi = 20;
	expect_fault(s, "slots 16 to 19 of group \"g\" on shard \"b\" are outside"
				 " 0 to 15");
	s->g_b[0].hi = 16;
	s->g_b[1] = (RingRange) {30, 31};
	s->g_shards[1].nranges = 2;
	expect_fault(s, "slot 30 of group \"g\" on shard \"b\" is outside 0 to"
				 " 15");
}

static void
names_slots_out_of_order(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->g_b[0] = (RingRange) {12, 16};
	s->g_b[1] = (RingRange) {8, 12};
	s->g_shards[1].nranges = 2;
	expect_fault(s, "the slots of group \"g\" on shard \"b\" are out of order"
				 " at slot 8");
	s->g_b[0] = (RingRange) {8, 12};
	s->g_b[1] = (RingRange) {12, 16};	/* adjacent: not normalized */
	expect_fault(s, "the slots of group \"g\" on shard \"b\" are out of order"
				 " at slot 12");
	s->g_b[0] = (RingRange) {9, 9};
	s->g_shards[1].nranges = 1;
	expect_fault(s, "the slots of group \"g\" on shard \"b\" are out of order"
				 " at slot 9");
	s->g_a[0].hi = 16;
	s->g_shards[1].nranges = 0;
	expect_fault(s, "shard \"b\" of group \"g\" holds no slots");
}

static void
names_bad_slot_counts(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->groups[0].slots = 0;
	expect_fault(s, "group \"g\" has 0 slots, but must have 1 to 65536");
	s->groups[0].slots = 65537;
	expect_fault(s, "group \"g\" has 65537 slots, but must have 1 to"
				 " 65536");
	s->groups[0].slots = 65536;
	s->g_b[0].hi = 65536;
	assert_true(check_structure(&s->def, &test_env, take_report, s));
}

static void
names_doubled_points(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);
	char	   *sentence;

	(void) state;
	sentence = test_format("position %u is a point of group \"g\" twice",
						   s->g_points[0]);
	s->g_points[1] = s->g_points[0];
	expect_fault(s, sentence);
	s->g_points[2] = s->g_points[0];
	s->groups[0].npoints = 3;
	expect_fault(s, sentence);	/* three times is one fault */
	s->groups[0].npoints = 1;
	s->h_points[1] = s->g_points[0];
	expect_fault(s, test_format("position %u is a point of both group \"g\""
								" and group \"h\"", s->g_points[0]));
}

static void
names_pins_to_nowhere(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->pins[0].group_name = s->pins[0].group_utf8 = test_name("x");
	s->pins[0].group = RING_NONE;
	expect_fault(s, "pin at position 5 names group \"x\", which is not in"
				 " the version");
	s->pins[0].group = 2;
	expect_fault(s, "pin at position 5 names group \"x\", which is not in"
				 " the version");
	s->pins[0].group = 1;
	expect_fault(s, "pin at position 5 names group \"x\", but leads to group"
				 " \"h\"");
}

static void
names_disorder(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->pins[1] = s->pins[0];
	s->def.npins = 2;
	expect_fault(s, "pin at position 5 is listed twice or out of order");
	s->pins[1].position = 4;
	expect_fault(s, "pin at position 4 is listed twice or out of order");
	s->def.npins = 0;
	s->groups[1].name = s->groups[1].utf8 = test_name("g");
	expect_fault(s, "group \"g\" is listed twice or out of order");
	s->groups[1].name = s->groups[1].utf8 = test_name("f");
	expect_fault(s, "group \"f\" is listed twice or out of order");
	s->groups[1].name = s->groups[1].utf8 = test_name("h");
	s->g_shards[1].name = s->g_shards[1].utf8 = test_name("a");
	expect_fault(s, "shard \"a\" of group \"g\" is listed twice or out of"
				 " order");
}

static void
names_bad_names(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);
	char	   *name = test_alloc(257);

	(void) state;
	s->def.npins = 0;
	memset(name, 'x', 256);
	name[256] = '\0';
	s->groups[1].name = s->groups[1].utf8 = test_name(name);
	expect_fault(s, test_format("the name of group \"%s\" has 256 bytes, but"
								" must have 1 to 255", name));
	name[255] = '\0';
	s->groups[1].name = s->groups[1].utf8 = test_name(name);
	assert_true(check_structure(&s->def, &test_env, take_report, s));
	s->groups[0].name = s->groups[0].utf8 = test_name("");
	expect_fault(s, "the name of group \"\" has 0 bytes, but must have 1"
				 " to 255");
	s->groups[0].name = s->groups[0].utf8 = test_name("g");
	name[64] = '\0';
	s->h_shards[0] = shard_on(name, 1, s->h_a);
	expect_fault(s, test_format("the name of shard \"%s\" has 64 bytes, but"
								" must have 1 to 63", name));
	name[63] = '\0';
	s->h_shards[0] = shard_on(name, 1, s->h_a);
	assert_true(check_structure(&s->def, &test_env, take_report, s));
	s->h_shards[0] = shard_on("", 1, s->h_a);
	expect_fault(s, "the name of shard \"\" has 0 bytes, but must have 1"
				 " to 63");
}

static void
limits_crc16(void **state)
{
	Sound	   *s = make_sound(HASH_CRC16);
	uint32_t   *points = test_alloc(4097 * sizeof(uint32_t));
	uint32_t	i;

	(void) state;
	expect_fault(s, "the version has 2 groups, but hash crc16 allows one");
	s->def.ngroups = 1;
	s->def.npins = 0;
	for (i = 0; i < 4097; i++)
		points[i] = i;
	s->groups[0].points = points;
	s->groups[0].npoints = 4097;
	expect_fault(s, "group \"g\" has 4097 points, but hash crc16 allows at"
				 " most 4096");
	s->groups[0].npoints = 4096;
	s->nreports = 0;
	assert_true(check_structure(&s->def, &test_env, take_report, s));
}

static void
limits_points(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);
	uint32_t   *points;
	uint32_t	i;

	(void) state;
	points = test_alloc((RING_MAX_POINTS - 1) * sizeof(uint32_t));
	for (i = 0; i < RING_MAX_POINTS - 1; i++)
		points[i] = i;
	s->groups[0].points = points;
	s->groups[0].npoints = RING_MAX_POINTS - 1;
	s->pins[0].group = RING_NONE;	/* too large to be looked at further */
	s->nreports = 0;
	assert_false(check_structure(&s->def, &test_env, take_report, s));
	assert_int_equal(s->nreports, 1);
	assert_string_equal(s->reports[0], "the version has 4194305 points, but"
						" at most 4194304 are allowed");
	s->groups[1].npoints = 1;
	s->pins[0].group = 1;
	s->nreports = 0;
	assert_true(s->h_points[0] >= RING_MAX_POINTS - 1);
	assert_true(check_structure(&s->def, &test_env, take_report, s));
}

static void
names_missing_points(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->groups[1].npoints = 1;
	expect_bad_points(s, "group \"h\" has 1 point, but should have 2");
	s->nreports = 0;
	s->groups[1].npoints = 3;
	expect_bad_points(s, "group \"h\" has 3 points, but should have 2");
	s->nreports = 0;
	s->groups[1].wanted_points = 0;
	expect_bad_points(s, "group \"h\" has 3 points, but should have 0");
	s->nreports = 0;
	s->groups[1].npoints = 0;
	assert_int_equal(check_points(&s->def, &test_env, take_report, s),
					 RING_OK);
}

static void
names_foreign_points(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);
	uint32_t	swap;

	(void) state;
	s->h_points[1] ^= 1;
	expect_bad_points(s, test_format("point %u (number 2) of group \"h\" is"
									 " not a candidate of the group, in"
									 " ascending order", s->h_points[1]));
	s->h_points[1] ^= 1;
	s->nreports = 0;
	swap = s->g_points[0];
	s->g_points[0] = s->g_points[1];
	s->g_points[1] = swap;
	expect_bad_points(s, test_format("point %u (number 2) of group \"g\" is"
									 " not a candidate of the group, in"
									 " ascending order", s->g_points[1]));
}

/*
 * Several faults are several reports, until the caller has enough.
 */
static void
reports_until_told_to_stop(void **state)
{
	Sound	   *s = make_sound(HASH_MD5);

	(void) state;
	s->g_a[0].lo = 1;
	s->g_b[0].lo = 7;
	s->h_a[0].hi = 3;
	s->h_points[0] = s->g_points[0];
	s->pins[0].group = RING_NONE;
	assert_false(check_structure(&s->def, &test_env, take_report, s));
	assert_int_equal(s->nreports, 5);
	for (s->wanted_reports = 1; s->wanted_reports < 5; s->wanted_reports++)
	{
		s->nreports = 0;
		assert_false(check_structure(&s->def, &test_env, take_report, s));
		assert_int_equal(s->nreports, s->wanted_reports);
	}
	s = make_sound(HASH_MD5);
	s->wanted_reports = 1;
	s->g_points[0] ^= 1;
	s->h_points[0] ^= 1;
	assert_int_equal(check_points(&s->def, &test_env, take_report, s),
					 RING_INVALID);
	assert_int_equal(s->nreports, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(accepts_what_is_sound),
		TEST(names_holes),
		TEST(names_overlaps),
		TEST(names_overlaps_with_the_longest),
		TEST(names_slots_outside),
		TEST(names_slots_out_of_order),
		TEST(names_bad_slot_counts),
		TEST(names_doubled_points),
		TEST(names_pins_to_nowhere),
		TEST(names_disorder),
		TEST(names_bad_names),
		TEST(limits_crc16),
		TEST(limits_points),
		TEST(names_missing_points),
		TEST(names_foreign_points),
		TEST(reports_until_told_to_stop)
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
