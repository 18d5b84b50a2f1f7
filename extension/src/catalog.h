/*
 * catalog.h
 *		What catalog.c and catalog_*.c share: scans of the tables.
 */
#ifndef SHARDRING_CATALOG_H
#define SHARDRING_CATALOG_H

#include "shardring.h"

#include "access/genam.h"
#include "utils/rel.h"

/* The columns of shard_group that are read, by their numbers. */
enum
{
	GROUP_NAME = 3,
	GROUP_WEIGHT = 4,
	GROUP_SLOTS = 5,
	GROUP_ZONE = 6,
	GROUP_POINTS = 7
};

/* A scan over the rows of a ring, or of one version of it. */
typedef struct RowScan
{
	Relation	table;
	Relation	index;
	SysScanDesc scan;
	HeapTuple	tuple;
} RowScan;

extern void catalog_scan_begin(RowScan *scan, const CatalogRing *ring,
							   const char *table, int32 version);
extern bool catalog_scan_next(RowScan *scan);
extern Datum catalog_scan_column(RowScan *scan, int column, bool *isnull);
extern Datum catalog_scan_value(RowScan *scan, int column);
extern RingName catalog_scan_name(RowScan *scan, int column);
extern void catalog_scan_end(RowScan *scan);

#endif							/* SHARDRING_CATALOG_H */
