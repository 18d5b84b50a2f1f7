/*
 * test_ring.c
 *		Points, arcs and places, against published faults (cases.md) and
 *		against the model.
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

static uint32_t *
salts_of(TestRing *ring, const char *name)
{
	const TestGroup *group = test_group(ring, name);
	uint32_t   *salts = test_alloc(group->npoints * sizeof(uint32_t));
	uint32_t	bad = 0;

	assert_int_equal(ring_salts(ring->hash, test_name(name), group->points,
								group->npoints, salts, &bad, &test_env),
					 RING_OK);
	return salts;
}

static const char *
owner_of_key(const Ring *ring, const char *key)
{
	return test_owner(ring, test_hash(ring->hash, key));
}

/*
 * The compiled ring says of a position what the model says.
 */
static void
check_place(const TestRing *model, const Ring *ring, uint32_t position)
{
	TestPlace	expected = test_locate(model, position);
	RingPlace	place;
	const RingGroup *group;

	ring_locate(ring, position, &place);
	group = &ring->groups[place.group];
	if (!test_is(group->utf8, expected.group->name) ||
		place.slot != expected.slot ||
		!test_is(ring->shards[place.shard], expected.shard))
		fail_msg("position %u: expected group %s, slot %u, shard %s", position,
				 expected.group->name, expected.slot, expected.shard);
}

static void
check_neighbours(const TestRing *model, const Ring *ring, uint32_t position)
{
	check_place(model, ring, position - 1);
	check_place(model, ring, position);
	check_place(model, ring, position + 1);
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
		check_place(model, ring, test_random32());
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
		assert_string_equal(owner_of_key(ring, v[i].key), v[i].owner);
	assert_true(has_point(model, "node-b", 6159027));
	assert_true(has_point(model, "node-b", 4294069689));
	test_seed();
	check_places(model, ring, 1000);
	check_arcs(&ring->arcs);
	check_shares(model, ring);
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
	assert_true(hash_sha256(text, len, digest));
	assert_memory_equal(digest, expected, 32);
}

/*
 * B01: the first owner keeps a position; the second goes on without it.
 */
static void
keeps_the_first_owner(void **state)
{
	TestRing   *model = test_ring_of(160, "pg-1", "pg-89", "pg-97", NULL);
	uint32_t   *salts = salts_of(model, "pg-97");
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
	assert_int_equal(salts_of(model, "pg-89")[13], 14);
}

/*
 * B02: nobody ends with a point less.
 */
static void
replaces_a_taken_point(void **state)
{
	TestRing   *model = test_ring_of(160, "node1", "node356", "node380", NULL);
	uint32_t   *salts = salts_of(model, "node380");

	(void) state;
	assert_int_equal(salts[31], 31);
	assert_int_equal(salts[32], 33);
	assert_int_equal(salts[159], 160);
	assert_int_equal(test_group(model, "node380")->points[159], 427355985);
	assert_string_equal(owner_of_key(test_build(model), "node380#160"),
						"node380");
}

/*
 * B04: a group collides with itself.
 */
static void
skips_its_own_point(void **state)
{
	TestRing   *model = test_ring_of(160, "node-71341", NULL);
	uint32_t   *salts = salts_of(model, "node-71341");

	(void) state;
	assert_int_equal(salts[7], 7);
	assert_int_equal(salts[46], 47);
	assert_int_equal(salts[159], 160);
	assert_int_equal(test_group(model, "node-71341")->points[159],
					 3740909379);
	assert_true(check_structure(test_def(model), &test_env, NULL, NULL));
	model = test_ring_of(160, "node-1", "node-71341", NULL);
	assert_string_equal(owner_of_key(test_build(model), "node-71341#160"),
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
	assert_int_equal(salts_of(model, "Zeta-646")[21], 22);
	model = test_ring_of(160, "mid-1", "Zeta-646", "alpha-4", NULL);
	assert_string_equal(test_owner(test_build(model), 3195943442),
						"Zeta-646");
	assert_int_equal(salts_of(model, "alpha-4")[25], 26);
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
	assert_int_equal(salts_of(model, "shard-0486")[159], 159);
	assert_int_equal(test_points(model, "shard-0486", 320), RING_OK);
	salts = salts_of(model, "shard-0486");
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
		assert_int_equal(salts_of(model, model->groups[g].name)[159], 159);
	}
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
	assert_string_equal(owner_of_key(ring, "user:212"), "shard2");
	assert_string_equal(owner_of_key(ring, "user:686"), "shard2");
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
	assert_string_equal(owner_of_key(ring, "node-a#17"), "node-a");
	assert_string_equal(owner_of_key(ring, "node-a#1"), "node-a");
	assert_string_equal(owner_of_key(ring, "node-a#8"), "node-a");
	assert_string_equal(owner_of_key(ring, "node-a#13"), "node-a");
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
	assert_string_equal(owner_of_key(ring, "user:0"), "node-b");
	assert_string_equal(owner_of_key(ring, "user:2"), "node-b");
	assert_string_equal(owner_of_key(ring, "user:4"), "node-b");
	assert_string_equal(owner_of_key(ring, "user:6"), "node-c");

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
		check_place(model, ring, test_random(65536));

	/* not allowed, but it makes a crowd of arcs */
	two = test_copy(model);
	test_add(two, "other", 1);
	assert_int_equal(test_points(two, "other", 4096), RING_OK);
	ring = test_build(two);
	assert_true(ring->arcs.n > 3000);
	check_arcs(&ring->arcs);
	for (i = 0; i < 200; i++)
		check_place(two, ring, test_random(65536));
	for (position = 65530; position < 65540; position++)
		check_place(two, ring, position);
}

