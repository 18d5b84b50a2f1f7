/*
 * shards.c
 *		Shards as PL/Proxy numbers them, and as servers that can be asked.
 *
 * What is asked of a server is SQL in the install script; this file passes
 * questions to remote.c and makes rows of the answers.
 */
#include "shards.h"

#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/*
 * The numbers of shards, kept for an answer of a memo.  Not by the call site,
 * because every call of PL/Proxy is a new one.
 */
typedef struct ShardNumbers
{
	uint64		answer;
	uint32		space;
	int32	   *numbers;		/* by index in Ring.shards; -1: not read yet */
} ShardNumbers;

/*
 * How many partitions PL/Proxy has for a ring; it would wrap a number beyond
 * them, and so reach a wrong server.  A transaction that runs keeps the
 * partitions it has begun with, whatever happens to the server meanwhile;
 * then so does this.
 */
typedef struct Partitions
{
	bool		stale;			/* a foreign server changed since */
	LocalTransactionId used_by;	/* the last transaction that asked */
	char		ring[NAMEDATALEN];
	int			count;			/* INT_MAX: the ring has no such server */
} Partitions;

static Partitions partitions;
static ShardNumbers shard_numbers[8];	/* by the answer, as it happens */

static Datum partition_of(FunctionCallInfo fcinfo, KeyType type);
static int32 *number_of(const CacheMemo *memo, uint32 shard);
static int32 read_number(FunctionCallInfo fcinfo, const Ring *ring,
						 uint32 shard);
static void check_partition(text *ring, RingName shard, int32 number);
static int	partition_count(const char *ring);
static int	count_partitions(const char *ring);
static void server_changed(Datum arg, int cache, uint32 hash);
static RemoteAnswer *read_servers(ArrayType *servers, int *n);
static RemoteQuestion read_question(FunctionCallInfo fcinfo);
static char **read_texts(ArrayType *array, int *n);
static void put_answer(ReturnSetInfo *set, const RemoteAnswer *answer);
static Datum values_array(const RemoteAnswer *answer);

PG_FUNCTION_INFO_V1(shardring_plproxy_partition_text);
PG_FUNCTION_INFO_V1(shardring_plproxy_partition_int8);
PG_FUNCTION_INFO_V1(shardring_plproxy_partition_uuid);
PG_FUNCTION_INFO_V1(shardring_connect_string);
PG_FUNCTION_INFO_V1(shardring_ask_servers);

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
 * connect_string(server): how libpq gets to a foreign server.
 */
Datum
shardring_connect_string(PG_FUNCTION_ARGS)
{
	char	   *server = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_RETURN_TEXT_P(cstring_to_text(remote_connect_string(server)));
}

/*
 * ask_servers(servers, statement, arguments): what each of the servers says
 * to the statement, one row each, in their order.
 */
Datum
shardring_ask_servers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RemoteQuestion question = read_question(fcinfo);
	RemoteAnswer *answers;
	int			n;

	answers = read_servers(PG_GETARG_ARRAYTYPE_P(0), &n);
	remote_ask(answers, n, &question);
	for (int i = 0; i < n; i++)
		put_answer(set, &answers[i]);
	return (Datum) 0;
}

static Datum
partition_of(FunctionCallInfo fcinfo, KeyType type)
{
	const CacheMemo *memo = cache_get_routable(fcinfo, 0,
											   PG_GETARG_TEXT_PP(0),
											   ACTIVE_VERSION);
	const Ring *ring = memo->ring;
	RingPlace	place;
	int32	   *number;

	ring_locate(ring, key_position(ring->hash, ring->hash_tags, type,
								   PG_GETARG_DATUM(1)), &place);
	number = number_of(memo, place.shard);
	if (*number < 0)
		*number = read_number(fcinfo, ring, place.shard);
	PG_RETURN_INT32(*number);
}

/*
 * Where the number of a shard is kept.
 */
static int32 *
number_of(const CacheMemo *memo, uint32 shard)
{
	ShardNumbers *kept = &shard_numbers[memo->answer %
										lengthof(shard_numbers)];
	uint32		n = memo->ring->nshards;

	if (kept->answer == memo->answer)
		return &kept->numbers[shard];
	kept->answer = 0;
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
	kept->answer = memo->answer;
	return &kept->numbers[shard];
}

