/*
 * diff_plan.c
 *		Two rings to the plan of what moves from shard to shard.
 *
 * Rules of this file: those of diff.c.
 */
#include "diff.h"

#include <stdlib.h>
#include <string.h>

/* Slots that move from one shard to another. */
typedef struct DiffPiece
{
	uint32_t	from_shard;
	uint32_t	to_shard;
	RingRange	slots;
} DiffPiece;

/* The runs of a group by shard, then slot. */
typedef struct DiffRuns
{
	uint32_t   *shards;
	RingRange  *slots;
} DiffRuns;

/* What is used again for every pair of groups. */
typedef struct DiffWork
{
	const Ring *from;
	const Ring *to;
	const RingEnv *env;
	uint32_t   *same_shard;		/* from-shard to to-shard, or RING_NONE */
	DiffRuns   *from_runs;		/* by group; made when needed */
	DiffRuns   *to_runs;
	uint32_t	room_pieces;
	DiffPiece  *pieces;
	uint32_t	room_moves;
} DiffWork;

static void diff_work_init(DiffWork *work, const Ring *from, const Ring *to,
						   const RingEnv *env);
static void diff_add_moves(DiffWork *work, DiffPlan *plan, uint32_t pair,
						   DiffCell *cells, uint32_t ncells);
static bool diff_is_move(const DiffWork *work, uint32_t from_shard,
						 uint32_t to_shard);
static DiffMove *diff_new_moves(DiffWork *work, DiffPlan *plan, uint32_t n);
static void diff_fill_shared_slots(DiffWork *work, const RingGroup *a,
								   const RingGroup *b, DiffMove *moves,
								   uint32_t n);
static uint32_t diff_find_shared_slots(DiffWork *work, const RingGroup *a,
									   const RingGroup *b);
static void diff_fill_own_slots(DiffWork *work, const DiffPair *pair,
								DiffMove *moves, uint32_t n);
static RingRange *diff_slots_of(const RingGroup *group, DiffRuns *runs,
								uint32_t shard, uint32_t *n,
								const RingEnv *env);
static void diff_sort_runs(const RingGroup *group, DiffRuns *runs,
						   const RingEnv *env);
static uint32_t diff_lower_bound(const uint32_t *numbers, uint32_t n,
								 uint32_t wanted);
static int	diff_compare_cells(const void *a, const void *b);
static int	diff_compare_pieces(const void *a, const void *b);

/*
 * What moves between two rings, completely.  The moves are disjoint.
 */
void
diff_plan(const Ring *from, const Ring *to, const RingEnv *env,
		  DiffPlan *plan)
{
	DiffCounter counter;
	DiffWork	work;
	uint32_t	i;

	diff_list(from, to, DIFF_SHARDS, env, &plan->list);
	plan->nmoves = 0;
	plan->moves = NULL;
	diff_counter_init(&counter, from, to, &plan->list, env);
	diff_work_init(&work, from, to, env);
	for (i = 0; i < plan->list.npairs; i++)
	{
		diff_count(&counter, &plan->list, &plan->list.pairs[i]);
		diff_add_moves(&work, plan, i, counter.cells, counter.ncells);
		env->pause(env->arg);
	}
}

/*
 * What all pairs of groups share.
 */
static void
diff_work_init(DiffWork *work, const Ring *from, const Ring *to,
			   const RingEnv *env)
{
	memset(work, 0, sizeof(DiffWork));
	work->from = from;
	work->to = to;
	work->env = env;
	work->same_shard = diff_match_shards(from, to, env);
	work->from_runs = ring_alloc(env, from->ngroups, sizeof(DiffRuns));
	work->to_runs = ring_alloc(env, to->ngroups, sizeof(DiffRuns));
	memset(work->from_runs, 0, from->ngroups * sizeof(DiffRuns));
	memset(work->to_runs, 0, to->ngroups * sizeof(DiffRuns));
}

/*
 * Turn the cells of a pair of groups into moves.
 */
