/*
 * cache.c
 *		Compiled rings, kept by fingerprint, so that they can never be stale.
 *
 * Rules:
 *	- a ring is built under the current context and handed over to the cache
 *	  when it is complete; an error leaves nothing behind;
 *	- what is pinned is not evicted; what is not is bounded by CACHE_BYTES,
 *	  the least recently looked up goes first;
 *	- a draft is compiled for the one who asked and dies with the last pin.
 */
#include "shardring.h"

#include "utils/builtins.h"
#include "utils/hsearch.h"

#define CACHE_BYTES		((Size) 64 * 1024 * 1024)

typedef struct CacheSlot
{
	char		fingerprint[FINGERPRINT_LEN];	/* hash key */
	CompiledRing *compiled;
} CacheSlot;

static MemoryContext cache_context = NULL;
static HTAB *cache_table = NULL;
static dlist_head cache_lru = DLIST_STATIC_INIT(cache_lru);
static Size cache_bytes = 0;

static Ring *compile(const CatalogRing *ring, int32 version,
					 const char *fingerprint);
static void check_fingerprint(const CatalogDef *def, text *ring,
							  int32 version, const char *fingerprint);
static void check_def(const CatalogDef *def, text *ring, int32 version,
					  bool doubled);
static bool keep_problem(void *arg, const char *problem);
static void cache_share(CompiledRing *compiled);
static void cache_evict(CompiledRing *compiled);
static void cache_init(void);

/*
 * The compiled ring of this fingerprint, or NULL; drafts have none.
 */
CompiledRing *
cache_find(const char *fingerprint)
{
	CacheSlot  *slot;

	if (fingerprint[0] == '\0' || cache_table == NULL)
		return NULL;
	slot = hash_search(cache_table, fingerprint, HASH_FIND, NULL);
	if (slot == NULL)
		return NULL;
	dlist_move_head(&cache_lru, &slot->compiled->lru);
	return slot->compiled;
}

/*
 * Compiles a version and shares it, unless it is a draft (no fingerprint).
 * The row of the ring has been read.  Altered rows are XX001, an inconsistent
 * draft is 55000.  The caller pins it at once.
 */
CompiledRing *
cache_make(const CatalogRing *ring, int32 version, const char *fingerprint)
{
	MemoryContext context;
	MemoryContext old;
	CompiledRing *compiled;

	cache_init();
	context = AllocSetContextCreate(CurrentMemoryContext, "shardring ring",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	compiled = palloc0(sizeof(CompiledRing));
	strlcpy(compiled->fingerprint, fingerprint,
			sizeof(compiled->fingerprint));
	compiled->context = context;
	compiled->ring = compile(ring, version, fingerprint);
	compiled->bytes = MemoryContextMemAllocated(context, true);
	MemoryContextSwitchTo(old);
	if (fingerprint[0] != '\0')
		cache_share(compiled);
	MemoryContextSetParent(context, cache_context);
	return compiled;
}

/*
 * Reads the rows of a version in the current context; that of the ring has
 * been read.  They are those it was sealed with (else XX001) and make a ring,
 * but for doubled points (else 55000 in a draft, XX001).
 */
CatalogDef *
cache_rows(const CatalogRing *ring, int32 version, const char *fingerprint)
{
	CatalogVersion version_row;
	CatalogDef *def;

	if (!catalog_read_version(ring, version, &version_row))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ring \"%s\" points to version %d, which does not "
						"exist", text_to_cstring(ring->name), version),
				 errhint("Use shardring.problems to see what is wrong.")));
	def = catalog_read_def(ring, &version_row);
	if (def->sealed || fingerprint[0] != '\0')
		check_fingerprint(def, ring->name, version, fingerprint);
	check_def(def, ring->name, version, false);
	return def;
}

/*
 * Gives a pin back.  A draft nobody else holds goes with it.
 */
void
cache_unpin(CompiledRing *compiled)
{
	if (--compiled->pins == 0 && !compiled->shared)
		MemoryContextDelete(compiled->context);
}

/*
 * Evicts what nobody holds, the least recently looked up first, until the
 * cache is within its bound.
 */
void
cache_shrink(void)
{
	dlist_node *node = cache_lru.head.prev;

	while (cache_bytes > CACHE_BYTES && node != &cache_lru.head)
	{
		CompiledRing *compiled = dlist_container(CompiledRing, lru, node);

		node = node->prev;
		if (compiled->pins == 0)
			cache_evict(compiled);
	}
}

/*
 * Reads, checks and builds a ring in the current context; the rows are gone
 * afterwards.
 */
static Ring *
compile(const CatalogRing *ring, int32 version, const char *fingerprint)
{
	MemoryContext target = CurrentMemoryContext;
	MemoryContext rows;
	CatalogDef *def;
	Ring	   *result;

	rows = AllocSetContextCreate(target, "shardring rows",
								 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(rows);
	def = cache_rows(ring, version, fingerprint);
	MemoryContextSwitchTo(target);
	result = ring_build(&def->ring, &shardring_env);
	if (result->ndoubled > 0)
		check_def(def, ring->name, version, true);
	MemoryContextDelete(rows);
	return result;
}

/*
 * XX001 unless the rows are those the version was sealed with.
 */
static void
check_fingerprint(const CatalogDef *def, text *ring, int32 version,
				  const char *fingerprint)
{
	char		hex[FINGERPRINT_LEN + 1];

	if (!fingerprint_hex(&def->ring, hex))
		env_no_hash();
	if (strcmp(hex, fingerprint) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("version %d of ring \"%s\" was altered after it was "
						"sealed", version, text_to_cstring(ring)),
				 errdetail("Its rows have fingerprint %s, but it was "
						   "sealed with %s.", hex, fingerprint),
				 errhint("Use shardring.problems to see what is wrong.")));
}

/*
 * Refuses rows that do not make a ring: 55000 in a draft, else XX001.  Whether
 * there are doubled points is left to ring_build, which sorts them anyway; if
 * so, they are looked for to be named.
 */
static void
check_def(const CatalogDef *def, text *ring, int32 version, bool doubled)
{
	char	   *problem = def->malformed;

	if (problem == NULL &&
		(doubled ? check_structure : check_shape) (&def->ring, &shardring_env,
												   keep_problem, &problem))
		return;
	ereport(ERROR,
			(errcode(def->sealed ? ERRCODE_DATA_CORRUPTED :
					 ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("version %d of ring \"%s\" is not consistent",
					version, text_to_cstring(ring)),
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
cache_share(CompiledRing *compiled)
{
	CacheSlot  *slot;

	slot = hash_search(cache_table, compiled->fingerprint, HASH_ENTER, NULL);
	slot->compiled = compiled;
	compiled->shared = true;
	dlist_push_head(&cache_lru, &compiled->lru);
	cache_bytes += compiled->bytes;
}

/*
 * Takes a ring that nobody holds out of the cache.
 */
static void
cache_evict(CompiledRing *compiled)
{
	hash_search(cache_table, compiled->fingerprint, HASH_REMOVE, NULL);
	dlist_delete(&compiled->lru);
	cache_bytes -= compiled->bytes;
	MemoryContextDelete(compiled->context);
}

/*
 * Makes the context and the table; each only once, also after an error.
 */
static void
cache_init(void)
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
