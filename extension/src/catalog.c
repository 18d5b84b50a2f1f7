/*
 * catalog.c
 *		The tables: finding them, scanning them, the rows of rings and
 *		versions.
 *
 * Only this file, catalog_version.c, which reads the rows of one version,
 * catalog_points.c, which reads its points, and catalog_extras.c, which reads
 * its weights and zones, know tables and columns.  Rules of all four:
 *	- tables are found by their names in schema shardring, whatever schema the
 *	  called function is in, each time they are read, so that nothing survives
 *	  a DROP EXTENSION;
 *	- everything is read by index with the snapshot of the CatalogRing;
 *	- rows are copied into the current context, nothing points into a page;
 *	- whatever the rows say, reading them ends in a definition or a clean
 *	  error: check.c judges, not this file.
 */
#include "catalog.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define SCHEMA_NAME		"shardring"

/* How many rings a hint names. */
#define KNOWN_RINGS		5

/* The columns that are read, by their numbers. */
enum
{
	RING_NAME = 1,
	RING_HASH = 2,
	RING_HASH_TAGS = 3,
	RING_ACTIVE_VERSION = 5,
	RING_FINGERPRINT = 6,
	RING_CLUSTER = 9,
	RING_MOVING_FROM = 10,
	RING_MOVING_TO = 11,
	RING_CLOSED_UNTIL = 12,

	VERSION_VNODES = 5,
	VERSION_SEALED_AT = 6,
	VERSION_FINGERPRINT = 7,
	VERSION_ZONE_FINGERPRINT = 8,

	SHARD_NUMBER = 3
};

static char *first_ring(void);
static void scan_begin(RowScan *scan, const CatalogRing *ring,
					   const char *table, int nkeys, ScanKey keys);
static void read_move(CatalogRingRow *row, RowScan *scan);
static void copy_fingerprint(char *fingerprint, Datum value, bool isnull);

/*
 * A ring to ask the tables about, as the snapshot sees it; its row is not
 * read.
 */
CatalogRing
catalog_ring(text *name, Snapshot snapshot)
{
	return (CatalogRing) {
		.schema = get_namespace_oid(SCHEMA_NAME, true),
		.name = name,
		.snapshot = snapshot
	};
}

/*
 * The row of a version; false when there is none.
 */
bool
catalog_read_version(const CatalogRing *ring, int32 version,
					 CatalogVersion *row)
{
	RowScan		scan;
	bool		isnull;
	bool		found;
	Datum		value;

	if (version < 1)
		return false;
	catalog_scan_begin(&scan, ring, "ring_version", version);
	found = catalog_scan_next(&scan);
	if (found)
	{
		row->version = version;
		row->vnodes = DatumGetInt32(catalog_scan_value(&scan,
													   VERSION_VNODES));
		(void) catalog_scan_column(&scan, VERSION_SEALED_AT, &isnull);
		row->sealed = !isnull;
		value = catalog_scan_column(&scan, VERSION_FINGERPRINT, &isnull);
		copy_fingerprint(row->fingerprint, value, isnull);
		value = catalog_scan_column(&scan, VERSION_ZONE_FINGERPRINT, &isnull);
		copy_fingerprint(row->zone_fingerprint, value, isnull);
	}
	catalog_scan_end(&scan);
	return found;
}

/*
 * Reads the row of the ring; a missing one is 42704.
 */
void
catalog_require_ring(CatalogRing *ring)
{
	char	   *known;

	if (catalog_read_ring(ring))
		return;
	known = catalog_known_rings(ring);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("ring \"%s\" does not exist",
					text_to_cstring(ring->name)),
			 known == NULL ? 0 : errhint("%s", known)));
}

/*
 * A sentence that names the first few rings; NULL for a role that may not
 * read them.  Of "ring", only the snapshot counts.
 */
