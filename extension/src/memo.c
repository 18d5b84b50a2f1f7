/*
 * memo.c
 *		Which version a statement sees: the snapshot memo.
 *
 * The hard idea of the extension.  A statement must route by the version that
 * is active in its own snapshot, and must not pay for a table read with every
 * key.  So an answer is kept together with *all* fields of the snapshot it
 * was read with, and with a counter (epoch) that rises whenever a transaction
 * ends or a subtransaction aborts.  An MVCC snapshot with the same fields, in
 * the same epoch, sees the same rows: then the answer still holds, and no
 * table is read.  curcid tells own changes apart, except those a rolled-back
 * savepoint took away: that is what the epoch is for.  No invalidation
 * message, trigger or notification takes part; each of them is wrong for some
 * snapshot (REPEATABLE READ, parallel workers, standbys).
 *
 * A memo pins the compiled ring (cache.c) it points to.
 */
#include "shardring.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

static uint64 epoch = 1;
static uint64 answers = 0;		/* how many were read from the tables */
static Memo last_memo;		/* the last answer of this backend */

static void transaction_ended(XactEvent event, void *arg);
static void subtransaction_ended(SubXactEvent event, SubTransactionId mine,
								 SubTransactionId parent, void *arg);
static void call_site_forget(void *arg);
static bool memo_holds(const Memo *memo, Snapshot snapshot, text *ring,
					   int64 wanted);
static bool memo_same_snapshot(const Memo *memo, Snapshot snapshot);
static void memo_answer(Memo *memo, FunctionCallInfo fcinfo,
						MemoryContext context, Snapshot snapshot, text *ring,
						int64 wanted);
static void memo_remember(Memo *memo, MemoryContext context,
						  Snapshot snapshot, text *ring, int64 wanted);
static void memo_copy(Memo *to, MemoryContext context,
					  const Memo *from, Snapshot snapshot, text *ring);
static void memo_pin(Memo *memo, CompiledRing *compiled);
static void memo_unpin(Memo *memo);

/*
 * Called once, when the library is loaded.
 */
void
memo_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}

/*
 * What the calling expression remembers between its calls; made by the first.
 */
CallSite *
memo_call_site(FunctionCallInfo fcinfo)
{
	CallSite   *site = fcinfo->flinfo->fn_extra;

	if (unlikely(site == NULL))
	{
		MemoryContext context = fcinfo->flinfo->fn_mcxt;

		site = MemoryContextAllocZero(context, sizeof(CallSite));
		site->context = context;
		site->callback.func = call_site_forget;
		site->callback.arg = site;
		MemoryContextRegisterResetCallback(context, &site->callback);
		fcinfo->flinfo->fn_extra = site;
	}
	return site;
}

/*
 * Which version of the ring the statement sees (NO_VERSION when nothing is
 * active), without compiling it.  A missing ring or version is 42704.
 */
const Memo *
memo_resolve(FunctionCallInfo fcinfo, int nth, text *ring, int64 wanted)
{
	Snapshot	snapshot = memo_snapshot();
	Memo  *memo;
	CallSite   *site;

	/* Without it there is neither a call site nor a schema to read from. */
	if (unlikely(fcinfo->flinfo == NULL))
		(void) catalog_schema(fcinfo);
	site = memo_call_site(fcinfo);
	memo = &site->memos[nth];
	if (likely(memo_holds(memo, snapshot, ring, wanted)))
		return memo;
	if (memo_holds(&last_memo, snapshot, ring, wanted))
		memo_copy(memo, site->context, &last_memo, snapshot, ring);
	else
		memo_answer(memo, fcinfo, site->context, snapshot, ring, wanted);
	return memo;
}

/*
 * As memo_resolve, with the ring compiled.  Nothing active is 55000, altered
 * rows are XX001.  The ring stays where it is until the same memo of the same
 * call site is asked for another one.
 */
const Memo *
memo_get(FunctionCallInfo fcinfo, int nth, text *ring, int64 wanted)
{
	Memo  *memo = (Memo *) memo_resolve(fcinfo, nth, ring, wanted);
	CompiledRing *compiled;

	if (likely(memo->ring != NULL))
		return memo;
	if (memo->version == NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no active version",
						text_to_cstring(ring)),
				 errhint("Use shardring.activate to activate one, or name "
						 "a version.")));
	compiled = cache_find(memo->fingerprint);
	if (compiled == NULL)
		compiled = cache_make(catalog_schema(fcinfo), ring, memo->version,
								 memo->fingerprint, memo_snapshot());
	memo_pin(memo, compiled);
	if (compiled->shared)
	{
		cache_shrink();
		memo_copy(&last_memo, TopMemoryContext, memo, memo_snapshot(), ring);
	}
	return memo;
}

/*
 * As memo_get, and the ring has points, so that every position has an owner;
 * else 55000.
 */
const Memo *
memo_get_routable(FunctionCallInfo fcinfo, int nth, text *ring,
				   int64 wanted)
{
	const Memo *memo = memo_get(fcinfo, nth, ring, wanted);

	if (unlikely(memo->ring->arcs.n == 0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("version %d of ring \"%s\" has no points",
						memo->version, text_to_cstring(ring)),
				 errhint("Add a group with a weight above 0.")));
	return memo;
}

/*
 * The snapshot of the running statement.
 */
