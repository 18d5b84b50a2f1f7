/*
 * ring.c
 *		The way of a position to its group, slot and shard, and the choice of
 *		points for a group.
 *
 * Rules of this file:
 *	- a ring is read, never changed;
 *	- candidate i of a group is the hash of its name, a '#' and i; candidates
 *	  are taken in ascending order, and one whose position is taken is skipped;
 *	- a group's point number k (from 0) is one of its first
 *	  ring_salt_limit(k) candidates: that bounds every search, and because the
 *	  bound is each point's own, dropping points from the end keeps it.
 */
#include "ring.h"

#include <string.h>

/* Where a search by halves gives way to walking. */
#define RING_NEAR		8

/* Up to how many are sorted without a radix. */
#define RING_FEW		32

/* How many candidates may be skipped however few points a group has. */
#define RING_SKIPPED	65536

/* How many candidates are hashed between two pauses. */
#define RING_PACE		1024

static void ring_sort_few(uint32_t *keys, uint32_t *values, uint32_t n);
static void ring_sort_many(uint32_t *keys, uint32_t *values, uint32_t *spare,
						   uint32_t n, const RingEnv *env);
static RingResult ring_find_salt(HashKind hash, RingName utf8,
								 uint32_t position, uint32_t limit,
								 uint32_t *salt, const RingEnv *env);
static uint32_t ring_salt_limit(uint32_t k);
static uint32_t ring_taken_cell(const RingTaken *taken, uint32_t position);

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
		spare = env->alloc(env->arg, 2 * (size_t) n * sizeof(uint32_t));
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

/*
 * A set that can hold "capacity" positions: all points of all groups, those
 * to come included.
 */
RingTaken *
ring_taken_create(uint32_t capacity, const RingEnv *env)
{
	RingTaken  *taken = env->alloc(env->arg, sizeof(RingTaken));
	size_t		ncells = 16;

	while (ncells / 4 * 3 < capacity)
		ncells *= 2;
	taken->mask = (uint32_t) (ncells - 1);
	taken->used = 0;
	taken->limit = capacity;
	taken->cells = env->alloc(env->arg, ncells * sizeof(uint64_t));
	memset(taken->cells, 0, ncells * sizeof(uint64_t));
	return taken;
}

/*
 * Take a position.  False if it was taken before (or the set is full).
 */
bool
ring_taken_add(RingTaken *taken, uint32_t position)
{
	uint32_t	cell = ring_taken_cell(taken, position);

	if (taken->cells[cell] != 0 || taken->used >= taken->limit)
		return false;
	taken->cells[cell] = (uint64_t) position + 1;
	taken->used++;
	return true;
}

/*
 * Give a group that has "have" points "want" of them, going on with the
 * candidate after the last one.  The points it has must be in "taken", the
 * new ones are added to it.  RING_INVALID: the points it has are not its
 * candidates.  RING_EXHAUSTED: there are no free positions for so many points
 * (crc16) within the bound above.  After a failure some of the new points may
 * be taken.
 */
RingResult
ring_extend(HashKind hash, RingName utf8, RingTaken *taken, uint32_t *points,
			uint32_t have, uint32_t want, const RingEnv *env)
{
	uint32_t	salt = 0;
	uint32_t	k;
	RingResult	result;

	if (have >= want)
		return RING_OK;
	for (k = 0; k < have; k++, salt++)
	{
		result = ring_find_salt(hash, utf8, points[k], ring_salt_limit(k),
								&salt, env);
		if (result != RING_OK)
			return result;
	}
	while (k < want)
	{
		if (salt >= ring_salt_limit(k))
			return RING_EXHAUSTED;
		if (salt % RING_PACE == 0)
			env->pause(env->arg);
		if (!hash_candidate(hash, utf8.bytes, utf8.len, salt++, &points[k]))
			return RING_NO_HASH;
		if (ring_taken_add(taken, points[k]))
			k++;
	}
	return RING_OK;
}

/*
 * The number of the candidate that each point is.  RING_INVALID: point
 * *first_bad is none, or none after the point before it.
 */
RingResult
ring_salts(HashKind hash, RingName utf8, const uint32_t *points, uint32_t n,
		   uint32_t *salts, uint32_t *first_bad, const RingEnv *env)
{
	uint32_t	salt = 0;
	uint32_t	k;

	for (k = 0; k < n; k++, salt++)
	{
		RingResult	result;

		result = ring_find_salt(hash, utf8, points[k], ring_salt_limit(k),
								&salt, env);
		if (result != RING_OK)
		{
			*first_bad = k;
			return result;
		}
		salts[k] = salt;
	}
	return RING_OK;
}

/*
 * Moves *salt on to the first candidate that is "position".
 */
static RingResult
ring_find_salt(HashKind hash, RingName utf8, uint32_t position,
			   uint32_t limit, uint32_t *salt, const RingEnv *env)
{
	uint32_t	candidate;

	for (; *salt < limit; (*salt)++)
	{
		if (*salt % RING_PACE == 0)
			env->pause(env->arg);
		if (!hash_candidate(hash, utf8.bytes, utf8.len, *salt, &candidate))
			return RING_NO_HASH;
		if (candidate == position)
			return RING_OK;
	}
	return RING_INVALID;
}

/*
 * Candidates are skipped only where positions collide: in a full version of
 * a 32-bit hash one in a thousand, with crc16 and 4096 points at most one in
 * seven (300 names were tried).
 */
static uint32_t
ring_salt_limit(uint32_t k)
{
	return RING_SKIPPED + 2 * (k < RING_MAX_POINTS ? k : RING_MAX_POINTS);
}

/*
 * The cell that holds a position, or the free one where it would go.
 */
static uint32_t
ring_taken_cell(const RingTaken *taken, uint32_t position)
{
	uint32_t	cell = position * UINT32_C(2654435769);

	cell = (cell ^ cell >> 16) & taken->mask;
	while (taken->cells[cell] != 0 &&
		   taken->cells[cell] != (uint64_t) position + 1)
		cell = (cell + 1) & taken->mask;
	return cell;
}
