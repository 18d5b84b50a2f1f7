/*
 * test_diff.c
 *		Where two rings differ and which keys move, against published cases (B
 *		and a number).
 */
#include "support.h"

#include <stdio.h>

typedef struct Counts
{
	uint32_t	moved;
	uint32_t	from[3];
} Counts;

/*
 * "lo..hi from to", both ends inclusive, by position.
 */
static char *
describe(const Ring *from, const Ring *to)
{
	DiffList   *list = test_list(from, to, DIFF_GROUPS);
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
 * B45: a fourth group joins.
 */
static void
lists_a_joining_group(void **state)
{
	Ring	   *v1 = test_build(test_ring_of(160, "node-a", "node-b", "node-c",
											 NULL));
	Ring	   *v2 = test_build(test_ring_of(160, "node-a", "node-b", "node-c",
											 "node-d", NULL));
	DiffList   *list = test_list(v1, v2, DIFF_GROUPS);
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
	list = test_list(v1, v2, DIFF_GROUPS);
	assert_int_equal(list->nsegments, 82);
	assert_int_equal(positions_of(list), 725469580);
	counts = count_users(v1, v2, 10000, "node-b");
	assert_int_equal(counts.from[2], 978);
	assert_int_equal(counts.from[0], 708);
	assert_int_equal(counts.moved, 978 + 708);
	assert_int_equal(test_points(model, "node-b", 160), RING_OK);
	list = test_list(v2, test_build(model), DIFF_GROUPS);
	assert_int_equal(list->nsegments, 82);
	assert_int_equal(positions_of(list), 725469580);
	assert_int_equal(test_list(v1, test_build(model), DIFF_GROUPS)->nsegments,
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
	DiffList   *list = test_list(v1, v2, DIFF_GROUPS);

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
	TestRing   *modulo_eight = test_one_group(8);
	TestRing   *modulo_nine = test_one_group(9);
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
		TestRing   *from = test_one_group(v[i][0]);
		TestRing   *to = test_one_group(v[i][1]);

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
 * Two large rings that have nothing in common: the walk along both pauses.
 */
static void
walks_large_rings(void **state)
{
	Ring	   *v1 = test_build(test_ring_of(40000, "a", "b", NULL));
	Ring	   *v2 = test_build(test_ring_of(40000, "c", "d", NULL));
	uint64_t	pauses = test_pauses;
	DiffList   *list = test_list(v1, v2, DIFF_GROUPS);

	(void) state;
	assert_true(test_pauses > pauses);
	assert_int_equal(list->npairs, 4);
	assert_true(positions_of(list) == RING_CIRCLE);
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
		TEST(walks_large_rings)
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
