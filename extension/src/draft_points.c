/*
 * draft_points.c
 *		The choice of points for groups of a draft.
 *
 * An internal function, called by add_group, add_groups, set_weight and
 * set_vnodes.  A candidate is skipped when any group has a point there, so
 * all points are read; but where few are chosen beside many, only those that
 * can be in the way are put into a set.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

/*
 * How many candidates of a group are looked at beyond the points it lacks,
 * before all points of the version are put into a set.
 */
#define SPARE_CANDIDATES	16

/* Fewer candidates than a part of all points are worth a filter. */
#define FILTER_PART			8

/* A group whose points are to be changed. */
typedef struct Resize
{
	Datum		name_datum;
	RingName	utf8;
	PointsCursor cursor;		/* after the points it has */
	uint32		want;
	uint32	   *points;			/* room for all it has and wants */
} Resize;

/* All of them. */
typedef struct Resizing
{
	HashKind	hash;
	CatalogPoints old;			/* of the version, as it is */
	uint64		growth;			/* points that are to come */
	int			n;
	Resize	   *resizes;
} Resizing;

static void read_version(text *name, int32 version, Resizing *resizing);
static void read_resizes(Resizing *resizing, ArrayType *names,
						 ArrayType *counts);
static void require_room(text *name, int32 version, Resizing *resizing);
static void start_points(Resizing *resizing);
static const GroupPoints *find_group(const CatalogPoints *points, Datum name);
static bool choose_points(Resizing *resizing, uint32 spare);
static PointsFilter *filter_candidates(const Resizing *resizing,
									   uint32 spare);
static uint32 last_candidate(const Resize *resize, uint32 spare);
static PointsTaken *take_points(const Resizing *resizing,
								const PointsFilter *filter);
static Datum points_array(const uint32 *points, uint32 n);

PG_FUNCTION_INFO_V1(shardring_resize_groups);

/*
 * resize_groups(ring, version, group_names, counts): the points each of these
 * groups has with that many of them, in the order of the arrays, as if they
 * were resized one after the other.  Points are appended after the last
 * candidate or dropped from the end; all other points of the version stay.
 * 54000 when it would have too many.
 */
Datum
shardring_resize_groups(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	Resizing	resizing = {0};

	read_version(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1), &resizing);
	read_resizes(&resizing, PG_GETARG_ARRAYTYPE_P(2),
				 PG_GETARG_ARRAYTYPE_P(3));
	require_room(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1), &resizing);
	start_points(&resizing);
	for (uint32 spare = SPARE_CANDIDATES; !choose_points(&resizing, spare);
		 spare *= FILTER_PART)	/* LCOV_EXCL_LINE: see choose_points */
		CHECK_FOR_INTERRUPTS(); /* LCOV_EXCL_LINE: see choose_points */
	for (int i = 0; i < resizing.n; i++)
	{
		Resize	   *resize = &resizing.resizes[i];
		bool		nulls[2] = {0};
		Datum		values[2];

		values[0] = resize->name_datum;
		values[1] = points_array(resize->points, resize->want);
		result_put(set, values, nulls);
		pfree(DatumGetPointer(values[1]));
	}
	return (Datum) 0;
}

/*
 * The hash and the points of a version; 42704 when there is no such version or
 * ring.
 */
static void
read_version(text *name, int32 version, Resizing *resizing)
{
	CatalogRing ring = catalog_ring(name, memo_snapshot());
	CatalogVersion version_row;

	catalog_require_ring(&ring);
	catalog_require_version(&ring, version, &version_row);
	resizing->hash = ring.row.hash;
	resizing->old = catalog_read_points(&ring, version);
}

/*
 * The two arrays as one list.
 */
static void
read_resizes(Resizing *resizing, ArrayType *names, ArrayType *counts)
{
	Datum	   *name_datums;
	Datum	   *count_datums;
	int			ncounts;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &name_datums,
					  NULL, &resizing->n);
	deconstruct_array(counts, INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &count_datums, NULL, &ncounts);
	if (resizing->n != ncounts)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("group names and counts must be equal in number")));
	resizing->resizes = palloc0(ncounts * sizeof(Resize));
	for (int i = 0; i < ncounts; i++)
	{
		int32		count = DatumGetInt32(count_datums[i]);

		if (count < 0 || count > RING_MAX_POINTS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("number of points is out of range")));
		resizing->resizes[i].name_datum = name_datums[i];
		resizing->resizes[i].want = count;
	}
}

/*
 * Finds what the groups have; 54000 when the version would have more points
 * than it may, or has already, so that nothing could be compared with them.
 */
static void
require_room(text *name, int32 version, Resizing *resizing)
{
	uint64		total = resizing->old.npoints;
	uint64		room = resizing->hash == HASH_CRC16 ?
		RING_MAX_CRC16_POINTS : RING_MAX_POINTS;

	for (int i = 0; i < resizing->n; i++)
	{
		Resize	   *resize = &resizing->resizes[i];
		const GroupPoints *group = find_group(&resizing->old,
											  resize->name_datum);

		resize->cursor.n = group == NULL ? 0 : group->npoints;
		resize->points = group == NULL ? NULL : group->points;
		total = total - resize->cursor.n + resize->want;
		if (resize->want > resize->cursor.n)
			resizing->growth += resize->want - resize->cursor.n;
	}
	if (resizing->growth > 0)
		total = Max(total, resizing->old.npoints + resizing->growth);
	if (total > room)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many points for version %d of ring \"%s\"",
						version, text_to_cstring(name)),
				 errdetail("It would have %llu points; at most %llu are "
						   "allowed.", (unsigned long long) total,
						   (unsigned long long) room)));
}

