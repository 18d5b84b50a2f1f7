/*
 * drain.c
 *		Waiting until nobody routes by an older version any more.
 *
 * A transaction that was open when a version was activated may go on with
 * the one before.  So the transactions that are open now are listed, after
 * the version was seen committed, and waited for one by one; whatever begins
 * later sees it.  Not waited for are this transaction, other databases,
 * autovacuum and walsenders.  If anything but the timeout ends the wait, the
 * error context names the transactions.
 */
#include "waiting.h"

#include "miscadmin.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

/* What is waited for, and how it is described. */
typedef struct Drain
{
	const char *ring;
	int32		version;
	Waiting		waiting;
} Drain;

static void drain_refuse_nulls(FunctionCallInfo fcinfo);
static void drain_check_active(text *ring, int32 version);
static void drain_require_version(text *ring, int32 version);
static VirtualTransactionId *drain_list(int *n);
static bool is_walsender(int pid);
static void drain_context(void *arg);
pg_noreturn static void drain_give_up(const Drain *drain);

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
	deadline = waiting_deadline(PG_GETARG_INTERVAL_P(2));
	drain_check_active(ring, drain.version);
	drain.waiting.open = drain_list(&drain.waiting.n);
	callback.callback = drain_context;
	callback.arg = &drain;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	if (!waiting_end(&drain.waiting, deadline))
		drain_give_up(&drain);
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
 * Adds the open transactions to the error that ends the wait, for example
 * that of statement_timeout.
 */
static void
drain_context(void *arg)
{
	const Drain *drain = arg;

	if (drain->waiting.context != NULL &&
		geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
		errcontext("waiting for transactions that may use a version of ring "
				   "\"%s\" older than %d; processes: %s; "
				   "prepared transactions: %s", drain->ring, drain->version,
				   drain->waiting.pids, drain->waiting.prepared);
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
					   drain->waiting.pids, drain->waiting.prepared),
			 errhint("End them, or wait again with a longer timeout.")));
}
