/*
 * test_points.c
 *		The choice of points, against published faults (B and a number is
 *		their listed case).
 */
#include "support.h"

#include <stdio.h>

/*
 * B01: the first owner keeps a position; the second goes on without it.
 */
static void
keeps_the_first_owner(void **state)
{
	TestRing   *model = test_ring_of(160, "pg-1", "pg-89", "pg-97", NULL);
	uint32_t   *salts = test_salts(model, "pg-97");
	uint32_t	i;

	(void) state;
	assert_int_equal(test_build(model)->npoints, 480);
	assert_string_equal(test_owner(test_build(model), 3766252915), "pg-89");
	for (i = 0; i < 160; i++)
		assert_int_equal(salts[i], i < 141 ? i : i + 1);
	test_remove(model, "pg-97");
	assert_int_equal(test_build(model)->npoints, 320);
	assert_string_equal(test_owner(test_build(model), 3766252915), "pg-89");

	model = test_ring_of(160, "pg-1", "pg-97", "pg-89", NULL);
	assert_string_equal(test_owner(test_build(model), 3766252915), "pg-97");
	assert_int_equal(test_salts(model, "pg-89")[13], 14);
}

/*
 * B02: nobody ends with a point less.
 */
static void
replaces_a_taken_point(void **state)
{
	TestRing   *model = test_ring_of(160, "node1", "node356", "node380", NULL);
	uint32_t   *salts = test_salts(model, "node380");

	(void) state;
	assert_int_equal(salts[31], 31);
	assert_int_equal(salts[32], 33);
	assert_int_equal(salts[159], 160);
	assert_int_equal(test_group(model, "node380")->points[159], 427355985);
	assert_string_equal(test_owner_of(test_build(model), "node380#160"),
						"node380");
}

/*
 * B04: a group collides with itself.
 */
static void
skips_its_own_point(void **state)
{
	TestRing   *model = test_ring_of(160, "node-71341", NULL);
	uint32_t   *salts = test_salts(model, "node-71341");

	(void) state;
	assert_int_equal(salts[7], 7);
	assert_int_equal(salts[46], 47);
	assert_int_equal(salts[159], 160);
	assert_int_equal(test_group(model, "node-71341")->points[159],
					 3740909379);
	assert_true(check_structure(test_def(model), &test_env, NULL, NULL));
	model = test_ring_of(160, "node-1", "node-71341", NULL);
	assert_string_equal(test_owner_of(test_build(model), "node-71341#160"),
						"node-71341");
}

/*
 * B05: the order in which groups came decides, not the order of names.
 */
static void
minds_the_order_of_joining(void **state)
{
	TestRing   *model = test_ring_of(160, "mid-1", "alpha-4", "Zeta-646",
									 NULL);

	(void) state;
	assert_string_equal(test_owner(test_build(model), 3195943442), "alpha-4");
	assert_int_equal(test_salts(model, "Zeta-646")[21], 22);
	model = test_ring_of(160, "mid-1", "Zeta-646", "alpha-4", NULL);
	assert_string_equal(test_owner(test_build(model), 3195943442),
						"Zeta-646");
	assert_int_equal(test_salts(model, "alpha-4")[25], 26);
}

/*
 * B06: more weight goes on where the points ended, less drops from the end.
 */
static void
grows_and_shrinks(void **state)
{
	TestRing   *model = test_ring_of(160, "shard-0044", "shard-0486", NULL);
	TestGroup  *group = test_group(model, "shard-0486");
	uint32_t	first[320];
	uint32_t   *salts;

	(void) state;
	assert_int_equal(test_salts(model, "shard-0486")[159], 159);
	assert_int_equal(test_points(model, "shard-0486", 320), RING_OK);
	salts = test_salts(model, "shard-0486");
	assert_int_equal(salts[191], 191);
	assert_int_equal(salts[192], 193);
	assert_int_equal(salts[319], 320);
	assert_string_equal(test_owner(test_build(model), 2019534522),
						"shard-0044");
	memcpy(first, group->points, sizeof(first));
	assert_int_equal(test_points(model, "shard-0486", 0), RING_OK);
	assert_int_equal(test_points(model, "shard-0486", 200), RING_OK);
	assert_int_equal(test_points(model, "shard-0486", 320), RING_OK);
	assert_memory_equal(first, group->points, sizeof(first));
	assert_int_equal(test_points(model, "shard-0486", 77), RING_OK);
	assert_memory_equal(first, group->points, 77 * sizeof(uint32_t));
}

/*
 * B16: adding a group changes no point of the others.
 */
static void
leaves_the_others_alone(void **state)
{
	TestRing   *model = test_ring_of(160, "node-a", "node-b", "node-c", NULL);
	TestRing   *before = test_copy(model);
	uint32_t	g;

	(void) state;
	test_add(model, "node-d", 1);
	assert_int_equal(test_points(model, "node-d", 800), RING_OK);
	for (g = 0; g < 3; g++)
	{
		assert_memory_equal(before->groups[g].points, model->groups[g].points,
							160 * sizeof(uint32_t));
		assert_int_equal(test_salts(model, model->groups[g].name)[159], 159);
	}
}

