/*
 * test_random_diff.c
 *		Random pairs of rings, held against the model.
 *
 * SEED repeats a run, ROUNDS makes it longer.  What the counts of a plan are
 * held against:
 *	- pairs of few positions: every position is located in both models;
 *	- pairs of a short cycle: every residue of it is counted by division;
 *	- all: what a shard has, less what leaves it, with what comes to it, is
 *	  what it has afterwards; and what it has is counted by division too, in
 *	  test_random_ring.c.
 */
#include "support.h"

#define FEW_POSITIONS	20000
#define SHORT_CYCLE		20000
#define MAX_CELLS		4096

/* Two models and all that was computed from them. */
typedef struct Subject
{
	const TestRing *from_model;
	const TestRing *to_model;
	Ring	   *from;
	Ring	   *to;
	DiffList	groups;
	DiffPlan	plan;
} Subject;

typedef struct Cell
{
	const char *from_shard;
	const char *to_shard;
	uint64_t	positions;
} Cell;

typedef struct Cells
{
	uint32_t	n;
	Cell		cells[MAX_CELLS];
} Cells;

/* which checks had something to do, so that none is idle without notice */
static uint32_t enumerated = 0;
static uint32_t divided = 0;

/*
 * Usually a later version of the first, sometimes a stranger.
 */
static void
any_subject(Subject *subject)
{
	bool		close = test_random(2) == 0;
	TestRing   *from = test_any_ring(close);
	TestRing   *to = test_copy(from);
	uint32_t	steps = test_random(6);

	while (steps-- > 0)
		test_change(to, close);
	if (test_random(8) == 0)
		to = test_any_ring(close);
	subject->from_model = from;
	subject->to_model = to;
	subject->from = test_build(from);
	subject->to = test_build(to);
	diff_list(subject->from, subject->to, DIFF_GROUPS, &test_env,
			  &subject->groups);
	diff_plan(subject->from, subject->to, &test_env, &subject->plan);
}

static bool
same_name(RingName a, RingName b)
{
	return ring_name_compare(a, b) == 0;
}

/*
 * How often a position is in the list, and in which pair last.
 */
static uint32_t
find_position(const DiffList *list, uint32_t position, uint32_t *pair)
{
	uint32_t	n = 0;
	uint32_t	p;
	uint32_t	i;

	for (p = 0; p < list->npairs; p++)
	{
		for (i = 0; i < list->pairs[p].n; i++)
		{
			const DiffSegment *s = &list->segments[list->pairs[p].first + i];

			if (s->lo <= position && position < s->hi)
			{
				*pair = p;
				n++;
			}
		}
	}
	return n;
}

static bool
in_slots(const RingRange *slots, uint32_t n, uint32_t slot)
{
	uint32_t	i;

	for (i = 0; i < n; i++)
		if (slots[i].lo <= slot && slot < slots[i].hi)
			return true;
	return false;
}

/*
 * What list, plan and diff_moves say of one position is what the models say.
 */
static void
check_position(const Subject *s, uint32_t position)
{
	TestPlace	a = test_locate(s->from_model, position);
	TestPlace	b = test_locate(s->to_model, position);
	bool		other_group = strcmp(a.group->name, b.group->name) != 0;
	bool		moves = strcmp(a.shard, b.shard) != 0;
	uint32_t	lines = 0;
	uint32_t	pair = 0;
	uint32_t	i;
	RingPlace	from;
	RingPlace	to;

	assert_int_equal(find_position(&s->groups, position, &pair), other_group);
	if (other_group)
	{
		const DiffPair *p = &s->groups.pairs[pair];

		assert_true(test_is(s->from->groups[p->from_group].utf8,
							a.group->name));
		assert_true(test_is(s->to->groups[p->to_group].utf8, b.group->name));
	}
	assert_int_equal(diff_moves(s->from, s->to, position, &from, &to), moves);
	assert_int_equal(from.slot, a.slot);
	assert_int_equal(to.slot, b.slot);
	if (find_position(&s->plan.list, position, &pair) == 0)
	{
		assert_false(moves);
		return;
	}
	for (i = 0; i < s->plan.nmoves; i++)
	{
		const DiffMove *m = &s->plan.moves[i];

		if (m->pair != pair ||
			!in_slots(m->from_slots, m->nfrom_slots, a.slot) ||
			!in_slots(m->to_slots, m->nto_slots, b.slot))
			continue;
		lines++;
		assert_int_equal(m->from_shard, from.shard);
		assert_int_equal(m->to_shard, to.shard);
	}
	assert_int_equal(lines, moves);
}

