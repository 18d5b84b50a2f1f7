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
 *
 * The cluster is named like the ring, or like another ring that the row of
 * this one names; then the numbers are those of that ring.
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
 * How many partitions PL/Proxy has in a cluster.  Kept only where there is one
 * of this name, or was: whatever else one may call a ring must not add up.
 */
typedef struct Partitions
{
	char		cluster[NAMEDATALEN];	/* hash key */
	int			count;
} Partitions;

static ShardNumbers shard_numbers[8];	/* by the serial, as it happens */
static HTAB *partitions = NULL;
static uint64 changes_heard = 0;
static bool servers_changed = false;	/* since the counts were taken */
static LocalTransactionId changed_in;	/* the transaction that heard of it, or
										 * none: it was heard before */

static Datum partition_of(FunctionCallInfo fcinfo, KeyType type);
static void name_cluster(const Memo *memo, char *cluster);
static int32 *number_of(const Memo *memo, uint32 shard);
static int32 read_number(const Memo *memo, text *ring_name, uint32 shard);
static bool routes_to(const CatalogRing *ring, RingName shard);
static void refuse_partition(const char *cluster, text *ring, RingName shard);
static int	partition_count(const char *cluster, uint64 heard);
static HTAB *partition_table(void);
static bool is_cluster(const ForeignServer *server);
static int	count_partitions(const char *cluster);
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
 * PL/Proxy has looked for changes before this call.  While the ring is read,
 * the backend may hear of one that PL/Proxy has not seen.
 */
static Datum
partition_of(FunctionCallInfo fcinfo, KeyType type)
{
	text	   *ring_name = PG_GETARG_TEXT_PP(0);
	uint64		heard = changes_heard;
	const Memo *memo = memo_get_routable(&memo_call_site(fcinfo)->memo,
										 ring_name, ACTIVE_VERSION);
	const Ring *ring = memo->ring;
	char		cluster[NAMEDATALEN];
	RingPlace	place;
	int32	   *number;

	name_cluster(memo, cluster);
	ring_locate(ring, key_position_on(ring, type, PG_GETARG_DATUM(1)),
				&place);
	number = number_of(memo, place.shard);
	if (*number < 0)
		*number = read_number(memo, ring_name, place.shard);
	if (*number >= partition_count(cluster, heard))
		refuse_partition(cluster, ring_name, ring->shards[place.shard]);
	PG_RETURN_INT32(*number);
}

/*
 * The name of the cluster that a ring is called in; empty when no server can
 * have that name.
 */
static void
name_cluster(const Memo *memo, char *cluster)
{
	if (memo->row.cluster[0] != '\0')
	{
		memcpy(cluster, memo->row.cluster, NAMEDATALEN);
		return;
	}
	memset(cluster, 0, NAMEDATALEN);
	if (memo->name_len < NAMEDATALEN)
		memcpy(cluster, memo->name, memo->name_len);
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
 * The number of a shard from the tables, XX001 when it has none; that of the
 * ring in whose cluster it is called, 55000 when that does not route to it:
 * the partition of a retired shard leads elsewhere.
 */
static int32
read_number(const Memo *memo, text *ring_name, uint32 shard)
{
	CatalogRing ring = memo_ring(memo, ring_name);
	RingName	name = memo->ring->shards[shard];
	int32		number;

	if (memo->row.cluster[0] != '\0')
	{
		ring = catalog_ring(cstring_to_text(memo->row.cluster),
							memo_snapshot());
		catalog_require_ring(&ring);
		if (!routes_to(&ring, name))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("shard \"%.*s\" of ring \"%s\" is not a shard of "
							"ring \"%s\", in whose cluster it is called",
							(int) name.len, name.bytes,
							text_to_cstring(ring_name), memo->row.cluster),
					 errhint("Add it there first, or name another ring with "
							 "shardring.set_cluster.")));
	}
	if (!catalog_read_shard_number(&ring, result_text(name), &number))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("shard \"%.*s\" of ring \"%s\" has no number",
						(int) name.len, name.bytes,
						text_to_cstring(ring.name)),
				 errhint("Use shardring.problems to see what is wrong.")));
	return number;
}

/*
 * Has the active version of a ring this shard?  The row of the ring has been
 * read.  The memos are not asked: they would forget the ring of the call.
 */
static bool
routes_to(const CatalogRing *ring, RingName shard)
{
	const CatalogRingRow *row = &ring->row;
	CompiledRing *compiled;

	if (row->active_version == NO_VERSION)
		return false;
	compiled = cache_find(row->fingerprint);
	if (compiled == NULL)
		compiled = cache_make(ring, row->active_version, row->fingerprint);
	for (uint32 i = 0; i < compiled->ring->nshards; i++)
	{
		RingName	other = compiled->ring->shards[i];

		if (other.len == shard.len &&
			memcmp(other.bytes, shard.bytes, shard.len) == 0)
			return true;
	}
	return false;
}

/*
 * Raises that the shard has a number, but PL/Proxy no partition for it, or no
 * such cluster.
 */
static void
refuse_partition(const char *cluster, text *ring, RingName shard)
{
	if (!is_cluster(GetForeignServerByName(cluster, true)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no cluster of PL/Proxy here",
						text_to_cstring(ring)),
				 errdetail("No server \"%s\" is one of PL/Proxy's.", cluster),
				 errhint("Use shardring.plproxy_sync to make one, or "
						 "shardring.set_cluster to name the ring in whose "
						 "cluster it is called.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("shard \"%.*s\" of ring \"%s\" has no PL/Proxy partition",
					(int) shard.len, shard.bytes, text_to_cstring(ring)),
			 errhint("Use shardring.plproxy_sync, then repeat the "
					 "transactions that were open meanwhile.")));
}

/*
 * How many partitions PL/Proxy has for the cluster in this call, at least; 0
 * without such a cluster.  A change that the backend has heard of since the
 * call began, PL/Proxy has not; then a count that was not kept before says
 * nothing about its list.
 */
static int
partition_count(const char *cluster, uint64 heard)
{
	Partitions *entry;
	bool		found;
	int			count;

	entry = hash_search(partition_table(), cluster, HASH_FIND, NULL);
	if (entry != NULL && !servers_changed)
		return entry->count;
	count = count_partitions(cluster);
	if (entry == NULL && count == 0)
		return 0;
	entry = hash_search(partition_table(), cluster, HASH_ENTER, &found);
	if (found)
		entry->count = Min(entry->count, count);
	else
		entry->count = heard == changes_heard ? count : 0;
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
 * How many options p0, p1 ... the server of this name has; 0 unless it is one
 * of PL/Proxy's.
 */
static int
count_partitions(const char *cluster)
{
	ForeignServer *server = GetForeignServerByName(cluster, true);
	ListCell   *cell;
	int			count = 0;

	if (!is_cluster(server))
		return 0;
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
 * Is it a server, and one of PL/Proxy's?
 */
static bool
is_cluster(const ForeignServer *server)
{
	return server != NULL &&
		strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "plproxy") == 0;
}

/*
 * The backend hears that a foreign server changed; any, as the hash is not
 * looked at.
 */
static void
server_changed(Datum arg, int cache, uint32 hash)
{
	changes_heard++;
	servers_changed = true;
	changed_in = IsTransactionState() ? compat_this_transaction() :
		InvalidLocalTransactionId;
}