char *
catalog_known_rings(const CatalogRing *ring)
{
	StringInfoData sentence;
	RowScan		scan;
	int			n = 0;

	scan_begin(&scan, ring, "ring", 0, NULL);
	initStringInfo(&sentence);
	while (n < KNOWN_RINGS && catalog_scan_next(&scan))
		appendStringInfo(&sentence, "%s\"%s\"", n++ == 0 ? "" : ", ",
						 catalog_scan_name(&scan, RING_NAME).bytes);
	if (n == KNOWN_RINGS && catalog_scan_next(&scan))
		appendStringInfoString(&sentence, " and others");
	if (pg_class_aclcheck(RelationGetRelid(scan.table), GetUserId(),
						  ACL_SELECT) != ACLCHECK_OK)
		sentence.data = NULL;
	else if (n == 0)
		sentence.data = first_ring();
	else
		sentence.data = psprintf(n == 1 ? "There is ring %s." :
								 "There are rings %s.", sentence.data);
	catalog_scan_end(&scan);
	return sentence.data;
}

/*
 * Where the first ring comes from: a database that has the name of a shard
 * gets it from the map.  The value of the session will do for a hint.
 */
static char *
first_ring(void)
{
	const char *shard = GetConfigOption("shardring.shard", true, false);

	if (shard != NULL && shard[0] != '\0')
		return "There is no ring; push it from the map with "
			"shardring.push_version.";
	return "There is no ring; create one with shardring.create_ring.";
}

/*
 * Reads the row of the ring; false when there is none.
 */
bool
catalog_read_ring(CatalogRing *ring)
{
	CatalogRingRow *row = &ring->row;
	RowScan		scan;
	bool		isnull;
	bool		found;
	Datum		value;

	catalog_scan_begin(&scan, ring, "ring", NO_VERSION);
	found = catalog_scan_next(&scan);
	if (found)
	{
		value = catalog_scan_value(&scan, RING_HASH);
		row->hash = key_hash_kind(DatumGetTextPP(value));
		row->hash_tags = DatumGetBool(catalog_scan_value(&scan,
														 RING_HASH_TAGS));
		value = catalog_scan_column(&scan, RING_ACTIVE_VERSION, &isnull);
		row->active_version = isnull ? NO_VERSION : DatumGetInt32(value);
		value = catalog_scan_column(&scan, RING_FINGERPRINT, &isnull);
		copy_fingerprint(row->fingerprint, value, isnull);
		row->cluster[0] = '\0';
		value = catalog_scan_column(&scan, RING_CLUSTER, &isnull);
		if (!isnull)
			text_to_cstring_buffer(DatumGetTextPP(value), row->cluster,
								   sizeof(row->cluster));
		read_move(row, &scan);
	}
	catalog_scan_end(&scan);
	return found;
}

/*
 * How the ring moves.  That it does not costs one column.
 */
static void
read_move(CatalogRingRow *row, RowScan *scan)
{
	bool		isnull;
	Datum		value = catalog_scan_column(scan, RING_MOVING_TO, &isnull);

	row->moving_from = NO_VERSION;
	row->moving_to = NO_VERSION;
	row->closed_until = DT_NOBEGIN;
	if (isnull)
		return;
	row->moving_to = DatumGetInt32(value);
	row->moving_from = DatumGetInt32(catalog_scan_value(scan,
														RING_MOVING_FROM));
	value = catalog_scan_column(scan, RING_CLOSED_UNTIL, &isnull);
	if (!isnull)
		row->closed_until = DatumGetTimestampTz(value);
}

/*
 * The version that is active by this snapshot, NO_VERSION for none; a ring
 * that it does not see has none.
 */
int32
catalog_active_version(text *name, Snapshot snapshot)
{
	CatalogRing ring;
	int32		active;

	PushActiveSnapshot(snapshot);
	ring = catalog_ring(name, GetActiveSnapshot());
	active = catalog_read_ring(&ring) ? ring.row.active_version : NO_VERSION;
	PopActiveSnapshot();
	return active;
}

/*
 * Like catalog_read_version, but a missing version is 42704.
 */
void
catalog_require_version(const CatalogRing *ring, int32 version,
						CatalogVersion *row)
{
	if (!catalog_read_version(ring, version, row))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("version %d of ring \"%s\" does not exist", version,
						text_to_cstring(ring->name))));
}

