/*
 * test_ring.c
 *		Arcs and places, against published faults (B and a number is their
 *		listed case) and against the model.
 */
#include "support.h"

#include <stdio.h>

static bool
has_point(TestRing *ring, const char *name, uint32_t position)
{
	const TestGroup *group = test_group(ring, name);
	uint32_t	i;

	for (i = 0; i < group->npoints; i++)
		if (group->points[i] == position)
			return true;
	return false;
}

static void
check_neighbours(const TestRing *model, const Ring *ring, uint32_t position)
{
	test_check_place(model, ring, position - 1);
	test_check_place(model, ring, position);
	test_check_place(model, ring, position + 1);
}

/*
 * At every boundary of the model, at the ends of the circle, and anywhere.
 */
static void
check_places(const TestRing *model, const Ring *ring, uint32_t anywhere)
{
	uint32_t	g;
	uint32_t	i;

	for (g = 0; g < model->ngroups; g++)
		for (i = 0; i < model->groups[g].npoints; i++)
			check_neighbours(model, ring, model->groups[g].points[i]);
	for (i = 0; i < model->npins; i++)
		check_neighbours(model, ring, model->pins[i].position);
	check_neighbours(model, ring, 0);
	for (i = 0; i < anywhere; i++)
		test_check_place(model, ring, test_random32());
}

/*
 * Arcs ascend, end at the end of the circle, and are merged; the bucket table
 * gives what a search without it gives.
 */
static void
check_arcs(const RingArcs *arcs)
{
	RingArcs	bare = *arcs;
	uint32_t	i;

	bare.buckets = NULL;
	assert_int_equal(arcs->ends[arcs->n - 1], UINT32_MAX);
	for (i = 0; i < arcs->n; i++)
	{
		assert_int_equal(ring_arc(arcs, arcs->ends[i]), i);
		assert_int_equal(ring_arc(&bare, arcs->ends[i]), i);
		if (i == 0)
			continue;
		assert_true(arcs->ends[i - 1] < arcs->ends[i]);
		assert_int_not_equal(arcs->owners[i - 1], arcs->owners[i]);
		assert_int_equal(ring_arc(arcs, arcs->ends[i - 1] + 1), i);
		assert_int_equal(ring_arc(&bare, arcs->ends[i - 1] + 1), i);
	}
}

/*
 * The shares are what one gets by adding up the distance of each point from
 * the one before it, pins aside.
 */
static void
check_shares(const TestRing *model, const Ring *ring)
{
	uint64_t   *shares = test_alloc(ring->ngroups * sizeof(uint64_t));
	uint64_t   *expected = test_alloc(ring->ngroups * sizeof(uint64_t));
	uint64_t	sum = 0;
	uint32_t	g;
	uint32_t	i;
	uint32_t	h;
	uint32_t	j;

	ring_shares(&ring->plain, ring->ngroups, shares);
	for (g = 0; g < ring->ngroups; g++)
	{
		const TestGroup *group = NULL;

		for (h = 0; h < model->ngroups; h++)
			if (test_is(ring->groups[g].utf8, model->groups[h].name))
				group = &model->groups[h];
		expected[g] = 0;
		for (i = 0; i < group->npoints; i++)
		{
			uint64_t	nearest = RING_CIRCLE;

			for (h = 0; h < model->ngroups; h++)
				for (j = 0; j < model->groups[h].npoints; j++)
				{
					uint32_t	distance = group->points[i] -
						model->groups[h].points[j];

					if (distance > 0 && distance < nearest)
						nearest = distance;
				}
			expected[g] += nearest;
		}
		assert_true(shares[g] == expected[g]);
		sum += shares[g];
	}
	assert_true(sum == RING_CIRCLE);
}

/*
 * 2.4 and B39: three groups, looked at from every side.
 */