/*
 * At every boundary of either ring, and anywhere.
 */
static void
check_positions(const Subject *s)
{
	const RingArcs *arcs[2] = {&s->from->arcs, &s->to->arcs};
	uint32_t	r;
	uint32_t	i;
	uint32_t	d;

	for (r = 0; r < 2; r++)
		for (i = 0; i < arcs[r]->n; i++)
			for (d = 0; d < 3; d++)
				check_position(s, arcs[r]->ends[i] + d - 1);
	for (i = 0; i < 50; i++)
		check_position(s, test_random32());
	for (i = 0; i < 50; i++)
		check_position(s, UINT32_C(2999999900) + test_random(3200));
}

/*
 * A list is in its order, its pairs are its segments, and no two segments
 * that touch are of one pair.
 */
static void
check_list(const DiffList *list)
{
	uint32_t	n = 0;
	uint32_t	p;
	uint32_t	i;

	for (p = 0; p < list->npairs; p++)
	{
		const DiffPair *pair = &list->pairs[p];
		uint64_t	sum = 0;

		if (p > 0)
			assert_true(pair[-1].from_group < pair->from_group ||
						(pair[-1].from_group == pair->from_group &&
						 pair[-1].to_group < pair->to_group));
		assert_int_equal(pair->first, n);
		assert_true(pair->n > 0);
		for (i = 0; i < pair->n; i++, n++)
		{
			const DiffSegment *s = &list->segments[n];

			assert_int_equal(s->from_group, pair->from_group);
			assert_int_equal(s->to_group, pair->to_group);
			assert_true(s->lo < s->hi && s->hi <= RING_CIRCLE);
			if (i > 0)
				assert_true(s[-1].hi < s->lo);
			sum += s->hi - s->lo;
		}
		assert_true(sum == pair->positions);
	}
	assert_int_equal(n, list->nsegments);
}

static void
check_slots(const RingRange *slots, uint32_t n, uint32_t count)
{
	uint32_t	i;

	assert_true(n > 0);
	assert_true(slots[n - 1].hi <= count);
	for (i = 0; i < n; i++)
	{
		assert_true(slots[i].lo < slots[i].hi);
		if (i > 0)
			assert_true(slots[i - 1].hi < slots[i].lo);
	}
}

static void
check_plan(const Subject *s)
{
	uint32_t	i;

	for (i = 0; i < s->plan.nmoves; i++)
	{
		const DiffMove *m = &s->plan.moves[i];
		const DiffPair *pair = &s->plan.list.pairs[m->pair];
		const RingGroup *a = &s->from->groups[pair->from_group];
		const RingGroup *b = &s->to->groups[pair->to_group];

		check_slots(m->from_slots, m->nfrom_slots, a->slots);
		check_slots(m->to_slots, m->nto_slots, b->slots);
		if (a->slots == b->slots)
			assert_ptr_equal(m->from_slots, m->to_slots);
		assert_true(m->positions > 0);
		if (i > 0)
			assert_true(m[-1].pair < m->pair ||
						(m[-1].pair == m->pair &&
						 (m[-1].from_shard < m->from_shard ||
						  (m[-1].from_shard == m->from_shard &&
						   m[-1].to_shard < m->to_shard))));
	}
}

