/*
 * compat.h
 *		What differs between PostgreSQL 15 and its successors.
 *
 * The only file with tests of PG_VERSION_NUM.  Include it after postgres.h.
 */
#ifndef SHARDRING_COMPAT_H
#define SHARDRING_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "shardring needs PostgreSQL 15 or later"
#endif

#include "utils/rangetypes.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 gave make_range a place for soft errors; we want hard ones. */
static inline RangeType *
compat_make_range(TypeCacheEntry *typcache, RangeBound *lower,
				  RangeBound *upper)
{
#if PG_VERSION_NUM >= 160000
	return make_range(typcache, lower, upper, false, NULL);
#else
	return make_range(typcache, lower, upper, false);
#endif
}

#endif							/* SHARDRING_COMPAT_H */