/*
 * B18: no free position is an error after bounded work, not a loop.
 */
static void
gives_up_when_all_is_taken(void **state)
{
	RingTaken  *taken = ring_taken_create(65536 + 10, &test_env);
	RingName	name = test_name("g");
	uint32_t	points[10];
	uint32_t	i;

	(void) state;
	for (i = 0; i < 65536; i++)
		assert_true(ring_taken_add(taken, i));
	for (i = 0; i < 65536; i++)
		assert_false(ring_taken_add(taken, i));
	assert_int_equal(ring_extend(HASH_CRC16, name, taken, points, 0, 10,
								 &test_env), RING_EXHAUSTED);
	assert_int_equal(ring_extend(HASH_MD5, name, taken, points, 0, 10,
								 &test_env), RING_OK);
	assert_false(ring_taken_add(taken, UINT32_MAX));	/* it is full */
}

/*
 * Points that are no candidates, not in order, or twice.
 */
static void
refuses_foreign_points(void **state)
{
	TestRing   *model = test_ring_of(8, "g", "h", NULL);
	TestGroup  *group = test_group(model, "g");
	RingTaken  *taken = ring_taken_create(20, &test_env);
	uint32_t	salts[8];
	uint32_t	bad = 99;
	uint32_t	points[9];

	(void) state;
	memcpy(points, group->points, 8 * sizeof(uint32_t));
	points[3] = test_group(model, "h")->points[3];
	assert_int_equal(ring_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 3);
	assert_int_equal(ring_extend(HASH_MD5, test_name("g"), taken, points, 8,
								 9, &test_env), RING_INVALID);
	points[3] = group->points[4];
	points[4] = group->points[3];
	assert_int_equal(ring_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 4);
	points[4] = points[3];
	assert_int_equal(ring_salts(HASH_MD5, test_name("g"), points, 8, salts,
								&bad, &test_env), RING_INVALID);
	assert_int_equal(bad, 4);
	assert_int_equal(ring_salts(HASH_MD5, test_name("g"), points, 4, salts,
								&bad, &test_env), RING_OK);
	assert_int_equal(salts[3], 4);
	assert_int_equal(ring_salts(HASH_MD5, test_name("g"), NULL, 0, NULL,
								&bad, &test_env), RING_OK);
}

/*
 * Whatever points a group was given with a bound, every prefix keeps it.
 */
static void
allows_gaps_to_the_bound(void **state)
{
	RingName	name = test_name("g");
	RingTaken  *taken = ring_taken_create(65536 + 3, &test_env);
	uint32_t	points[3];
	uint32_t	salts[3];
	uint32_t	bad;
	uint32_t	position;
	uint32_t	i;

	(void) state;
	for (i = 0; i < 65535; i++)
	{
		assert_true(hash_candidate(HASH_MURMUR3, "g", 1, i, &position));
		ring_taken_add(taken, position);
	}
	assert_int_equal(ring_extend(HASH_MURMUR3, name, taken, points, 0, 3,
								 &test_env), RING_OK);
	assert_int_equal(ring_salts(HASH_MURMUR3, name, points, 3, salts, &bad,
								&test_env), RING_OK);
	assert_int_equal(salts[0], 65535);
	assert_int_equal(ring_salts(HASH_MURMUR3, name, points, 1, salts, &bad,
								&test_env), RING_OK);

	/* one more is one too many */
	taken = ring_taken_create(65536 + 3, &test_env);
	for (i = 0; i < 65536; i++)
	{
		assert_true(hash_candidate(HASH_MURMUR3, "g", 1, i, &position));
		ring_taken_add(taken, position);
	}
	assert_int_equal(ring_extend(HASH_MURMUR3, name, taken, points, 0, 3,
								 &test_env), RING_EXHAUSTED);
	assert_true(hash_candidate(HASH_MURMUR3, "g", 1, 65536, &points[0]));
	assert_int_equal(ring_salts(HASH_MURMUR3, name, points, 1, salts, &bad,
								&test_env), RING_INVALID);
}