Snapshot
memo_snapshot(void)
{
	if (unlikely(!ActiveSnapshotSet()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a ring cannot be read without a snapshot")));
	return GetActiveSnapshot();
}

/*
 * A new epoch, unless the transaction is only about to end: what it reads
 * until then is still its own.
 */
static void
transaction_ended(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT &&
		event != XACT_EVENT_PARALLEL_PRE_COMMIT &&
		event != XACT_EVENT_PRE_PREPARE)
		epoch++;
}

/*
 * A new epoch when own changes are taken back: command numbers are used again.
 */
static void
subtransaction_ended(SubXactEvent event, SubTransactionId mine,
					 SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		epoch++;
}

/*
 * The call site's memory goes away: give its pins back.
 */
static void
call_site_forget(void *arg)
{
	CallSite   *site = arg;

	for (int i = 0; i < (int) lengthof(site->memos); i++)
		memo_unpin(&site->memos[i]);
}

/*
 * Does the memo answer this question for a statement with this snapshot?
 */
static bool
memo_holds(const Memo *memo, Snapshot snapshot, text *ring,
		   int64 wanted)
{
	return memo->valid &&
		memo->epoch == epoch &&
		memo->wanted == wanted &&
		memo->name_len == VARSIZE_ANY_EXHDR(ring) &&
		memcmp(memo->name, VARDATA_ANY(ring), memo->name_len) == 0 &&
		memo_same_snapshot(memo, snapshot);
}

/*
 * Every field that decides what a snapshot sees; see the head of this file.
 */
static bool
memo_same_snapshot(const Memo *memo, Snapshot snapshot)
{
	const SnapshotData *own = &memo->snapshot;

	return own->snapshot_type == snapshot->snapshot_type &&
		own->xmin == snapshot->xmin &&
		own->xmax == snapshot->xmax &&
		own->curcid == snapshot->curcid &&
		own->xcnt == snapshot->xcnt &&
		own->subxcnt == snapshot->subxcnt &&
		own->suboverflowed == snapshot->suboverflowed &&
		own->takenDuringRecovery == snapshot->takenDuringRecovery &&
		(own->xcnt == 0 ||
		 memcmp(memo->xids, snapshot->xip,
				own->xcnt * sizeof(TransactionId)) == 0) &&
		(own->subxcnt <= 0 ||
		 memcmp(memo->xids + own->xcnt, snapshot->subxip,
				own->subxcnt * sizeof(TransactionId)) == 0);
}

/*
 * Answers the question from the tables.
 */
static void
memo_answer(Memo *memo, FunctionCallInfo fcinfo, MemoryContext context,
			Snapshot snapshot, text *ring, int64 wanted)
{
	Oid			schema = catalog_schema(fcinfo);
	CatalogRing ring_row;
	CatalogVersion version_row;

	memo->valid = false;
	memo_unpin(memo);
	memo->answer = ++answers;
	catalog_require_ring(schema, ring, snapshot, &ring_row);
	if (wanted == ACTIVE_VERSION ||
		(wanted == ring_row.active_version && wanted != NO_VERSION))
	{
		memo->version = ring_row.active_version;
		strlcpy(memo->fingerprint, ring_row.fingerprint,
				sizeof(memo->fingerprint));
	}
	else
	{
		catalog_require_version(schema, ring, (int32) wanted, snapshot,
								&version_row);
		memo->version = version_row.version;
		strlcpy(memo->fingerprint, version_row.fingerprint,
				sizeof(memo->fingerprint));
	}
	memo_remember(memo, context, snapshot, ring, wanted);
}

/*
 * Keeps the question and the snapshot; the answer is in the memo already.
 */
static void
memo_remember(Memo *memo, MemoryContext context, Snapshot snapshot,
			  text *ring, int64 wanted)
{
	int			xcnt = snapshot->xcnt;
	int			subxcnt = Max(snapshot->subxcnt, 0);

	if (xcnt + subxcnt > memo->xid_space)
	{
		int			space = Max(xcnt + subxcnt, 64);

		if (memo->xids != NULL)
			pfree(memo->xids);
		memo->xids = NULL;
		memo->xid_space = 0;
		memo->xids = MemoryContextAlloc(context,
										space * sizeof(TransactionId));
		memo->xid_space = space;
	}
	memo->snapshot = *snapshot;
	if (xcnt > 0)
		memcpy(memo->xids, snapshot->xip, xcnt * sizeof(TransactionId));
	if (subxcnt > 0)
		memcpy(memo->xids + xcnt, snapshot->subxip,
			   subxcnt * sizeof(TransactionId));
	memo->epoch = epoch;
	memo->wanted = wanted;
	memo->name_len = VARSIZE_ANY_EXHDR(ring);
	if (memo->name_len > sizeof(memo->name))
		return;					/* no constraint kept it short: not kept */
	memcpy(memo->name, VARDATA_ANY(ring), memo->name_len);
	memo->valid = true;
}

/*
 * Makes one memo say what another says, which was asked the same.
 */
static void
memo_copy(Memo *to, MemoryContext context, const Memo *from,
		  Snapshot snapshot, text *ring)
{
	to->valid = false;
	memo_unpin(to);
	to->answer = from->answer;
	to->version = from->version;
	memcpy(to->fingerprint, from->fingerprint, sizeof(to->fingerprint));
	memo_remember(to, context, snapshot, ring, from->wanted);
	if (from->compiled != NULL)
		memo_pin(to, from->compiled);
}

/*
 * Lets the memo hold on to a compiled ring; it held none.
 */
static void
memo_pin(Memo *memo, CompiledRing *compiled)
{
	compiled->pins++;
	memo->compiled = compiled;
	memo->ring = compiled->ring;
}

/*
 * Gives back the ring the memo holds, if any.
 */
static void
memo_unpin(Memo *memo)
{
	CompiledRing *compiled = memo->compiled;

	memo->compiled = NULL;
	memo->ring = NULL;
	if (compiled != NULL)
		cache_unpin(compiled);
}
