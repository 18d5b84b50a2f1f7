/*
 * catalog_points.c
 *		The points of all groups of a version, and nothing else of it.
 *
 * Whoever adds a point to a draft has to read all the others, once for each
 * group that is added; the rest of the definition does not matter then.
 * Rules as in catalog.c.
 */
#include "catalog.h"

#include "utils/array.h"

static GroupPoints *add_group(CatalogPoints *all, uint32 *space);
static void read_points(GroupPoints *group, Datum points);

/*
 * The points of a version, in the current context, by the names of the groups
 * in the order of their bytes.  What is no position is cut to 32 bits: it is
 * for sealing to refuse it.
 */
CatalogPoints
catalog_read_points(const CatalogRing *ring, int32 version)
{
	CatalogPoints all = {0};
	uint32		space = 0;
	RowScan		scan;

	catalog_scan_begin(&scan, ring, "shard_group", version);
	while (catalog_scan_next(&scan))
	{
		GroupPoints *group = add_group(&all, &space);

		group->name = catalog_scan_name(&scan, GROUP_NAME);
		read_points(group, catalog_scan_value(&scan, GROUP_POINTS));
		all.npoints += group->npoints;
	}
	catalog_scan_end(&scan);
	return all;
}

/*
 * A new group at the end.
 */
static GroupPoints *
add_group(CatalogPoints *all, uint32 *space)
{
	if (all->ngroups == *space)
	{
		*space = Max(*space * 2, 16);
		all->groups = all->groups == NULL ?
			palloc(*space * sizeof(GroupPoints)) :
			repalloc_huge(all->groups, *space * sizeof(GroupPoints));
	}
	return &all->groups[all->ngroups++];
}

/*
 * The points of one group; none when one of them is NULL, which a constraint
 * forbids.
 */
static void
read_points(GroupPoints *group, Datum points)
{
	ArrayType  *array = DatumGetArrayTypeP(points);
	uint32		n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const int64 *values = (const int64 *) ARR_DATA_PTR(array);

	group->npoints = ARR_HASNULL(array) ? 0 : n;
	group->points = palloc(group->npoints * sizeof(uint32));
	for (uint32 i = 0; i < group->npoints; i++)
		group->points[i] = (uint32) values[i];
	if ((Pointer) array != DatumGetPointer(points))
		pfree(array);
}
