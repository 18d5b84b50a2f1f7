/*
 * diff_count.c
 *		How many positions lie on which shards: of a pair of groups, and of a
 *		whole ring.
 *
 * Rules of this file: those of diff.c.
 *
 * Along the positions the slots of a group repeat after as many as it has, so
 * which pair of shards a position belongs to repeats after the least common
 * multiple of both groups: the cycle.  The segments of a pair are laid over
 * one cycle, so that every piece of it gets a weight: how many positions of
 * the segments fall on each residue there.  Then the runs of both groups are
 * walked once along the cycle instead of all along the segments.  Where the
 * cycle is not shorter than the segments together, the segments are walked
 * themselves.
 */
#include "diff.h"

#include <string.h>

/* What happens to the weight at a residue. */
#define DIFF_FALLS		0
#define DIFF_RISES		1

/* Where a walk stands among the slots of a group. */
typedef struct DiffCursor
{
	const RingGroup *group;
	uint32_t	run;
	uint64_t	left;			/* positions to the end of the run */
} DiffCursor;

static uint64_t diff_cycle(const RingGroup *a, const RingGroup *b);
static uint32_t diff_fold(DiffCounter *counter, const DiffSegment *segments,
						  uint32_t nsegments, uint64_t cycle,
						  uint64_t *weight);
static void diff_walk(DiffCounter *counter, const DiffPair *pair, uint64_t lo,
					  uint64_t hi, uint64_t weight);
static void diff_cursor_set(DiffCursor *cursor, const RingGroup *group,
							uint64_t position);
static void diff_cursor_step(DiffCursor *cursor, uint64_t step);
static void diff_add(DiffCounter *counter, uint32_t from_shard,
					 uint32_t to_shard, uint64_t positions);
static uint32_t diff_bucket(const DiffCounter *counter, uint32_t from_shard,
							uint32_t to_shard);
static void diff_room_for_cells(DiffCounter *counter, uint32_t nbuckets);
static void diff_clear_cells(DiffCounter *counter);

/*
 * How many positions each shard of a ring holds.  (The ring is compared with
 * itself, leaving nothing out.)
 */
void
diff_shard_shares(const Ring *ring, const RingEnv *env, uint64_t *positions)
{
	uint32_t   *stays = ring_alloc(env, ring->ngroups, sizeof(uint32_t));
	DiffList	list;
	DiffCounter counter;
	uint32_t	i;
	uint32_t	c;

	for (i = 0; i < ring->ngroups; i++)
		stays[i] = RING_NONE;
	for (i = 0; i < ring->nshards; i++)
		positions[i] = 0;
	diff_collect(ring, ring, stays, env, &list);
	diff_counter_init(&counter, ring, ring, &list, env);
	for (i = 0; i < list.npairs; i++)
	{
		diff_count(&counter, &list, &list.pairs[i]);
		for (c = 0; c < counter.ncells; c++)
			if (counter.cells[c].from_shard != RING_NONE)
				positions[counter.cells[c].from_shard] +=
					counter.cells[c].positions;
		env->pause(env->arg);
	}
}

/*
 * A counter for the pairs of a list of "from" and "to".
 */
void
diff_counter_init(DiffCounter *counter, const Ring *from, const Ring *to,
				  const DiffList *list, const RingEnv *env)
{
	size_t		most = 0;
	uint32_t	i;

	memset(counter, 0, sizeof(DiffCounter));
	counter->from = from;
	counter->to = to;
	counter->env = env;
	for (i = 0; i < list->npairs; i++)
		if (list->pairs[i].n > most)
			most = list->pairs[i].n;
	counter->ends = ring_alloc(env, 2 * most, sizeof(uint32_t));
	counter->changes = ring_alloc(env, 2 * most, sizeof(uint32_t));
	counter->spare = ring_alloc(env, 4 * most, sizeof(uint32_t));
	diff_room_for_cells(counter, 64);
}

/*
 * Sets the cells to the positions of a pair of groups.
 */
void
diff_count(DiffCounter *counter, const DiffList *list, const DiffPair *pair)
{
	uint64_t	cycle = diff_cycle(&counter->from->groups[pair->from_group],
								   &counter->to->groups[pair->to_group]);
	const DiffSegment *segments = &list->segments[pair->first];
	uint64_t	weight;
	uint64_t	at = 0;
	uint32_t	n;
	uint32_t	i;

	diff_clear_cells(counter);
	if (cycle >= pair->positions)
	{
		for (i = 0; i < pair->n; i++)
			diff_walk(counter, pair, segments[i].lo, segments[i].hi, 1);
		return;
	}
	n = diff_fold(counter, segments, pair->n, cycle, &weight);
	for (i = 0; i < n; i++)
	{
		diff_walk(counter, pair, at, counter->ends[i], weight);
		at = counter->ends[i];
		weight += (counter->changes[i] == DIFF_RISES) ? 1 : -1;
	}
	diff_walk(counter, pair, at, cycle, weight);
}

/*
 * How many positions it takes until the shards of a pair of groups repeat.  A
 * group on one shard is everywhere the same, whatever slots it has.
 */
static uint64_t
diff_cycle(const RingGroup *a, const RingGroup *b)
{
	uint32_t	a_slots = (a->nruns == 1) ? 1 : a->slots;
	uint32_t	b_slots = (b->nruns == 1) ? 1 : b->slots;
	uint32_t	x = a_slots;
	uint32_t	y = b_slots;

	while (y != 0)
	{
		uint32_t	rest = x % y;

		x = y;
		y = rest;
	}
	return (uint64_t) (a_slots / x) * b_slots;
}

/*
 * Lay segments over one cycle.  Returns how many changes of the weight there
 * are, sorted by residue, and the weight before the first of them.
 */
