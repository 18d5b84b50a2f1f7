/*
 * ring.c
 *		The way of a position to its group, slot and shard; and sorting.
 *
 * A ring is read here, never changed.
 */
#include "ring.h"

#include <string.h>

/* Spans up to this length are walked, not halved. */
#define RING_NEAR		8

/* Spans up to this length are compared as a whole. */
#define RING_LEVEL		4

/* Up to this many are sorted without a radix sort. */
#define RING_FEW		32

static uint32_t ring_arc_level(const RingArcs *arcs, uint32_t position);
static void ring_sort_few(uint32_t *keys, uint32_t *values, uint32_t n);
static void ring_sort_many(uint32_t *keys, uint32_t *values, uint32_t *spare,
						   uint32_t n, const RingEnv *env);

/*
 * The order of names everywhere: by bytes, a prefix first.
 */
int
ring_name_compare(RingName a, RingName b)
{
	uint32_t	len = (a.len < b.len) ? a.len : b.len;
	int			order = (len == 0) ? 0 : memcmp(a.bytes, b.bytes, len);

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

/*
 * For qsort and bsearch: the order of structs that begin with their UTF-8
 * names; a bare name may be looked for among them.
 */
int
ring_compare_utf8(const void *a, const void *b)
{
	return ring_name_compare(*(const RingName *) a, *(const RingName *) b);
}

/*
 * The arc that a position lies in.  There must be arcs.
 *
 * The answer lies between the first arc of the position's bucket and the
 * first arc of the next one.  A crowded span (crc16, or no table) is halved
 * until it is short.  The walk at the end branches on purpose: the processor
 * guesses on while it waits for memory, so that large rings take 60 % of the
 * time that a walk without branches takes.
 */
uint32_t
ring_arc(const RingArcs *arcs, uint32_t position)
{
	uint32_t	lo = 0;
	uint32_t	hi = arcs->n - 1;

	if (arcs->buckets != NULL)
	{
		const uint32_t *bucket = arcs->buckets + (position >> arcs->shift);

		lo = bucket[0];
		hi = bucket[1];
	}
	while (hi - lo > RING_NEAR)
	{
		uint32_t	middle = lo + (hi - lo) / 2;

		if (arcs->ends[middle] < position)
			lo = middle + 1;
		else
			hi = middle;
	}
	while (arcs->ends[lo] < position)
		lo++;
	return lo;
}

/*
 * Group, slot and shard of a position.  The ring must have arcs.
 */
void
ring_locate(const Ring *ring, uint32_t position, RingPlace *place)
{
	const RingGroup *group;

	place->group = ring->arcs.owners[ring_arc(&ring->arcs, position)];
	group = &ring->groups[place->group];
	place->slot = position % group->slots;
	place->shard = ring_slot_shard(group, place->slot);
}

/*
 * The shards of many positions, which they may take the place of.  The ring
 * must have arcs.
 *
 * What ring_locate does for each, but without branches that the processor
 * would guess wrong, so that it looks for several positions at once: half the
 * time.
 */
void
ring_locate_shards(const Ring *ring, const uint32_t *positions, uint32_t n,
				   uint32_t *shards)
{
	uint32_t	i;

	for (i = 0; i < n; i++)
	{
		uint32_t	arc = ring_arc_level(&ring->arcs, positions[i]);
		const RingGroup *group = &ring->groups[ring->arcs.owners[arc]];

		shards[i] = ring_slot_shard(group, positions[i] % group->slots);
	}
}

/*
 * As ring_arc, by counting the ends below the position where they are few.
 */
static uint32_t
ring_arc_level(const RingArcs *arcs, uint32_t position)
{
	uint32_t	lo;
	uint32_t	hi;
	uint32_t	below = 0;
	uint32_t	i;

	lo = arcs->buckets[position >> arcs->shift];
	hi = arcs->buckets[(position >> arcs->shift) + 1];
	if (hi - lo > RING_LEVEL)
		return ring_arc(arcs, position);
	/* the end at "hi" is not below, so it may be compared again and again */
	for (i = 0; i < RING_LEVEL; i++)
		below += arcs->ends[(lo + i < hi) ? lo + i : hi] < position;
	return lo + below;
}

/*
 * The shard that holds a slot of a group.
 */
uint32_t
ring_slot_shard(const RingGroup *group, uint32_t slot)
{
	return group->run_shards[ring_run(group, slot)];
}

/*
 * The run that a slot of a group lies in.
 */
uint32_t
ring_run(const RingGroup *group, uint32_t slot)
{
	uint32_t	lo = 0;
	uint32_t	hi = group->nruns - 1;

	while (lo < hi)
	{
		uint32_t	middle = lo + (hi - lo) / 2;

		if (group->run_ends[middle] <= slot)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

/*
 * How many positions each group owns: exact, and 2^32 together.
 */
void
ring_shares(const RingArcs *arcs, uint32_t ngroups, uint64_t *positions)
{
	uint64_t	lo = 0;
	uint32_t	i;

	for (i = 0; i < ngroups; i++)
		positions[i] = 0;
	for (i = 0; i < arcs->n; i++)
	{
		uint64_t	hi = (uint64_t) arcs->ends[i] + 1;

		positions[arcs->owners[i]] += hi - lo;
		lo = hi;
	}
}

/*
 * Sort keys ascending and their values with them; equal keys keep their
 * order.  "spare" has room for 2 * n; NULL where that is seldom needed.
 */
void
ring_sort(uint32_t *keys, uint32_t *values, uint32_t *spare, uint32_t n,
		  const RingEnv *env)
{
	if (n <= RING_FEW)
	{
		ring_sort_few(keys, values, n);
		return;
	}
	if (spare == NULL)
		spare = ring_alloc(env, 2 * (size_t) n, sizeof(uint32_t));
	ring_sort_many(keys, values, spare, n, env);
}

/*
 * Each is moved to its place among those before it.
 */
static void
ring_sort_few(uint32_t *keys, uint32_t *values, uint32_t n)
{
	uint32_t	i;

	for (i = 1; i < n; i++)
	{
		uint32_t	key = keys[i];
		uint32_t	value = values[i];
		uint32_t	to = i;

		for (; to > 0 && keys[to - 1] > key; to--)
		{
			keys[to] = keys[to - 1];
			values[to] = values[to - 1];
		}
		keys[to] = key;
		values[to] = value;
	}
}

/*
 * Radix sort, a byte at a time.
 */
static void
ring_sort_many(uint32_t *keys, uint32_t *values, uint32_t *spare, uint32_t n,
			   const RingEnv *env)
{
	uint32_t   *from[2] = {keys, values};
	uint32_t   *to[2] = {spare, spare + n};
	uint32_t	shift;

	for (shift = 0; shift < 32; shift += 8)
	{
		uint32_t	place[256] = {0};
		uint32_t	sum = 0;
		uint32_t   *swap[2];
		uint32_t	i;

		for (i = 0; i < n; i++)
			place[from[0][i] >> shift & 255]++;
		for (i = 0; i < 256; i++)
		{
			sum += place[i];
			place[i] = sum - place[i];
		}
		for (i = 0; i < n; i++)
		{
			uint32_t	at = place[from[0][i] >> shift & 255]++;

			to[0][at] = from[0][i];
			to[1][at] = from[1][i];
		}
		memcpy(swap, from, sizeof(swap));
		memcpy(from, to, sizeof(swap));
		memcpy(to, swap, sizeof(swap));
		env->pause(env->arg);
	}
}
