/*
 * look.c
 *		What does a version look like?
 *
 * Set-returning functions over one version; a NULL ring gives no rows, a NULL
 * version means the active one.  Shares count positions exactly, as whole
 * numbers, and are divided once.
 */
#include "shardring.h"

#include "miscadmin.h"
#include "utils/fmgrprotos.h"

/* A point as points() shows it. */
typedef struct LookPoint
{
	uint32		position;
	uint32		group;
	uint32		salt;			/* RING_NONE: no candidate of its group */
} LookPoint;

static const Memo *look_ring(FunctionCallInfo fcinfo);
static LookPoint *collect_points(const RingDef *def, uint32 *n);
static void collect_group(const RingDef *def, uint32 group, LookPoint *out);
static int	compare_points(const void *a, const void *b);
static void put_share(ReturnSetInfo *set, const RingGroup *group, Datum weight,
					  double expected, uint64 positions);
static double sum_weights(const Datum *weights, uint32 n);
static double weight_value(Datum weight);
static void count_slots(const Ring *ring, int32 *groups, int64 *slots);

PG_FUNCTION_INFO_V1(shardring_points);
PG_FUNCTION_INFO_V1(shardring_arcs);
PG_FUNCTION_INFO_V1(shardring_shares);
PG_FUNCTION_INFO_V1(shardring_shard_shares);

/*
 * points(ring, version): every point, ascending by position.  Pins are not
 * points.
 */
Datum
shardring_points(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	const Memo *memo = look_ring(fcinfo);
	CatalogRing ring;
	const RingDef *def;
	Datum	   *names;
	LookPoint  *points;
	uint32		n;

	if (memo == NULL)
		return (Datum) 0;
	/* checks the ring; everything shown comes from the rows */
	ring = memo_ring(memo, PG_GETARG_TEXT_PP(0));
	def = &cache_rows(&ring, memo->version, memo->fingerprint)->ring;
	names = result_definition_names(def);
	points = collect_points(def, &n);
	for (uint32 i = 0; i < n; i++)
	{
		bool		nulls[3] = {false, false, points[i].salt == RING_NONE};
		Datum		values[3];

		values[0] = Int64GetDatum(points[i].position);
		values[1] = names[points[i].group];
		values[2] = Int32GetDatum(points[i].salt);
		result_put(set, values, nulls);
	}
	return (Datum) 0;
}

/*
 * arcs(ring, version): who owns what, pins included, ascending, covering the
 * whole circle.
 */
Datum
shardring_arcs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	const Memo *memo = look_ring(fcinfo);
	bool		nulls[2] = {0};
	Datum		values[2];
	Datum	   *names;
	uint64		lo = 0;

	if (memo == NULL)
		return (Datum) 0;
	names = result_group_names(memo->ring);
	for (uint32 i = 0; i < memo->ring->arcs.n; i++)
	{
		uint64		hi = (uint64) memo->ring->arcs.ends[i] + 1;

		values[0] = result_range(lo, hi);
		values[1] = names[memo->ring->arcs.owners[i]];
		result_put(set, values, nulls);
		pfree(DatumGetPointer(values[0]));
		lo = hi;
	}
	return (Datum) 0;
}

/*
 * shares(ring, version): what each group owns, and what its weight expects.
 */
Datum
shardring_shares(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	const Memo *memo = look_ring(fcinfo);
	CatalogRing rows;
	const Ring *ring;
	Datum	   *weights;
	uint64	   *positions;
	double		total;

	if (memo == NULL)
		return (Datum) 0;
	ring = memo->ring;
	rows = memo_ring(memo, PG_GETARG_TEXT_PP(0));
	weights = catalog_read_extras(&rows, memo->version, ring).weights;
	total = sum_weights(weights, ring->ngroups);
	positions = palloc0(ring->ngroups * sizeof(uint64));
	ring_shares(&ring->arcs, ring->ngroups, positions);
	for (uint32 i = 0; i < ring->ngroups; i++)
		put_share(set, &ring->groups[i], weights[i],
				  total > 0 ? weight_value(weights[i]) / total : 0,
				  positions[i]);
	return (Datum) 0;
}

/*
 * shard_shares(ring, version): what each shard holds, over all its groups.
 */
