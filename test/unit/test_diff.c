/*
 * test_diff.c
 *		What moves between two rings: published cases (cases.md) and plans that
 *		can be computed by hand.
 */
#include "support.h"

#include <stdio.h>

typedef struct Counts
{
	uint32_t	moved;
	uint32_t	from[3];
} Counts;

static DiffList *
list_of(const Ring *from, const Ring *to, DiffScope scope)
{
	DiffList   *list = test_alloc(sizeof(DiffList));

	diff_list(from, to, scope, &test_env, list);
	return list;
}

static DiffPlan *
plan_of(const TestRing *from, const TestRing *to)
{
	DiffPlan   *plan = test_alloc(sizeof(DiffPlan));

	diff_plan(test_build(from), test_build(to), &test_env, plan);
	return plan;
}

/*
 * "lo..hi from to", both ends inclusive as in cases.md, by position.
 */
static char *
describe(const Ring *from, const Ring *to)
{
	DiffList   *list = list_of(from, to, DIFF_GROUPS);
	char	   *text = test_alloc(100 * list->nsegments + 1);
	uint64_t	at = 0;
	uint32_t	n;
	uint32_t	i;
	size_t		len = 0;

	text[0] = '\0';
	for (n = 0; n < list->nsegments; n++)
	{
		const DiffSegment *next = NULL;

		for (i = 0; i < list->nsegments; i++)
			if (list->segments[i].lo >= at &&
				(next == NULL || list->segments[i].lo < next->lo))
				next = &list->segments[i];
		len += (size_t) sprintf(text + len, "%llu..%llu %.*s %.*s\n",
								(unsigned long long) next->lo,
								(unsigned long long) next->hi - 1,
								(int) from->groups[next->from_group].name.len,
								from->groups[next->from_group].name.bytes,
								(int) to->groups[next->to_group].name.len,
								to->groups[next->to_group].name.bytes);
		at = next->hi;
	}
	return text;
}

static uint64_t
positions_of(const DiffList *list)
{
	uint64_t	sum = 0;
	uint32_t	i;

	for (i = 0; i < list->npairs; i++)
		sum += list->pairs[i].positions;
	return sum;
}

/*
 * How many of the keys user:0, user:1 ... move, and from which group.
 */
static Counts
count_users(const Ring *from, const Ring *to, uint32_t nkeys,
			const char *only_to)
{
	Counts		counts = {0, {0, 0, 0}};
	uint32_t	i;

	for (i = 0; i < nkeys; i++)
	{
		RingPlace	a;
		RingPlace	b;
		uint32_t	position = test_hash(from->hash,
										 test_format("user:%u", i));

		if (!diff_moves(from, to, position, &a, &b))
			continue;
		counts.moved++;
		if (a.group < LENGTH(counts.from))
			counts.from[a.group]++;
		if (only_to != NULL)
			assert_true(test_is(to->groups[b.group].name, only_to));
	}
	return counts;
}

/*
 * The line of a plan between two shards, of which there must be one.
 */
static const DiffMove *
move_between(const DiffPlan *plan, uint32_t from_shard, uint32_t to_shard)
{
	const DiffMove *found = NULL;
	uint32_t	i;

	for (i = 0; i < plan->nmoves; i++)
	{
		if (plan->moves[i].from_shard != from_shard ||
			plan->moves[i].to_shard != to_shard)
			continue;
		assert_null(found);
		found = &plan->moves[i];
	}
	assert_non_null(found);
	return found;
}

/*
 * A ring of one group with all of the circle.
 */
static TestRing *
one_group(uint32_t slots)
{
	TestRing   *ring = test_ring(HASH_MD5);

	test_add(ring, "g", slots);
	assert_int_equal(test_points(ring, "g", 3), RING_OK);
	return ring;
}

/*
 * B45: a fourth group joins.
 */
