/*
 * test_names.c
 *		Names: their order, and the two encodings they come in.
 */
#include "support.h"

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
 * ordered and compared by their UTF-8 bytes (in this made-up encoding, "z"
 * comes before "a"); and the definition may be dropped.
 */
static void
keeps_names_in_both_encodings(void **state)
{
	char		z[] = "z";
	char		z_utf8[] = "\xc3\x84";
	char		a[] = "a";
	char		a_utf8[] = "\xc3\xa9";
	RingRange	ranges[] = {{0, 1}, {1, 2}};
	RingShardDef shards[] = {
		{{z_utf8, 2}, {z, 1}, 1, &ranges[0]},
		{{a_utf8, 2}, {a, 1}, 1, &ranges[1]}
	};
	uint32_t	point = 5;
	RingGroupDef group = {{a_utf8, 2}, {a, 1}, 2, 1, 1, &point, 2, shards};
	RingDef		def = {HASH_MD5, true, 1, &group, 0, NULL};
	Ring	   *ring = ring_build(&def, &test_env);
	Ring	   *only_a;
	DiffPlan	plan;

	(void) state;
	ranges[1].lo = 0;
	group.nshards = 1;
	group.shards = &shards[1];
	only_a = ring_build(&def, &test_env);
	z[0] = z_utf8[1] = a[0] = a_utf8[1] = '?';
	ranges[1].hi = shards[1].nranges = group.slots = point = 77;

	assert_true(ring->hash_tags);
	assert_int_equal(ring->nshards, 2);
	assert_true(test_is(ring->shards[0], "z"));
	assert_true(test_is(ring->shards[1], "a"));
	assert_true(test_is(ring->shards_utf8[0], "\xc3\x84"));
	assert_true(test_is(ring->shards_utf8[1], "\xc3\xa9"));
	assert_true(test_is(ring->groups[0].name, "a"));
	assert_true(test_is(ring->groups[0].utf8, "\xc3\xa9"));
	assert_int_equal(ring->groups[0].slots, 2);

	assert_int_equal(test_list(ring, ring, DIFF_SHARDS)->nsegments, 0);
	diff_plan(ring, only_a, &test_env, &plan);
	assert_int_equal(plan.nmoves, 1);
	assert_true(test_is(ring->shards[plan.moves[0].from_shard], "z"));
	assert_true(test_is(only_a->shards[plan.moves[0].to_shard], "a"));
	assert_int_equal(plan.moves[0].positions, RING_CIRCLE / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(orders_names_by_bytes),
		TEST(keeps_names_in_both_encodings)
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
