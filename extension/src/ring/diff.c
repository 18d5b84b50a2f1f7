/*
 * diff.c
 *		Two rings to the ranges that differ, and whether one position moves.
 *
 * Rules of this file:
 *	- groups and shards are the same when their names are, in UTF-8 bytes;
 *	- every number is exact; nothing is sampled;
 *	- a ring without arcs routes nothing, so nothing moves from it or to it; a
 *	  slot on shard RING_NONE (a ring that was not checked) does not move.
 */
#include "diff.h"

#include <string.h>

static uint32_t *diff_match_groups(const Ring *from, const Ring *to,
								   const RingEnv *env);
static uint32_t *diff_match_names(const RingName *a, uint32_t na,
								  const RingName *b, uint32_t nb,
								  const RingEnv *env);
static bool diff_same_slots(const RingGroup *a, const RingGroup *b,
							const uint32_t *same_shard);
static uint32_t diff_segments(const Ring *from, const Ring *to,
							  const uint32_t *stays, DiffSegment *segments,
							  const RingEnv *env);
static void diff_sort(DiffList *list, uint32_t nfrom, uint32_t nto,
					  const RingEnv *env);
static void diff_scatter(const DiffSegment *segments, DiffSegment *sorted,
						 uint32_t n, bool by_from, uint32_t ngroups,
						 const RingEnv *env);
static void diff_pair_up(DiffList *list, const RingEnv *env);

/*
 * Where two rings differ: by the group, or by what the shard may be.
 */
void
diff_list(const Ring *from, const Ring *to, DiffScope scope,
		  const RingEnv *env, DiffList *list)
{
	uint32_t   *stays = diff_match_groups(from, to, env);

	if (scope == DIFF_SHARDS)
	{
		uint32_t   *same_shard = diff_match_shards(from, to, env);
		uint32_t	g;

		for (g = 0; g < from->ngroups; g++)
			if (stays[g] != RING_NONE &&
				!diff_same_slots(&from->groups[g], &to->groups[stays[g]],
								 same_shard))
				stays[g] = RING_NONE;
	}
	diff_collect(from, to, stays, env, list);
}

/*
 * Whether a position is on another shard in the other ring, and where it is
 * in both.  Without arcs in both there is no place, and it does not move.
 */
bool
diff_moves(const Ring *from, const Ring *to, uint32_t position,
		   RingPlace *from_place, RingPlace *to_place)
{
	if (from->arcs.n == 0 || to->arcs.n == 0)
	{
		*from_place = (RingPlace) {RING_NONE, RING_NONE, RING_NONE};
		*to_place = *from_place;
		return false;
	}
	ring_locate(from, position, from_place);
	ring_locate(to, position, to_place);
	return from_place->shard != RING_NONE && to_place->shard != RING_NONE &&
		ring_name_compare(from->shards_utf8[from_place->shard],
						  to->shards_utf8[to_place->shard]) != 0;
}

/*
 * For each shard of "from" the one of the same name in "to", or RING_NONE.
 */
uint32_t *
diff_match_shards(const Ring *from, const Ring *to, const RingEnv *env)
{
	return diff_match_names(from->shards_utf8, from->nshards,
							to->shards_utf8, to->nshards, env);
}

/*
 * For each of the sorted names a its index among the sorted names b, or
 * RING_NONE.
 */
static uint32_t *
diff_match_names(const RingName *a, uint32_t na, const RingName *b,
				 uint32_t nb, const RingEnv *env)
{
	uint32_t   *match = ring_alloc(env, na, sizeof(uint32_t));
	uint32_t	i;
	uint32_t	j = 0;

	for (i = 0; i < na; i++)
	{
		while (j < nb && ring_name_compare(b[j], a[i]) < 0)
			j++;
		match[i] = (j < nb && ring_name_compare(b[j], a[i]) == 0) ?
			j : RING_NONE;
	}
	return match;
}

/*
 * All segments of two rings, sorted and paired, but for those of a from-group
 * g with the to-group stays[g].
 */
void
diff_collect(const Ring *from, const Ring *to, const uint32_t *stays,
			 const RingEnv *env, DiffList *list)
{
	list->nsegments = diff_segments(from, to, stays, NULL, env);
	list->segments = ring_alloc(env, list->nsegments, sizeof(DiffSegment));
	diff_segments(from, to, stays, list->segments, env);
	diff_sort(list, from->ngroups, to->ngroups, env);
	diff_pair_up(list, env);
}

/*
 * For each group of "from" the one of the same name in "to", or RING_NONE.
 */
