/*
 * points.c
 *		The choice of points for a group.
 *
 * Rules of this file:
 *	- candidate i of a group is the hash of its name, a '#' and i; candidates
 *	  are taken in ascending order, and one whose position is taken is skipped;
 *	- a group's point number k (from 0) is one of its first
 *	  points_salt_limit(k) candidates: that bounds every search, and because
 *	  the bound is each point's own, dropping points from the end keeps it.
 */
#include "ring.h"

#include <string.h>

/* How many candidates may be skipped however few points a group has. */
#define POINTS_SKIPPED	65536

/* How many candidates are hashed between two pauses. */
#define POINTS_PACE		1024

static RingResult points_find_salt(HashKind hash, RingName utf8,
								   uint32_t position, uint32_t limit,
								   uint32_t *salt, const RingEnv *env);
static uint32_t points_salt_limit(uint32_t k);
static uint32_t points_taken_cell(const PointsTaken *taken,
								  uint32_t position);

/*
 * A set that can hold "capacity" positions: all points of all groups, those
 * to come included.
 */
PointsTaken *
points_taken_create(uint32_t capacity, const RingEnv *env)
{
	PointsTaken  *taken = env->alloc(env->arg, sizeof(PointsTaken));
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
 * Takes a position.  False if it was taken before (or the set is full).
 */
bool
points_taken_add(PointsTaken *taken, uint32_t position)
{
	uint32_t	cell = points_taken_cell(taken, position);

	if (taken->cells[cell] != 0 || taken->used >= taken->limit)
		return false;
	taken->cells[cell] = (uint64_t) position + 1;
	taken->used++;
	return true;
}

/*
 * Gives a group that has "have" points "want" of them, going on with the
 * candidate after the last one.  The points it has must be in "taken", the
 * new ones are added to it.  RING_INVALID: the points it has are not its
 * candidates.  RING_EXHAUSTED: there are no free positions for so many points
 * (crc16) within the bound above.  After a failure some of the new points may
 * be taken.
 */
RingResult
points_extend(HashKind hash, RingName utf8, PointsTaken *taken,
			  uint32_t *points, uint32_t have, uint32_t want,
			  const RingEnv *env)
{
	uint32_t	salt = 0;
	uint32_t	k;
	RingResult	result;

	if (have >= want)
		return RING_OK;
	for (k = 0; k < have; k++, salt++)
	{
		result = points_find_salt(hash, utf8, points[k], points_salt_limit(k),
								  &salt, env);
		if (result != RING_OK)
			return result;
	}
	while (k < want)
	{
		if (salt >= points_salt_limit(k))
			return RING_EXHAUSTED;
		if (salt % POINTS_PACE == 0)
			env->pause(env->arg);
		if (!hash_candidate(hash, utf8.bytes, utf8.len, salt++, &points[k]))
			return RING_NO_HASH;
		if (points_taken_add(taken, points[k]))
			k++;
	}
	return RING_OK;
}

/*
 * The number of the candidate that each point is.  RING_INVALID: point
 * *first_bad is none, or none after the point before it.
 */
RingResult
points_salts(HashKind hash, RingName utf8, const uint32_t *points, uint32_t n,
			 uint32_t *salts, uint32_t *first_bad, const RingEnv *env)
{
	uint32_t	salt = 0;
	uint32_t	k;

	for (k = 0; k < n; k++, salt++)
	{
		RingResult	result;

		result = points_find_salt(hash, utf8, points[k], points_salt_limit(k),
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
points_find_salt(HashKind hash, RingName utf8, uint32_t position,
				 uint32_t limit, uint32_t *salt, const RingEnv *env)
{
	uint32_t	candidate;

	for (; *salt < limit; (*salt)++)
	{
		if (*salt % POINTS_PACE == 0)
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
points_salt_limit(uint32_t k)
{
	return POINTS_SKIPPED + 2 * (k < RING_MAX_POINTS ? k : RING_MAX_POINTS);
}

/*
 * The cell that holds a position, or the free one where it would go.
 */
static uint32_t
points_taken_cell(const PointsTaken *taken, uint32_t position)
{
	uint32_t	cell = position * UINT32_C(2654435769);

	cell = (cell ^ cell >> 16) & taken->mask;
	while (taken->cells[cell] != 0 &&
		   taken->cells[cell] != (uint64_t) position + 1)
		cell = (cell + 1) & taken->mask;
	return cell;
}
