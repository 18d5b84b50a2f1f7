/*
 * plproxy.c
 *		Shards as PL/Proxy numbers them.
 *
 * PL/Proxy wraps a number beyond its partitions and so reaches a wrong server;
 * so such a number must not leave this file.  Which partitions PL/Proxy has
 * cannot be asked, but it is known when it looks: it takes the list of a ring
 * before it asks for a number, and a new one at the first call after the
 * backend has heard that a foreign server changed.  In the transaction that
 * hears of it, either list may be in use, so only what both have counts.
 */
#include "shardring.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/*
 * The numbers of shards, kept for an answer in a memo.  Not by the call site,
 * because every call of PL/Proxy is a new one.
 */
typedef struct ShardNumbers
{
	uint64		serial;			/* of the answer */
	uint32		space;
	int32	   *numbers;		/* by index in Ring.shards; -1: not read yet */
} ShardNumbers;

/*
 * How many partitions PL/Proxy has for a ring.  Kept only where there is such
 * a server, or was: whatever else one may call a ring must not add up.
 */
typedef struct Partitions
{
	char		ring[NAMEDATALEN];	/* hash key */
	int			count;
} Partitions;

static ShardNumbers shard_numbers[8];	/* by the serial, as it happens */
static HTAB *partitions = NULL;
static bool servers_changed = false;	/* since the counts were taken */
static LocalTransactionId changed_in;	/* the transaction that heard of it, or
										 * none: it was heard before */

static Datum partition_of(FunctionCallInfo fcinfo, KeyType type);
static int32 *number_of(const Memo *memo, uint32 shard);
static int32 read_number(const Memo *memo, text *ring_name, uint32 shard);
static void refuse_partition(text *ring, RingName shard);
static int	partition_count(text *ring);
static HTAB *partition_table(void);
static int	count_partitions(const char *ring);
static void server_changed(Datum arg, int cache, uint32 hash);

PG_FUNCTION_INFO_V1(shardring_plproxy_partition_text);
PG_FUNCTION_INFO_V1(shardring_plproxy_partition_int8);
PG_FUNCTION_INFO_V1(shardring_plproxy_partition_uuid);

/*
 * Called once, when the library is loaded.
 */
void
plproxy_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, server_changed,
								  (Datum) 0);
}

/*
 * plproxy_partition(ring, key): the number of the key's shard, for RUN ON.
 */
Datum
shardring_plproxy_partition_text(PG_FUNCTION_ARGS)
{
	return partition_of(fcinfo, KEY_TEXT);
}

Datum
shardring_plproxy_partition_int8(PG_FUNCTION_ARGS)
{
	return partition_of(fcinfo, KEY_INT8);
}

Datum
shardring_plproxy_partition_uuid(PG_FUNCTION_ARGS)
{
	return partition_of(fcinfo, KEY_UUID);
}

/*
 * How many partitions there are is looked up first: later, the backend may
 * have heard of a change that PL/Proxy has not looked for in this call.
 */
static Datum
partition_of(FunctionCallInfo fcinfo, KeyType type)
{
	text	   *ring_name = PG_GETARG_TEXT_PP(0);
	int			count = partition_count(ring_name);
	const Memo *memo = memo_get_routable(&memo_call_site(fcinfo)->memo,
										 ring_name, ACTIVE_VERSION);
	const Ring *ring = memo->ring;
	RingPlace	place;
	int32	   *number;

	ring_locate(ring, key_position_on(ring, type, PG_GETARG_DATUM(1)),
				&place);
	number = number_of(memo, place.shard);
	if (*number < 0)
		*number = read_number(memo, ring_name, place.shard);
	if (*number >= count)
		refuse_partition(ring_name, ring->shards[place.shard]);
	PG_RETURN_INT32(*number);
}

/*
 * Where the number of a shard is kept.
 */
