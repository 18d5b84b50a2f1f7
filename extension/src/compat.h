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

#include "catalog/pg_foreign_server.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rangetypes.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM >= 170000
#include "storage/procarray.h"
#include "utils/resowner.h"
#else
#include "storage/sinvaladt.h"
#endif

/* 18 writes what does not return before the declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
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

/*
 * The virtual transaction that a lock belongs to.
 */
static inline VirtualTransactionId
compat_lock_vxid(const LockInstanceData *lock)
{
#if PG_VERSION_NUM >= 170000
	return lock->vxid;
#else
	return (VirtualTransactionId) {lock->backend, lock->lxid};
#endif
}

/*
 * The transaction that is running here: another number for each.
 */
static inline LocalTransactionId
compat_this_transaction(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProc->vxid.lxid;
#else
	return MyProc->lxid;
#endif
}

/*
 * Memory for what a check hook of a parameter hands on; NULL when there is
 * none.  16 has a context for it.
 */
static inline void *
compat_guc_malloc(size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

/*
 * May the current user use this foreign server?  16 has one function for all
 * kinds of objects.
 */
static inline bool
compat_may_use_server(Oid server)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, server, GetUserId(),
						   ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_foreign_server_aclcheck(server, GetUserId(),
									  ACL_USAGE) == ACLCHECK_OK;
#endif
}

/*
 * A set of that many things to wait for; the caller frees it.  17 hands sets
 * to a resource owner.
 */
static inline WaitEventSet *
compat_create_wait_set(int n)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(CurrentResourceOwner, n);
#else
	return CreateWaitEventSet(CurrentMemoryContext, n);
#endif
}

/* An empty logical message outside of any transaction.  17 can flush it. */
static inline XLogRecPtr
compat_emit_message(const char *prefix)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, "", 0, false, true);
#else
	return LogLogicalMessage(prefix, "", 0, false);
#endif
}

#endif							/* SHARDRING_COMPAT_H */
