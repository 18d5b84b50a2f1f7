/*
 * cache.c
 *		Which version a statement sees, and the compiled rings.
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
 * Compiled rings are kept by fingerprint, so they can never be stale.  Rules:
 *	- a ring is built under the current context and handed over to the cache
 *	  when it is complete; an error leaves nothing behind;
 *	- a memo pins the entry it points to, and a pinned entry is not evicted;
 *	- what is not pinned is bounded by CACHE_BYTES, the least recently looked
 *	  up goes first;
 *	- drafts are compiled for the memo that asked and die with it.
 */
#include "shardring.h"

#include "access/xact.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#define CACHE_BYTES		((Size) 64 * 1024 * 1024)

struct CacheEntry
{
	char		fingerprint[FINGERPRINT_LEN + 1];
	Ring	   *ring;
	MemoryContext context;		/* holds the ring and this entry */
	Size		bytes;
	int			pins;
	bool		shared;			/* in the table; a draft is not */
	dlist_node	lru;			/* when shared */
};

typedef struct CacheSlot
{
	char		fingerprint[FINGERPRINT_LEN];	/* hash key */
	CacheEntry *entry;
} CacheSlot;

static uint64 epoch = 1;
static MemoryContext cache_context = NULL;
static HTAB *cache_table = NULL;
static dlist_head cache_lru = DLIST_STATIC_INIT(cache_lru);
static Size cache_bytes = 0;
static CacheMemo last_memo;		/* the last answer of this backend */

static void transaction_ended(XactEvent event, void *arg);
static void subtransaction_ended(SubXactEvent event, SubTransactionId mine,
								 SubTransactionId parent, void *arg);
static void call_site_forget(void *arg);
static bool memo_holds(const CacheMemo *memo, Snapshot snapshot, text *ring,
					   int64 wanted);
static bool memo_same_snapshot(const CacheMemo *memo, Snapshot snapshot);
static void memo_answer(CacheMemo *memo, FunctionCallInfo fcinfo,
						MemoryContext context, Snapshot snapshot, text *ring,
						int64 wanted);
static void memo_remember(CacheMemo *memo, MemoryContext context,
						  Snapshot snapshot, text *ring, int64 wanted);
static void memo_copy(CacheMemo *to, MemoryContext context,
					  const CacheMemo *from, Snapshot snapshot, text *ring);
static void memo_pin(CacheMemo *memo, CacheEntry *entry);
static void memo_unpin(CacheMemo *memo);
static CacheEntry *entry_find(const char *fingerprint);
static CacheEntry *entry_compile(FunctionCallInfo fcinfo, text *ring,
								 const CacheMemo *memo, Snapshot snapshot);
static Ring *compile_ring(Oid schema, text *ring, const CacheMemo *memo,
						  Snapshot snapshot);
static void check_fingerprint(const CatalogDef *def, text *ring,
							  const CacheMemo *memo);
static void check_def(const CatalogDef *def, text *ring,
					  const CacheMemo *memo);
static bool keep_problem(void *arg, const char *problem);
static void entry_share(CacheEntry *entry);
static void entry_evict(CacheEntry *entry);
static void cache_create(void);
static void cache_shrink(void);

/*
 * Called once, when the library is loaded.
 */
void
cache_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}

/*
 * What the calling expression remembers between its calls; made by the first.
 */
CallSite *
cache_call_site(FunctionCallInfo fcinfo)
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
const CacheMemo *
cache_resolve(FunctionCallInfo fcinfo, int nth, text *ring, int64 wanted)
{
	Snapshot	snapshot = cache_snapshot();
	CacheMemo  *memo;
	CallSite   *site;

	/* Without it there is neither a call site nor a schema to read from. */
	if (unlikely(fcinfo->flinfo == NULL))
		(void) catalog_schema(fcinfo);
	site = cache_call_site(fcinfo);
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
 * As cache_resolve, with the ring compiled.  Nothing active is 55000, altered
 * rows are XX001.  The ring stays where it is until the same memo of the same
 * call site is asked for another one.
 */
const CacheMemo *
cache_get(FunctionCallInfo fcinfo, int nth, text *ring, int64 wanted)
{
	CacheMemo  *memo = (CacheMemo *) cache_resolve(fcinfo, nth, ring, wanted);
	CacheEntry *entry;

	if (likely(memo->ring != NULL))
		return memo;
	if (memo->version == NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no active version",
						text_to_cstring(ring)),
				 errhint("Use shardring.activate to activate one, or name "
						 "a version.")));
	entry = entry_find(memo->fingerprint);
	if (entry == NULL)
		entry = entry_compile(fcinfo, ring, memo, cache_snapshot());
	memo_pin(memo, entry);
	if (entry->shared)
	{
		cache_shrink();
		memo_copy(&last_memo, cache_context, memo, cache_snapshot(), ring);
	}
	return memo;
}

