/*
 * ring_build.c
 *		A definition to a ring that can be routed on.
 *
 * Rules of this file:
 *	- a position belongs to the first point at or after it, past the last
 *	  point to the first one; a pin overrides that for one position;
 *	- what is compiled is right only for a definition that check_structure has
 *	  found valid; but whatever the definition says, nothing is read or written
 *	  out of bounds.  A slot that no shard holds is on shard RING_NONE, a pin
 *	  to no group is left out, a position that is taken twice stays with the
 *	  first group, a group without slots gets one;
 *	- a compiled ring keeps nothing of its definition.
 */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

/* One shard of one group, on its way to an index into Ring.shards. */
typedef struct RingShardRef
{
	RingName	utf8;
	RingName	name;
	uint32_t   *index;			/* where the index is wanted */
} RingShardRef;

static uint32_t *ring_build_shards(Ring *ring, const RingDef *def,
								   const RingEnv *env);
static void ring_index_shards(Ring *ring, RingShardRef *refs, size_t n,
							  const RingEnv *env);
static void ring_build_groups(Ring *ring, const RingDef *def,
							  const uint32_t *shard_indexes,
							  const RingEnv *env);
static void ring_build_runs(RingGroup *group, const RingGroupDef *def,
							const uint32_t *shard_indexes,
							const RingEnv *env);
static void ring_push_run(RingGroup *group, uint32_t end, uint32_t shard);
static void ring_build_arcs(Ring *ring, const RingDef *def,
							const RingEnv *env);
static void ring_place_points(RingArcs *arcs, const RingDef *def,
							  uint32_t npoints, uint32_t *buckets,
							  const RingEnv *env);
static uint32_t ring_close_circle(RingArcs *arcs, uint32_t npoints);
static void ring_cut_pins(RingArcs *arcs, const RingArcs *plain,
						  const RingDef *def);
static void ring_push_arc(RingArcs *arcs, uint32_t end, uint32_t owner);
static void ring_fill_buckets(RingArcs *arcs, uint32_t *buckets);
static uint32_t ring_bucket_bits(uint64_t narcs);
static uint32_t ring_count_pins(const RingDef *def);
static uint64_t ring_count_points(const RingDef *def);
static void ring_copy_names(RingName *name, RingName *utf8,
							const RingEnv *env);
static RingName ring_copy_name(RingName name, const RingEnv *env);
static int	ring_compare_pieces(const void *a, const void *b);

/*
 * Compile a definition.  A ring without points gets no arcs (pins or not):
 * the caller refuses to route on it.
 */
Ring *
ring_build(const RingDef *def, const RingEnv *env)
{
	Ring	   *ring = ring_alloc(env, 1, sizeof(Ring));
	uint32_t   *shard_indexes;

	memset(ring, 0, sizeof(Ring));
	ring->hash = def->hash;
	ring->hash_tags = def->hash_tags;
	ring->ngroups = def->ngroups;
	ring->npoints = (uint32_t) ring_count_points(def);
	ring->npins = def->npins;
	shard_indexes = ring_build_shards(ring, def, env);
	ring_build_groups(ring, def, shard_indexes, env);
	if (ring->npoints > 0)
		ring_build_arcs(ring, def, env);
	return ring;
}

/*
 * Sort pieces by their first slot.
 */
void
ring_sort_pieces(RingPiece *pieces, size_t n)
{
	if (n > 1)
		qsort(pieces, n, sizeof(RingPiece), ring_compare_pieces);
}

/*
 * Fills Ring.shards.  Returns, for each shard of each group in the order of
 * the definition, its index there.
 */
static uint32_t *
ring_build_shards(Ring *ring, const RingDef *def, const RingEnv *env)
{
	size_t		n = 0;
	size_t		at = 0;
	uint32_t   *indexes;
	RingShardRef *refs;
	uint32_t	g;
	uint32_t	s;

	for (g = 0; g < def->ngroups; g++)
		n += def->groups[g].nshards;
	indexes = ring_alloc(env, n, sizeof(uint32_t));
	refs = ring_alloc(env, n, sizeof(RingShardRef));
	for (g = 0; g < def->ngroups; g++)
	{
		for (s = 0; s < def->groups[g].nshards; s++, at++)
		{
			refs[at].name = def->groups[g].shards[s].name;
			refs[at].utf8 = def->groups[g].shards[s].utf8;
			refs[at].index = &indexes[at];
		}
	}
	ring_index_shards(ring, refs, n, env);
	return indexes;
}