static void
lists_a_joining_group(void **state)
{
	Ring	   *v1 = test_build(test_ring_of(160, "node-a", "node-b", "node-c",
											 NULL));
	Ring	   *v2 = test_build(test_ring_of(160, "node-a", "node-b", "node-c",
											 "node-d", NULL));
	DiffList   *list = list_of(v1, v2, DIFF_GROUPS);
	Counts		counts = count_users(v1, v2, 10000, "node-d");
	char	   *text = describe(v1, v2);
	const char *last = "4260165731..4261194115 node-c node-d\n";

	(void) state;
	assert_int_equal(list->nsegments, 113);
	assert_int_equal(positions_of(list), 1130545163);
	assert_int_equal(list->npairs, 3);
	assert_int_equal(list->pairs[0].n, 36);
	assert_int_equal(list->pairs[1].n, 43);
	assert_int_equal(list->pairs[2].n, 34);
	assert_memory_equal(text, "87699965..113126596 node-a node-d\n", 34);
	assert_string_equal(text + strlen(text) - strlen(last), last);
	assert_int_equal(counts.moved, 2614);
	assert_int_equal(counts.from[0], 709);
	assert_int_equal(counts.from[1], 1043);
	assert_int_equal(counts.from[2], 862);
}

/*
 * B17: a weight is raised, and lowered again.
 */
static void
lists_a_changed_weight(void **state)
{
	TestRing   *model = test_ring_of(160, "node-a", "node-b", "node-c", NULL);
	Ring	   *v1 = test_build(model);
	Ring	   *v2;
	Counts		counts;
	DiffList   *list;

	(void) state;
	assert_int_equal(test_points(model, "node-b", 320), RING_OK);
	v2 = test_build(model);
	list = list_of(v1, v2, DIFF_GROUPS);
	assert_int_equal(list->nsegments, 82);
	assert_int_equal(positions_of(list), 725469580);
	counts = count_users(v1, v2, 10000, "node-b");
	assert_int_equal(counts.from[2], 978);
	assert_int_equal(counts.from[0], 708);
	assert_int_equal(counts.moved, 978 + 708);
	assert_int_equal(test_points(model, "node-b", 160), RING_OK);
	list = list_of(v2, test_build(model), DIFF_GROUPS);
	assert_int_equal(list->nsegments, 82);
	assert_int_equal(positions_of(list), 725469580);
	assert_int_equal(list_of(v1, test_build(model), DIFF_GROUPS)->nsegments,
					 0);
}

/*
 * B21: another name is another group.
 */
static void
lists_a_rename_in_full(void **state)
{
	Ring	   *v1 = test_build(test_ring_of(160, "node-a", "node-b", "node-c",
											 NULL));
	Ring	   *v2 = test_build(test_ring_of(160, "node-a", "node-B", "node-c",
											 NULL));
	DiffList   *list = list_of(v1, v2, DIFF_GROUPS);

	(void) state;
	assert_int_equal(list->nsegments, 220);
	assert_true(positions_of(list) == 2311318159);
}

/*
 * B03 and 2.5: what the order of joining makes of colliding points.
 */
static void
lists_what_order_changes(void **state)
{
	static const struct
	{
		const char *names[3];
		const char *text;
	}			v[] = {
		{{"pg-1", "pg-89", "pg-97"},
			"184287096..199427115 pg-97 pg-89\n"
			"3752378228..3766252915 pg-89 pg-97\n"},
		{{"node1", "node356", "node380"},
			"423843669..427355985 node380 node356\n"
			"544080568..553273401 node356 node380\n"},
		{{"db1", "db712", "db732"},
			"1290762076..1299208989 db732 db712\n"
			"2231789208..2245800522 db732 db712\n"
			"2490241675..2490588315 db712 db732\n"},
		{{"group-1", "group-309", "group-317"},
			"2584135510..2592291438 group-309 group-317\n"},
		{{"mid-1", "alpha-4", "Zeta-646"},
			"3168555419..3195943442 alpha-4 Zeta-646\n"
			"3275758266..3287102293 Zeta-646 mid-1\n"}
	};
	size_t		i;

	(void) state;
	for (i = 0; i < LENGTH(v); i++)
	{
		const char *const *n = v[i].names;

		Ring	   *one = test_build(test_ring_of(160, n[0], n[1], n[2],
												  NULL));
		Ring	   *other = test_build(test_ring_of(160, n[0], n[2], n[1],
													NULL));

		assert_string_equal(describe(one, other), v[i].text);
	}
	assert_string_equal(describe(test_build(test_ring_of(160, "pg-89",
														 "pg-97", NULL)),
								 test_build(test_ring_of(160, "pg-97",
														 "pg-89", NULL))),
						"184287096..199427115 pg-97 pg-89\n"
						"3752378228..3766252915 pg-89 pg-97\n");
}

