/*
 * waiting.c
 *		Waiting until certain transactions have ended.
 *
 * Rules of this file:
 *	- a transaction is known by its virtual transaction id, which it has as
 *	  long as it is open, with or without a snapshot or an xid;
 *	- one that is prepared meanwhile is waited for under that name, too;
 *	- the wait is a poll, so that a cancel and the timeout end it at once, and
 *	  so that two sessions that wait for each other both come to an end.
 */
#include "waiting.h"

#include "access/twophase.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#define SHORTEST_NAP	1L		/* ms */
#define LONGEST_NAP		100L

static int	still_open(VirtualTransactionId *open, int n);
static void describe(Waiting *waiting);
static void nap_for(long ms);
static char *list_pids(const Waiting *waiting);
static char *list_prepared(const Waiting *waiting);

/*
 * When the timeout expires; 22023 if it is negative.
 */
TimestampTz
waiting_deadline(Interval *timeout)
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
 * True when all have ended; false, with those described that have not, when
 * the time is over.
 */
bool
waiting_end(Waiting *waiting, TimestampTz deadline)
{
	long		nap = SHORTEST_NAP;

	while ((waiting->n = still_open(waiting->open, waiting->n)) > 0)
	{
		long		left = TimestampDifferenceMilliseconds(
										GetCurrentTimestamp(), deadline);

		describe(waiting);
		if (left <= 0)
			return false;
		nap_for(Min(nap, left));
		nap = Min(nap * 2, LONGEST_NAP);
	}
	return true;
}

/*
 * Moves those that are still open to the front, and counts them.
 */
static int
still_open(VirtualTransactionId *open, int n)
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
 * Describes the open transactions for an error context, which cannot run
 * queries.  The old description is kept until the new one is complete, since
 * this can be cancelled, too.
 */
static void
describe(Waiting *waiting)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "shardring waiting",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	char	   *prepared = list_prepared(waiting);
	char	   *pids = list_pids(waiting);

	MemoryContextSwitchTo(before);
	if (waiting->context != NULL)
		MemoryContextDelete(waiting->context);
	waiting->context = context;
	waiting->prepared = prepared;
	waiting->pids = pids;
}

/*
 * Sleeps, unless the latch is set; a cancel ends it.
 */
static void
nap_for(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * The processes that run these transactions.
 */
static char *
list_pids(const Waiting *waiting)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < waiting->n; i++)
	{
		PGPROC	   *proc = compat_vxid_proc(waiting->open[i]);

		if (proc != NULL && compat_vxid_runs(proc, waiting->open[i]))
			appendStringInfo(&list, "%s%d", list.len > 0 ? ", " : "",
							 proc->pid);
	}
	return list.len > 0 ? list.data : "none";
}

/*
 * The global ids of those that are prepared.
 */
static char *
list_prepared(const Waiting *waiting)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {XIDARRAYOID};
	Datum		array = waiting_prepared_xids(waiting);
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
Datum
waiting_prepared_xids(const Waiting *waiting)
{
	Datum	   *xids = palloc(waiting->n * sizeof(Datum));
	int			found = 0;

	for (int i = 0; i < waiting->n; i++)
	{
		VirtualTransactionId vxid = waiting->open[i];
		TransactionId xid = vxid.localTransactionId;
		bool		more;

		if (!VirtualTransactionIdIsRecoveredPreparedXact(vxid))
			xid = TwoPhaseGetXidByVirtualXID(vxid, &more);
		if (TransactionIdIsValid(xid))
			xids[found++] = TransactionIdGetDatum(xid);
	}
	return PointerGetDatum(construct_array(xids, found, XIDOID,
										   sizeof(TransactionId), true,
										   TYPALIGN_INT));
}