Datum
shardring_shard_shares(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	const Memo *memo = look_ring(fcinfo);
	const Ring *ring;
	uint64	   *positions;
	int32	   *groups;
	int64	   *slots;

	if (memo == NULL)
		return (Datum) 0;
	ring = memo->ring;
	positions = palloc0(ring->nshards * sizeof(uint64));
	groups = palloc0(ring->nshards * sizeof(int32));
	slots = palloc0(ring->nshards * sizeof(int64));
	diff_shard_shares(ring, &shardring_env, positions);
	count_slots(ring, groups, slots);
	for (uint32 i = 0; i < ring->nshards; i++)
	{
		bool		nulls[4] = {0};
		Datum		values[4];

		values[0] = PointerGetDatum(result_text(ring->shards[i]));
		values[1] = Int32GetDatum(groups[i]);
		values[2] = Int64GetDatum(slots[i]);
		values[3] = result_share(positions[i]);
		result_put(set, values, nulls);
	}
	return (Datum) 0;
}

/*
 * The ring that was asked for; NULL when its name is NULL.
 */
static const Memo *
look_ring(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		return NULL;
	return memo_get(&memo_call_site(fcinfo)->memo, PG_GETARG_TEXT_PP(0),
					PG_ARGISNULL(1) ? ACTIVE_VERSION : PG_GETARG_INT32(1));
}

/*
 * All points of a version, ascending by position.
 */
static LookPoint *
collect_points(const RingDef *def, uint32 *n)
{
	uint32		total = 0;
	LookPoint  *points;

	for (uint32 g = 0; g < def->ngroups; g++)
		total += def->groups[g].npoints;
	points = palloc_extended(total * sizeof(LookPoint), MCXT_ALLOC_HUGE);
	*n = 0;
	for (uint32 g = 0; g < def->ngroups; g++)
	{
		collect_group(def, g, points + *n);
		*n += def->groups[g].npoints;
	}
	qsort(points, *n, sizeof(LookPoint), compare_points);
	return points;
}

/*
 * The points of one group, with their salts as far as they have one.
 */
static void
collect_group(const RingDef *def, uint32 group, LookPoint *out)
{
	const RingGroupDef *g = &def->groups[group];
	uint32	   *salts = palloc(g->npoints * sizeof(uint32));
	uint32		good = g->npoints;
	uint32		bad;

	switch (points_salts(def->hash, g->utf8, g->points, g->npoints, salts,
					   &bad, &shardring_env))
	{
		case RING_OK:
			break;
		case RING_NO_HASH:
			env_no_hash();
			break;
		default:
			good = bad;
	}
	for (uint32 i = 0; i < g->npoints; i++)
		out[i] = (LookPoint) {
			g->points[i], group, i < good ? salts[i] : RING_NONE
		};
	pfree(salts);
}

/*
 * Comparator: by position.  Lets a cancel through, as there may be millions.
 */
static int
compare_points(const void *a, const void *b)
{
	uint32		x = ((const LookPoint *) a)->position;
	uint32		y = ((const LookPoint *) b)->position;

	CHECK_FOR_INTERRUPTS();
	return (x > y) - (x < y);
}

/*
 * Adds the row of one group; without an expected share there is no ratio.
 */
static void
put_share(ReturnSetInfo *set, const RingGroup *group, Datum weight,
		  double expected, uint64 positions)
{
	bool		nulls[6] = {false, false, false, false, false, expected == 0};
	Datum		values[6];

	values[0] = PointerGetDatum(result_text(group->name));
	values[1] = weight;
	values[2] = Int32GetDatum(group->npoints);
	values[3] = result_share(positions);
	values[4] = Float8GetDatum(expected);
	values[5] = Float8GetDatum(nulls[5] ? 0 :
							   DatumGetFloat8(values[3]) / expected);
	result_put(set, values, nulls);
}

/*
 * All weights of a version together.
 */
static double
sum_weights(const Datum *weights, uint32 n)
{
	double		total = 0;

	for (uint32 i = 0; i < n; i++)
		total += weight_value(weights[i]);
	return total;
}

/*
 * A weight as a double; only shares that are expected are made of it.
 */
static double
weight_value(Datum weight)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8, weight));
}

/*
 * In how many groups each shard has slots, and how many.
 */
static void
count_slots(const Ring *ring, int32 *groups, int64 *slots)
{
	uint32	   *seen = palloc0(ring->nshards * sizeof(uint32));

	for (uint32 g = 0; g < ring->ngroups; g++)
	{
		const RingGroup *group = &ring->groups[g];

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0, lo = 0; i < group->nruns; i++)
		{
			uint32		shard = group->run_shards[i];

			slots[shard] += group->run_ends[i] - lo;
			lo = group->run_ends[i];
			groups[shard] += seen[shard] != g + 1;
			seen[shard] = g + 1;
		}
	}
}