static void
builds_the_known_ring(void **state)
{
	static const struct
	{
		const char *key;
		const char *owner;
	}			v[] = {
		{"", "node-a"}, {"a", "node-c"}, {"user:1", "node-a"},
		{"user:42", "node-b"}, {"\xc3\xa9", "node-a"},
		{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "node-b"},
		{"node-a#17", "node-a"}, {"node-b#0", "node-b"},
		{"node-c#159", "node-c"}, {"node-a#160", "node-b"},
		{"order-1001", "node-a"}, {"0", "node-a"}
	};
	TestRing   *model = test_ring_of(160, "node-a", "node-b", "node-c", NULL);
	Ring	   *ring = test_build(model);
	uint64_t	shares[3];
	size_t		i;

	(void) state;
	assert_int_equal(ring->npoints, 480);
	assert_ptr_equal(ring->arcs.ends, ring->plain.ends);
	assert_int_equal(ring->arcs.n, 324);
	ring_shares(&ring->arcs, 3, shares);
	assert_int_equal(shares[0], 1258625133);
	assert_int_equal(shares[1], 1610545626);
	assert_int_equal(shares[2], 1425796537);
	for (i = 0; i < LENGTH(v); i++)
		assert_string_equal(test_owner_of(ring, v[i].key), v[i].owner);
	assert_true(has_point(model, "node-b", 6159027));
	assert_true(has_point(model, "node-b", 4294069689));
	test_seed();
	check_places(model, ring, 1000);
	check_arcs(&ring->arcs);
	check_shares(model, ring);
}

/*
 * B09: past the last point, around to the first.
 */
static void
goes_around(void **state)
{
	TestRing   *model = test_ring_of(160, "shard1", "shard2", "shard3", NULL);
	Ring	   *ring = test_build(model);

	(void) state;
	assert_true(has_point(model, "shard2", 1697165));
	assert_true(has_point(model, "shard3", 4278591211));
	assert_string_equal(test_owner_of(ring, "user:212"), "shard2");
	assert_string_equal(test_owner_of(ring, "user:686"), "shard2");
	assert_string_equal(test_owner(ring, UINT32_MAX), "shard2");
	assert_string_equal(test_owner(ring, 0), "shard2");
}

/*
 * B10: a key on a point belongs to that point.
 */
static void
owns_its_point(void **state)
{
	Ring	   *ring = test_build(test_ring_of(160, "node-a", "node-b",
											   "node-c", NULL));

	(void) state;
	assert_string_equal(test_owner_of(ring, "node-a#17"), "node-a");
	assert_string_equal(test_owner_of(ring, "node-a#1"), "node-a");
	assert_string_equal(test_owner_of(ring, "node-a#8"), "node-a");
	assert_string_equal(test_owner_of(ring, "node-a#13"), "node-a");
}

/*
 * B11: an arc ends at its point.
 */
static void
ends_an_arc_at_its_point(void **state)
{
	static const uint32_t ends[] = {
		970208098, 1188510210, 1931263048, 3583446864, UINT32_MAX
	};
	static const uint32_t owners[] = {0, 1, 0, 1, 0};
	Ring	   *ring = test_build(test_ring_of(2, "node-a", "node-b", NULL));

	(void) state;
	assert_int_equal(ring->arcs.n, 5);
	assert_memory_equal(ring->arcs.ends, ends, sizeof(ends));
	assert_memory_equal(ring->arcs.owners, owners, sizeof(owners));
}

/*
 * B12: one point owns everything.
 */
static void
gives_all_to_a_single_point(void **state)
{
	Ring	   *ring = test_build(test_ring_of(1, "node-a", NULL));
	uint64_t	share;

	(void) state;
	assert_int_equal(ring->arcs.n, 1);
	assert_int_equal(ring->arcs.ends[0], UINT32_MAX);
	ring_shares(&ring->arcs, 1, &share);
	assert_true(share == UINT64_C(4294967296));
	assert_string_equal(test_owner(ring, 0), "node-a");
	assert_string_equal(test_owner(ring, 1931263048), "node-a");
	assert_string_equal(test_owner(ring, 1931263049), "node-a");
}

/*
 * B13, B36: positions and slots are unsigned.
 */
