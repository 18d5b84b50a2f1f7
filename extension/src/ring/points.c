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
static uint32_t points_filter_bit(const PointsFilter *filter,
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
	PointsCursor cursor = {have, 0};
	RingResult	result;

	if (have >= want)
		return RING_OK;
	result = points_resume(hash, utf8, points, &cursor, env);
	if (result != RING_OK)
		return result;
	return points_choose(hash, utf8, taken, points, &cursor, want, UINT32_MAX,
						 env);
}

/*
 * Moves a cursor on to the candidate after the last one of the cursor->n
 * points that a group has.  RING_INVALID: they are not its candidates.
 */
RingResult
points_resume(HashKind hash, RingName utf8, const uint32_t *points,
			  PointsCursor *cursor, const RingEnv *env)
{
	cursor->salt = 0;
	for (uint32_t k = 0; k < cursor->n; k++, cursor->salt++)
	{
		RingResult	result;

		result = points_find_salt(hash, utf8, points[k], points_salt_limit(k),
								  &cursor->salt, env);
		if (result != RING_OK)
			return result;
	}
	return RING_OK;
}

/*
 * Goes on from a cursor until the group has "want" points; with fewer, and
 * RING_OK too, when candidate "end" is the next one.  Only those of the other
 * points need be in "taken" that candidates before "end" may have.
 */
RingResult
points_choose(HashKind hash, RingName utf8, PointsTaken *taken,
			  uint32_t *points, PointsCursor *cursor, uint32_t want,
			  uint32_t end, const RingEnv *env)
{
	while (cursor->n < want && cursor->salt < end)
	{
		uint32_t   *point = &points[cursor->n];

		if (cursor->salt >= points_salt_limit(cursor->n))
			return RING_EXHAUSTED;
		if (cursor->salt % POINTS_PACE == 0)
			env->pause(env->arg);
		if (!hash_candidate(hash, utf8.bytes, utf8.len, cursor->salt++, point))
			return RING_NO_HASH;
		if (points_taken_add(taken, *point))
			cursor->n++;
	}
	return RING_OK;
}

/*
 * A filter for so many candidates, with 64 to 128 bits for each: where few
 * points are chosen beside many, it takes the place of a set of all of them.
 */
PointsFilter *
points_filter_create(uint32_t candidates, const RingEnv *env)
{
	PointsFilter *filter = env->alloc(env->arg, sizeof(PointsFilter));
	size_t		nwords = 1;

	for (filter->shift = 26; nwords < candidates && filter->shift > 0;
		 filter->shift--)
		nwords *= 2;
	filter->bits = env->alloc(env->arg, nwords * sizeof(uint64_t));
	memset(filter->bits, 0, nwords * sizeof(uint64_t));
	return filter;
}

/*
 * Lets the candidates from "salt" to before "end" pass; false without a hash.
 */
bool
points_filter_add(PointsFilter *filter, HashKind hash, RingName utf8,
				  uint32_t salt, uint32_t end)
{
	for (; salt < end; salt++)
	{
		uint32_t	position;
		uint32_t	bit;

		if (!hash_candidate(hash, utf8.bytes, utf8.len, salt, &position))
			return false;
		bit = points_filter_bit(filter, position);
		filter->bits[bit / 64] |= UINT64_C(1) << bit % 64;
	}
	return true;
}

/*
 * Copies the points that pass to "picked", which has room for all of them,
 * and returns how many.
 */
uint32_t
points_filter_pick(const PointsFilter *filter, const uint32_t *points,
				   uint32_t n, uint32_t *picked)
{
	uint32_t	npicked = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	bit = points_filter_bit(filter, points[i]);

		/* written in any case: a branch would be guessed wrong too often */
		picked[npicked] = points[i];
		npicked += filter->bits[bit / 64] >> bit % 64 & 1;
	}
	return npicked;
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

/*
 * The bit of a position.
 */
static uint32_t
points_filter_bit(const PointsFilter *filter, uint32_t position)
{
	return position * UINT32_C(2654435769) >> filter->shift;
}