/*
 * B08: a group that left and came back changes nothing: not with its stored
 * points, nor with points chosen anew, because those of the others stayed.
 */
static void
lists_a_return(void **state)
{
	TestRing   *first = test_ring_of(160, "db1", "db712", "db732", NULL);
	TestRing   *back = test_copy(first);
	TestGroup	left = *test_group(first, "db712");

	(void) state;
	test_remove(back, "db712");
	assert_string_not_equal(describe(test_build(first), test_build(back)),
							"");
	back->groups[back->ngroups++] = left;
	assert_string_equal(describe(test_build(first), test_build(back)), "");
	test_remove(back, "db712");
	test_add(back, "db712", 1);
	assert_int_equal(test_points(back, "db712", 160), RING_OK);
	assert_string_equal(describe(test_build(first), test_build(back)), "");
}

/*
 * From 8 to 9 groups a tenth moves, all of it to the new one; by modulo nine
 * tenths do.
 */
static void
moves_a_tenth(void **state)
{
	TestRing   *eight = test_ring(HASH_MD5);
	TestRing   *nine;
	TestRing   *modulo_eight = one_group(8);
	TestRing   *modulo_nine = one_group(9);
	uint32_t	i;

	(void) state;
	for (i = 0; i < 8; i++)
	{
		const char *name = test_format("node-%u", i);

		test_add(eight, name, 1);
		assert_int_equal(test_points(eight, name, 160), RING_OK);
	}
	nine = test_copy(eight);
	test_add(nine, "node-8", 1);
	assert_int_equal(test_points(nine, "node-8", 160), RING_OK);
	assert_int_equal(count_users(test_build(eight), test_build(nine), 20000,
								 "node-8").moved, 2041);	/* 10.205 % */
	for (i = 0; i < 9; i++)
	{
		const char *shard = test_format("shard-%u", i);

		if (i < 8)
			modulo_eight->groups[0].shards[i] = shard;
		modulo_nine->groups[0].shards[i] = shard;
	}
	assert_int_equal(count_users(test_build(modulo_eight),
								 test_build(modulo_nine), 20000, NULL).moved,
					 17769);	/* 88.845 % */
}

/*
 * B37: what another number of slots costs, a shard for every slot.
 */
static void
prices_another_modulus(void **state)
{
	static const uint32_t v[][3] = {
		{16, 17, 9436}, {4, 8, 4996}, {16, 32, 4967}
	};
	uint32_t	i;
	uint32_t	s;

	(void) state;
	for (i = 0; i < LENGTH(v); i++)
	{
		TestRing   *from = one_group(v[i][0]);
		TestRing   *to = one_group(v[i][1]);

		for (s = 0; s < v[i][1]; s++)
		{
			to->groups[0].shards[s] = test_format("s%u", s);
			if (s < v[i][0])
				from->groups[0].shards[s] = to->groups[0].shards[s];
		}
		assert_int_equal(count_users(test_build(from), test_build(to), 10000,
									 NULL).moved, v[i][2]);
	}
}

/*
 * 2^32 is 6 * 715827882 + 4, so residues 0 to 3 of 6 have one position more.
 */
static void
plans_other_slot_counts(void **state)
{
	TestRing   *from = one_group(2);
	TestRing   *to = one_group(3);
	DiffPlan   *plan;

	(void) state;
	from->groups[0].shards[0] = to->groups[0].shards[0] = "x";
	from->groups[0].shards[1] = to->groups[0].shards[1] = "y";
	to->groups[0].shards[2] = "z";
	plan = plan_of(from, to);
	assert_int_equal(plan->list.npairs, 1);
	assert_int_equal(plan->nmoves, 4);
	assert_int_equal(move_between(plan, 0, 1)->positions, 715827882);
	assert_int_equal(move_between(plan, 0, 2)->positions, 715827883);
	assert_int_equal(move_between(plan, 1, 0)->positions, 715827883);
	assert_int_equal(move_between(plan, 1, 2)->positions, 715827882);
	assert_int_equal(plan->moves[0].nfrom_slots, 1);
	assert_int_equal(plan->moves[0].from_slots[0].lo, 0);
	assert_int_equal(plan->moves[0].from_slots[0].hi, 1);
	assert_int_equal(plan->moves[0].nto_slots, 1);
	assert_int_equal(plan->moves[0].to_slots[0].lo, 1);
	assert_int_equal(plan->moves[0].to_slots[0].hi, 2);
}