static void
diff_add_moves(DiffWork *work, DiffPlan *plan, uint32_t pair,
			   DiffCell *cells, uint32_t ncells)
{
	const RingGroup *a;
	const RingGroup *b;
	DiffMove   *moves;
	uint32_t	n = 0;
	uint32_t	i;

	qsort(cells, ncells, sizeof(DiffCell), diff_compare_cells);
	for (i = 0; i < ncells; i++)
		if (diff_is_move(work, cells[i].from_shard,
						 cells[i].to_shard))
			n++;
	if (n == 0)
		return;
	moves = diff_new_moves(work, plan, n);
	for (i = 0, n = 0; i < ncells; i++)
	{
		const DiffCell *cell = &cells[i];

		if (!diff_is_move(work, cell->from_shard, cell->to_shard))
			continue;
		moves[n].pair = pair;
		moves[n].from_shard = cell->from_shard;
		moves[n].to_shard = cell->to_shard;
		moves[n++].positions = cell->positions;
	}
	a = &work->from->groups[plan->list.pairs[pair].from_group];
	b = &work->to->groups[plan->list.pairs[pair].to_group];
	if (a->slots == b->slots)
		diff_fill_shared_slots(work, a, b, moves, n);
	else
		diff_fill_own_slots(work, &plan->list.pairs[pair], moves, n);
}

/*
 * Whether both are shards, and of different names.
 */
static bool
diff_is_move(const DiffWork *work, uint32_t from_shard, uint32_t to_shard)
{
	return from_shard != RING_NONE && to_shard != RING_NONE &&
		work->same_shard[from_shard] != to_shard;
}

/*
 * Room for n more moves at the end of the plan.
 */
static DiffMove *
diff_new_moves(DiffWork *work, DiffPlan *plan, uint32_t n)
{
	DiffMove   *moves;

	if (plan->nmoves + n > work->room_moves)
	{
		work->room_moves = 2 * (plan->nmoves + n);
		moves = ring_alloc(work->env, work->room_moves, sizeof(DiffMove));
		if (plan->nmoves > 0)
			memcpy(moves, plan->moves, plan->nmoves * sizeof(DiffMove));
		plan->moves = moves;
	}
	moves = plan->moves + plan->nmoves;
	plan->nmoves += n;
	return moves;
}

/*
 * Groups with equal numbers of slots: a position has the same slot in both, so
 * one list of slots says it all.  Pieces and moves are both in the order of
 * shards; a piece without a move holds no position.
 */
static void
diff_fill_shared_slots(DiffWork *work, const RingGroup *a, const RingGroup *b,
					   DiffMove *moves, uint32_t n)
{
	uint32_t	npieces = diff_find_shared_slots(work, a, b);
	RingRange  *slots = ring_alloc(work->env, npieces, sizeof(RingRange));
	uint32_t	p = 0;
	uint32_t	i;

	for (i = 0; i < n; i++)
	{
		uint32_t	used = 0;

		while (p < npieces &&
			   (work->pieces[p].from_shard != moves[i].from_shard ||
				work->pieces[p].to_shard != moves[i].to_shard))
			p++;
		while (p < npieces &&
			   work->pieces[p].from_shard == moves[i].from_shard &&
			   work->pieces[p].to_shard == moves[i].to_shard)
			slots[used++] = work->pieces[p++].slots;
		moves[i].from_slots = moves[i].to_slots = slots;
		moves[i].nfrom_slots = moves[i].nto_slots = used;
		slots += used;
	}
}

/*
 * Sets the pieces to the slots that move between groups with equal numbers of
 * slots, by shards, then slot.
 */
static uint32_t
diff_find_shared_slots(DiffWork *work, const RingGroup *a, const RingGroup *b)
{
	uint32_t	n = 0;
	uint32_t	lo = 0;
	uint32_t	i = 0;
	uint32_t	j = 0;

	if (work->pieces == NULL || work->room_pieces < a->nruns + b->nruns)
	{
		work->room_pieces = 2 * (a->nruns + b->nruns);
		work->pieces = ring_alloc(work->env, work->room_pieces,
								  sizeof(DiffPiece));
	}
	while (i < a->nruns && j < b->nruns)
	{
		uint32_t	a_end = a->run_ends[i];
		uint32_t	b_end = b->run_ends[j];
		uint32_t	hi = (a_end < b_end) ? a_end : b_end;

		if (diff_is_move(work, a->run_shards[i], b->run_shards[j]))
			work->pieces[n++] = (DiffPiece) {a->run_shards[i],
				b->run_shards[j], {lo, hi}};
		lo = hi;
		i += (a_end <= b_end);
		j += (b_end <= a_end);
	}
	qsort(work->pieces, n, sizeof(DiffPiece), diff_compare_pieces);
	return n;
}