static int32
read_number(FunctionCallInfo fcinfo, const Ring *ring, uint32 shard)
{
	text	   *ring_name = PG_GETARG_TEXT_PP(0);
	int32		number;

	if (!catalog_read_shard_number(catalog_schema(fcinfo), ring_name,
								   result_text(ring->shards[shard]),
								   cache_snapshot(), &number))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("shard \"%.*s\" of ring \"%s\" has no number",
						(int) ring->shards[shard].len,
						ring->shards[shard].bytes,
						text_to_cstring(ring_name)),
				 errhint("Use shardring.problems to see what is wrong.")));
	check_partition(ring_name, ring->shards[shard], number);
	return number;
}

/*
 * 55000 when PL/Proxy has no partition of this number.
 */
static void
check_partition(text *ring, RingName shard, int32 number)
{
	char	   *name = text_to_cstring(ring);

	if (number >= partition_count(name))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("shard \"%.*s\" of ring \"%s\" has no partition here",
						(int) shard.len, shard.bytes, name),
				 errhint("Use shardring.plproxy_sync; transactions that run "
						 "meanwhile have to be repeated.")));
}

static int
partition_count(const char *ring)
{
	static bool listening = false;

	if (!listening)
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, server_changed,
									  (Datum) 0);
	listening = true;
	if (strcmp(partitions.ring, ring) != 0 ||
		(partitions.stale &&
		 partitions.used_by != compat_this_transaction()))
	{
		partitions.ring[0] = '\0';
		partitions.stale = false;
		partitions.count = count_partitions(ring);
		strlcpy(partitions.ring, ring, NAMEDATALEN);
	}
	partitions.used_by = compat_this_transaction();
	return partitions.count;
}

/*
 * How many options p0, p1 ... the server of this name has, if it is one of
 * PL/Proxy's.
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

static void
server_changed(Datum arg, int cache, uint32 hash)
{
	partitions.stale = true;
}

static RemoteAnswer *
read_servers(ArrayType *servers, int *n)
{
	char	  **names = read_texts(servers, n);
	RemoteAnswer *answers = palloc0(Max(*n, 1) * sizeof(RemoteAnswer));

	for (int i = 0; i < *n; i++)
		answers[i].server = names[i];
	return answers;
}

static RemoteQuestion
read_question(FunctionCallInfo fcinfo)
{
	RemoteQuestion question;

	question.statement = text_to_cstring(PG_GETARG_TEXT_PP(1));
	question.arguments = (const char *const *)
		read_texts(PG_GETARG_ARRAYTYPE_P(2), &question.narguments);
	return question;
}

/*
 * The elements of a text array, none of which may be NULL.
 */
static char **
read_texts(ArrayType *array, int *n)
{
	Datum	   *datums;
	bool	   *nulls;
	char	  **texts;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &datums,
					  &nulls, n);
	texts = palloc(Max(*n, 1) * sizeof(char *));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a list must not contain null")));
		texts[i] = TextDatumGetCString(datums[i]);
	}
	return texts;
}

static void
put_answer(ReturnSetInfo *set, const RemoteAnswer *answer)
{
	Interval   *round_trip = palloc0(sizeof(Interval));
	bool		nulls[5] = {0};
	Datum		values[5] = {0};

	round_trip->time = (TimeOffset) (answer->milliseconds * 1000);
	nulls[1] = answer->server_version == NULL;
	nulls[2] = answer->error == NULL;
	nulls[3] = answer->nvalues == 0;
	values[0] = CStringGetTextDatum(answer->server);
	if (!nulls[1])
		values[1] = CStringGetTextDatum(answer->server_version);
	if (!nulls[2])
		values[2] = CStringGetTextDatum(answer->error);
	if (!nulls[3])
		values[3] = values_array(answer);
	values[4] = IntervalPGetDatum(round_trip);
	result_put(set, values, nulls);
}

static Datum
values_array(const RemoteAnswer *answer)
{
	int			n = answer->nvalues;
	Datum	   *datums = palloc0(n * sizeof(Datum));
	bool	   *nulls = palloc0(n * sizeof(bool));
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		nulls[i] = answer->values[i] == NULL;
		if (!nulls[i])
			datums[i] = CStringGetTextDatum(answer->values[i]);
	}
	return PointerGetDatum(construct_md_array(datums, nulls, 1, &n, &lower,
											  TEXTOID, -1, false,
											  TYPALIGN_INT));
}