/*
 * The largest cycle there is, 65536 * 65535, against segments that are longer
 * still: all positions.  Slots 0 to 32767 of the first are on x, slots 0 to
 * 32766 of the second too.
 */
static void
plans_the_longest_cycle(void **state)
{
	TestRing   *from = one_group(65536);
	TestRing   *to = one_group(65535);
	DiffPlan   *plan;
	uint64_t	x_to_y = 0;
	uint64_t	y_to_x = 0;
	uint32_t	turn;

	(void) state;
	test_assign(&from->groups[0], 0, 32768, "x");
	test_assign(&from->groups[0], 32768, 65536, "y");
	test_assign(&to->groups[0], 0, 32767, "x");
	test_assign(&to->groups[0], 32767, 65535, "y");
	plan = plan_of(from, to);

	/*
	 * Turn t of the first group begins at slot t % 65535 of the second; so at
	 * how many slots of the turn is the first on x and the second on y?
	 */
	for (turn = 0; turn < 65536; turn++)
	{
		uint32_t	slot = turn % 65535;
		uint32_t	both = 0;	/* on x in both, in this turn */
		uint32_t	second = 0; /* on x in the second, in this turn */

		/* the second is on x in [0, 32767), again in [65535, 98302) */
		if (slot < 32767)
			both += 32767 - slot, second += 32767 - slot;
		if (slot + 32768 > 65535)
			both += slot + 32768 - 65535;
		if (slot + 65536 > 65535)
			second += (slot + 65536 < 98302 ? slot + 65536 : 98302) - 65535;
		x_to_y += 32768 - both;
		y_to_x += second - both;
	}
	assert_int_equal(plan->nmoves, 2);
	assert_true(move_between(plan, 0, 1)->positions == x_to_y);
	assert_true(move_between(plan, 1, 0)->positions == y_to_x);
}

/*
 * Slots handed over inside a group that stays: one line, with those slots.
 */
static void
plans_handed_over_slots(void **state)
{
	TestRing   *from = one_group(16);
	TestRing   *to;
	DiffPlan   *plan;
	DiffList   *list;

	(void) state;
	test_assign(&from->groups[0], 0, 16, "a");
	to = test_copy(from);
	test_assign(&to->groups[0], 3, 5, "b");
	test_assign(&to->groups[0], 15, 16, "b");
	list = list_of(test_build(from), test_build(to), DIFF_GROUPS);
	assert_int_equal(list->nsegments, 0);
	assert_int_equal(list->npairs, 0);
	plan = plan_of(from, to);
	assert_int_equal(plan->nmoves, 1);
	assert_int_equal(plan->moves[0].positions, RING_CIRCLE / 16 * 3);
	assert_int_equal(plan->moves[0].nfrom_slots, 2);
	assert_int_equal(plan->moves[0].nto_slots, 2);
	assert_int_equal(plan->moves[0].from_slots[0].lo, 3);
	assert_int_equal(plan->moves[0].from_slots[0].hi, 5);
	assert_int_equal(plan->moves[0].from_slots[1].lo, 15);
	assert_int_equal(plan->moves[0].from_slots[1].hi, 16);
	assert_int_equal(plan->list.pairs[0].positions, RING_CIRCLE);
	assert_int_equal(plan_of(from, from)->nmoves, 0);
	assert_int_equal(plan_of(from, from)->list.nsegments, 0);
}

/*
 * Another group on the same shard is no move; another shard in a group of
 * the same name is.
 */
static void
goes_by_the_shard(void **state)
{
	TestRing   *from = test_ring_of(10, "a", "b", NULL);
	TestRing   *to = test_ring_of(10, "a", "c", NULL);
	DiffPlan   *plan;
	uint32_t	i;

	(void) state;
	from->groups[0].shards[0] = from->groups[1].shards[0] = "same";
	to->groups[0].shards[0] = to->groups[1].shards[0] = "same";
	assert_true(list_of(test_build(from), test_build(to),
						DIFF_GROUPS)->nsegments > 0);
	assert_int_equal(plan_of(from, to)->nmoves, 0);
	assert_int_equal(count_users(test_build(from), test_build(to), 1000,
								 NULL).moved, 0);
	to->groups[0].shards[0] = to->groups[1].shards[0] = "other";
	plan = plan_of(from, to);
	assert_true(plan->nmoves > 0);
	for (i = 0; i < plan->nmoves; i++)
		assert_int_equal(plan->moves[i].positions,
						 plan->list.pairs[plan->moves[i].pair].positions);
	assert_int_equal(count_users(test_build(from), test_build(to), 1000,
								 NULL).moved, 1000);
}

