/*
 * result.c
 *		Answers as Datums and tuples.
 *
 * Everything is made in the current context; nothing here reads a table or
 * decides anything.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/multirangetypes.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

static Datum *name_datums(uint32 n, const char *first, size_t stride);
static RangeBound bound(Datum value, bool lower);

/*
 * A name as text.
 */
text *
result_text(RingName name)
{
	return cstring_to_text_with_len(name.bytes, name.len);
}

/*
 * The names of all groups as text, by their numbers in the ring.
 */
Datum *
result_group_names(const Ring *ring)
{
	return name_datums(ring->ngroups, (const char *) ring->groups +
					   offsetof(RingGroup, name), sizeof(RingGroup));
}

/*
 * The names of all groups as text, by their numbers in a definition.
 */
Datum *
result_definition_names(const RingDef *def)
{
	return name_datums(def->ngroups, (const char *) def->groups +
					   offsetof(RingGroupDef, name), sizeof(RingGroupDef));
}

/*
 * The names of all shards as text, by their numbers in the ring.
 */
Datum *
result_shard_names(const Ring *ring)
{
	return name_datums(ring->nshards, (const char *) ring->shards,
					   sizeof(RingName));
}

/*
 * A number of positions as a share of the circle; exact, as 2^32 is a power
 * of two.
 */
Datum
result_share(uint64 positions)
{
	return Float8GetDatum((double) positions / (double) RING_CIRCLE);
}

/*
 * [lo, hi) as int8range.
 */
Datum
result_range(uint64 lo, uint64 hi)
{
	TypeCacheEntry *type = lookup_type_cache(INT8RANGEOID,
											 TYPECACHE_RANGE_INFO);
	RangeBound	lower = bound(Int64GetDatum((int64) lo), true);
	RangeBound	upper = bound(Int64GetDatum((int64) hi), false);

	return RangeTypePGetDatum(compat_make_range(type, &lower, &upper));
}

/*
 * The positions of segments as int8multirange.
 */
Datum
result_positions(const DiffSegment *segments, uint32 n)
{
	TypeCacheEntry *type = lookup_type_cache(INT8MULTIRANGEOID,
											 TYPECACHE_MULTIRANGE_INFO);
	RangeType **ranges = palloc_extended(n * sizeof(RangeType *),
										 MCXT_ALLOC_HUGE);

	for (uint32 i = 0; i < n; i++)
		ranges[i] = DatumGetRangeTypeP(result_range(segments[i].lo,
													segments[i].hi));
	return MultirangeTypePGetDatum(make_multirange(INT8MULTIRANGEOID,
												   type->rngtype, n, ranges));
}

/*
 * Slots as int4multirange.
 */
Datum
result_slots(const RingRange *slots, uint32 n)
{
	TypeCacheEntry *type = lookup_type_cache(INT4MULTIRANGEOID,
											 TYPECACHE_MULTIRANGE_INFO);
	RangeType **ranges = palloc(n * sizeof(RangeType *));

	for (uint32 i = 0; i < n; i++)
	{
		RangeBound	lower = bound(Int32GetDatum((int32) slots[i].lo), true);
		RangeBound	upper = bound(Int32GetDatum((int32) slots[i].hi), false);

		ranges[i] = compat_make_range(type->rngtype, &lower, &upper);
	}
	return MultirangeTypePGetDatum(make_multirange(INT4MULTIRANGEOID,
												   type->rngtype, n, ranges));
}

/*
 * Begins a set of rows that spills to disk at work_mem.
 */
ReturnSetInfo *
result_set(FunctionCallInfo fcinfo)
{
	/* the caller's row type: a set of a scalar type has none of its own */
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	return (ReturnSetInfo *) fcinfo->resultinfo;
}

/*
 * Adds a row to the set.  Lets a cancel through, as there may be millions.
 */
void
result_put(ReturnSetInfo *set, const Datum *values, const bool *nulls)
{
	CHECK_FOR_INTERRUPTS();
	tuplestore_putvalues(set->setResult, set->setDesc,
						 unconstify(Datum *, values),
						 unconstify(bool *, nulls));
}

/*
 * n names as text, each "stride" bytes after the one before.
 */
static Datum *
name_datums(uint32 n, const char *first, size_t stride)
{
	Datum	   *datums = palloc_extended(n * sizeof(Datum),
										 MCXT_ALLOC_HUGE);

	for (uint32 i = 0; i < n; i++)
		datums[i] = PointerGetDatum(result_text(*(const RingName *)
												(first + i * stride)));
	return datums;
}

/*
 * A finite bound of a range: a lower one belongs to it, an upper one not.
 */
static RangeBound
bound(Datum value, bool lower)
{
	return (RangeBound) {
		.val = value, .infinite = false, .inclusive = lower, .lower = lower
	};
}
