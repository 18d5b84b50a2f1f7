/*
 * drain.c
 *		Waiting until nobody routes by an older version any more.
 *
 * A transaction that was open when a version was activated may go on with
 * the one before.  So the transactions that are open now are listed, after
 * the version was seen committed, and waited for one by one; whatever begins
 * later sees it.  Rules:
 *	- a transaction is known by its virtual transaction id, which it has as
 *	  long as it is open, with or without a snapshot or an xid;
 *	- one that is prepared meanwhile is waited for under that name, too;
 *	- not waited for: this transaction, other databases, autovacuum,
 *	  walsenders.
 *
 * The wait is a poll, so that a cancel and the timeout end it at once, and
 * so that two sessions that wait for each other both come to an end.  If
 * anything else ends it, the error context names the transactions.
 */
#include "shardring.h"

#include "access/twophase.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define SHORTEST_NAP	1L		/* ms */
#define LONGEST_NAP		100L

/* What is waited for, and how it is described. */
typedef struct Drain
{
	const char *ring;
	int32		version;
	VirtualTransactionId *open;
	int			n;
	MemoryContext context;		/* of the next two; NULL: not known yet */
	char	   *pids;
	char	   *prepared;
} Drain;

static void drain_refuse_nulls(FunctionCallInfo fcinfo);
static TimestampTz drain_deadline(Interval *timeout);
static void drain_check_active(text *ring, int32 version);
static void drain_require_version(text *ring, int32 version);
static VirtualTransactionId *drain_list(int *n);
static bool is_walsender(int pid);
static int	drain_still_open(VirtualTransactionId *open, int n);
static void drain_wait(Drain *drain, TimestampTz deadline);
static void drain_describe(Drain *drain);
static void drain_context(void *arg);
static void drain_nap(long ms);
pg_noreturn static void drain_give_up(const Drain *drain);
static char *list_pids(const VirtualTransactionId *open, int n);
static char *list_prepared(const VirtualTransactionId *open, int n);
static Datum prepared_xids(const VirtualTransactionId *open, int n);

PG_FUNCTION_INFO_V1(shardring_wait_for_drain);

/*
 * wait_for_drain(ring, version, timeout): returns when every transaction of
 * this database that was open at the call has ended.  55000 when the version
 * is not the committed active one, 55P03 when the time is over.
 */
Datum
shardring_wait_for_drain(PG_FUNCTION_ARGS)
{
	Drain		drain = {0};
	ErrorContextCallback callback;
	TimestampTz deadline;
	text	   *ring;

	drain_refuse_nulls(fcinfo);
	ring = PG_GETARG_TEXT_PP(0);
	drain.ring = text_to_cstring(ring);
	drain.version = PG_GETARG_INT32(1);
	deadline = drain_deadline(PG_GETARG_INTERVAL_P(2));
	drain_check_active(ring, drain.version);
	drain.open = drain_list(&drain.n);
	callback.callback = drain_context;
	callback.arg = &drain;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	drain_wait(&drain, deadline);
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/*
 * A NULL must not look like success.
 */
static void
drain_refuse_nulls(FunctionCallInfo fcinfo)
{
	static const char *const names[] = {"ring", "version", "timeout"};

	for (int i = 0; i < (int) lengthof(names); i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument \"%s\" must not be null", names[i])));
}

/*
 * When the timeout expires; 22023 if it is negative.
 */
static TimestampTz
drain_deadline(Interval *timeout)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz deadline = DatumGetTimestampTz(
		DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now),
							IntervalPGetDatum(timeout)));

	if (deadline < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return deadline;
}

/*
 * 55000 unless the version is active for everybody.  A snapshot that was
 * taken before the first command of this transaction does not see what the
 * transaction did itself.
 */
static void
drain_check_active(text *ring, int32 version)
{
	CatalogRing committed;
	int32		active;

	PushCopiedSnapshot(GetLatestSnapshot());
	GetActiveSnapshot()->curcid = FirstCommandId;
	committed = catalog_ring(ring, GetActiveSnapshot());
	catalog_require_ring(&committed);
	PopActiveSnapshot();
	active = committed.row.active_version;
	if (active != NO_VERSION && active == version)
		return;
	drain_require_version(ring, version);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("version %d of ring \"%s\" is not the active one",
					version, text_to_cstring(ring)),
			 active == NO_VERSION ?
			 errdetail("No activation has been committed.") :
			 errdetail("The committed active version is %d.",
					   active),
			 errhint("Activate it and commit, then wait.")));
}

/*
 * 42704 unless the version exists, even if made by this transaction.
 */
static void
drain_require_version(text *ring, int32 version)
{
	CatalogRing latest;
	CatalogVersion row;

	PushActiveSnapshot(GetLatestSnapshot());
	latest = catalog_ring(ring, GetActiveSnapshot());
	catalog_require_version(&latest, version, &row);
	PopActiveSnapshot();
}

/*
 * The transactions to wait for.
 */
