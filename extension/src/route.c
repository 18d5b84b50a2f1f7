/*
 * route.c
 *		Where does this key live?
 *
 * A key's way is straight: its bytes are hashed to a position (key.c,
 * hash.c), the ring of the statement's version comes from cache.c, ring.c
 * finds the place.  All functions are STRICT; the ones with and without a
 * version share their code and look at the number of arguments.
 */
#include "shardring.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"

static Datum key_position_of(FunctionCallInfo fcinfo, KeyType type);
static Datum shard_for(FunctionCallInfo fcinfo, KeyType type);
static Datum locate(FunctionCallInfo fcinfo, KeyType type);
static const Memo *asked_ring(FunctionCallInfo fcinfo);
static text *shard_of(const Ring *ring, uint32 position);
static TupleDesc location_desc(FunctionCallInfo fcinfo);

PG_FUNCTION_INFO_V1(shardring_key_position_text);
PG_FUNCTION_INFO_V1(shardring_key_position_int8);
PG_FUNCTION_INFO_V1(shardring_key_position_uuid);
PG_FUNCTION_INFO_V1(shardring_bytes_position);
PG_FUNCTION_INFO_V1(shardring_shard_for_text);
PG_FUNCTION_INFO_V1(shardring_shard_for_int8);
PG_FUNCTION_INFO_V1(shardring_shard_for_uuid);
PG_FUNCTION_INFO_V1(shardring_shard_at);
PG_FUNCTION_INFO_V1(shardring_locate_text);
PG_FUNCTION_INFO_V1(shardring_locate_int8);
PG_FUNCTION_INFO_V1(shardring_locate_uuid);
PG_FUNCTION_INFO_V1(shardring_active_version);
PG_FUNCTION_INFO_V1(shardring_require_version);

/*
 * key_position(key, hash, hash_tags): the position of a key.
 */
Datum
shardring_key_position_text(PG_FUNCTION_ARGS)
{
	return key_position_of(fcinfo, KEY_TEXT);
}

Datum
shardring_key_position_int8(PG_FUNCTION_ARGS)
{
	return key_position_of(fcinfo, KEY_INT8);
}

Datum
shardring_key_position_uuid(PG_FUNCTION_ARGS)
{
	return key_position_of(fcinfo, KEY_UUID);
}

/*
 * bytes_position(bytes, hash, hash_tags): the position of bytes as they are,
 * or of their hash tag.
 */
Datum
shardring_bytes_position(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	HashKind	hash = key_hash_kind(PG_GETARG_TEXT_PP(1));

	const char *hashed = VARDATA_ANY(bytes);
	size_t		len = VARSIZE_ANY_EXHDR(bytes);

	if (PG_GETARG_BOOL(2))
		hash_tag(&hashed, &len);
	PG_RETURN_INT64(key_bytes_position(hash, hashed, len));
}

/*
 * shard_for(ring, key [, version]): the shard that holds a key.
 */
Datum
shardring_shard_for_text(PG_FUNCTION_ARGS)
{
	return shard_for(fcinfo, KEY_TEXT);
}

Datum
shardring_shard_for_int8(PG_FUNCTION_ARGS)
{
	return shard_for(fcinfo, KEY_INT8);
}

Datum
shardring_shard_for_uuid(PG_FUNCTION_ARGS)
{
	return shard_for(fcinfo, KEY_UUID);
}

/*
 * shard_at(ring, key_position [, version]): the shard that holds a position.
 */
Datum
shardring_shard_at(PG_FUNCTION_ARGS)
{
	uint32		position = key_check_position(PG_GETARG_INT64(1));
	const Memo *memo = asked_ring(fcinfo);

	PG_RETURN_TEXT_P(shard_of(memo->ring, position));
}

/*
 * locate(ring, key [, version]): everything about where a key lives.
 */
Datum
shardring_locate_text(PG_FUNCTION_ARGS)
{
	return locate(fcinfo, KEY_TEXT);
}

Datum
shardring_locate_int8(PG_FUNCTION_ARGS)
{
	return locate(fcinfo, KEY_INT8);
}

Datum
shardring_locate_uuid(PG_FUNCTION_ARGS)
{
	return locate(fcinfo, KEY_UUID);
}

