/*
 * catalog_version.c
 *		The rows of a version to the definition of a ring.
 *
 * Rules as in catalog.c.  A NULL where a constraint forbids it makes the
 * definition malformed; in a column of a primary key it is XX001.
 */
#include "catalog.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/multirangetypes.h"
#include "utils/numeric.h"
#include "utils/typcache.h"

/* The columns that are read, by their numbers. */
enum
{
	MAP_GROUP = 3,
	MAP_SHARD = 4,
	MAP_SLOTS = 5,

	PIN_POSITION = 3,
	PIN_GROUP = 4
};

/* A shard_map row before it is given to its group. */
typedef struct MapRow
{
	RingName	group_name;
	RingShardDef shard;
} MapRow;

/* A list that doubles when it is full. */
typedef struct RowList
{
	void	   *rows;
	Size		row_size;
	uint32		n;
	uint32		space;
} RowList;

static void read_groups(CatalogDef *def, RowList *groups, RowScan *scan,
						int32 vnodes);
static bool read_value(CatalogDef *def, RowScan *scan, int column,
					   RingName group, Datum *value);
static void read_points(CatalogDef *def, RingGroupDef *group, Datum points);
static uint64 wanted_points(int32 vnodes, Datum weight);
static void read_maps(CatalogDef *def, RowList *maps, RowScan *scan);
static void read_slots(RingShardDef *shard, Datum slots);
static void give_maps(CatalogDef *def, RowList *groups, RowList *maps);
static void read_pins(CatalogDef *def, RowList *pins, RowScan *scan);
static void *list_add(RowList *list);
static void store_groups(CatalogDef *def, RowList *groups);
static void store_pins(CatalogDef *def, RowList *pins);
static void set_malformed(CatalogDef *def, const char *format, ...)
			pg_attribute_printf(2, 3);

/*
 * All rows of a version as a definition, in the current context.  Rows that
 * a definition cannot express are left out and named in "malformed".  The
 * row of the ring has been read.
 */
CatalogDef *
catalog_read_def(const CatalogRing *ring, const CatalogVersion *version_row)
{
	CatalogDef *def = palloc0(sizeof(CatalogDef));
	RowList		groups = {.row_size = sizeof(RingGroupDef)};
	RowList		maps = {.row_size = sizeof(MapRow)};
	RowList		pins = {.row_size = sizeof(RingPinDef)};
	int32		version = version_row->version;
	RowScan		scan;

	def->ring.hash = ring->row.hash;
	def->ring.hash_tags = ring->row.hash_tags;
	def->sealed = version_row->sealed;

	catalog_scan_begin(&scan, ring, "shard_group", version);
	read_groups(def, &groups, &scan, version_row->vnodes);
	catalog_scan_end(&scan);

	catalog_scan_begin(&scan, ring, "shard_map", version);
	read_maps(def, &maps, &scan);
	catalog_scan_end(&scan);

	catalog_scan_begin(&scan, ring, "shard_pin", version);
	read_pins(def, &pins, &scan);
	catalog_scan_end(&scan);

	give_maps(def, &groups, &maps);
	store_groups(def, &groups);
	store_pins(def, &pins);
	return def;
}

/*
 * The group of this name, or NULL.
 */
const RingGroupDef *
catalog_find_group(const CatalogDef *def, RingName utf8)
{
	if (def->ring.ngroups == 0)
		return NULL;
	return bsearch(&utf8, def->ring.groups, def->ring.ngroups,
				   sizeof(RingGroupDef), ring_compare_utf8);
}

/*
 * The rows of shard_group, in the order of the index.
 */
static void
read_groups(CatalogDef *def, RowList *groups, RowScan *scan, int32 vnodes)
{
	while (catalog_scan_next(scan))
	{
		RingGroupDef *group = list_add(groups);
		Datum		value;

		group->name = catalog_scan_name(scan, GROUP_NAME);
		group->utf8 = env_utf8_name(group->name);
		if (read_value(def, scan, GROUP_WEIGHT, group->name, &value))
			group->wanted_points = wanted_points(vnodes, value);
		if (read_value(def, scan, GROUP_SLOTS, group->name, &value))
			group->slots = DatumGetInt32(value);
		if (read_value(def, scan, GROUP_POINTS, group->name, &value))
			read_points(def, group, value);
	}
}