static uint32_t *
diff_match_groups(const Ring *from, const Ring *to, const RingEnv *env)
{
	size_t		n = (size_t) from->ngroups + to->ngroups;
	RingName   *names = ring_alloc(env, n, sizeof(RingName));
	uint32_t	i;

	for (i = 0; i < from->ngroups; i++)
		names[i] = from->groups[i].utf8;
	for (i = 0; i < to->ngroups; i++)
		names[from->ngroups + i] = to->groups[i].utf8;
	return diff_match_names(names, from->ngroups, names + from->ngroups,
							to->ngroups, env);
}

/*
 * Whether a group that stays has every slot on the same shard as before.
 */
static bool
diff_same_slots(const RingGroup *a, const RingGroup *b,
				const uint32_t *same_shard)
{
	uint32_t	i;

	if (a->slots != b->slots || a->nruns != b->nruns)
		return false;
	for (i = 0; i < a->nruns; i++)
	{
		uint32_t	shard = a->run_shards[i];

		if (a->run_ends[i] != b->run_ends[i] || shard == RING_NONE ||
			same_shard[shard] != b->run_shards[i])
			return false;
	}
	return true;
}

/*
 * Counts the segments by ascending position, and writes them unless
 * "segments" is NULL.  Both rings' arcs end at 2^32 - 1, so they run out
 * together.
 */
static uint32_t
diff_segments(const Ring *from, const Ring *to, const uint32_t *stays,
			  DiffSegment *segments, const RingEnv *env)
{
	const RingArcs *a = &from->arcs;
	const RingArcs *b = &to->arcs;
	uint64_t	lo = 0;
	uint32_t	n = 0;
	uint32_t	i = 0;
	uint32_t	j = 0;

	while (i < a->n && j < b->n)
	{
		uint32_t	a_end = a->ends[i];
		uint32_t	b_end = b->ends[j];
		uint64_t	hi = (uint64_t) (a_end < b_end ? a_end : b_end) + 1;

		if (stays[a->owners[i]] != b->owners[j])
		{
			if (segments != NULL)
				segments[n] = (DiffSegment) {lo, hi, a->owners[i],
					b->owners[j]};
			n++;
		}
		lo = hi;
		i += (a_end <= b_end);
		j += (b_end <= a_end);
		if ((i + j) % DIFF_PACE == 0)
			env->pause(env->arg);
	}
	return n;
}

/*
 * By from_group, to_group and position: two stable scatters, the lesser key
 * first.
 */
static void
diff_sort(DiffList *list, uint32_t nfrom, uint32_t nto, const RingEnv *env)
{
	DiffSegment *spare = ring_alloc(env, list->nsegments,
									sizeof(DiffSegment));

	diff_scatter(list->segments, spare, list->nsegments, false, nto, env);
	diff_scatter(spare, list->segments, list->nsegments, true, nfrom, env);
}

/*
 * Copies the segments in the order of one of their groups; equals keep their
 * order.
 */
static void
diff_scatter(const DiffSegment *segments, DiffSegment *sorted, uint32_t n,
			 bool by_from, uint32_t ngroups, const RingEnv *env)
{
	uint32_t   *place = ring_alloc(env, ngroups, sizeof(uint32_t));
	uint32_t	sum = 0;
	uint32_t	i;

	memset(place, 0, ngroups * sizeof(uint32_t));
	for (i = 0; i < n; i++)
		place[by_from ? segments[i].from_group : segments[i].to_group]++;
	for (i = 0; i < ngroups; i++)
	{
		sum += place[i];
		place[i] = sum - place[i];
	}
	for (i = 0; i < n; i++)
		sorted[place[by_from ? segments[i].from_group :
					 segments[i].to_group]++] = segments[i];
	env->pause(env->arg);
}

/*
 * Where the pairs begin in the sorted segments, and how much they hold.
 */
static void
diff_pair_up(DiffList *list, const RingEnv *env)
{
	const DiffSegment *s = list->segments;
	DiffPair   *pair = NULL;
	uint32_t	i;

	list->npairs = 0;
	for (i = 0; i < list->nsegments; i++)
		if (i == 0 || s[i].from_group != s[i - 1].from_group ||
			s[i].to_group != s[i - 1].to_group)
			list->npairs++;
	list->pairs = ring_alloc(env, list->npairs, sizeof(DiffPair));
	for (i = 0; i < list->nsegments; i++)
	{
		if (pair == NULL || pair->from_group != s[i].from_group ||
			pair->to_group != s[i].to_group)
		{
			pair = (pair == NULL) ? list->pairs : pair + 1;
			*pair = (DiffPair) {s[i].from_group, s[i].to_group, i, 0, 0};
		}
		pair->n++;
		pair->positions += s[i].hi - s[i].lo;
	}
}
