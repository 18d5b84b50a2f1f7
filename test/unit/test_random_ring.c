/*
 * test_random_ring.c
 *		Random rings held against the model, and definitions that break the
 *		rules.
 *
 * SEED repeats a run, ROUNDS makes it longer.
 */
#include "support.h"

/*
 * The positions of every group and shard of a ring, by its arcs.
 */
static void
check_ring_shares(const TestRing *model, const Ring *ring)
{
	uint64_t   *shards = test_alloc((ring->nshards + 1) * sizeof(uint64_t));
	uint64_t   *groups = test_alloc((ring->ngroups + 1) * sizeof(uint64_t));
	uint64_t	lo = 0;
	uint32_t	i;
	uint32_t	s;
	uint32_t	g;

	if (ring->arcs.n == 0)
		return;
	diff_shard_shares(ring, &test_env, shards);
	ring_shares(&ring->arcs, ring->ngroups, groups);
	for (i = 0; i < ring->arcs.n; i++)
	{
		uint64_t	hi = (uint64_t) ring->arcs.ends[i] + 1;
		const TestGroup *group = test_locate(model, (uint32_t) lo).group;

		groups[ring->arcs.owners[i]] -= hi - lo;
		for (s = 0; s < group->slots; s++)
		{
			uint64_t	n = test_count_rest(hi, group->slots, s) -
				test_count_rest(lo, group->slots, s);
			uint32_t	k = 0;

			while (!test_is(ring->shards[k], group->shards[s]))
				k++;
			shards[k] -= n;
		}
		lo = hi;
	}
	for (g = 0; g < ring->ngroups; g++)
		assert_true(groups[g] == 0);
	for (s = 0; s < ring->nshards; s++)
		assert_true(shards[s] == 0);
}

static void
check_ring_arcs(const RingArcs *arcs)
{
	uint32_t	i;

	assert_int_equal(arcs->ends[arcs->n - 1], UINT32_MAX);
	for (i = 1; i < arcs->n; i++)
	{
		assert_true(arcs->ends[i - 1] < arcs->ends[i]);
		assert_int_not_equal(arcs->owners[i - 1], arcs->owners[i]);
	}
}

static void
agrees_on_places(void **state)
{
	uint32_t	rounds = test_rounds(200);
	uint32_t	round;
	uint32_t	i;
	uint32_t	d;

	test_seed();
	for (round = 0; round < rounds; round++)
	{
		TestRing   *model = test_any_ring(test_random(2) == 0);
		Ring	   *ring = test_build(model);

		check_ring_arcs(&ring->arcs);
		check_ring_arcs(&ring->plain);
		for (i = 0; i < ring->arcs.n; i++)
			for (d = 0; d < 3; d++)
				test_check_place(model, ring, ring->arcs.ends[i] + d - 1);
		for (i = 0; i < ring->plain.n; i++)
			test_check_place(model, ring, ring->plain.ends[i]);
		for (i = 0; i < model->npins; i++)
			for (d = 0; d < 3; d++)
				test_check_place(model, ring, model->pins[i].position + d - 1);
		for (i = 0; i < 100; i++)
			test_check_place(model, ring, test_random32());
		for (i = 0; i < 100; i++)
			test_check_place(model, ring,
						UINT32_C(2999999900) + test_random(3200));
		check_ring_shares(model, ring);
		test_teardown(state);
	}
}

static bool
ignore_report(void *arg, const char *problem)
{
	(void) arg;
	assert_true(strlen(problem) > 0);
	return true;
}

static RingGroupDef *
spoil_group(const RingGroupDef *group)
{
	RingGroupDef *spoilt = test_alloc(sizeof(RingGroupDef));
	RingShardDef *shards;
	uint32_t	s;
	uint32_t	r;

	*spoilt = *group;
	shards = test_alloc((group->nshards + 1) * sizeof(RingShardDef));
	for (s = 0; s < group->nshards; s++)
	{
		uint32_t	n = group->shards[s].nranges;
		RingRange  *ranges = test_alloc((n + 1) * sizeof(RingRange));

		shards[s] = group->shards[s];
		memcpy(ranges, shards[s].ranges, n * sizeof(RingRange));
		shards[s].ranges = ranges;
		for (r = 0; r < n; r++)
		{
			if (test_random(4) == 0)
				ranges[r].lo = test_random(group->slots + 5);
			if (test_random(4) == 0)
				ranges[r].hi = (test_random(4) == 0) ? test_random32() :
					test_random(group->slots + 5);
		}
	}
	spoilt->shards = shards;
	if (test_random(4) == 0)
		spoilt->nshards = test_random(group->nshards + 1);
	if (test_random(8) == 0)
		spoilt->slots = test_random(3) * test_random32();
	return spoilt;
}

static RingDef *
spoil(const RingDef *def)
{
	RingDef    *spoilt = test_alloc(sizeof(RingDef));
	RingGroupDef *groups = test_alloc(64 * sizeof(RingGroupDef));
	RingPinDef *pins = test_alloc(64 * sizeof(RingPinDef));
	uint32_t	i;

	*spoilt = *def;
	for (i = 0; i < def->ngroups; i++)
	{
		uint32_t	other = test_random(def->ngroups);

		groups[i] = *spoil_group(&def->groups[test_random(3) > 0 ? i : other]);
	}
	for (i = 0; i < def->npins; i++)
	{
		pins[i] = def->pins[test_random(def->npins)];
		if (test_random(3) == 0)
			pins[i].group = test_random(def->ngroups + 2);
	}
	spoilt->groups = groups;
	spoilt->pins = pins;
	return spoilt;
}

/*
 * Whatever a definition says, it is compiled, compared and asked without
 * reading or writing out of bounds; and what is accepted has no hole.
 */
static void
survives_broken_rules(void **state)
{
	uint32_t	rounds = test_rounds(200);
	uint32_t	accepted = 0;
	uint32_t	round;
	uint32_t	i;

	test_seed();
	for (round = 0; round < rounds; round++)
	{
		TestRing   *model = test_any_ring(true);
		RingDef    *def = spoil(test_def(model));
		bool		sound = check_structure(def, &test_env, ignore_report,
											NULL);
		Ring	   *ring = ring_build(def, &test_env);
		Ring	   *other = test_build(model);
		char		hex[65];

		accepted += sound;
		if (ring->arcs.n > 0)
			check_ring_arcs(&ring->arcs);
		assert_true(fingerprint_hex(def, hex));
		for (i = 0; ring->arcs.n > 0 && i < 1000; i++)
		{
			RingPlace	a;
			RingPlace	b;

			diff_moves(ring, other, UINT32_C(2999999000) + test_random(5000),
					   &a, &b);
			assert_true(a.group < ring->ngroups);
			assert_true(a.shard < ring->nshards ||
						(!sound && a.shard == RING_NONE));
		}
		for (i = 0; i < ring->ngroups; i++)
			if (ring->groups[i].slots > 100000)
				ring->groups[i].nruns = 1;	/* or it takes too long */
		if (ring->arcs.n > 0)
		{
			DiffPlan	plan;
			uint64_t   *shares;

			shares = test_alloc((ring->nshards + 1) * sizeof(uint64_t));
			diff_plan(ring, other, &test_env, &plan);
			diff_plan(other, ring, &test_env, &plan);
			diff_shard_shares(ring, &test_env, shares);
		}
		test_teardown(state);
	}
	if (rounds >= 100)
		assert_true(accepted >= 1 && accepted <= rounds - 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(agrees_on_places),
		TEST(survives_broken_rules)
	};

	return cmocka_run_group_tests_name("random ring", tests, NULL, NULL);
}