/*
 * A column of a row that belongs to a group; false when it is NULL, which
 * makes the definition malformed.
 */
static bool
read_value(CatalogDef *def, RowScan *scan, int column, RingName group,
		   Datum *value)
{
	TupleDesc	desc = RelationGetDescr(scan->table);
	bool		isnull;

	*value = catalog_scan_column(scan, column, &isnull);
	if (isnull)
		set_malformed(def, "column \"%s\" of \"%s\" is NULL in a row of "
					  "group \"%s\"",
					  NameStr(TupleDescAttr(desc, column - 1)->attname),
					  RelationGetRelationName(scan->table), group.bytes);
	return !isnull;
}

/*
 * The points of a group.  What is no position makes the definition malformed.
 */
static void
read_points(CatalogDef *def, RingGroupDef *group, Datum points)
{
	ArrayType  *array = DatumGetArrayTypeP(points);
	uint32		n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const int64 *values = (const int64 *) ARR_DATA_PTR(array);
	uint32	   *positions = palloc(n * sizeof(uint32));

	if (ARR_HASNULL(array))
	{
		set_malformed(def, "a point of group \"%s\" is NULL",
					  group->name.bytes);
		n = 0;
	}
	for (uint32 i = 0; i < n; i++)
	{
		if (values[i] < 0 || (uint64) values[i] >= RING_CIRCLE)
			set_malformed(def, "point number %u of group \"%s\" is out of "
						  "range", i + 1, group->name.bytes);
		positions[i] = (uint32) values[i];
	}
	group->npoints = n;
	group->points = positions;
	if ((Pointer) array != DatumGetPointer(points))
		pfree(array);
}

/*
 * round(vnodes * weight), half away from zero; more than any limit when it is
 * too large to be written.
 */
static uint64
wanted_points(int32 vnodes, Datum weight)
{
	Datum		points;
	Datum		limit;

	points = DirectFunctionCall2(numeric_mul, weight,
								 NumericGetDatum(int64_to_numeric(vnodes)));
	points = DirectFunctionCall2(numeric_round, points, Int32GetDatum(0));
	limit = NumericGetDatum(int64_to_numeric(RING_MAX_POINTS));
	if (!DatumGetBool(DirectFunctionCall2(numeric_le, points, limit)))
		return (uint64) RING_MAX_POINTS + 1;
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, points));
}

/*
 * The rows of shard_map, in the order of the index.
 */
static void
read_maps(CatalogDef *def, RowList *maps, RowScan *scan)
{
	while (catalog_scan_next(scan))
	{
		MapRow	   *row = list_add(maps);
		Datum		value;

		row->group_name = catalog_scan_name(scan, MAP_GROUP);
		row->shard.name = catalog_scan_name(scan, MAP_SHARD);
		row->shard.utf8 = env_utf8_name(row->shard.name);
		if (read_value(def, scan, MAP_SLOTS, row->group_name, &value))
			read_slots(&row->shard, value);
	}
}

/*
 * The ranges of an int4multirange.  A constraint keeps the bounds finite and
 * not negative; should they not be, they become what no group has.
 */
static void
read_slots(RingShardDef *shard, Datum slots)
{
	MultirangeType *multirange = DatumGetMultirangeTypeP(slots);
	TypeCacheEntry *type = lookup_type_cache(INT4MULTIRANGEOID,
											 TYPECACHE_MULTIRANGE_INFO);
	RangeType **ranges;
	int32		n;
	RingRange  *out;

	multirange_deserialize(type->rngtype, multirange, &n, &ranges);
	out = palloc(n * sizeof(RingRange));
	for (int i = 0; i < n; i++)
	{
		RangeBound	lower;
		RangeBound	upper;
		bool		empty;

		range_deserialize(type->rngtype, ranges[i], &lower, &upper, &empty);
		out[i].lo = lower.infinite ? RING_NONE - 1 :
			(uint32) DatumGetInt32(lower.val);
		out[i].hi = upper.infinite ? RING_NONE :
			(uint32) DatumGetInt32(upper.val);
	}
	shard->nranges = n;
	shard->ranges = out;
}