static void
takes_positions_as_unsigned(void **state)
{
	TestRing   *model = test_ring_of(160, "node-a", "node-b", "node-c", NULL);
	Ring	   *ring = test_build(model);
	TestRing   *one = test_ring(HASH_MD5);
	RingPlace	place;

	(void) state;
	assert_string_equal(test_owner_of(ring, "user:0"), "node-b");
	assert_string_equal(test_owner_of(ring, "user:2"), "node-b");
	assert_string_equal(test_owner_of(ring, "user:4"), "node-b");
	assert_string_equal(test_owner_of(ring, "user:6"), "node-c");

	test_add(one, "g", 7);
	assert_int_equal(test_points(one, "g", 1), RING_OK);
	ring_locate(test_build(one), test_hash(HASH_MD5, "user:1"), &place);
	assert_int_equal(place.slot, 1);
	ring_locate(test_build(one), test_hash(HASH_MD5, "user:2"), &place);
	assert_int_equal(place.slot, 5);
	ring_locate(test_build(one), test_hash(HASH_MD5, "0"), &place);
	assert_int_equal(place.slot, 2);
	ring_locate(test_build(one), test_hash(HASH_MD5, ""), &place);
	assert_int_equal(place.slot, 4);
	test_remove(one, "g");
	test_add(one, "g", 12);
	assert_int_equal(test_points(one, "g", 1), RING_OK);
	ring_locate(test_build(one), test_hash(HASH_MD5, "user:2"), &place);
	assert_int_equal(place.slot, 6);
	ring_locate(test_build(one), test_hash(HASH_MD5, ""), &place);
	assert_int_equal(place.slot, 1);
}

/*
 * A version without points compiles, also with pins, and routes nothing.
 */
static void
compiles_without_points(void **state)
{
	TestRing   *model = test_ring(HASH_MD5);
	Ring	   *ring = test_build(model);

	(void) state;
	assert_int_equal(ring->arcs.n, 0);
	assert_int_equal(ring->nshards, 0);
	test_add(model, "g", 4);
	test_pin(model, 7, "g");
	ring = test_build(model);
	assert_int_equal(ring->arcs.n, 0);
	assert_int_equal(ring->plain.n, 0);
	assert_int_equal(ring->nshards, 1);
	assert_int_equal(ring->npins, 1);
}

/*
 * Pins at the ends of the circle, on a point, beside one, in a row.
 */
static void
cuts_pins(void **state)
{
	TestRing   *model = test_ring(HASH_MD5);
	Ring	   *ring;
	uint32_t	points_a[] = {1000, UINT32_MAX};
	uint32_t	points_b[] = {500, 2000};
	uint64_t	shares[3];

	(void) state;
	test_add(model, "a", 3)->points = points_a;
	test_add(model, "b", 2)->points = points_b;
	test_add(model, "idle", 5);
	model->groups[0].npoints = model->groups[1].npoints = 2;
	test_pin(model, 0, "idle");
	test_pin(model, UINT32_MAX, "idle");
	test_pin(model, 999, "a");	/* where it is already */
	test_pin(model, 1000, "b");
	test_pin(model, 1001, "a");
	test_pin(model, 1500, "idle");
	test_pin(model, 1501, "idle");
	test_pin(model, 1502, "b");
	test_pin(model, 1503, "gone");	/* to nowhere: left out */
	ring = test_build(model);
	test_seed();
	check_places(model, ring, 1000);
	check_arcs(&ring->arcs);
	check_arcs(&ring->plain);
	assert_ptr_not_equal(ring->arcs.ends, ring->plain.ends);
	ring_shares(&ring->plain, 3, shares);
	assert_int_equal(shares[2], 0);
	ring_shares(&ring->arcs, 3, shares);
	assert_int_equal(shares[2], 4);
	assert_true(shares[0] + shares[1] + shares[2] == RING_CIRCLE);
}

/*
 * Broken rules: a position that is a point twice stays with the first group,
 * the first of several pins holds, a pin out of order is left out.
 */
static void
keeps_the_first_of_doubles(void **state)
{
	TestRing   *model = test_ring(HASH_MD5);
	uint32_t	points[] = {1000, 2000};
	RingPinDef	pins[] = {
		{1500, test_name("b"), test_name("b"), 1},
		{1500, test_name("a"), test_name("a"), 0},
		{1400, test_name("b"), test_name("b"), 1}
	};
	RingDef    *def;
	Ring	   *ring;

	(void) state;
	test_add(model, "a", 1)->points = points;
	test_add(model, "b", 1)->points = points;
	test_add(model, "c", 1)->points = points;
	model->groups[0].npoints = model->groups[1].npoints = 1;
	model->groups[2].npoints = 2;
	def = test_def(model);
	def->pins = pins;
	def->npins = 3;
	ring = ring_build(def, &test_env);
	check_arcs(&ring->arcs);
	check_arcs(&ring->plain);
	assert_string_equal(test_owner(ring, 1000), "a");
	assert_string_equal(test_owner(ring, 1001), "c");
	assert_string_equal(test_owner(ring, 1400), "c");
	assert_string_equal(test_owner(ring, 1500), "b");
	assert_string_equal(test_owner(ring, 2001), "a");
}