/*
 * active_version(ring): NULL when nothing is active yet.
 */
Datum
shardring_active_version(PG_FUNCTION_ARGS)
{
	const Memo *memo = memo_resolve(&memo_call_site(fcinfo)->memo,
									PG_GETARG_TEXT_PP(0), ACTIVE_VERSION);

	if (memo->version == NO_VERSION)
		PG_RETURN_NULL();
	PG_RETURN_INT32(memo->version);
}

/*
 * require_version(ring, version): the version, or SR002 when it is not the
 * active one.
 */
Datum
shardring_require_version(PG_FUNCTION_ARGS)
{
	text	   *ring = PG_GETARG_TEXT_PP(0);
	int32		version = PG_GETARG_INT32(1);
	const Memo *memo = memo_resolve(&memo_call_site(fcinfo)->memo, ring,
									ACTIVE_VERSION);

	if (memo->version == NO_VERSION || memo->version != version)
		ereport(ERROR,
				(errcode(ERRCODE_SHARDRING_STALE_VERSION),
				 errmsg("version %d of ring \"%s\" is not the active one",
						version, text_to_cstring(ring)),
				 memo->version == NO_VERSION ?
				 errdetail("No version is active.") :
				 errdetail("The active version is %d.", memo->version),
				 errhint("Read the ring again, then repeat the request.")));
	PG_RETURN_INT32(version);
}

/*
 * key_position for keys of one type.
 */
static Datum
key_position_of(FunctionCallInfo fcinfo, KeyType type)
{
	HashKind	hash = key_hash_kind(PG_GETARG_TEXT_PP(1));

	PG_RETURN_INT64(key_position(hash, PG_GETARG_BOOL(2), type,
								 PG_GETARG_DATUM(0)));
}

/*
 * shard_for for keys of one type, with or without a version.
 */
static Datum
shard_for(FunctionCallInfo fcinfo, KeyType type)
{
	const Ring *ring = asked_ring(fcinfo)->ring;

	PG_RETURN_TEXT_P(shard_of(ring, key_position_on(ring, type,
													PG_GETARG_DATUM(1))));
}

/*
 * locate for keys of one type, with or without a version.
 */
static Datum
locate(FunctionCallInfo fcinfo, KeyType type)
{
	const Memo *memo = asked_ring(fcinfo);
	const Ring *ring = memo->ring;
	uint32		position = key_position_on(ring, type, PG_GETARG_DATUM(1));
	TupleDesc	desc = location_desc(fcinfo);
	bool		nulls[5] = {0};
	Datum		values[5];
	RingPlace	place;

	ring_locate(ring, position, &place);
	values[0] = Int32GetDatum(memo->version);
	values[1] = Int64GetDatum(position);
	values[2] = PointerGetDatum(result_text(ring->groups[place.group].name));
	values[3] = Int32GetDatum(place.slot);
	values[4] = PointerGetDatum(result_text(ring->shards[place.shard]));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

/*
 * The ring of argument 0, in the version of argument 2 when there is one.
 */
static const Memo *
asked_ring(FunctionCallInfo fcinfo)
{
	int64		version = PG_NARGS() > 2 ? PG_GETARG_INT32(2) :
		ACTIVE_VERSION;

	return memo_get_routable(&memo_call_site(fcinfo)->memo,
							 PG_GETARG_TEXT_PP(0), version);
}

/*
 * The name of the shard that holds a position.
 */
static text *
shard_of(const Ring *ring, uint32 position)
{
	RingPlace	place;

	ring_locate(ring, position, &place);
	return result_text(ring->shards[place.shard]);
}

/*
 * The row type of locate, looked up once per call site.
 */
static TupleDesc
location_desc(FunctionCallInfo fcinfo)
{
	CallSite   *site = memo_call_site(fcinfo);

	if (site->tupdesc == NULL)
	{
		TupleDesc	desc;
		MemoryContext old = MemoryContextSwitchTo(site->context);

		if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
			/* LCOV_EXCL_START: locate is declared with a row type */
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("function returning record called in context "
							"that cannot accept type record")));
		/* LCOV_EXCL_STOP */
		site->tupdesc = BlessTupleDesc(CreateTupleDescCopy(desc));
		MemoryContextSwitchTo(old);
	}
	return site->tupdesc;
}