/*
 * B18: no free position is an error after bounded work, not a loop.
 */
static void
gives_up_when_all_is_taken(void **state)
{
	PointsTaken  *taken = points_taken_create(65536 + 10, &test_env);
	RingName	name = test_name("g");
	uint32_t	points[10];
	uint32_t	i;

	(void) state;
	for (i = 0; i < 65536; i++)
		assert_true(points_taken_add(taken, i));
	for (i = 0; i < 65536; i++)
		assert_false(points_taken_add(taken, i));
	assert_int_equal(points_extend(HASH_CRC16, name, taken, points, 0, 10,
								 &test_env), RING_EXHAUSTED);
	assert_int_equal(points_extend(HASH_MD5, name, taken, points, 0, 10,
								 &test_env), RING_OK);
	assert_false(points_taken_add(taken, UINT32_MAX));	/* it is full */
}

/*
 * Beside many points, those that a filter picks give a group the same points
 * as all of them; and a choice that stopped at a candidate goes on there.
 */
static void
chooses_the_same_with_a_filter(void **state)
{
	const TestGroup *other;
	TestRing   *model = test_ring_of(3000, "other", NULL);
	RingName	name = test_name("g");
	uint32_t	have = 3000;
	uint32_t	points[2][200];

	(void) state;
	other = test_group(model, "other");
	for (HashKind hash = HASH_MD5; hash <= HASH_CRC16; hash++)
	{
		PointsFilter *filter = points_filter_create(300, &test_env);
		PointsTaken *all = points_taken_create(have + 200, &test_env);
		PointsTaken *few;
		PointsCursor cursor = {0, 0};
		uint32_t	occupied[3000];
		uint32_t	picked[3000];
		uint32_t	n;

		for (uint32_t i = 0; i < have; i++)
			occupied[i] = hash == HASH_CRC16 ? i * 13 % 65536 :
				other->points[i];
		for (uint32_t i = 0; i < have; i++)
			assert_true(points_taken_add(all, occupied[i]));
		assert_int_equal(points_extend(hash, name, all, points[0], 0, 200,
									   &test_env), RING_OK);

		assert_true(points_filter_add(filter, hash, name, 0, 300));
		assert_int_equal(points_filter_pick(filter, points[0], 200, picked),
						 200);
		n = points_filter_pick(filter, occupied, have, picked);
		assert_true(n <= have / 10);
		few = points_taken_create(n + 200, &test_env);
		for (uint32_t i = 0; i < n; i++)
			assert_true(points_taken_add(few, picked[i]));
		assert_int_equal(points_choose(hash, name, few, points[1], &cursor,
									   200, 100, &test_env), RING_OK);
		assert_int_equal(cursor.salt, 100);
		assert_true(cursor.n >= 50 && cursor.n <= 100);
		assert_int_equal(points_choose(hash, name, few, points[1], &cursor,
									   200, 300, &test_env), RING_OK);
		assert_int_equal(cursor.n, 200);
		assert_memory_equal(points[0], points[1], sizeof(points[0]));
		n = cursor.salt;
		assert_int_equal(points_resume(hash, name, points[1], &cursor,
									   &test_env), RING_OK);
		assert_int_equal(cursor.salt, n);
	}
}

/*
 * Points that are no candidates, not in order, or twice.
 */
static void
refuses_foreign_points(void **state)
{
	TestRing   *model = test_ring_of(8, "g", "h", NULL);
	TestGroup  *group = test_group(model, "g");
	PointsTaken  *taken = points_taken_create(20, &test_env);
	uint32_t	salts[8];
	uint32_t	bad = 99;
	uint32_t	points[9];

	(void) state;
	memcpy(points, group->points, 8 * sizeof(uint32_t));
	points[3] = test_group(model, "h")->points[3];
	assert_int_equal(points_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 3);
	assert_int_equal(points_extend(HASH_MD5, test_name("g"), taken, points, 8,
								 9, &test_env), RING_INVALID);
	points[3] = group->points[4];
	points[4] = group->points[3];
	assert_int_equal(points_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 4);
	points[4] = points[3];
	assert_int_equal(points_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 4);
	assert_int_equal(points_extend(HASH_MD5, test_name("g"), taken, points, 8,
								 9, &test_env), RING_INVALID);
	assert_int_equal(points_salts(HASH_MD5, test_name("g"), points, 4, salts,
								&bad, &test_env), RING_OK);
	assert_int_equal(salts[3], 4);
	assert_int_equal(points_salts(HASH_MD5, test_name("g"), NULL, 0, NULL,
								&bad, &test_env), RING_OK);
}

/*
 * Whatever points a group was given with a bound, every prefix keeps it.
 */