static int32 *
number_of(const Memo *memo, uint32 shard)
{
	ShardNumbers *kept = &shard_numbers[memo->serial %
										lengthof(shard_numbers)];
	uint32		n = memo->ring->nshards;

	if (kept->serial == memo->serial)
		return &kept->numbers[shard];
	kept->serial = 0;
	if (kept->space < n)
	{
		kept->space = 0;
		if (kept->numbers != NULL)
			pfree(kept->numbers);
		kept->numbers = NULL;
		kept->numbers = MemoryContextAlloc(TopMemoryContext,
										   n * sizeof(int32));
		kept->space = n;
	}
	for (uint32 i = 0; i < n; i++)
		kept->numbers[i] = -1;
	kept->serial = memo->serial;
	return &kept->numbers[shard];
}

/*
 * The number of a shard from the tables; XX001 when it has none.
 */
static int32
read_number(const Memo *memo, text *ring_name, uint32 shard)
{
	CatalogRing ring = memo_ring(memo, ring_name);
	RingName	name = memo->ring->shards[shard];
	int32		number;

	if (!catalog_read_shard_number(&ring, result_text(name), &number))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("shard \"%.*s\" of ring \"%s\" has no number",
						(int) name.len, name.bytes,
						text_to_cstring(ring_name)),
				 errhint("Use shardring.problems to see what is wrong.")));
	return number;
}

/*
 * Raises that the shard has a number, but PL/Proxy no partition for it.
 */
static void
refuse_partition(text *ring, RingName shard)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("shard \"%.*s\" of ring \"%s\" has no PL/Proxy partition",
					(int) shard.len, shard.bytes, text_to_cstring(ring)),
			 errhint("Use shardring.plproxy_sync, then repeat the "
					 "transactions that were open meanwhile.")));
}

/*
 * How many partitions PL/Proxy has for the ring in this call, at least.
 */
static int
partition_count(text *ring)
{
	char		name[NAMEDATALEN] = {0};
	Partitions *entry;
	bool		found;
	int			count;

	if (VARSIZE_ANY_EXHDR(ring) >= NAMEDATALEN)
		return INT_MAX;			/* no server has such a name */
	memcpy(name, VARDATA_ANY(ring), VARSIZE_ANY_EXHDR(ring));
	entry = hash_search(partition_table(), name, HASH_FIND, NULL);
	if (entry != NULL && !servers_changed)
		return entry->count;
	count = count_partitions(name);
	if (entry == NULL && count == INT_MAX)
		return INT_MAX;
	entry = hash_search(partition_table(), name, HASH_ENTER, &found);
	entry->count = found ? Min(entry->count, count) : count;
	return entry->count;
}

/*
 * The counts, all of them forgotten once the transaction is over that heard of
 * a change.
 */
static HTAB *
partition_table(void)
{
	HASHCTL		control = {
		.keysize = NAMEDATALEN, .entrysize = sizeof(Partitions)
	};

	if (servers_changed && changed_in != compat_this_transaction())
	{
		if (partitions != NULL)
			hash_destroy(partitions);
		partitions = NULL;
		servers_changed = false;
	}
	if (partitions == NULL)
		partitions = hash_create("shardring partitions", 16, &control,
								 HASH_ELEM | HASH_STRINGS);
	return partitions;
}

/*
 * How many options p0, p1 ... the server of this name has; INT_MAX unless it
 * is one of PL/Proxy's.
 */
static int
count_partitions(const char *ring)
{
	ForeignServer *server = GetForeignServerByName(ring, true);
	ListCell   *cell;
	int			count = 0;

	if (server == NULL ||
		strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "plproxy") != 0)
		return INT_MAX;
	foreach(cell, server->options)
	{
		const char *name = ((DefElem *) lfirst(cell))->defname;

		if (name[0] == 'p' && name[1] != '\0' &&
			strspn(name + 1, "0123456789") == strlen(name + 1))
			count++;
	}
	return count;
}

/*
 * The backend hears that a foreign server changed; any, as the hash is not
 * looked at.
 */
static void
server_changed(Datum arg, int cache, uint32 hash)
{
	servers_changed = true;
	changed_in = IsTransactionState() ? compat_this_transaction() :
		InvalidLocalTransactionId;
}