/* Numbers the shards by name, fills in each reference, and keeps the names. */
static void
ring_index_shards(Ring *ring, RingShardRef *refs, size_t n,
				  const RingEnv *env)
{
	uint32_t	distinct = 0;
	size_t		i;

	if (n > 0)
		qsort(refs, n, sizeof(RingShardRef), ring_compare_utf8);
	for (i = 0; i < n; i++)
	{
		if (i > 0 && ring_name_compare(refs[i - 1].utf8, refs[i].utf8) != 0)
			distinct++;
		*refs[i].index = distinct;
	}
	ring->nshards = (n > 0) ? distinct + 1 : 0;
	ring->shards = ring_alloc(env, ring->nshards, sizeof(RingName));
	ring->shards_utf8 = ring_alloc(env, ring->nshards, sizeof(RingName));
	for (i = 0; i < n; i++)
	{
		if (i > 0 && *refs[i].index == *refs[i - 1].index)
			continue;
		ring->shards[*refs[i].index] = refs[i].name;
		ring->shards_utf8[*refs[i].index] = refs[i].utf8;
		ring_copy_names(&ring->shards[*refs[i].index],
						&ring->shards_utf8[*refs[i].index], env);
	}
}

/* Fills Ring.groups. */
static void
ring_build_groups(Ring *ring, const RingDef *def,
				  const uint32_t *shard_indexes, const RingEnv *env)
{
	uint32_t	i;

	ring->groups = ring_alloc(env, def->ngroups, sizeof(RingGroup));
	for (i = 0; i < def->ngroups; i++)
	{
		RingGroup  *group = &ring->groups[i];

		group->name = def->groups[i].name;
		group->utf8 = def->groups[i].utf8;
		ring_copy_names(&group->name, &group->utf8, env);
		group->slots = (def->groups[i].slots > 0) ? def->groups[i].slots : 1;
		group->npoints = def->groups[i].npoints;
		ring_build_runs(group, &def->groups[i], shard_indexes, env);
		shard_indexes += def->groups[i].nshards;
		env->pause(env->arg);
	}
}

/*
 * The slots of a group, shard by shard, become runs in the order of slots.
 */
static void
ring_build_runs(RingGroup *group, const RingGroupDef *def,
				const uint32_t *shard_indexes, const RingEnv *env)
{
	RingPiece  *pieces;
	size_t		n = 0;
	size_t		i;
	uint32_t	s;
	uint32_t	r;
	uint32_t	at = 0;

	for (s = 0; s < def->nshards; s++)
		n += def->shards[s].nranges;
	pieces = ring_alloc(env, n, sizeof(RingPiece));
	for (s = 0, i = 0; s < def->nshards; s++)
		for (r = 0; r < def->shards[s].nranges; r++)
			pieces[i++] = (RingPiece) {def->shards[s].ranges[r].lo,
				def->shards[s].ranges[r].hi, shard_indexes[s]};
	ring_sort_pieces(pieces, n);

	/* a hole before each piece and one at the end, if the rules are broken */
	group->nruns = 0;
	group->run_ends = ring_alloc(env, 2 * n + 1, sizeof(uint32_t));
	group->run_shards = ring_alloc(env, 2 * n + 1, sizeof(uint32_t));
	for (i = 0; i < n && at < group->slots; i++)
	{
		uint32_t	hi = pieces[i].hi;

		if (hi > group->slots)
			hi = group->slots;
		if (pieces[i].lo >= hi || hi <= at)
			continue;
		if (pieces[i].lo > at)
			ring_push_run(group, pieces[i].lo, RING_NONE);
		ring_push_run(group, hi, pieces[i].shard);
		at = hi;
	}
	if (at < group->slots)
		ring_push_run(group, group->slots, RING_NONE);
}