static void
allows_gaps_to_the_bound(void **state)
{
	RingName	name = test_name("g");
	PointsTaken  *taken = points_taken_create(65536 + 3, &test_env);
	uint32_t	points[3];
	uint32_t	salts[3];
	uint32_t	bad;
	uint32_t	position;
	uint32_t	i;

	(void) state;
	for (i = 0; i < 65535; i++)
	{
		assert_true(hash_candidate(HASH_MURMUR3, "g", 1, i, &position));
		points_taken_add(taken, position);
	}
	assert_int_equal(points_extend(HASH_MURMUR3, name, taken, points, 0, 3,
								 &test_env), RING_OK);
	assert_int_equal(points_salts(HASH_MURMUR3, name, points, 3, salts, &bad,
								&test_env), RING_OK);
	assert_int_equal(salts[0], 65535);
	assert_int_equal(points_salts(HASH_MURMUR3, name, points, 1, salts, &bad,
								&test_env), RING_OK);

	/* one more is one too many */
	taken = points_taken_create(65536 + 3, &test_env);
	for (i = 0; i < 65536; i++)
	{
		assert_true(hash_candidate(HASH_MURMUR3, "g", 1, i, &position));
		points_taken_add(taken, position);
	}
	assert_int_equal(points_extend(HASH_MURMUR3, name, taken, points, 0, 3,
								 &test_env), RING_EXHAUSTED);
	assert_true(hash_candidate(HASH_MURMUR3, "g", 1, 65536, &points[0]));
	assert_int_equal(points_salts(HASH_MURMUR3, name, points, 1, salts, &bad,
								&test_env), RING_INVALID);
}

/*
 * B39: SHA-256 over the lines "position:group", ascending.
 */
static void
has_the_known_points(void **state)
{
	static const uint8_t expected[] = {
		0x7c, 0x21, 0xdd, 0xb8, 0xcd, 0xcb, 0x4f, 0xad, 0xfa, 0x78, 0x2d,
		0xcd, 0x5a, 0x6e, 0xa9, 0xdc, 0x53, 0xd1, 0x9c, 0x8c, 0x44, 0x8e,
		0xa0, 0x80, 0x6a, 0x78, 0x6b, 0xd9, 0x51, 0x92, 0xf5, 0xda
	};
	TestRing   *model = test_ring_of(160, "node-a", "node-b", "node-c", NULL);
	char	   *text = test_alloc(480 * 20);
	uint32_t	positions[480];
	uint32_t	owners[480];
	uint32_t	spare[960];
	size_t		len = 0;
	uint8_t		digest[32];
	uint32_t	i;

	(void) state;
	for (i = 0; i < 480; i++)
	{
		owners[i] = i / 160;
		positions[i] = model->groups[i / 160].points[i % 160];
	}
	ring_sort(positions, owners, spare, 480, &test_env);
	for (i = 0; i < 480; i++)
		len += (size_t) sprintf(text + len, "%s%u:%s", i > 0 ? "\n" : "",
								positions[i], model->groups[owners[i]].name);
	test_sha256(text, len, digest);
	assert_memory_equal(digest, expected, 32);
}

static void
sorts_stably(void **state)
{
	uint32_t	keys[500];
	uint32_t	values[500];
	uint32_t	spare[1000];
	uint32_t	round;
	uint32_t	i;

	(void) state;
	test_seed();
	for (round = 0; round < 50; round++)
	{
		uint32_t	n = test_random(LENGTH(keys) + 1);
		uint32_t	shift = test_random(32);
		uint64_t	sum = 0;

		for (i = 0; i < n; i++)
		{
			keys[i] = test_random32() >> shift;
			values[i] = i;
			sum += keys[i];
		}
		ring_sort(keys, values, spare, n, &test_env);
		for (i = 0; i < n; i++)
		{
			sum -= keys[i];
			if (i > 0)
				assert_true(keys[i - 1] < keys[i] ||
							(keys[i - 1] == keys[i] &&
							 values[i - 1] < values[i]));
		}
		assert_true(sum == 0);
	}
}

/*
 * However few points or slots a group has, there may be many such groups.
 */
static void
pauses_for_every_group(void **state)
{
	RingGroupDef groups[3] = {
		{.slots = 1}, {.slots = 1}, {.slots = 1}
	};
	RingDef		def = {.hash = HASH_MD5, .ngroups = 3, .groups = groups};
	PointsTaken  *taken = points_taken_create(1, &test_env);
	uint64_t	pauses = test_pauses;
	uint32_t	point;

	(void) state;
	assert_int_equal(points_extend(HASH_MD5, test_name("g"), taken, &point, 0,
								 1, &test_env), RING_OK);
	assert_true(test_pauses > pauses);
	pauses = test_pauses;
	ring_build(&def, &test_env);
	assert_true(test_pauses >= pauses + 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keeps_the_first_owner),
		TEST(replaces_a_taken_point),
		TEST(skips_its_own_point),
		TEST(minds_the_order_of_joining),
		TEST(grows_and_shrinks),
		TEST(leaves_the_others_alone),
		TEST(gives_up_when_all_is_taken),
		TEST(chooses_the_same_with_a_filter),
		TEST(refuses_foreign_points),
		TEST(allows_gaps_to_the_bound),
		TEST(has_the_known_points),
		TEST(sorts_stably),
		TEST(pauses_for_every_group)
	};

	return cmocka_run_group_tests_name("points", tests, NULL, NULL);
}
