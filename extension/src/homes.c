/*
 * homes.c
 *		The aggregate homes: how many of the keys of a table live where.
 *
 * For whole tables.  Keys wait until there are enough to hash many at once,
 * which is four times as quick as one after the other (md5_lanes.c); rows are
 * counted by the numbers of shards, and no name is made before the end.  Text
 * that is very long does not wait.
 *
 * A state holds the ring that its first row asks for; all later rows are
 * counted on it.  In a worker it becomes bytes, and the process that adds up
 * finds the same ring by its name and version, in the same snapshot.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "ring/md5_lanes.h"

/*
 * So many numbers wait, or texts, with so many bytes; a longer text does not.
 * To place keys drives out of the first cache what reading a table has there,
 * which is why it is done so seldom.
 */
#define WAITING			(512 * MD5_LANES)
#define WAITING_TEXTS	(64 * MD5_LANES)
#define WAITING_BYTES	(32 * WAITING_TEXTS)

typedef struct Homes
{
	CallSite   *site;			/* holds the ring */
	text	   *name;
	int32		version;
	int64		nowhere;		/* keys that are NULL */
	int64	   *counts;			/* by the number of a shard */
	int			nwaiting;
	bool		are_numbers;	/* not spelled yet */
	int64		numbers[WAITING];
	const unsigned char *keys[WAITING_TEXTS];
	size_t		lens[WAITING_TEXTS];
	size_t		used;
	unsigned char bytes[WAITING_BYTES];
} Homes;

static Datum homes_add(FunctionCallInfo fcinfo, KeyType type);
static Homes *homes_begin(FunctionCallInfo fcinfo, text *name, int32 version,
						  bool are_numbers);
static void homes_wait(Homes *homes, const char *bytes, size_t len);
static void homes_settle(Homes *homes);
static void homes_hash(Homes *homes, HashKind hash,
					   uint32 positions[WAITING]);
static void homes_spell(Homes *homes, int first, int n);
static void homes_count(Homes *homes, const KeyBytes *key);
static Homes *homes_argument(FunctionCallInfo fcinfo, int argument);

PG_FUNCTION_INFO_V1(shardring_homes_add_text);
PG_FUNCTION_INFO_V1(shardring_homes_add_int8);
PG_FUNCTION_INFO_V1(shardring_homes_add_uuid);
PG_FUNCTION_INFO_V1(shardring_homes_combine);
PG_FUNCTION_INFO_V1(shardring_homes_serialize);
PG_FUNCTION_INFO_V1(shardring_homes_deserialize);
PG_FUNCTION_INFO_V1(shardring_homes_names);

/*
 * homes_add(state, ring, version, key): counts a key.
 */
Datum
shardring_homes_add_text(PG_FUNCTION_ARGS)
{
	return homes_add(fcinfo, KEY_TEXT);
}

Datum
shardring_homes_add_int8(PG_FUNCTION_ARGS)
{
	return homes_add(fcinfo, KEY_INT8);
}

Datum
shardring_homes_add_uuid(PG_FUNCTION_ARGS)
{
	return homes_add(fcinfo, KEY_UUID);
}

/*
 * homes_combine(state, state): adds the second one to the first.
 */
