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
static uint64 last_serial = 0;	/* how many answers were read from tables */
static Memo last_memo;			/* the last answer of this backend */

static void transaction_ended(XactEvent event, void *arg);
static void subtransaction_ended(SubXactEvent event, SubTransactionId mine,
								 SubTransactionId parent, void *arg);
static void call_site_forget(void *arg);
static bool memo_holds(const Memo *memo, Snapshot snapshot, text *ring,
					   int64 version);
static void memo_answer(Memo *memo, Snapshot snapshot, text *name,
						int64 version);
static void memo_remember(Memo *memo, Snapshot snapshot, text *ring,
						  int64 version);
static void memo_copy(Memo *to, const Memo *from, Snapshot snapshot,
					  text *ring);
static void memo_compile(Memo *memo, text *name);
static void memo_pin(Memo *memo, CompiledRing *compiled);
static void memo_unpin(Memo *memo);

/*
 * Called once, when the library is loaded.
 */
void
memo_init(void)
{
	last_memo.context = TopMemoryContext;
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}

/*
 * A number that rises whenever what a transaction has read may have been taken
 * back: at its end, and at every rollback to a savepoint.
 */
uint64
memo_epoch(void)
{
	return epoch;
}

/*
 * What the calling expression remembers between its calls; made by the first.
 */
CallSite *
memo_call_site(FunctionCallInfo fcinfo)
{
	if (unlikely(fcinfo->flinfo == NULL))
		/* LCOV_EXCL_START: DirectFunctionCall of other C code; never SQL */
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("shardring functions cannot be called without "
						"function information")));
	/* LCOV_EXCL_STOP */
	if (unlikely(fcinfo->flinfo->fn_extra == NULL))
		fcinfo->flinfo->fn_extra = memo_new_site(fcinfo->flinfo->fn_mcxt);
	return fcinfo->flinfo->fn_extra;
}

/*
 * A call site without any memo yet, or what else may hold rings; it gives its
 * pins back when its memory goes.
 */
CallSite *
memo_new_site(MemoryContext context)
{
	CallSite   *site = MemoryContextAllocZero(context, sizeof(CallSite));

	site->context = context;
	site->memo.context = context;
	site->memo_from.context = context;
	site->callback.func = call_site_forget;
	site->callback.arg = site;
	MemoryContextRegisterResetCallback(context, &site->callback);
	return site;
}

/*
 * Makes the memo, one of a call site, say which version of the ring the
 * statement sees (NO_VERSION when nothing is active), without compiling it.
 * A missing ring or version is 42704.
 */
const Memo *
memo_resolve(Memo *memo, text *ring, int64 version)
{
	Snapshot	snapshot = memo_snapshot();

	if (likely(memo_holds(memo, snapshot, ring, version)))
		return memo;
	if (memo_holds(&last_memo, snapshot, ring, version))
		memo_copy(memo, &last_memo, snapshot, ring);
	else
		memo_answer(memo, snapshot, ring, version);
	return memo;
}

/*
 * Like memo_resolve, with the ring compiled.  Nothing active is 55000, altered
 * rows are XX001.  The ring stays where it is until the same memo is asked for
 * another one.
 */
const Memo *
memo_get(Memo *memo, text *ring, int64 version)
{
	if (likely(memo_resolve(memo, ring, version)->ring != NULL))
		return memo;
	if (memo->version == NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no active version",
						text_to_cstring(ring)),
				 errhint("Use shardring.activate to activate one, or "
						 "specify a version.")));
	memo_compile(memo, ring);
	return memo;
}

/*
 * Like memo_get, but the ring must have points, so that positions have owners;
 * else 55000.
 */
const Memo *
memo_get_routable(Memo *memo, text *ring, int64 version)
{
	if (unlikely(memo_get(memo, ring, version)->ring->arcs.n == 0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("version %d of ring \"%s\" has no points",
						memo->version, text_to_cstring(ring)),
				 errhint("Add a group with a weight greater than 0.")));
	return memo;
}

/*
 * Two versions of a ring, as memo_get has them.
 */
RingPair
memo_pair(CallSite *site, text *ring, int32 from_version, int32 to_version)
{
	RingPair	rings;

	rings.from = memo_get(&site->memo_from, ring, from_version)->ring;
	rings.to = memo_get(&site->memo, ring, to_version)->ring;
	return rings;
}