/*
 * Groups with different numbers of slots: all slots of the shard on either
 * side.
 */
static void
diff_fill_own_slots(DiffWork *work, const DiffPair *pair, DiffMove *moves,
					uint32_t n)
{
	uint32_t	i;

	for (i = 0; i < n; i++)
	{
		moves[i].from_slots =
			diff_slots_of(&work->from->groups[pair->from_group],
						  &work->from_runs[pair->from_group],
						  moves[i].from_shard, &moves[i].nfrom_slots,
						  work->env);
		moves[i].to_slots =
			diff_slots_of(&work->to->groups[pair->to_group],
						  &work->to_runs[pair->to_group],
						  moves[i].to_shard, &moves[i].nto_slots,
						  work->env);
	}
}

/*
 * The slots of a group on a shard.
 */
static RingRange *
diff_slots_of(const RingGroup *group, DiffRuns *runs, uint32_t shard,
			  uint32_t *n, const RingEnv *env)
{
	uint32_t	first;

	if (runs->shards == NULL)
		diff_sort_runs(group, runs, env);
	first = diff_lower_bound(runs->shards, group->nruns, shard);
	*n = diff_lower_bound(runs->shards, group->nruns, shard + 1) - first;
	return runs->slots + first;
}

/*
 * Fills "runs" from the runs of a group.
 */
static void
diff_sort_runs(const RingGroup *group, DiffRuns *runs, const RingEnv *env)
{
	uint32_t	n = group->nruns;
	uint32_t   *order = ring_alloc(env, n, sizeof(uint32_t));
	uint32_t   *spare = ring_alloc(env, 2 * (size_t) n, sizeof(uint32_t));
	uint32_t	i;

	runs->shards = ring_alloc(env, n, sizeof(uint32_t));
	runs->slots = ring_alloc(env, n, sizeof(RingRange));
	memcpy(runs->shards, group->run_shards, n * sizeof(uint32_t));
	for (i = 0; i < n; i++)
		order[i] = i;
	ring_sort(runs->shards, order, spare, n, env);
	for (i = 0; i < n; i++)
	{
		runs->slots[i].lo = (order[i] > 0) ? group->run_ends[order[i] - 1] : 0;
		runs->slots[i].hi = group->run_ends[order[i]];
	}
}

/*
 * The first of n sorted numbers that is not below "wanted".
 */
static uint32_t
diff_lower_bound(const uint32_t *numbers, uint32_t n, uint32_t wanted)
{
	uint32_t	lo = 0;
	uint32_t	hi = n;

	while (lo < hi)
	{
		uint32_t	middle = lo + (hi - lo) / 2;

		if (numbers[middle] < wanted)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/*
 * Comparator: by from_shard, then to_shard.
 */
static int
diff_compare_cells(const void *a, const void *b)
{
	const DiffCell *x = a;
	const DiffCell *y = b;

	if (x->from_shard != y->from_shard)
		return (x->from_shard > y->from_shard) ? 1 : -1;
	return (x->to_shard > y->to_shard) - (x->to_shard < y->to_shard);
}

/*
 * Comparator: by from_shard, to_shard, then slot.
 */
static int
diff_compare_pieces(const void *a, const void *b)
{
	const DiffPiece *x = a;
	const DiffPiece *y = b;

	if (x->from_shard != y->from_shard)
		return (x->from_shard > y->from_shard) ? 1 : -1;
	if (x->to_shard != y->to_shard)
		return (x->to_shard > y->to_shard) ? 1 : -1;
	return (x->slots.lo > y->slots.lo) - (x->slots.lo < y->slots.lo);
}