/*
 * The number of a shard; false when it has none.
 */
bool
catalog_read_shard_number(const CatalogRing *ring, text *shard,
						  int32 *number)
{
	ScanKeyData keys[2];
	RowScan		scan;
	bool		found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(ring->name));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(shard));
	scan_begin(&scan, ring, "shard", 2, keys);
	found = catalog_scan_next(&scan);
	if (found)
		*number = DatumGetInt32(catalog_scan_value(&scan, SHARD_NUMBER));
	catalog_scan_end(&scan);
	return found;
}

/*
 * Starts a scan by the primary key of a table: over the rows of a ring, or,
 * with a version, of that version.
 */
void
catalog_scan_begin(RowScan *scan, const CatalogRing *ring, const char *table,
				   int32 version)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(ring->name));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(version));
	scan_begin(scan, ring, table, version == NO_VERSION ? 1 : 2, keys);
}

/*
 * Starts a scan of a table by the first columns of its primary key; 42P01
 * without the table.
 */
static void
scan_begin(RowScan *scan, const CatalogRing *ring, const char *table,
		   int nkeys, ScanKey keys)
{
	Oid			table_oid = get_relname_relid(table, ring->schema);
	Oid			index_oid = get_relname_relid(psprintf("%s_pkey", table),
											  ring->schema);

	scan->table = OidIsValid(table_oid) ?
		try_relation_open(table_oid, AccessShareLock) : NULL;
	scan->index = OidIsValid(index_oid) ?
		try_relation_open(index_oid, AccessShareLock) : NULL;
	if (scan->table == NULL || scan->index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension \"shardring\" is missing",
						table)));
	/* ordered whatever ignore_system_indexes says: rows are merged */
	scan->scan = systable_beginscan_ordered(scan->table, scan->index,
											ring->snapshot, nkeys, keys);
}

/*
 * The next row; false past the last one.
 */
bool
catalog_scan_next(RowScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	scan->tuple = systable_getnext_ordered(scan->scan, ForwardScanDirection);
	return HeapTupleIsValid(scan->tuple);
}

/*
 * A column of the row the scan stands on.
 */
Datum
catalog_scan_column(RowScan *scan, int column, bool *isnull)
{
	return heap_getattr(scan->tuple, column, RelationGetDescr(scan->table),
						isnull);
}

/*
 * A column that a constraint keeps from being NULL; XX001 should it be.
 */
Datum
catalog_scan_value(RowScan *scan, int column)
{
	bool		isnull;
	Datum		value = catalog_scan_column(scan, column, &isnull);
	TupleDesc	desc = RelationGetDescr(scan->table);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("column \"%s\" of table \"%s\" of extension "
						"\"shardring\" is null",
						NameStr(TupleDescAttr(desc, column - 1)->attname),
						RelationGetRelationName(scan->table)),
				 errtablecol(scan->table, column)));
	return value;
}

/*
 * A copy of a text column; NULL is XX001.
 */
RingName
catalog_scan_name(RowScan *scan, int column)
{
	text	   *name = DatumGetTextPP(catalog_scan_value(scan, column));
	uint32		len = VARSIZE_ANY_EXHDR(name);

	return (RingName) {pnstrdup(VARDATA_ANY(name), len), len};
}

/*
 * Ends a scan; what was copied from it stays.
 */
void
catalog_scan_end(RowScan *scan)
{
	systable_endscan_ordered(scan->scan);
	relation_close(scan->index, AccessShareLock);
	relation_close(scan->table, AccessShareLock);
}

/*
 * A fingerprint column as a string; empty when it is NULL or no fingerprint.
 */
static void
copy_fingerprint(char *fingerprint, Datum value, bool isnull)
{
	text	   *t;

	fingerprint[0] = '\0';
	if (isnull)
		return;
	t = DatumGetTextPP(value);
	if (VARSIZE_ANY_EXHDR(t) == FINGERPRINT_LEN)
	{
		memcpy(fingerprint, VARDATA_ANY(t), FINGERPRINT_LEN);
		fingerprint[FINGERPRINT_LEN] = '\0';
	}
}