/*
 * The group of this name, or NULL.
 */
static const GroupPoints *
find_group(const CatalogPoints *points, Datum name)
{
	text	   *value = DatumGetTextPP(name);
	RingName	wanted = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
	uint32		lo = 0;
	uint32		hi = points->ngroups;

	while (lo < hi)
	{
		uint32		mid = lo + (hi - lo) / 2;
		int			order = ring_name_compare(points->groups[mid].name,
											  wanted);

		if (order == 0)
			return &points->groups[mid];
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/*
 * Puts every group that is to grow behind the points it has.
 */
static void
start_points(Resizing *resizing)
{
	for (int i = 0; i < resizing->n; i++)
	{
		Resize	   *resize = &resizing->resizes[i];
		text	   *name = DatumGetTextPP(resize->name_datum);
		uint32	   *points;

		if (resize->want <= resize->cursor.n)
			continue;
		points = palloc(resize->want * sizeof(uint32));
		if (resize->cursor.n > 0)
			memcpy(points, resize->points, resize->cursor.n * sizeof(uint32));
		resize->points = points;
		resize->utf8 = env_utf8_name((RingName) {
			VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)
		});
		env_require_points(points_resume(resizing->hash, resize->utf8, points,
									 &resize->cursor, &shardring_env));
	}
}

/*
 * Chooses all points that are to come; false when a group ran out of the
 * candidates that the filter let pass.
 */
static bool
choose_points(Resizing *resizing, uint32 spare)
{
	PointsFilter *filter;
	PointsTaken *taken;

	if (resizing->growth == 0)
		return true;
	filter = filter_candidates(resizing, spare);
	taken = take_points(resizing, filter);
	for (int i = 0; i < resizing->n; i++)
	{
		Resize	   *resize = &resizing->resizes[i];
		PointsCursor cursor = resize->cursor;

		env_require_points(points_choose(resizing->hash, resize->utf8, taken,
									 resize->points, &cursor, resize->want,
									 filter == NULL ? UINT32_MAX :
									 last_candidate(resize, spare),
									 &shardring_env));

		/*
		 * More candidates would have to be taken than are spare: with 32 bits,
		 * seventeen out of a few thousand, each by chance.
		 */
		if (cursor.n < resize->want)
			return false;		/* LCOV_EXCL_LINE: by chance alone */
	}
	return true;
}

/*
 * A filter for the candidates that are likely to become points; NULL when they
 * are too many for that.
 */
static PointsFilter *
filter_candidates(const Resizing *resizing, uint32 spare)
{
	uint64		candidates = resizing->growth + (uint64) spare * resizing->n;
	PointsFilter *filter;

	if (candidates > resizing->old.npoints / FILTER_PART)
		return NULL;
	filter = points_filter_create((uint32) candidates, &shardring_env);
	for (int i = 0; i < resizing->n; i++)
	{
		const Resize *resize = &resizing->resizes[i];

		if (!points_filter_add(filter, resizing->hash, resize->utf8,
							   resize->cursor.salt,
							   last_candidate(resize, spare)))
			env_no_hash();
	}
	return filter;
}

/*
 * The candidate after those that the filter has for a group.
 */
static uint32
last_candidate(const Resize *resize, uint32 spare)
{
	if (resize->want <= resize->cursor.n)
		return resize->cursor.salt;
	return resize->cursor.salt + resize->want - resize->cursor.n + spare;
}

/*
 * The points of the version, those that pass the filter, as taken positions,
 * with room for what the groups will get.
 *
 * Points that a shrinking group is about to drop stay taken: within one call
 * groups only grow or only shrink.
 */
static PointsTaken *
take_points(const Resizing *resizing, const PointsFilter *filter)
{
	const CatalogPoints *old = &resizing->old;
	uint32	   *picked = palloc(old->npoints * sizeof(uint32));
	uint32		n = 0;
	PointsTaken *taken;

	for (uint32 g = 0; g < old->ngroups; g++)
	{
		const GroupPoints *group = &old->groups[g];

		if (filter != NULL)
			n += points_filter_pick(filter, group->points, group->npoints,
									picked + n);
		else
		{
			memcpy(picked + n, group->points,
				   group->npoints * sizeof(uint32));
			n += group->npoints;
		}
	}
	taken = points_taken_create(n + (uint32) resizing->growth,
								&shardring_env);
	for (uint32 i = 0; i < n; i++)
		(void) points_taken_add(taken, picked[i]);
	pfree(picked);
	return taken;
}

/*
 * Points as bigint[].
 */
static Datum
points_array(const uint32 *points, uint32 n)
{
	Datum	   *datums = palloc(n * sizeof(Datum));
	ArrayType  *array;

	for (uint32 i = 0; i < n; i++)
		datums[i] = Int64GetDatum(points[i]);
	array = construct_array(datums, n, INT8OID, sizeof(int64),
							FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	pfree(datums);
	return PointerGetDatum(array);
}