static uint32_t
diff_fold(DiffCounter *counter, const DiffSegment *segments,
		  uint32_t nsegments, uint64_t cycle, uint64_t *weight)
{
	uint32_t	n = 0;
	uint32_t	i;

	*weight = 0;
	for (i = 0; i < nsegments; i++)
	{
		uint64_t	len = segments[i].hi - segments[i].lo;
		uint64_t	begin = segments[i].lo % cycle;
		uint64_t	end = begin + len % cycle;

		*weight += len / cycle;
		if (begin == end)
			continue;
		if (end > cycle)
		{
			(*weight)++;
			end -= cycle;
		}
		counter->ends[n] = (uint32_t) begin;
		counter->changes[n++] = DIFF_RISES;
		counter->ends[n] = (uint32_t) end;
		counter->changes[n++] = DIFF_FALLS;
	}
	ring_sort(counter->ends, counter->changes, counter->spare, n,
			  counter->env);
	return n;
}

/*
 * Give the cells "weight" for every position in [lo, hi), run by run.
 */
static void
diff_walk(DiffCounter *counter, const DiffPair *pair, uint64_t lo, uint64_t hi,
		  uint64_t weight)
{
	DiffCursor	a;
	DiffCursor	b;

	if (lo >= hi || weight == 0)
		return;
	diff_cursor_set(&a, &counter->from->groups[pair->from_group], lo);
	diff_cursor_set(&b, &counter->to->groups[pair->to_group], lo);
	while (lo < hi)
	{
		uint64_t	step = hi - lo;

		if (step > a.left)
			step = a.left;
		if (step > b.left)
			step = b.left;
		diff_add(counter, a.group->run_shards[a.run],
				 b.group->run_shards[b.run], step * weight);
		lo += step;
		diff_cursor_step(&a, step);
		diff_cursor_step(&b, step);
	}
}

/*
 * Sets the walk to the slot of a position.  A single run never ends.
 */
static void
diff_cursor_set(DiffCursor *cursor, const RingGroup *group, uint64_t position)
{
	uint32_t	slot = (uint32_t) (position % group->slots);

	cursor->group = group;
	cursor->run = ring_run(group, slot);
	cursor->left = (group->nruns == 1) ? RING_CIRCLE + 1 :
		group->run_ends[cursor->run] - slot;
}

/*
 * Steps never lead past the end of the run.
 */
static void
diff_cursor_step(DiffCursor *cursor, uint64_t step)
{
	const RingGroup *group = cursor->group;

	cursor->left -= step;
	if (cursor->left > 0)
		return;
	if (cursor->run == group->nruns - 1)
	{
		cursor->run = 0;
		cursor->left = group->run_ends[0];
	}
	else
	{
		cursor->run++;
		cursor->left = group->run_ends[cursor->run] -
			group->run_ends[cursor->run - 1];
	}
}

/*
 * Adds positions to the cell of a pair of shards, which may be new.
 */
static void
diff_add(DiffCounter *counter, uint32_t from_shard, uint32_t to_shard,
		 uint64_t positions)
{
	uint32_t	bucket = diff_bucket(counter, from_shard, to_shard);

	if (++counter->steps % DIFF_PACE == 0)
		counter->env->pause(counter->env->arg);
	if (counter->buckets[bucket] == 0)
	{
		if (counter->ncells == counter->mask / 2)
		{
			diff_room_for_cells(counter, 2 * (counter->mask + 1));
			bucket = diff_bucket(counter, from_shard, to_shard);
		}
		counter->cells[counter->ncells] = (DiffCell) {from_shard, to_shard, 0,
			bucket};
		counter->buckets[bucket] = ++counter->ncells;
	}
	counter->cells[counter->buckets[bucket] - 1].positions += positions;
}

/*
 * The bucket of the cell of a pair of shards, or the free one where it would
 * go.
 */
static uint32_t
diff_bucket(const DiffCounter *counter, uint32_t from_shard, uint32_t to_shard)
{
	uint64_t	key = (uint64_t) from_shard << 32 | to_shard;
	uint32_t	bucket;

	key *= UINT64_C(0x9e3779b97f4a7c15);
	bucket = (uint32_t) (key >> 32) & counter->mask;
	while (counter->buckets[bucket] != 0)
	{
		const DiffCell *cell = &counter->cells[counter->buckets[bucket] - 1];

		if (cell->from_shard == from_shard && cell->to_shard == to_shard)
			break;
		bucket = (bucket + 1) & counter->mask;
	}
	return bucket;
}

/*
 * Give the cells a table of so many buckets.
 */
static void
diff_room_for_cells(DiffCounter *counter, uint32_t nbuckets)
{
	const DiffCell *old = counter->cells;
	uint32_t	i;

	counter->mask = nbuckets - 1;
	counter->cells = ring_alloc(counter->env, nbuckets / 2, sizeof(DiffCell));
	counter->buckets = ring_alloc(counter->env, nbuckets, sizeof(uint32_t));
	memset(counter->buckets, 0, nbuckets * sizeof(uint32_t));
	for (i = 0; i < counter->ncells; i++)
	{
		counter->cells[i] = old[i];
		counter->cells[i].bucket = diff_bucket(counter, old[i].from_shard,
											old[i].to_shard);
		counter->buckets[counter->cells[i].bucket] = i + 1;
	}
}

/*
 * Forgets all cells and keeps their room.
 */
static void
diff_clear_cells(DiffCounter *counter)
{
	uint32_t	i;

	for (i = 0; i < counter->ncells; i++)
		counter->buckets[counter->cells[i].bucket] = 0;
	counter->ncells = 0;
}
