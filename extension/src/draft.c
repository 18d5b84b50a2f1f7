/*
 * draft.c
 *		What the define chapter of the install script needs from C.
 *
 * Internal functions, called by add_group, set_weight, set_vnodes, seal and
 * problems.  They read the rows themselves, never a compiled ring, because
 * the rows may be wrong; with "fresh" they read what is committed now rather
 * than what the transaction saw when it began.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

/* A group whose points are to be changed. */
typedef struct Resize
{
	RingName	utf8;			/* first, for ring_compare_utf8 */
	Datum		name_datum;
	const RingGroupDef *group;	/* NULL: not in the version yet */
	uint32		want;
} Resize;

static CatalogDef *define_def(text *name, int32 version, bool fresh);
static bool put_problem(void *arg, const char *problem);
static Resize *read_resizes(const CatalogDef *def, ArrayType *names,
							ArrayType *counts, int *n);
static PointsTaken *take_points(const CatalogDef *def, const Resize *resizes,
							  int n);
static Datum resize_group(const CatalogDef *def, const Resize *resize,
						  PointsTaken *taken);
static Datum points_array(const uint32 *points, uint32 n);

PG_FUNCTION_INFO_V1(shardring_version_problems);
PG_FUNCTION_INFO_V1(shardring_version_fingerprint);
PG_FUNCTION_INFO_V1(shardring_resize_groups);
PG_FUNCTION_INFO_V1(shardring_version_exists);

/*
 * version_problems(ring, version, fresh): everything that keeps the rows of a
 * version from being a ring; no row when it may be sealed.
 */
Datum
shardring_version_problems(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	CatalogDef *def = define_def(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								 PG_GETARG_BOOL(2));

	if (def->malformed != NULL)
		put_problem(set, def->malformed);
	(void) check_structure(&def->ring, &shardring_env, put_problem, set);
	if (check_points(&def->ring, &shardring_env, put_problem,
					 set) == RING_NO_HASH)
		env_no_hash();
	return (Datum) 0;
}

/*
 * version_fingerprint(ring, version, fresh): the fingerprint of the rows as
 * they are.
 */
Datum
shardring_version_fingerprint(PG_FUNCTION_ARGS)
{
	CatalogDef *def = define_def(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								 PG_GETARG_BOOL(2));
	char		hex[FINGERPRINT_LEN + 1];

	if (!fingerprint_hex(&def->ring, hex))
		env_no_hash();
	PG_RETURN_TEXT_P(cstring_to_text(hex));
}

/*
 * version_exists(ring, version): whether there is such a version now, whatever
 * the transaction sees.
 */
Datum
shardring_version_exists(PG_FUNCTION_ARGS)
{
	CatalogRing ring;
	CatalogVersion row;
	bool		found;

	PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(PG_GETARG_TEXT_PP(0), memo_snapshot());
	found = catalog_read_version(&ring, PG_GETARG_INT32(1), &row);
	PopActiveSnapshot();
	PG_RETURN_BOOL(found);
}

/*
 * resize_groups(ring, version, group_names, counts): the points each of these
 * groups has with that many of them, in the order of their UTF-8 names.
 * Points are appended after the last candidate or dropped from the end; all
 * other points of the version stay.
 */
Datum
shardring_resize_groups(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	CatalogDef *def = define_def(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								 false);
	PointsTaken  *taken;
	Resize	   *resizes;
	int			n;

	resizes = read_resizes(def, PG_GETARG_ARRAYTYPE_P(2),
						   PG_GETARG_ARRAYTYPE_P(3), &n);
	qsort(resizes, n, sizeof(Resize), ring_compare_utf8);
	taken = take_points(def, resizes, n);
	for (int i = 0; i < n; i++)
	{
		bool		nulls[2] = {0};
		Datum		values[2];

		values[0] = resizes[i].name_datum;
		values[1] = resize_group(def, &resizes[i], taken);
		result_put(set, values, nulls);
		pfree(DatumGetPointer(values[1]));
	}
	return (Datum) 0;
}

/*
 * The rows of a version; 42704 when there is no such version or ring.
 */
static CatalogDef *
define_def(text *name, int32 version, bool fresh)
{
	CatalogRing ring;
	CatalogVersion version_row;
	CatalogDef *def;

	if (fresh)
		PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(name, memo_snapshot());
	catalog_require_ring(&ring);
	catalog_require_version(&ring, version, &version_row);
	def = catalog_read_def(&ring, &version_row);
	if (fresh)
		PopActiveSnapshot();
	return def;
}

/*
 * RingReport that makes each problem a row.
 */
static bool
put_problem(void *arg, const char *problem)
{
	bool		isnull = false;
	Datum		value = CStringGetTextDatum(problem);

	result_put(arg, &value, &isnull);
	pfree(DatumGetPointer(value));
	return true;
}

/*
 * The two arrays as one list, with the groups that exist already.
 */
static Resize *
read_resizes(const CatalogDef *def, ArrayType *names, ArrayType *counts,
			 int *n)
{
	Datum	   *name_datums;
	Datum	   *count_datums;
	int			ncounts;
	Resize	   *resizes;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &name_datums,
					  NULL, n);
	deconstruct_array(counts, INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &count_datums, NULL, &ncounts);
	if (*n != ncounts)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("group names and counts must be equal in number")));
	resizes = palloc(*n * sizeof(Resize));
	for (int i = 0; i < *n; i++)
	{
		text	   *name = DatumGetTextPP(name_datums[i]);
		int32		count = DatumGetInt32(count_datums[i]);

		if (count < 0 || count > RING_MAX_POINTS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("number of points is out of range")));
		resizes[i].name_datum = name_datums[i];
		resizes[i].utf8 = env_utf8_name((RingName) {
			VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)
		});
		resizes[i].group = catalog_find_group(def, resizes[i].utf8);
		resizes[i].want = count;
	}
	return resizes;
}

/*
 * All points of the version as taken positions, with room for what the groups
 * will get; 54000 when that is more than a version may have.
 *
 * Points that a shrinking group is about to drop stay taken: within one call
 * groups only grow or only shrink.
 */
static PointsTaken *
take_points(const CatalogDef *def, const Resize *resizes, int n)
{
	uint64		capacity = 0;
	PointsTaken  *taken;

	for (uint32 g = 0; g < def->ring.ngroups; g++)
		capacity += def->ring.groups[g].npoints;
	for (int i = 0; i < n; i++)
	{
		uint32		have = resizes[i].group ? resizes[i].group->npoints : 0;

		capacity += resizes[i].want > have ? resizes[i].want - have : 0;
	}
	if (capacity > RING_MAX_POINTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many points"),
				 errdetail("A version has at most %d points.",
						   RING_MAX_POINTS)));
	taken = points_taken_create((uint32) capacity, &shardring_env);
	for (uint32 g = 0; g < def->ring.ngroups; g++)
		for (uint32 i = 0; i < def->ring.groups[g].npoints; i++)
			(void) points_taken_add(taken, def->ring.groups[g].points[i]);
	return taken;
}

/*
 * The points of one group as bigint[].
 */
static Datum
resize_group(const CatalogDef *def, const Resize *resize, PointsTaken *taken)
{
	uint32		have = resize->group ? resize->group->npoints : 0;
	uint32	   *points = palloc(Max(have, resize->want) * sizeof(uint32));

	if (have > 0)
		memcpy(points, resize->group->points, have * sizeof(uint32));
	env_extend_points(def->ring.hash, resize->utf8, taken, points, have,
					  resize->want);
	return points_array(points, resize->want);
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
