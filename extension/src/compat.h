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

#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/rangetypes.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM >= 170000
#include "storage/procarray.h"
#else
#include "storage/sinvaladt.h"
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

/*
 * The process that a virtual transaction belongs or belonged to; NULL when
 * there is none.  17 numbers processes differently.
 */
static inline PGPROC *
compat_vxid_proc(VirtualTransactionId vxid)
{
#if PG_VERSION_NUM >= 170000
	return ProcNumberGetProc(vxid.procNumber);
#else
	return vxid.backendId == InvalidBackendId ? NULL :
		BackendIdGetProc(vxid.backendId);
#endif
}

/*
 * Does the process still run this virtual transaction?
 */
static inline bool
compat_vxid_runs(const PGPROC *proc, VirtualTransactionId vxid)
{
#if PG_VERSION_NUM >= 170000
	return proc->vxid.lxid == vxid.localTransactionId;
#else
	return proc->lxid == vxid.localTransactionId;
#endif
}

#endif							/* SHARDRING_COMPAT_H */