/*
 * Each position pinned is one of its own, so many pins make many arcs.
 */
static void
cuts_more_pins_than_points(void **state)
{
	TestRing   *model = test_ring(HASH_MD5);
	Ring	   *ring;
	uint32_t	i;

	(void) state;
	test_seed();
	test_add(model, "a", 1);
	test_add(model, "b", 1);
	assert_int_equal(test_points(model, "a", 1), RING_OK);
	for (i = 0; i < 64; i++)
		test_pin(model, 2 * i + 1, "b");
	ring = test_build(model);
	assert_int_equal(ring->arcs.n, 129);
	check_arcs(&ring->arcs);
	check_places(model, ring, 100);
}

/*
 * B18 and Redis-style slots: crc16, 4096 points below 65536, most of them in
 * one bucket.
 */
static void
crowds_crc16(void **state)
{
	TestRing   *model = test_ring(HASH_CRC16);
	TestRing   *two;
	Ring	   *ring;
	uint32_t	position;
	uint32_t	i;

	(void) state;
	test_seed();
	test_add(model, "main", 16384);
	test_assign(test_group(model, "main"), 0, 5461, "r-0");
	test_assign(test_group(model, "main"), 5461, 10923, "r-1");
	test_assign(test_group(model, "main"), 10923, 16384, "r-2");
	assert_int_equal(test_points(model, "main", 4096), RING_OK);
	assert_true(check_structure(test_def(model), &test_env, NULL, NULL));
	assert_int_equal(check_points(test_def(model), &test_env, NULL, NULL),
					 RING_OK);
	ring = test_build(model);
	assert_int_equal(ring->npoints, 4096);
	assert_int_equal(ring->arcs.n, 1);
	for (i = 0; i < 200; i++)
		test_check_place(model, ring, test_random(65536));

	/* not allowed, but it makes a crowd of arcs */
	two = test_copy(model);
	test_add(two, "other", 1);
	assert_int_equal(test_points(two, "other", 4096), RING_OK);
	ring = test_build(two);
	assert_true(ring->arcs.n > 3000);
	check_arcs(&ring->arcs);
	for (i = 0; i < 200; i++)
		test_check_place(two, ring, test_random(65536));
	for (position = 65530; position < 65540; position++)
		test_check_place(two, ring, position);
}

/*
 * The largest version: the table of buckets and the pauses hold.
 */
static void
builds_a_large_ring(void **state)
{
	TestRing   *model = test_ring(HASH_MURMUR3);
	Ring	   *ring;
	uint64_t	pauses = test_pauses;
	uint64_t	shares[2];
	uint32_t	i;

	(void) state;
	test_seed();
	test_add(model, "a", 1);
	test_add(model, "b", 1);
	assert_int_equal(test_points(model, "a", 300000), RING_OK);
	assert_int_equal(test_points(model, "b", 300000), RING_OK);
	ring = test_build(model);
	assert_true(test_pauses > pauses + 500);
	check_arcs(&ring->arcs);
	for (i = 0; i < 50; i++)
		test_check_place(model, ring, test_random32());
	ring_shares(&ring->arcs, 2, shares);
	assert_true(shares[0] + shares[1] == RING_CIRCLE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(builds_the_known_ring),
		TEST(goes_around),
		TEST(owns_its_point),
		TEST(ends_an_arc_at_its_point),
		TEST(gives_all_to_a_single_point),
		TEST(takes_positions_as_unsigned),
		TEST(compiles_without_points),
		TEST(cuts_pins),
		TEST(keeps_the_first_of_doubles),
		TEST(cuts_more_pins_than_points),
		TEST(crowds_crc16),
		TEST(builds_a_large_ring)
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