static void
add_cell(Cells *cells, const char *from_shard, const char *to_shard,
		 uint64_t positions)
{
	uint32_t	i;

	if (strcmp(from_shard, to_shard) == 0 || positions == 0)
		return;
	for (i = 0; i < cells->n; i++)
		if (strcmp(cells->cells[i].from_shard, from_shard) == 0 &&
			strcmp(cells->cells[i].to_shard, to_shard) == 0)
			break;
	if (i == cells->n)
	{
		assert_true(cells->n++ < MAX_CELLS);
		cells->cells[i] = (Cell) {from_shard, to_shard, 0};
	}
	cells->cells[i].positions += positions;
}

/*
 * The lines of a pair are these cells.
 */
static void
check_cells(const Subject *s, uint32_t pair, const Cells *cells)
{
	uint32_t	lines = 0;
	uint32_t	i;
	uint32_t	c;

	for (i = 0; i < s->plan.nmoves; i++)
	{
		const DiffMove *m = &s->plan.moves[i];

		if (m->pair != pair)
			continue;
		for (c = 0; c < cells->n; c++)
			if (test_is(s->from->shards[m->from_shard],
						cells->cells[c].from_shard) &&
				test_is(s->to->shards[m->to_shard],
						cells->cells[c].to_shard))
				break;
		assert_true(c < cells->n);
		assert_true(m->positions == cells->cells[c].positions);
		lines++;
	}
	assert_int_equal(lines, cells->n);
}

static void
enumerate_pair(const Subject *s, uint32_t pair)
{
	const DiffPair *p = &s->plan.list.pairs[pair];
	Cells	   *cells = test_alloc(sizeof(Cells));
	uint64_t	position;
	uint32_t	i;

	cells->n = 0;
	for (i = 0; i < p->n; i++)
	{
		const DiffSegment *segment = &s->plan.list.segments[p->first + i];

		for (position = segment->lo; position < segment->hi; position++)
			add_cell(cells,
					 test_locate(s->from_model, (uint32_t) position).shard,
					 test_locate(s->to_model, (uint32_t) position).shard, 1);
	}
	check_cells(s, pair, cells);
	enumerated++;
}

static void
divide_pair(const Subject *s, uint32_t pair, uint64_t cycle)
{
	const DiffPair *p = &s->plan.list.pairs[pair];
	const DiffSegment *segments = &s->plan.list.segments[p->first];
	const TestGroup *a;
	const TestGroup *b;
	Cells	   *cells = test_alloc(sizeof(Cells));
	uint64_t	rest;
	uint32_t	i;

	a = test_locate(s->from_model, (uint32_t) segments[0].lo).group;
	b = test_locate(s->to_model, (uint32_t) segments[0].lo).group;
	cells->n = 0;
	for (rest = 0; rest < cycle; rest++)
		for (i = 0; i < p->n; i++)
			add_cell(cells, a->shards[rest % a->slots],
					 b->shards[rest % b->slots],
					 test_count_rest(segments[i].hi, cycle, rest) -
					 test_count_rest(segments[i].lo, cycle, rest));
	check_cells(s, pair, cells);
	divided++;
}

static uint64_t
cycle_of(uint32_t a, uint32_t b)
{
	uint64_t	cycle = a;

	while (cycle % b != 0)
		cycle += a;
	return cycle;
}

static void
check_counts(const Subject *s)
{
	uint32_t	p;

	for (p = 0; p < s->plan.list.npairs; p++)
	{
		const DiffPair *pair = &s->plan.list.pairs[p];
		uint64_t	cycle;

		cycle = cycle_of(s->from->groups[pair->from_group].slots,
						 s->to->groups[pair->to_group].slots);
		if (pair->positions <= FEW_POSITIONS)
			enumerate_pair(s, p);
		if (cycle * pair->n <= SHORT_CYCLE)
			divide_pair(s, p, cycle);
	}
}

/*
 * What every shard gains and loses explains the difference.
 */