Datum
shardring_homes_combine(PG_FUNCTION_ARGS)
{
	Homes	   *sum = homes_argument(fcinfo, 0);
	Homes	   *part = homes_argument(fcinfo, 1);

	if (part == NULL)
	{
		/* LCOV_EXCL_START: a worker without rows sends no state */
		if (sum == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(sum);
		/* LCOV_EXCL_STOP */
	}
	homes_settle(part);
	if (sum == NULL)
		sum = homes_begin(fcinfo, part->name, part->version, false);
	homes_settle(sum);
	sum->nowhere += part->nowhere;
	for (uint32 i = 0; i < sum->site->memo.ring->nshards; i++)
		sum->counts[i] += part->counts[i];
	PG_RETURN_POINTER(sum);
}

/*
 * homes_serialize(state): the state of a worker as bytes.
 */
Datum
shardring_homes_serialize(PG_FUNCTION_ARGS)
{
	Homes	   *homes = (Homes *) PG_GETARG_POINTER(0);
	StringInfoData bytes;

	homes_settle(homes);
	pq_begintypsend(&bytes);
	pq_sendint32(&bytes, homes->version);
	pq_sendint32(&bytes, VARSIZE_ANY_EXHDR(homes->name));
	pq_sendbytes(&bytes, VARDATA_ANY(homes->name),
				 VARSIZE_ANY_EXHDR(homes->name));
	pq_sendint64(&bytes, homes->nowhere);
	for (uint32 i = 0; i < homes->site->memo.ring->nshards; i++)
		pq_sendint64(&bytes, homes->counts[i]);
	PG_RETURN_BYTEA_P(pq_endtypsend(&bytes));
}

/*
 * homes_deserialize(bytes, internal): the state again.
 */
Datum
shardring_homes_deserialize(PG_FUNCTION_ARGS)
{
	bytea	   *state = PG_GETARG_BYTEA_PP(0);
	StringInfoData bytes;
	text	   *name;
	int32		version;
	int			len;
	Homes	   *homes;

	initStringInfo(&bytes);
	appendBinaryStringInfo(&bytes, VARDATA_ANY(state),
						   VARSIZE_ANY_EXHDR(state));
	version = pq_getmsgint(&bytes, 4);
	len = pq_getmsgint(&bytes, 4);
	name = cstring_to_text_with_len(pq_getmsgbytes(&bytes, len), len);
	homes = homes_begin(fcinfo, name, version, false);
	homes->nowhere = pq_getmsgint64(&bytes);
	for (uint32 i = 0; i < homes->site->memo.ring->nshards; i++)
		homes->counts[i] = pq_getmsgint64(&bytes);
	pq_getmsgend(&bytes);
	PG_RETURN_POINTER(homes);
}

/*
 * homes_names(state): shards and how many keys each has, in turns; the last
 * one, NULL, has the keys that are NULL.  A shard without keys is not among
 * them.
 */
Datum
shardring_homes_names(PG_FUNCTION_ARGS)
{
	Homes	   *homes = homes_argument(fcinfo, 0);
	const Ring *ring;
	ArrayBuildState *rows;

	if (homes == NULL)
		PG_RETURN_NULL();
	ring = homes->site->memo.ring;
	homes_settle(homes);
	rows = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	for (uint32 i = 0; i <= ring->nshards; i++)
	{
		bool		nowhere = i == ring->nshards;
		int64		count = nowhere ? homes->nowhere : homes->counts[i];

		if (count == 0)
			continue;
		accumArrayResult(rows, nowhere ? (Datum) 0 :
						 PointerGetDatum(result_text(ring->shards[i])),
						 nowhere, TEXTOID, CurrentMemoryContext);
		accumArrayResult(rows, CStringGetTextDatum(psprintf(INT64_FORMAT,
															count)),
						 false, TEXTOID, CurrentMemoryContext);
	}
	PG_RETURN_DATUM(makeArrayResult(rows, CurrentMemoryContext));
}

/*
 * homes_add for keys of one type.
 */
static Datum
homes_add(FunctionCallInfo fcinfo, KeyType type)
{
	Homes	   *homes = homes_argument(fcinfo, 0);
	const Ring *ring;
	KeyBytes	key;

	if (homes == NULL)
	{
		if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
			PG_RETURN_NULL();
		homes = homes_begin(fcinfo, PG_GETARG_TEXT_PP(1), PG_GETARG_INT32(2),
							type == KEY_INT8);
	}
	ring = homes->site->memo.ring;
	if (PG_ARGISNULL(3))
	{
		homes->nowhere++;
		PG_RETURN_POINTER(homes);
	}
	if (type == KEY_INT8)
	{
		homes->numbers[homes->nwaiting] = PG_GETARG_INT64(3);
		if (++homes->nwaiting == WAITING)
			homes_settle(homes);
		PG_RETURN_POINTER(homes);
	}
	key_bytes_on(ring, type, PG_GETARG_DATUM(3), &key);
	if (key.len > WAITING_BYTES)
		homes_count(homes, &key);
	else
		homes_wait(homes, key.bytes, key.len);
	if (key.made != NULL)
		pfree(key.made);
	PG_RETURN_POINTER(homes);
}

/*
 * A state that has counted nothing, as long-lived as the aggregate.  A version
 * without points is 55000.
 */
static Homes *
homes_begin(FunctionCallInfo fcinfo, text *name, int32 version,
			bool are_numbers)
{
	MemoryContext context;
	MemoryContext caller;
	Homes	   *homes;

	if (!AggCheckCallContext(fcinfo, &context))
		/* LCOV_EXCL_START: only aggregates have states */
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function is only for aggregates")));
	/* LCOV_EXCL_STOP */
	caller = MemoryContextSwitchTo(context);
	homes = palloc0(sizeof(Homes));
	homes->site = memo_new_site(context);
	homes->version = version;
	homes->are_numbers = are_numbers;
	homes->name = DatumGetTextPCopy(PointerGetDatum(name));
	(void) memo_get_routable(&homes->site->memo, homes->name, version);
	homes->counts = palloc0(homes->site->memo.ring->nshards * sizeof(int64));
	MemoryContextSwitchTo(caller);
	return homes;
}

/*
 * Lets a key wait that is not too long to.
 */
static void
homes_wait(Homes *homes, const char *bytes, size_t len)
{
	if (homes->nwaiting == WAITING_TEXTS ||
		len > WAITING_BYTES - homes->used)
		homes_settle(homes);
	memcpy(homes->bytes + homes->used, bytes, len);
	homes->keys[homes->nwaiting] = homes->bytes + homes->used;
	homes->lens[homes->nwaiting++] = len;
	homes->used += len;
}

/*
 * Counts the keys that wait.
 */
static void
homes_settle(Homes *homes)
{
	const Ring *ring = homes->site->memo.ring;
	uint32		places[WAITING];

	homes_hash(homes, ring->hash, places);
	ring_locate_shards(ring, places, homes->nwaiting, places);
	for (int i = 0; i < homes->nwaiting; i++)
		homes->counts[places[i]]++;
	homes->nwaiting = 0;
	homes->used = 0;
}

/*
 * The positions of the keys that wait.
 */
static void
homes_hash(Homes *homes, HashKind hash, uint32 positions[WAITING])
{
	int			n = homes->nwaiting;

	for (int i = 0; i < n; i += MD5_LANES)
	{
		int			at = homes->are_numbers ? 0 : i;
		int			lanes = Min(n - i, MD5_LANES);

		if (homes->are_numbers)
			homes_spell(homes, i, lanes);
		/* lanes that are left over get empty keys */
		for (int j = lanes; j < MD5_LANES; j++)
			homes->lens[at + j] = 0;
		if (hash == HASH_MD5)
			md5_lanes(homes->keys + at, homes->lens + at, positions + i);
		else
			for (int j = 0; j < lanes; j++)
				positions[i + j] = key_bytes_position(
									hash, (const char *) homes->keys[at + j],
									homes->lens[at + j]);
	}
}

/*
 * Makes numbers that wait, from the first one on, the first keys.
 */
static void
homes_spell(Homes *homes, int first, int n)
{
	for (int i = 0; i < n; i++)
	{
		unsigned char *digits = homes->bytes + i * (MAXINT8LEN + 1);

		homes->keys[i] = digits;
		homes->lens[i] = pg_lltoa(homes->numbers[first + i], (char *) digits);
	}
}

/*
 * Counts a key that does not wait.
 */
static void
homes_count(Homes *homes, const KeyBytes *key)
{
	const Ring *ring = homes->site->memo.ring;
	RingPlace	place;

	ring_locate(ring, key_bytes_position(ring->hash, key->bytes, key->len),
				&place);
	homes->counts[place.shard]++;
}

/*
 * A state among the arguments of one of the functions here, or NULL.  There is
 * no other way to call them than by the aggregate: SQL has no value of type
 * internal.
 */
static Homes *
homes_argument(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL :
		(Homes *) PG_GETARG_POINTER(argument);
}