static void
orders_names_by_bytes(void **state)
{
	(void) state;
	assert_true(ring_name_compare(test_name(""), test_name("")) == 0);
	assert_true(ring_name_compare(test_name(""), test_name("a")) < 0);
	assert_true(ring_name_compare(test_name("a"), test_name("ab")) < 0);
	assert_true(ring_name_compare(test_name("b"), test_name("ab")) > 0);
	assert_true(ring_name_compare(test_name("Z"), test_name("a")) < 0);
	assert_true(ring_name_compare(test_name("z"), test_name("\xc3\xa9")) < 0);
	assert_true(ring_name_compare(test_name("same"), test_name("same")) == 0);
	assert_true(ring_name_compare((RingName) {NULL, 0},
								  (RingName) {NULL, 0}) == 0);
}

/*
 * In a database that is not UTF-8, names are shown as they are there, but
 * ordered by their UTF-8 bytes; and the definition may be dropped.
 */
static void
keeps_names_in_both_encodings(void **state)
{
	char		latin1[] = "\xe9";
	char		utf8[] = "\xc3\xa9";
	char		ascii[] = "\xc4";	/* sorts between the two above */
	char		ascii_utf8[] = "\xc3\x84";
	RingRange	ranges[] = {{0, 1}, {1, 2}};
	RingShardDef shards[] = {
		{{ascii, 1}, {ascii_utf8, 2}, 1, &ranges[0]},
		{{latin1, 1}, {utf8, 2}, 1, &ranges[1]}
	};
	uint32_t	point = 5;
	RingGroupDef group = {{latin1, 1}, {utf8, 2}, 2, 1, 1, &point, 2, shards};
	RingDef		def = {HASH_MD5, true, 1, &group, 0, NULL};
	Ring	   *ring = ring_build(&def, &test_env);

	(void) state;
	latin1[0] = utf8[1] = ascii[0] = ascii_utf8[1] = '?';
	ranges[0].hi = shards[0].nranges = group.slots = point = 77;
	assert_true(ring->hash_tags);
	assert_int_equal(ring->nshards, 2);
	assert_true(test_is(ring->shards[0], "\xc4"));
	assert_true(test_is(ring->shards[1], "\xe9"));
	assert_true(test_is(ring->shards_utf8[0], "\xc3\x84"));
	assert_true(test_is(ring->shards_utf8[1], "\xc3\xa9"));
	assert_true(test_is(ring->groups[0].name, "\xe9"));
	assert_true(test_is(ring->groups[0].utf8, "\xc3\xa9"));
	assert_int_equal(ring->groups[0].slots, 2);
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
		check_place(model, ring, test_random32());
	ring_shares(&ring->arcs, 2, shares);
	assert_true(shares[0] + shares[1] == RING_CIRCLE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(builds_the_known_ring),
		TEST(has_the_known_points),
		TEST(keeps_the_first_owner),
		TEST(replaces_a_taken_point),
		TEST(skips_its_own_point),
		TEST(minds_the_order_of_joining),
		TEST(grows_and_shrinks),
		TEST(leaves_the_others_alone),
		TEST(goes_around),
		TEST(owns_its_point),
		TEST(ends_an_arc_at_its_point),
		TEST(gives_all_to_a_single_point),
		TEST(takes_positions_as_unsigned),
		TEST(compiles_without_points),
		TEST(cuts_pins),
		TEST(cuts_more_pins_than_points),
		TEST(crowds_crc16),
		TEST(gives_up_when_all_is_taken),
		TEST(refuses_foreign_points),
		TEST(allows_gaps_to_the_bound),
		TEST(orders_names_by_bytes),
		TEST(keeps_names_in_both_encodings),
		TEST(sorts_stably),
		TEST(builds_a_large_ring)
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