static void
check_balance(const Subject *s)
{
	uint64_t   *from;
	uint64_t   *to;
	uint32_t	i;
	uint32_t	k;

	from = test_alloc((s->from->nshards + 1) * sizeof(uint64_t));
	to = test_alloc((s->to->nshards + 1) * sizeof(uint64_t));
	diff_shard_shares(s->from, &test_env, from);
	diff_shard_shares(s->to, &test_env, to);
	for (i = 0; i < s->plan.nmoves; i++)
	{
		from[s->plan.moves[i].from_shard] -= s->plan.moves[i].positions;
		to[s->plan.moves[i].to_shard] -= s->plan.moves[i].positions;
	}
	for (i = 0; i < s->from->nshards; i++)
	{
		for (k = 0; k < s->to->nshards; k++)
			if (same_name(s->from->shards[i], s->to->shards[k]))
				break;
		assert_true(from[i] == (k < s->to->nshards ? to[k] : 0));
		if (k < s->to->nshards)
			to[k] = 0;
	}
	for (k = 0; k < s->to->nshards; k++)
		assert_true(to[k] == 0);
}

/*
 * The way back is the same with both sides exchanged.
 */
static void
check_mirror(const Subject *s)
{
	DiffPlan	back;
	uint32_t	i;
	uint32_t	k;

	diff_plan(s->to, s->from, &test_env, &back);
	assert_int_equal(back.list.nsegments, s->plan.list.nsegments);
	assert_int_equal(back.nmoves, s->plan.nmoves);
	for (i = 0; i < back.nmoves; i++)
	{
		const DiffMove *m = &back.moves[i];
		const DiffPair *pair = &back.list.pairs[m->pair];

		for (k = 0; k < s->plan.nmoves; k++)
		{
			const DiffMove *n = &s->plan.moves[k];
			const DiffPair *other = &s->plan.list.pairs[n->pair];

			if (n->from_shard == m->to_shard &&
				n->to_shard == m->from_shard &&
				other->from_group == pair->to_group &&
				other->to_group == pair->from_group)
				break;
		}
		assert_true(k < s->plan.nmoves);
		assert_true(s->plan.moves[k].positions == m->positions);
		assert_int_equal(s->plan.moves[k].nfrom_slots, m->nto_slots);
		assert_memory_equal(s->plan.moves[k].from_slots, m->to_slots,
							m->nto_slots * sizeof(RingRange));
		assert_int_equal(s->plan.moves[k].nto_slots, m->nfrom_slots);
		assert_memory_equal(s->plan.moves[k].to_slots, m->from_slots,
							m->nfrom_slots * sizeof(RingRange));
	}
}

/*
 * Nothing moves from a version to itself.
 */
static void
check_identity(const Subject *s)
{
	Ring	   *again = test_build(s->from_model);
	DiffPlan	plan;
	DiffList	list;

	diff_plan(s->from, again, &test_env, &plan);
	assert_int_equal(plan.list.nsegments, 0);
	assert_int_equal(plan.nmoves, 0);
	diff_list(s->from, again, DIFF_GROUPS, &test_env, &list);
	assert_int_equal(list.nsegments, 0);
}

static void
agrees_on_moves(void **state)
{
	uint32_t	rounds = test_rounds(400);
	uint32_t	round;

	test_seed();
	for (round = 0; round < rounds; round++)
	{
		Subject		s;

		any_subject(&s);
		if (s.to->arcs.n > 0)
		{
			check_list(&s.groups);
			check_list(&s.plan.list);
			check_plan(&s);
			check_positions(&s);
			check_counts(&s);
			check_balance(&s);
			check_mirror(&s);
		}
		else
			assert_int_equal(s.plan.nmoves, 0);
		check_identity(&s);
		test_teardown(state);
	}
	if (rounds >= 100)
	{
		assert_true(enumerated > 20);
		assert_true(divided > 100);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(agrees_on_moves)
	};

	return cmocka_run_group_tests_name("random diff", tests, NULL, NULL);
}