/*
 * As memo_pair, and both versions have points; else 55000.
 */
RingPair
memo_routable_pair(CallSite *site, text *ring, int32 from_version,
				   int32 to_version)
{
	RingPair	rings;

	rings.from = memo_get_routable(&site->memo_from, ring,
								   from_version)->ring;
	rings.to = memo_get_routable(&site->memo, ring, to_version)->ring;
	return rings;
}

/*
 * The ring a memo was just asked about, to ask the tables for more; its row is
 * the one the memo has read.
 */
CatalogRing
memo_ring(const Memo *memo, text *ring)
{
	CatalogRing result = catalog_ring(ring, memo_snapshot());

	result.row = memo->row;
	return result;
}

/*
 * The snapshot of the running statement.
 */
Snapshot
memo_snapshot(void)
{
	if (unlikely(!ActiveSnapshotSet()))
		/* LCOV_EXCL_START: only C code, a background worker say, has none */
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a ring cannot be read without a snapshot")));
	/* LCOV_EXCL_STOP */
	return GetActiveSnapshot();
}

/*
 * Whether the memo's snapshot is this one in every field that decides what it
 * sees; see the head of this file.
 */
bool
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

	memo_unpin(&site->memo);
	memo_unpin(&site->memo_from);
}

/*
 * Does the memo answer this question for a statement with this snapshot?
 */
static bool
memo_holds(const Memo *memo, Snapshot snapshot, text *ring, int64 version)
{
	return memo->valid &&
		memo->epoch == epoch &&
		memo->asked_version == version &&
		memo->name_len == VARSIZE_ANY_EXHDR(ring) &&
		memcmp(memo->name, VARDATA_ANY(ring), memo->name_len) == 0 &&
		memo_same_snapshot(memo, snapshot);
}

/*
 * Answers the question from the tables.
 */
static void
memo_answer(Memo *memo, Snapshot snapshot, text *name, int64 version)
{
	CatalogRing ring = catalog_ring(name, snapshot);
	CatalogVersion version_row;

	memo->valid = false;
	memo_unpin(memo);
	memo->serial = ++last_serial;
	catalog_require_ring(&ring);
	memo->row = ring.row;
	if (version == ACTIVE_VERSION ||
		(version == ring.row.active_version && version != NO_VERSION))
	{
		memo->version = ring.row.active_version;
		strlcpy(memo->fingerprint, ring.row.fingerprint,
				sizeof(memo->fingerprint));
	}
	else
	{
		catalog_require_version(&ring, (int32) version, &version_row);
		memo->version = version_row.version;
		strlcpy(memo->fingerprint, version_row.fingerprint,
				sizeof(memo->fingerprint));
	}
	memo_remember(memo, snapshot, name, version);
}

/*
 * Keeps the question and the snapshot; the answer is in the memo already.
 */
static void
memo_remember(Memo *memo, Snapshot snapshot, text *ring, int64 version)
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
		memo->xids = MemoryContextAlloc(memo->context,
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
	memo->asked_version = version;
	memo->name_len = VARSIZE_ANY_EXHDR(ring);
	if (memo->name_len > sizeof(memo->name))
		return;		/* LCOV_EXCL_LINE: a constraint keeps names short */
	memcpy(memo->name, VARDATA_ANY(ring), memo->name_len);
	memo->valid = true;
}

/*
 * Makes one memo say what another says, which was asked the same.
 */
static void
memo_copy(Memo *to, const Memo *from, Snapshot snapshot, text *ring)
{
	to->valid = false;
	memo_unpin(to);
	to->serial = from->serial;
	to->row = from->row;
	to->version = from->version;
	memcpy(to->fingerprint, from->fingerprint, sizeof(to->fingerprint));
	memo_remember(to, snapshot, ring, from->asked_version);
	if (from->compiled != NULL)
		memo_pin(to, from->compiled);
}

/*
 * Finds or makes the compiled ring of a memo that holds none.
 */
static void
memo_compile(Memo *memo, text *name)
{
	CompiledRing *compiled = cache_find(memo->fingerprint);

	if (compiled == NULL)
	{
		CatalogRing ring = memo_ring(memo, name);

		compiled = cache_make(&ring, memo->version, memo->fingerprint);
	}
	memo_pin(memo, compiled);
	if (compiled->shared)
	{
		cache_shrink();
		memo_copy(&last_memo, memo, memo_snapshot(), name);
	}
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
