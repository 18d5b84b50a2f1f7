/*
 * test_plan.c
 *		Plans that can be computed by hand.
 */
#include "support.h"

static DiffPlan *
plan_of(const TestRing *from, const TestRing *to)
{
	DiffPlan   *plan = test_alloc(sizeof(DiffPlan));

	diff_plan(test_build(from), test_build(to), &test_env, plan);
	return plan;
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
 * 2^32 is 6 * 715827882 + 4, so residues 0 to 3 of 6 have one position more.
 */
static void
plans_other_slot_counts(void **state)
{
	TestRing   *from = test_one_group(2);
	TestRing   *to = test_one_group(3);
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
	TestRing   *from = test_one_group(65536);
	TestRing   *to = test_one_group(65535);
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
	TestRing   *from = test_one_group(16);
	TestRing   *to;
	DiffPlan   *plan;
	DiffList   *list;

	(void) state;
	test_assign(&from->groups[0], 0, 16, "a");
	to = test_copy(from);
	test_assign(&to->groups[0], 3, 5, "b");
	test_assign(&to->groups[0], 15, 16, "b");
	list = test_list(test_build(from), test_build(to), DIFF_GROUPS);
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
	RingPlace	a;
	RingPlace	b;
	uint32_t	i;

	(void) state;
	from->groups[0].shards[0] = from->groups[1].shards[0] = "same";
	to->groups[0].shards[0] = to->groups[1].shards[0] = "same";
	assert_true(test_list(test_build(from), test_build(to),
						DIFF_GROUPS)->nsegments > 0);
	assert_int_equal(plan_of(from, to)->nmoves, 0);
	assert_false(diff_moves(test_build(from), test_build(to), 5, &a, &b));
	to->groups[0].shards[0] = to->groups[1].shards[0] = "other";
	plan = plan_of(from, to);
	assert_true(plan->nmoves > 0);
	for (i = 0; i < plan->nmoves; i++)
		assert_int_equal(plan->moves[i].positions,
						 plan->list.pairs[plan->moves[i].pair].positions);
	assert_true(diff_moves(test_build(from), test_build(to), 5, &a, &b));
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
		assert_int_equal(test_list(rings[i / 3], rings[i % 3],
								 DIFF_GROUPS)->nsegments, 0);
		assert_int_equal(test_list(rings[i / 3], rings[i % 3],
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
	TestRing   *whole = test_one_group(4);
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
		TEST(plans_other_slot_counts),
		TEST(plans_the_longest_cycle),
		TEST(plans_handed_over_slots),
		TEST(goes_by_the_shard),
		TEST(plans_a_pin),
		TEST(moves_nothing_without_points),
		TEST(survives_a_hole)
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