/* Appends a run, or lengthens the last one when it is on the same shard. */
static void
ring_push_run(RingGroup *group, uint32_t end, uint32_t shard)
{
	if (group->nruns > 0 && group->run_shards[group->nruns - 1] == shard)
		group->nruns--;
	group->run_ends[group->nruns] = end;
	group->run_shards[group->nruns] = shard;
	group->nruns++;
}

/*
 * Builds both sets of arcs.  A compiled ring lives long, and the first access
 * to a page costs more than all the work done in it, so only memory that the
 * ring keeps is used here.
 */
static void
ring_build_arcs(Ring *ring, const RingDef *def, const RingEnv *env)
{
	size_t		npoints = ring->npoints;
	size_t		npins = ring_count_pins(def);
	size_t		most = npoints + 1 + 2 * npins;
	size_t		nbuckets = ((size_t) 1 << ring_bucket_bits(most)) + 1;
	uint32_t   *buckets = ring_alloc(env, nbuckets, sizeof(uint32_t));
	RingArcs   *plain = &ring->plain;

	plain->ends = ring_alloc(env, npoints + 1, sizeof(uint32_t));
	plain->owners = ring_alloc(env, npoints + 1, sizeof(uint32_t));
	ring_place_points(plain, def, ring->npoints, buckets, env);
	ring->ndoubled = ring_close_circle(plain, ring->npoints);

	if (npins > 0)
	{
		ring->arcs.ends = ring_alloc(env, most, sizeof(uint32_t));
		ring->arcs.owners = ring_alloc(env, most, sizeof(uint32_t));
		ring_cut_pins(&ring->arcs, plain, def);
		ring_fill_buckets(&ring->arcs, buckets);
	}
	else
	{
		ring_fill_buckets(plain, buckets);
		ring->arcs = *plain;
	}
}

/*
 * All points, each with its group, by position, and in the order of the
 * definition where that is the same.
 *
 * Positions are spread evenly, so their top bits already sort them into
 * buckets of one or two: each point goes straight to its bucket, where little
 * is left to sort.
 */
static void
ring_place_points(RingArcs *arcs, const RingDef *def, uint32_t npoints,
				  uint32_t *buckets, const RingEnv *env)
{
	uint32_t	bits = ring_bucket_bits(npoints);
	uint32_t	nbuckets = UINT32_C(1) << bits;
	uint32_t	shift = 32 - bits;
	uint32_t	lo = 0;
	uint32_t	g;
	uint32_t	i;

	memset(buckets, 0, ((size_t) nbuckets + 1) * sizeof(uint32_t));
	for (g = 0; g < def->ngroups; g++)
		for (i = 0; i < def->groups[g].npoints; i++)
			buckets[(def->groups[g].points[i] >> shift) + 1]++;
	for (i = 1; i < nbuckets; i++)
		buckets[i] += buckets[i - 1];
	for (g = 0; g < def->ngroups; g++)
	{
		for (i = 0; i < def->groups[g].npoints; i++)
		{
			uint32_t	position = def->groups[g].points[i];
			uint32_t	at = buckets[position >> shift]++;

			arcs->ends[at] = position;
			arcs->owners[at] = g;
		}
		env->pause(env->arg);
	}
	for (i = 0; i < nbuckets; i++)
	{
		uint32_t	hi = buckets[i];	/* it has moved on to the end */

		if (hi - lo > 1)
			ring_sort(arcs->ends + lo, arcs->owners + lo, NULL, hi - lo, env);
		lo = hi;
	}
}

/*
 * Sorted points become arcs, in the same arrays: a point ends the arc of its
 * group, and what lies past the last point belongs to the first.  Returns how
 * many points were left out because their position was taken.
 */
static uint32_t
ring_close_circle(RingArcs *arcs, uint32_t npoints)
{
	uint32_t	first_owner = arcs->owners[0];
	uint32_t	previous = 0;
	uint32_t	ndoubled = 0;
	uint32_t	i;

	arcs->n = 0;
	for (i = 0; i < npoints; i++)
	{
		uint32_t	position = arcs->ends[i];

		if (i == 0 || position != previous)
			ring_push_arc(arcs, position, arcs->owners[i]);
		else
			ndoubled++;
		previous = position;
	}
	if (previous != UINT32_MAX)
		ring_push_arc(arcs, UINT32_MAX, first_owner);
	return ndoubled;
}

