/*
 * catalog_extras.c
 *		What decides no route: weights and zones of groups.
 *
 * Rules as in catalog.c.  A compiled ring has neither, and its fingerprint
 * does not cover them; zones decide where copies go, so a sealed version has
 * a fingerprint of its zones too, which is checked when they are read.
 */
#include "catalog.h"

#include "utils/builtins.h"
#include "utils/numeric.h"

static bool read_extras(CatalogExtras *extras, const Ring *compiled,
						RowScan *scan);
pg_noreturn static void refuse_groups(const CatalogRing *ring,
									  int32 version);
static void check_zones(const CatalogRing *ring, int32 version,
						const Ring *compiled, text **zones);
static RingZone read_zone(RowScan *scan);
static RingName utf8_text(text *name);
static void zones_hex(const RingZone *zones, uint32 n, char *hex);

/*
 * The extras of a compiled ring's groups, in the current context.  The ring
 * may be older than what became of the rows, so XX001 unless they are of its
 * groups, all of them and no other, and the zones those of the seal.
 */
CatalogExtras
catalog_read_extras(const CatalogRing *ring, int32 version,
					const Ring *compiled)
{
	CatalogExtras extras = {
		palloc0(compiled->ngroups * sizeof(Datum)),
		palloc0(compiled->ngroups * sizeof(text *))
	};
	RowScan		scan;

	catalog_scan_begin(&scan, ring, "shard_group", version);
	while (catalog_scan_next(&scan))
		if (!read_extras(&extras, compiled, &scan))
			refuse_groups(ring, version);
	catalog_scan_end(&scan);
	for (uint32 i = 0; i < compiled->ngroups; i++)
		if (DatumGetPointer(extras.weights[i]) == NULL)
			refuse_groups(ring, version);
	check_zones(ring, version, compiled, extras.zones);
	return extras;
}

/*
 * The extras of one row; false when the ring has no such group, or the row no
 * weight.
 */
static bool
read_extras(CatalogExtras *extras, const Ring *compiled, RowScan *scan)
{
	RingName	name = catalog_scan_name(scan, GROUP_NAME);
	RingName	utf8 = env_utf8_name(name);
	const RingGroup *group = bsearch(&utf8, compiled->groups,
									 compiled->ngroups, sizeof(RingGroup),
									 ring_compare_utf8);
	bool		isnull;
	Datum		weight = catalog_scan_column(scan, GROUP_WEIGHT, &isnull);
	Datum		zone;

	if (group == NULL || isnull)
		return false;
	extras->weights[group - compiled->groups] =
		NumericGetDatum(DatumGetNumericCopy(weight));
	zone = catalog_scan_column(scan, GROUP_ZONE, &isnull);
	if (!isnull)
		extras->zones[group - compiled->groups] = DatumGetTextPCopy(zone);
	return true;
}

/*
 * Raises that rows are not those of the ring.
 */
static void
refuse_groups(const CatalogRing *ring, int32 version)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the groups of version %d of ring \"%s\" were altered "
					"after it was loaded", version,
					text_to_cstring(ring->name)),
			 errhint("Use shardring.problems to see what is wrong.")));
}

/*
 * XX001 unless the zones of a sealed version are those it was sealed with.
 */
static void
check_zones(const CatalogRing *ring, int32 version, const Ring *compiled,
			text **zones)
{
	RingZone   *all;
	CatalogVersion row;
	char		hex[FINGERPRINT_LEN + 1];

	catalog_require_version(ring, version, &row);
	if (!row.sealed)
		return;
	all = palloc(compiled->ngroups * sizeof(RingZone));
	for (uint32 i = 0; i < compiled->ngroups; i++)
	{
		all[i].group = compiled->groups[i].utf8;
		all[i].zone = zones[i] == NULL ? (RingName) {0} : utf8_text(zones[i]);
	}
	zones_hex(all, compiled->ngroups, hex);
	pfree(all);
	if (strcmp(hex, row.zone_fingerprint) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the zones of version %d of ring \"%s\" were altered "
						"after it was sealed", version,
						text_to_cstring(ring->name)),
				 errhint("Use shardring.problems to see what is wrong.")));
}

/*
 * The fingerprint of the zones of a version as the rows have them.
 */
void
catalog_zone_fingerprint(const CatalogRing *ring, int32 version, char *hex)
{
	uint32		space = 16;
	uint32		n = 0;
	RingZone   *zones = palloc(space * sizeof(RingZone));
	RowScan		scan;

	catalog_scan_begin(&scan, ring, "shard_group", version);
	while (catalog_scan_next(&scan))
	{
		if (n == space)
		{
			space *= 2;
			zones = repalloc_huge(zones, space * sizeof(RingZone));
		}
		zones[n++] = read_zone(&scan);
	}
	catalog_scan_end(&scan);
	qsort(zones, n, sizeof(RingZone), ring_compare_utf8);
	zones_hex(zones, n, hex);
}

/*
 * The zone in a row of shard_group.
 */
static RingZone
read_zone(RowScan *scan)
{
	RingZone	zone = {env_utf8_name(catalog_scan_name(scan, GROUP_NAME))};
	bool		isnull;
	Datum		value = catalog_scan_column(scan, GROUP_ZONE, &isnull);

	if (!isnull)
		zone.zone = utf8_text(DatumGetTextPCopy(value));
	return zone;
}

/*
 * A text in UTF-8; it may point into the text.
 */
static RingName
utf8_text(text *name)
{
	return env_utf8_name((RingName) {
		VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)
	});
}

/*
 * The fingerprint of zones that are in the order of their groups.
 */
static void
zones_hex(const RingZone *zones, uint32 n, char *hex)
{
	if (!fingerprint_zones_hex(zones, n, hex))
		env_no_hash();
}
