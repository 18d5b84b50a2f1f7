/*
 * writers.c
 *		Waiting for those who may write to certain tables.
 *
 * A statement has its lock on a table before its first row fires the guard,
 * and keeps it until its transaction ends.  So once a hold is committed, every
 * writer either has such a lock, or his guard sees the hold.  Rules:
 *	- who holds one of the modes that writers take is waited for, until his
 *	  transaction has ended, prepared or not;
 *	- who waits for a lock is not: his guard has not looked yet;
 *	- readers, CREATE INDEX and ANALYZE take none of these modes, and VACUUM,
 *	  which takes one for a moment, is left out;
 *	- GetLockConflicts() would not do: it lists VACUUM and ANALYZE, too.
 */
#include "waiting.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/array.h"

#define WRITER_MODES \
	(LOCKBIT_ON(RowExclusiveLock) | LOCKBIT_ON(ShareRowExclusiveLock) | \
	 LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock))

/* Tables, by their numbers. */
typedef struct Tables
{
	const Oid  *oids;
	int			n;
} Tables;

static Tables read_tables(ArrayType *array);
static void list_writers(Waiting *waiting, Tables tables);
static bool is_writer(const LockInstanceData *lock, Tables tables);
static bool is_vacuum(VirtualTransactionId vxid);
static bool has_vxid(const Waiting *waiting, VirtualTransactionId vxid);
static void writers_context(void *arg);
static Datum running_pids(const Waiting *waiting);

PG_FUNCTION_INFO_V1(shardring_wait_for_writers);

/*
 * wait_for_writers(relations, timeout): waits for all who may write to these
 * tables now; returns the processes and the prepared transactions that have
 * not ended when the time is over.
 */
Datum
shardring_wait_for_writers(PG_FUNCTION_ARGS)
{
	Tables		tables = read_tables(PG_GETARG_ARRAYTYPE_P(0));
	TimestampTz deadline = waiting_deadline(PG_GETARG_INTERVAL_P(1));
	Waiting		waiting = {0};
	ErrorContextCallback callback;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		/* LCOV_EXCL_START: it is declared so */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("no composite type")));
	/* LCOV_EXCL_STOP */
	list_writers(&waiting, tables);
	callback.callback = writers_context;
	callback.arg = &waiting;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	(void) waiting_end(&waiting, deadline);
	error_context_stack = callback.previous;
	values[0] = running_pids(&waiting);
	values[1] = waiting_prepared_xids(&waiting);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * The elements of an oid[]; 22004 for a NULL in it.
 */
static Tables
read_tables(ArrayType *array)
{
	if (ARR_HASNULL(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("array of tables must not contain nulls")));
	return (Tables) {
		.oids = (const Oid *) ARR_DATA_PTR(array),
		.n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array))
	};
}

/*
 * Those who hold a lock of a writer now, but this transaction.
 */
static void
list_writers(Waiting *waiting, Tables tables)
{
	LockData   *locks = GetLockStatusData();

	waiting->open = palloc(Max(locks->nelements, 1) *
						   sizeof(VirtualTransactionId));
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		VirtualTransactionId vxid = compat_lock_vxid(lock);

		if (is_writer(lock, tables) && lock->pid != MyProcPid &&
			VirtualTransactionIdIsValid(vxid) && !is_vacuum(vxid) &&
			!has_vxid(waiting, vxid))
			waiting->open[waiting->n++] = vxid;
	}
}

/*
 * Whether this lock lets its holder write to one of the tables.
 */
static bool
is_writer(const LockInstanceData *lock, Tables tables)
{
	if (lock->locktag.locktag_type != LOCKTAG_RELATION ||
		lock->locktag.locktag_field1 != MyDatabaseId ||
		(lock->holdMask & WRITER_MODES) == 0)
		return false;
	for (int i = 0; i < tables.n; i++)
		if (tables.oids[i] == lock->locktag.locktag_field2)
			return true;
	return false;
}

/*
 * Whether VACUUM runs in this transaction.  It says so until its end: if that
 * has not come when the transaction is looked at last, it was this one's.
 */
static bool
is_vacuum(VirtualTransactionId vxid)
{
	PGPROC	   *proc = compat_vxid_proc(vxid);
	bool		vacuums;

	if (proc == NULL)
		return false;			/* as of a prepared transaction */
	vacuums = (*(volatile uint8 *) &proc->statusFlags &
			   (PROC_IN_VACUUM | PROC_IS_AUTOVACUUM)) != 0;
	return vacuums && compat_vxid_runs(proc, vxid);
}

/*
 * Whether a transaction is in the list.
 */
static bool
has_vxid(const Waiting *waiting, VirtualTransactionId vxid)
{
	for (int i = 0; i < waiting->n; i++)
		if (VirtualTransactionIdEquals(waiting->open[i], vxid))
			return true;
	return false;
}

/*
 * Adds the open transactions to the error that ends the wait.
 */
static void
writers_context(void *arg)
{
	const Waiting *waiting = arg;

	if (waiting->context != NULL)
		errcontext("waiting for writers of guarded tables; processes: %s; "
				   "prepared transactions: %s", waiting->pids,
				   waiting->prepared);
}

/*
 * The processes that run what is still open, as integer[].
 */
static Datum
running_pids(const Waiting *waiting)
{
	Datum	   *pids = palloc(waiting->n * sizeof(Datum));
	int			found = 0;

	for (int i = 0; i < waiting->n; i++)
	{
		PGPROC	   *proc = compat_vxid_proc(waiting->open[i]);

		if (proc != NULL && compat_vxid_runs(proc, waiting->open[i]))
			pids[found++] = Int32GetDatum(proc->pid);
	}
	return PointerGetDatum(construct_array(pids, found, INT4OID,
										   sizeof(int32), true,
										   TYPALIGN_INT));
}