/*
 * A pin moves one position.
 */
static void
plans_a_pin(void **state)
{
	TestRing   *from = test_ring_of(10, "a", NULL);
	TestRing   *to;
	DiffPlan   *plan;

	(void) state;
	test_add(from, "tenant", 1);
	to = test_copy(from);
	test_pin(to, UINT32_MAX, "tenant");
	plan = plan_of(from, to);
	assert_int_equal(plan->list.nsegments, 1);
	assert_int_equal(plan->list.segments[0].lo, UINT32_MAX);
	assert_true(plan->list.segments[0].hi == RING_CIRCLE);
	assert_int_equal(plan->nmoves, 1);
	assert_int_equal(plan->moves[0].positions, 1);
}

/*
 * Nothing is routed by a version without points, so nothing moves.
 */
static void
moves_nothing_without_points(void **state)
{
	TestRing   *empty = test_ring(HASH_MD5);
	TestRing   *full = test_ring_of(10, "a", NULL);
	Ring	   *rings[3];
	RingPlace	a;
	RingPlace	b;
	uint32_t	i;

	(void) state;
	rings[0] = test_build(empty);
	rings[1] = test_build(full);
	test_add(empty, "drained", 4);
	rings[2] = test_build(empty);
	for (i = 0; i < 9; i++)
	{
		uint64_t	shares[1] = {99};

		if (i == 4)
			continue;
		assert_int_equal(list_of(rings[i / 3], rings[i % 3],
								 DIFF_GROUPS)->nsegments, 0);
		assert_int_equal(list_of(rings[i / 3], rings[i % 3],
								 DIFF_SHARDS)->npairs, 0);
		assert_false(diff_moves(rings[i / 3], rings[i % 3], 5, &a, &b));
		assert_int_equal(a.group, RING_NONE);
		assert_int_equal(b.shard, RING_NONE);
		diff_shard_shares(rings[2], &test_env, shares);
		assert_int_equal(shares[0], 0);
	}
	assert_int_equal(plan_of(empty, full)->nmoves, 0);
	assert_int_equal(plan_of(full, empty)->nmoves, 0);
}

/*
 * A definition with a hole, compiled all the same: what is nowhere does not
 * move, and nothing is read out of bounds.
 */
static void
survives_a_hole(void **state)
{
	TestRing   *whole = one_group(4);
	RingDef    *def = test_def(whole);
	RingRange	range = {1, 3};
	RingShardDef shard = {test_name("s"), test_name("s"), 1, &range};
	RingGroupDef group = def->groups[0];
	Ring	   *holed;
	RingPlace	a;
	RingPlace	b;
	DiffPlan	plan;
	uint64_t	share;

	(void) state;
	group.nshards = 1;
	group.shards = &shard;
	def->groups = &group;
	holed = ring_build(def, &test_env);
	diff_plan(holed, test_build(whole), &test_env, &plan);
	assert_int_equal(plan.nmoves, 1);
	assert_int_equal(plan.moves[0].positions, RING_CIRCLE / 2);
	diff_plan(test_build(whole), holed, &test_env, &plan);
	assert_int_equal(plan.nmoves, 1);
	assert_false(diff_moves(holed, test_build(whole), 4, &a, &b));
	assert_int_equal(a.shard, RING_NONE);
	assert_true(diff_moves(holed, test_build(whole), 5, &a, &b));
	diff_shard_shares(holed, &test_env, &share);
	assert_int_equal(share, RING_CIRCLE / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists_a_joining_group),
		TEST(lists_a_changed_weight),
		TEST(lists_a_rename_in_full),
		TEST(lists_what_order_changes),
		TEST(lists_a_return),
		TEST(moves_a_tenth),
		TEST(prices_another_modulus),
		TEST(plans_other_slot_counts),
		TEST(plans_the_longest_cycle),
		TEST(plans_handed_over_slots),
		TEST(goes_by_the_shard),
		TEST(plans_a_pin),
		TEST(moves_nothing_without_points),
		TEST(survives_a_hole)
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
