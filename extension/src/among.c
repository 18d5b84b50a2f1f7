/*
 * among.c
 *		Does a key live on one of these shards?
 *
 * For whole tables: a row costs the hash of its key and a search, no name of a
 * shard is made or compared.  Which shards are meant is worked out again only
 * when the ring or the list is another one.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

/* What a call site knows of its last list. */
typedef struct Among
{
	uint64		serial;			/* of the memo */
	ArrayType  *names;
	bool	   *meant;			/* by the number of a shard */
} Among;

static Datum is_among(FunctionCallInfo fcinfo, KeyType type);
static const bool *shards_meant(CallSite *site, ArrayType *names);
static bool is_same_array(const ArrayType *a, const ArrayType *b);
static bool *find_shards(const Ring *ring, ArrayType *names,
						 MemoryContext context);

PG_FUNCTION_INFO_V1(shardring_is_among_text);
PG_FUNCTION_INFO_V1(shardring_is_among_int8);
PG_FUNCTION_INFO_V1(shardring_is_among_uuid);

/*
 * is_among(ring, key, version, shards): whether the key lives on one of them.
 */
Datum
shardring_is_among_text(PG_FUNCTION_ARGS)
{
	return is_among(fcinfo, KEY_TEXT);
}

Datum
shardring_is_among_int8(PG_FUNCTION_ARGS)
{
	return is_among(fcinfo, KEY_INT8);
}

Datum
shardring_is_among_uuid(PG_FUNCTION_ARGS)
{
	return is_among(fcinfo, KEY_UUID);
}

/*
 * is_among for keys of one type.
 */
static Datum
is_among(FunctionCallInfo fcinfo, KeyType type)
{
	CallSite   *site = memo_call_site(fcinfo);
	const Memo *memo = memo_get_routable(&site->memo, PG_GETARG_TEXT_PP(0),
										 PG_GETARG_INT32(2));
	const bool *meant = shards_meant(site, PG_GETARG_ARRAYTYPE_P(3));
	RingPlace	place;

	ring_locate(memo->ring,
				key_position_on(memo->ring, type, PG_GETARG_DATUM(1)),
				&place);
	PG_RETURN_BOOL(meant[place.shard]);
}

/*
 * Which shards of the call site's ring are in the list.
 */
static const bool *
shards_meant(CallSite *site, ArrayType *names)
{
	Among	   *among = site->extra;

	if (among == NULL)
		site->extra = among = MemoryContextAllocZero(site->context,
													 sizeof(Among));
	if (among->meant != NULL && among->serial == site->memo.serial &&
		is_same_array(among->names, names))
		return among->meant;
	if (among->meant != NULL)
	{
		pfree(among->meant);
		pfree(among->names);
		among->meant = NULL;
	}
	among->names = MemoryContextAlloc(site->context, VARSIZE(names));
	memcpy(among->names, names, VARSIZE(names));
	among->serial = site->memo.serial;
	among->meant = find_shards(site->memo.ring, names, site->context);
	return among->meant;
}

/* Whether two arrays are the same, byte for byte. */
static bool
is_same_array(const ArrayType *a, const ArrayType *b)
{
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

/*
 * Which shards of the ring have one of the names, by bytes; a NULL is none.
 */
static bool *
find_shards(const Ring *ring, ArrayType *names, MemoryContext context)
{
	bool	   *found = MemoryContextAllocZero(context,
											   ring->nshards * sizeof(bool));
	Datum	   *datums;
	bool	   *nulls;
	int			n;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &datums,
					  &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		text	   *name = nulls[i] ? NULL : DatumGetTextPP(datums[i]);

		for (uint32 s = 0; name != NULL && s < ring->nshards; s++)
			found[s] = found[s] ||
				(ring->shards[s].len == VARSIZE_ANY_EXHDR(name) &&
				 memcmp(ring->shards[s].bytes, VARDATA_ANY(name),
						ring->shards[s].len) == 0);
	}
	return found;
}