/*
 * As cache_get, and the ring has points, so that every position has an owner;
 * else 55000.
 */
const CacheMemo *
cache_get_routable(FunctionCallInfo fcinfo, int nth, text *ring,
				   int64 wanted)
{
	const CacheMemo *memo = cache_get(fcinfo, nth, ring, wanted);

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
cache_snapshot(void)
{
	if (unlikely(!ActiveSnapshotSet()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a ring cannot be read without a snapshot")));
	return GetActiveSnapshot();
}

static void
transaction_ended(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT &&
		event != XACT_EVENT_PARALLEL_PRE_COMMIT &&
		event != XACT_EVENT_PRE_PREPARE)
		epoch++;
}

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
memo_holds(const CacheMemo *memo, Snapshot snapshot, text *ring,
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
memo_same_snapshot(const CacheMemo *memo, Snapshot snapshot)
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
memo_answer(CacheMemo *memo, FunctionCallInfo fcinfo, MemoryContext context,
			Snapshot snapshot, text *ring, int64 wanted)
{
	Oid			schema = catalog_schema(fcinfo);
	CatalogRing ring_row;
	CatalogVersion version_row;

	memo->valid = false;
	memo_unpin(memo);
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
memo_remember(CacheMemo *memo, MemoryContext context, Snapshot snapshot,
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
	memcpy(memo->name, VARDATA_ANY(ring), memo->name_len);
	memo->valid = true;
}

/*
 * Makes one memo say what another says, which was asked the same.
 */
static void
memo_copy(CacheMemo *to, MemoryContext context, const CacheMemo *from,
		  Snapshot snapshot, text *ring)
{
	to->valid = false;
	memo_unpin(to);
	to->version = from->version;
	memcpy(to->fingerprint, from->fingerprint, sizeof(to->fingerprint));
	memo_remember(to, context, snapshot, ring, from->wanted);
	if (from->entry != NULL)
		memo_pin(to, from->entry);
}

static void
memo_pin(CacheMemo *memo, CacheEntry *entry)
{
	entry->pins++;
	memo->entry = entry;
	memo->ring = entry->ring;
}

/*
 * Lets go of the memo's ring.  A draft nobody else holds goes with it.
 */
static void
memo_unpin(CacheMemo *memo)
{
	CacheEntry *entry = memo->entry;

	memo->entry = NULL;
	memo->ring = NULL;
	if (entry != NULL && --entry->pins == 0 && !entry->shared)
		MemoryContextDelete(entry->context);
}

/*
 * The compiled ring of this fingerprint, or NULL; drafts have none.
 */
static CacheEntry *
entry_find(const char *fingerprint)
{
	CacheSlot  *slot;

	if (fingerprint[0] == '\0' || cache_table == NULL)
		return NULL;
	slot = hash_search(cache_table, fingerprint, HASH_FIND, NULL);
	if (slot == NULL)
		return NULL;
	dlist_move_head(&cache_lru, &slot->entry->lru);
	return slot->entry;
}

/*
 * Compiles what the memo found, and shares it unless it is a draft.
 */
static CacheEntry *
entry_compile(FunctionCallInfo fcinfo, text *ring, const CacheMemo *memo,
			  Snapshot snapshot)
{
	MemoryContext context;
	MemoryContext old;
	CacheEntry *entry;

	cache_create();
	context = AllocSetContextCreate(CurrentMemoryContext, "shardring ring",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	entry = palloc0(sizeof(CacheEntry));
	strlcpy(entry->fingerprint, memo->fingerprint,
			sizeof(entry->fingerprint));
	entry->context = context;
	entry->ring = compile_ring(catalog_schema(fcinfo), ring, memo, snapshot);
	entry->bytes = MemoryContextMemAllocated(context, true);
	MemoryContextSwitchTo(old);
	if (entry->fingerprint[0] != '\0')
		entry_share(entry);
	MemoryContextSetParent(context, cache_context);
	return entry;
}

/*
 * Reads, checks and builds a ring in the current context; the rows are gone
 * afterwards.
 */
static Ring *
compile_ring(Oid schema, text *ring, const CacheMemo *memo,
			 Snapshot snapshot)
{
	MemoryContext target = CurrentMemoryContext;
	MemoryContext rows;
	CatalogRing ring_row;
	CatalogVersion version_row;
	CatalogDef *def;
	Ring	   *result;

	rows = AllocSetContextCreate(target, "shardring rows",
								 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(rows);
	catalog_require_ring(schema, ring, snapshot, &ring_row);
	if (!catalog_read_version(schema, ring, memo->version, snapshot,
							  &version_row))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ring \"%s\" points to version %d, which does not "
						"exist", text_to_cstring(ring), memo->version),
				 errhint("Use shardring.problems to see what is wrong.")));
	def = catalog_read_def(schema, ring, &ring_row, &version_row, snapshot);
	if (version_row.sealed || memo->fingerprint[0] != '\0')
		check_fingerprint(def, ring, memo);
	check_def(def, ring, memo);
	MemoryContextSwitchTo(target);
	result = ring_build(&def->ring, &shardring_env);
	MemoryContextDelete(rows);
	return result;
}

/*
 * XX001 unless the rows are those the version was sealed with.
 */
static void
check_fingerprint(const CatalogDef *def, text *ring, const CacheMemo *memo)
{
	char		hex[FINGERPRINT_LEN + 1];

	if (!canon_fingerprint(&def->ring, &shardring_env, hex))
		key_no_hash();
	if (strcmp(hex, memo->fingerprint) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("version %d of ring \"%s\" was altered after it was "
						"sealed", memo->version, text_to_cstring(ring)),
				 errdetail("Its rows have fingerprint %s, it was sealed "
						   "with %s.", hex, memo->fingerprint),
				 errhint("Use shardring.problems to see what is wrong.")));
}

/*
 * Refuses rows that do not make a ring: 55000 in a draft, else XX001.
 */
static void
check_def(const CatalogDef *def, text *ring, const CacheMemo *memo)
{
	char	   *problem = def->malformed;

	if (problem == NULL &&
		check_structure(&def->ring, &shardring_env, keep_problem, &problem))
		return;
	ereport(ERROR,
			(errcode(memo->fingerprint[0] != '\0' ? ERRCODE_DATA_CORRUPTED :
					 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("version %d of ring \"%s\" is not consistent",
					memo->version, text_to_cstring(ring)),
			 errdetail_internal("%s.", problem)));
}

/*
 * RingReport that keeps the first problem, as the beginning of a sentence.
 */
static bool
keep_problem(void *arg, const char *problem)
{
	char	   *sentence = pstrdup(problem);

	sentence[0] = pg_toupper((unsigned char) sentence[0]);
	*(char **) arg = sentence;
	return false;
}

/*
 * Puts a compiled ring into the table; nothing after the first step can fail.
 */
static void
entry_share(CacheEntry *entry)
{
	CacheSlot  *slot;

	slot = hash_search(cache_table, entry->fingerprint, HASH_ENTER, NULL);
	slot->entry = entry;
	entry->shared = true;
	dlist_push_head(&cache_lru, &entry->lru);
	cache_bytes += entry->bytes;
}

static void
entry_evict(CacheEntry *entry)
{
	hash_search(cache_table, entry->fingerprint, HASH_REMOVE, NULL);
	dlist_delete(&entry->lru);
	cache_bytes -= entry->bytes;
	MemoryContextDelete(entry->context);
}

/*
 * Makes the context and the table; each only once, also after an error.
 */
static void
cache_create(void)
{
	HASHCTL		control = {0};

	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext,
											  "shardring cache",
											  ALLOCSET_DEFAULT_SIZES);
	if (cache_table != NULL)
		return;
	control.keysize = FINGERPRINT_LEN;
	control.entrysize = sizeof(CacheSlot);
	control.hcxt = cache_context;
	cache_table = hash_create("shardring cache", 64, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Evicts what nobody holds, the least recently looked up first, until the
 * cache is within its bound.
 */
static void
cache_shrink(void)
{
	dlist_node *node;

	if (cache_bytes <= CACHE_BYTES)
		return;
	node = cache_lru.head.prev;
	while (cache_bytes > CACHE_BYTES && node != &cache_lru.head)
	{
		CacheEntry *entry = dlist_container(CacheEntry, lru, node);

		node = node->prev;
		if (entry->pins == 0)
			entry_evict(entry);
	}
}