/*
 * The plain arcs with an arc of length 1 for every pin.
 */
static void
ring_cut_pins(RingArcs *arcs, const RingArcs *plain, const RingDef *def)
{
	const RingPinDef *pin = def->pins;
	const RingPinDef *last = def->pins + def->npins;
	uint64_t	lo = 0;			/* the first position that is not given out */
	uint32_t	i;

	for (i = 0; i < plain->n; i++)
	{
		for (; pin < last && pin->position <= plain->ends[i]; pin++)
		{
			if (pin->group >= def->ngroups || pin->position < lo)
				continue;
			if (pin->position > lo)
				ring_push_arc(arcs, pin->position - 1, plain->owners[i]);
			ring_push_arc(arcs, pin->position, pin->group);
			lo = (uint64_t) pin->position + 1;
		}
		if (lo <= plain->ends[i])
			ring_push_arc(arcs, plain->ends[i], plain->owners[i]);
		lo = (uint64_t) plain->ends[i] + 1;
	}
}

/*
 * Append an arc, or lengthen the last one when it has the same owner.
 */
static void
ring_push_arc(RingArcs *arcs, uint32_t end, uint32_t owner)
{
	if (arcs->n > 0 && arcs->owners[arcs->n - 1] == owner)
		arcs->n--;
	arcs->ends[arcs->n] = end;
	arcs->owners[arcs->n] = owner;
	arcs->n++;
}

/*
 * The table over the top bits, with one entry more than there are buckets, so
 * that every bucket has a next one.  The first arc that does not end before a
 * bucket is as many arcs in as end in the buckets below.
 */
static void
ring_fill_buckets(RingArcs *arcs, uint32_t *buckets)
{
	uint32_t	bits = ring_bucket_bits(arcs->n);
	uint32_t	nbuckets = UINT32_C(1) << bits;
	uint32_t	i;

	arcs->shift = 32 - bits;
	arcs->buckets = buckets;
	memset(buckets, 0, ((size_t) nbuckets + 1) * sizeof(uint32_t));
	for (i = 0; i < arcs->n; i++)
		buckets[(arcs->ends[i] >> arcs->shift) + 1]++;
	for (i = 1; i < nbuckets; i++)
		buckets[i] += buckets[i - 1];
	buckets[nbuckets] = arcs->n - 1;
}

/*
 * The top bits to look at for one to two arcs a bucket; with more buckets,
 * the table would sooner be too large for the caches.  Never 0, because a
 * shift by 32 is undefined.
 */
static uint32_t
ring_bucket_bits(uint64_t narcs)
{
	uint32_t	bits = 1;

	while (bits < 31 && UINT64_C(2) << bits < narcs)
		bits++;
	return bits;
}

/* How many pins lead to a group. */
static uint32_t
ring_count_pins(const RingDef *def)
{
	uint32_t	n = 0;
	uint32_t	i;

	for (i = 0; i < def->npins; i++)
		if (def->pins[i].group < def->ngroups)
			n++;
	return n;
}

/* How many points all groups have together. */
static uint64_t
ring_count_points(const RingDef *def)
{
	uint64_t	n = 0;
	uint32_t	i;

	for (i = 0; i < def->ngroups; i++)
		n += def->groups[i].npoints;
	return n;
}

/*
 * Copy a name in both encodings, once where they are the same bytes.
 */
static void
ring_copy_names(RingName *name, RingName *utf8, const RingEnv *env)
{
	bool		same = ring_name_compare(*name, *utf8) == 0;

	*name = ring_copy_name(*name, env);
	*utf8 = same ? *name : ring_copy_name(*utf8, env);
}

/* A copy of a name that lives as long as the ring. */
static RingName
ring_copy_name(RingName name, const RingEnv *env)
{
	char	   *bytes = ring_alloc(env, name.len, 1);

	if (name.len > 0)
		memcpy(bytes, name.bytes, name.len);
	return (RingName) {bytes, name.len};
}

/* Comparator: by first slot. */
static int
ring_compare_pieces(const void *a, const void *b)
{
	uint32_t	x = ((const RingPiece *) a)->lo;
	uint32_t	y = ((const RingPiece *) b)->lo;

	return (x > y) - (x < y);
}