/*
 * Gives each group its shard_map rows.  Both lists come from an index that
 * orders them by group name, so one pass will do.
 */
static void
give_maps(CatalogDef *def, RowList *groups, RowList *maps)
{
	RingGroupDef *group = groups->rows;
	RingGroupDef *end = group + groups->n;
	MapRow	   *map = maps->rows;
	uint32		n;

	for (uint32 i = 0; i < maps->n; i += n)
	{
		RingShardDef *shards;
		RingName	name = map[i].group_name;

		for (n = 1; i + n < maps->n; n++)
			if (ring_name_compare(map[i + n].group_name, name) != 0)
				break;
		while (group < end && ring_name_compare(group->name, name) < 0)
			group++;
		if (group == end || ring_name_compare(group->name, name) != 0)
		{
			set_malformed(def, "shard \"%s\" has slots of group \"%s\", "
						  "which is not in the version",
						  map[i].shard.name.bytes, name.bytes);
			continue;
		}
		shards = palloc(n * sizeof(RingShardDef));
		for (uint32 k = 0; k < n; k++)
			shards[k] = map[i + k].shard;
		qsort(shards, n, sizeof(RingShardDef), ring_compare_utf8);
		group->shards = shards;
		group->nshards = n;
	}
}

/*
 * The rows of shard_pin, by position; store_pins finds their groups.
 */
static void
read_pins(CatalogDef *def, RowList *pins, RowScan *scan)
{
	while (catalog_scan_next(scan))
	{
		int64		position =
			DatumGetInt64(catalog_scan_value(scan, PIN_POSITION));
		bool		isnull;
		RingPinDef *pin;

		if (position < 0 || (uint64) position >= RING_CIRCLE)
		{
			set_malformed(def, "the position of a pin is out of range");
			continue;
		}
		(void) catalog_scan_column(scan, PIN_GROUP, &isnull);
		if (isnull)
		{
			set_malformed(def, "the group of a pin is NULL");
			continue;
		}
		pin = list_add(pins);
		pin->position = (uint32) position;
		pin->group_name = catalog_scan_name(scan, PIN_GROUP);
		pin->group_utf8 = env_utf8_name(pin->group_name);
		pin->group = RING_NONE;
	}
}

/*
 * A new zeroed row at the end of a list.
 */
static void *
list_add(RowList *list)
{
	char	   *row;

	if (list->n == list->space)
	{
		list->space = list->space == 0 ? 16 : list->space * 2;
		list->rows = list->rows == NULL ?
			palloc(list->space * list->row_size) :
			repalloc_huge(list->rows, list->space * list->row_size);
	}
	row = (char *) list->rows + list->n++ * list->row_size;
	memset(row, 0, list->row_size);
	return row;
}

/*
 * Puts the groups, in the order of their UTF-8 names, into the definition.
 */
static void
store_groups(CatalogDef *def, RowList *groups)
{
	if (groups->n > 1)
		qsort(groups->rows, groups->n, sizeof(RingGroupDef),
			  ring_compare_utf8);
	def->ring.groups = groups->rows;
	def->ring.ngroups = groups->n;
}

/*
 * Puts the pins into the definition and finds the group of each.
 */
static void
store_pins(CatalogDef *def, RowList *pins)
{
	RingPinDef *rows = pins->rows;

	for (uint32 i = 0; i < pins->n; i++)
	{
		const RingGroupDef *group = catalog_find_group(def,
													   rows[i].group_utf8);

		if (group != NULL)
			rows[i].group = group - def->ring.groups;
	}
	def->ring.pins = rows;
	def->ring.npins = pins->n;
}

/*
 * Notes the first row that a definition cannot express.
 */
static void
set_malformed(CatalogDef *def, const char *format, ...)
{
	char		sentence[1024];
	va_list		args;

	if (def->malformed != NULL)
		return;
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	def->malformed = pstrdup(sentence);
}