static VirtualTransactionId *
drain_list(int *n)
{
	VirtualTransactionId *open;
	int			total;

	open = GetCurrentVirtualXIDs(InvalidTransactionId, false, false,
								 PROC_IS_AUTOVACUUM, &total);
	*n = 0;
	for (int i = 0; i < total; i++)
	{
		PGPROC	   *proc = compat_vxid_proc(open[i]);

		/* a prepared transaction names a process that has moved on */
		if (proc == NULL || !compat_vxid_runs(proc, open[i]) ||
			!is_walsender(proc->pid))
			open[(*n)++] = open[i];
	}
	return open;
}

/*
 * Whether the process sends WAL: its transactions route nothing.
 */
static bool
is_walsender(int pid)
{
	bool		found = false;

	for (int i = 0; i < max_wal_senders && !found; i++)
	{
		WalSnd	   *walsnd = &WalSndCtl->walsnds[i];

		SpinLockAcquire(&walsnd->mutex);
		found = walsnd->pid == pid;
		SpinLockRelease(&walsnd->mutex);
	}
	return found;
}

/*
 * Returns when all have ended.
 */
static void
drain_wait(Drain *drain, TimestampTz deadline)
{
	long		nap = SHORTEST_NAP;

	while ((drain->n = drain_still_open(drain->open, drain->n)) > 0)
	{
		long		left = TimestampDifferenceMilliseconds(
										GetCurrentTimestamp(), deadline);

		drain_describe(drain);
		if (left <= 0)
			drain_give_up(drain);
		drain_nap(Min(nap, left));
		nap = Min(nap * 2, LONGEST_NAP);
	}
}

/*
 * Describes the open transactions for the error context, which cannot run
 * queries.  The old description is kept until the new one is complete, since
 * this can be cancelled, too.
 */
static void
drain_describe(Drain *drain)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "shardring drain",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	char	   *prepared = list_prepared(drain->open, drain->n);
	char	   *pids = list_pids(drain->open, drain->n);

	MemoryContextSwitchTo(before);
	if (drain->context != NULL)
		MemoryContextDelete(drain->context);
	drain->context = context;
	drain->prepared = prepared;
	drain->pids = pids;
}

/*
 * Adds the open transactions to the error that ends the wait, for example
 * that of statement_timeout.
 */
static void
drain_context(void *arg)
{
	const Drain *drain = arg;

	if (drain->context != NULL && geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
		errcontext("waiting for transactions that may use a version of ring "
				   "\"%s\" older than %d; processes: %s; "
				   "prepared transactions: %s", drain->ring,
				   drain->version, drain->pids, drain->prepared);
}

/*
 * Moves those that are still open to the front, and counts them.
 */
static int
drain_still_open(VirtualTransactionId *open, int n)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!VirtualXactLock(open[i], false))
			open[left++] = open[i];
	}
	return left;
}

/*
 * Sleeps, unless the latch is set; a cancel ends it.
 */
static void
drain_nap(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Raises the timeout error, naming the transactions still open.
 */
static void
drain_give_up(const Drain *drain)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("transactions that may use a version of ring \"%s\" "
					"older than %d are still open", drain->ring,
					drain->version),
			 errdetail("Processes: %s. Prepared transactions: %s.",
					   drain->pids, drain->prepared),
			 errhint("End them, or wait again with a longer timeout.")));
}

/*
 * The processes that run these transactions.
 */
static char *
list_pids(const VirtualTransactionId *open, int n)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < n; i++)
	{
		PGPROC	   *proc = compat_vxid_proc(open[i]);

		if (proc != NULL && compat_vxid_runs(proc, open[i]))
			appendStringInfo(&list, "%s%d", list.len > 0 ? ", " : "",
							 proc->pid);
	}
	return list.len > 0 ? list.data : "none";
}

/*
 * The global ids of those that are prepared.
 */
static char *
list_prepared(const VirtualTransactionId *open, int n)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {XIDARRAYOID};
	Datum		array = prepared_xids(open, n);
	char	   *list;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args("SELECT pg_catalog.string_agg("
							  "pg_catalog.quote_literal(p.gid), ', ' "
							  "ORDER BY p.gid COLLATE \"C\") "
							  "FROM pg_catalog.pg_prepared_xacts AS p "
							  "WHERE p.transaction "
							  "OPERATOR(pg_catalog.=) ANY ($1)",
							  1, types, &array, NULL, true, 1) !=
		SPI_OK_SELECT)
		/* LCOV_EXCL_START: SPI returns errors only for misuse */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not read the prepared transactions")));
	/* LCOV_EXCL_STOP */
	list = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	list = MemoryContextStrdup(context, list == NULL ? "none" : list);
	SPI_finish();
	return list;
}

/*
 * The transaction ids of those that are prepared, as xid[].
 */
static Datum
prepared_xids(const VirtualTransactionId *open, int n)
{
	Datum	   *xids = palloc(n * sizeof(Datum));
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		TransactionId xid = open[i].localTransactionId;
		bool		more;

		if (!VirtualTransactionIdIsRecoveredPreparedXact(open[i]))
			xid = TwoPhaseGetXidByVirtualXID(open[i], &more);
		if (TransactionIdIsValid(xid))
			xids[found++] = TransactionIdGetDatum(xid);
	}
	return PointerGetDatum(construct_array(xids, found, XIDOID,
										   sizeof(TransactionId), true,
										   TYPALIGN_INT));
}
