/*
 * guard.c
 *		Does this row belong on this shard?
 *
 * Rules of this file:
 *	- what is asked is not which version the statement sees but which one is
 *	  active now: a snapshot of its own is taken, once for a statement of the
 *	  trigger and once for a call of require_here.  With the transaction's
 *	  snapshot, an old REPEATABLE READ transaction could write after a switch;
 *	- the guard must have the last word: it refuses to work beside BEFORE ROW
 *	  triggers that fire after it, which could set another key, and on tables
 *	  whose rows other tables inherit, where it does not fire;
 *	- a wrong shard is SR001, and its DETAIL tells a client where to go:
 *
 *		version=3 group="node-8" slot=5 shard="node-8-1"
 *
 *	  with quotation marks inside names doubled.
 */
#include "this_shard.h"

#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* What a trigger knows during one statement on one table. */
typedef struct Guard
{
	const Memo *memo;
	AttrNumber	column;
	Oid			type;			/* of the column; no domain */
	KeyType		key_type;
} Guard;

static const Guard *guard_of_statement(CallSite *site, TriggerData *data);
static void check_trigger(TriggerData *data);
static void require_last(TriggerData *data);
static bool fires_too(TriggerEvent event, const Trigger *other);
static void refuse_children(Relation table);
static AttrNumber key_column(Relation table, const char *name);
static void guard_row(const Guard *guard, Relation table, HeapTuple row);
static Datum key_value(const Guard *guard, Datum value);
static Datum require_here(FunctionCallInfo fcinfo, KeyType type);
static Datum is_here(FunctionCallInfo fcinfo, KeyType type);
static void require_known_once(CallSite *site);
static const Memo *active_ring(CallSite *site, text *ring);
static void check_here(const Memo *memo, uint32 position,
					   Relation table);
static bool lives_here(const Ring *ring, uint32 position, RingPlace *place);
static void refuse_position(const Memo *memo, const RingPlace *place,
							Relation table);
static void require_known(const Memo *memo);
static char *quoted(RingName name);

PG_FUNCTION_INFO_V1(shardring_guard);
PG_FUNCTION_INFO_V1(shardring_require_here_text);
PG_FUNCTION_INFO_V1(shardring_require_here_int8);
PG_FUNCTION_INFO_V1(shardring_require_here_uuid);
PG_FUNCTION_INFO_V1(shardring_is_here_text);
PG_FUNCTION_INFO_V1(shardring_is_here_int8);
PG_FUNCTION_INFO_V1(shardring_is_here_uuid);

/*
 * guard(ring, key column): lets a row be written if its key lives here.
 */
Datum
shardring_guard(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	CallSite   *site = memo_call_site(fcinfo);
	const Guard *guard = site->extra;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"guard\" must be called by a trigger")));
	if (guard == NULL)
		guard = guard_of_statement(site, data);
	guard_row(guard, data->tg_relation, data->tg_trigtuple);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return PointerGetDatum(data->tg_trigtuple);
	guard_row(guard, data->tg_relation, data->tg_newtuple);
	return PointerGetDatum(data->tg_newtuple);
}

/*
 * require_here(ring, key): the shard, or SR001 when it is another one.
 */
Datum
shardring_require_here_text(PG_FUNCTION_ARGS)
{
	return require_here(fcinfo, KEY_TEXT);
}

Datum
shardring_require_here_int8(PG_FUNCTION_ARGS)
{
	return require_here(fcinfo, KEY_INT8);
}

Datum
shardring_require_here_uuid(PG_FUNCTION_ARGS)
{
	return require_here(fcinfo, KEY_UUID);
}

/*
 * is_here(ring, key): whether the key lives on this shard.
 */
Datum
shardring_is_here_text(PG_FUNCTION_ARGS)
{
	return is_here(fcinfo, KEY_TEXT);
}

Datum
shardring_is_here_int8(PG_FUNCTION_ARGS)
{
	return is_here(fcinfo, KEY_INT8);
}

Datum
shardring_is_here_uuid(PG_FUNCTION_ARGS)
{
	return is_here(fcinfo, KEY_UUID);
}

/*
 * Looks everything up, once for a statement: the executor gives each
 * statement and each table its own function information.
 */
static const Guard *
guard_of_statement(CallSite *site, TriggerData *data)
{
	char	  **args = data->tg_trigger->tgargs;
	Guard	   *guard = MemoryContextAllocZero(site->context, sizeof(Guard));
	Relation	table = data->tg_relation;

	check_trigger(data);
	require_last(data);
	refuse_children(table);
	guard->column = key_column(table, args[1]);
	guard->type = getBaseType(TupleDescAttr(RelationGetDescr(table),
											guard->column - 1)->atttypid);
	guard->key_type = key_column_type(guard->type, args[1]);
	guard->memo = active_ring(site, cstring_to_text(args[0]));
	site->extra = guard;
	return guard;
}

/*
 * Refuses a trigger that is not BEFORE and FOR EACH ROW, or has not two
 * arguments.
 */
static void
check_trigger(TriggerData *data)
{
	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" must be BEFORE and FOR EACH ROW",
						data->tg_trigger->tgname)));
	if (data->tg_trigger->tgnargs != 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" needs a ring and a key column",
						data->tg_trigger->tgname)));
}

/*
 * 55000 if another trigger of the same kind fires after this one.  They fire
 * in the order of their names, which is that of the list.
 */
static void
require_last(TriggerData *data)
{
	TriggerDesc *all = data->tg_relation->trigdesc;

	for (int i = 0; i < all->numtriggers; i++)
	{
		Trigger    *other = &all->triggers[i];

		if (strcmp(other->tgname, data->tg_trigger->tgname) > 0 &&
			fires_too(data->tg_event, other))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("trigger \"%s\" would fire after guard \"%s\"",
							other->tgname, data->tg_trigger->tgname),
					 errdetail("BEFORE triggers fire by name, and one that "
							   "fires later may set another key."),
					 errhint("Rename it with ALTER TRIGGER so that it sorts "
							 "before the guard."),
					 errtable(data->tg_relation)));
	}
}

/*
 * Whether the other one is a BEFORE ROW trigger that may change this row.
 */
static bool
fires_too(TriggerEvent event, const Trigger *other)
{
	bool		replica =
		SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;

	if (!TRIGGER_FOR_ROW(other->tgtype) ||
		!TRIGGER_FOR_BEFORE(other->tgtype) ||
		other->tgenabled == TRIGGER_DISABLED ||
		other->tgenabled == (replica ? TRIGGER_FIRES_ON_ORIGIN :
							 TRIGGER_FIRES_ON_REPLICA))
		return false;
	return (TRIGGER_FIRED_BY_INSERT(event) &&
			TRIGGER_FOR_INSERT(other->tgtype)) ||
		(TRIGGER_FIRED_BY_UPDATE(event) && TRIGGER_FOR_UPDATE(other->tgtype));
}

/*
 * 0A000 if tables inherit from this one: their rows show in it unguarded.
 */
static void
refuse_children(Relation table)
{
	if (table->rd_rel->relkind == RELKIND_RELATION &&
		table->rd_rel->relhassubclass &&
		find_inheritance_children(RelationGetRelid(table), NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" has inheritance children, which its "
						"guard does not see",
						RelationGetRelationName(table)),
				 errhint("Guard tables without children."),
				 errtable(table)));
}

/*
 * The number of a column that a BEFORE trigger can see.
 */
static AttrNumber
key_column(Relation table, const char *name)
{
	AttrNumber	column = get_attnum(RelationGetRelid(table), name);

	if (column <= InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, RelationGetRelationName(table))));
	if (TupleDescAttr(RelationGetDescr(table), column - 1)->attgenerated)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("generated column \"%s\" cannot be guarded", name),
				 errdetail("Generated columns are computed after BEFORE "
						   "triggers.")));
	key_require_deterministic(TupleDescAttr(RelationGetDescr(table),
											column - 1)->attcollation, name);
	return column;
}

/*
 * 22004 if the key of the row is NULL, SR001 if it lives elsewhere.
 */
static void
guard_row(const Guard *guard, Relation table, HeapTuple row)
{
	TupleDesc	desc = RelationGetDescr(table);
	const Ring *ring = guard->memo->ring;
	bool		isnull;
	Datum		value = heap_getattr(row, guard->column, desc, &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("key column \"%s\" is null",
						NameStr(TupleDescAttr(desc,
											  guard->column - 1)->attname)),
				 errhint("A NULL key has no shard."),
				 errtablecol(table, guard->column)));
	check_here(guard->memo,
			   key_position_on(ring, guard->key_type,
							   key_value(guard, value)), table);
}

/*
 * A value of the column as shard_for would get it.
 */
static Datum
key_value(const Guard *guard, Datum value)
{
	switch (guard->type)
	{
		case INT2OID:
			return Int64GetDatum(DatumGetInt16(value));
		case INT4OID:
			return Int64GetDatum(DatumGetInt32(value));
		case BPCHAROID:
			return DirectFunctionCall1(rtrim1, value);
		case NAMEOID:
			return DirectFunctionCall1(name_text, value);
		default:
			return value;
	}
}

/*
 * require_here for keys of one type.
 */
static Datum
require_here(FunctionCallInfo fcinfo, KeyType type)
{
	const Memo *memo = active_ring(memo_call_site(fcinfo),
								   PG_GETARG_TEXT_PP(0));

	check_here(memo, key_position_on(memo->ring, type, PG_GETARG_DATUM(1)),
			   NULL);
	PG_RETURN_TEXT_P(cstring_to_text(this_shard()));
}

/*
 * is_here for keys of one type.  It chooses among the rows that a statement
 * sees, so it goes by the version that the statement sees.
 */
static Datum
is_here(FunctionCallInfo fcinfo, KeyType type)
{
	CallSite   *site = memo_call_site(fcinfo);
	const Memo *memo = memo_get_routable(&site->memo, PG_GETARG_TEXT_PP(0),
										 ACTIVE_VERSION);
	RingPlace	place;

	if (lives_here(memo->ring,
				   key_position_on(memo->ring, type, PG_GETARG_DATUM(1)),
				   &place))
		PG_RETURN_BOOL(true);
	require_known_once(site);
	PG_RETURN_BOOL(false);
}

/*
 * require_known, but not again for the same answer of the memo: most rows of
 * a statement may live elsewhere.
 */
static void
require_known_once(CallSite *site)
{
	uint64	   *known = site->extra;

	if (known == NULL)
		site->extra = known = MemoryContextAllocZero(site->context,
													 sizeof(uint64));
	if (*known == site->memo.serial)
		return;
	require_known(&site->memo);
	*known = site->memo.serial;
}

/*
 * The ring in the version that is active now.  Nothing active is 55000: to
 * activate a version early, only so that rows can be copied in, would let two
 * shards write the same key.
 */
static const Memo *
active_ring(CallSite *site, text *ring)
{
	PushActiveSnapshot(GetLatestSnapshot());
	if (memo_resolve(&site->memo, ring, ACTIVE_VERSION)->version == NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no active version",
						text_to_cstring(ring)),
				 errhint("Until a version is active, rows can be written "
						 "only under session_replication_role = replica.")));
	(void) memo_get_routable(&site->memo, ring, ACTIVE_VERSION);
	PopActiveSnapshot();
	return &site->memo;
}

/*
 * SR001 unless the position lives on this shard.
 */
static void
check_here(const Memo *memo, uint32 position, Relation table)
{
	RingPlace	place;

	if (!lives_here(memo->ring, position, &place))
		refuse_position(memo, &place, table);
}

/*
 * Whether the position lives on this shard, and where it lives; names are
 * compared by bytes.
 */
static bool
lives_here(const Ring *ring, uint32 position, RingPlace *place)
{
	const char *here = this_shard();
	RingName	shard;

	ring_locate(ring, position, place);
	shard = ring->shards[place->shard];
	return strlen(here) == shard.len &&
		memcmp(here, shard.bytes, shard.len) == 0;
}

/*
 * Raises SR001 with the place in DETAIL, or 55000 when the ring has never
 * heard of this shard; "table" may be NULL.
 */
static void
refuse_position(const Memo *memo, const RingPlace *place, Relation table)
{
	const Ring *ring = memo->ring;
	RingName	shard = ring->shards[place->shard];

	require_known(memo);
	ereport(ERROR,
			(errcode(ERRCODE_SHARDRING_WRONG_SHARD),
			 errmsg("key belongs on shard \"%.*s\", not on \"%s\"",
					(int) shard.len, shard.bytes, this_shard()),
			 errdetail_internal("version=%d group=%s slot=%u shard=%s",
								memo->version,
								quoted(ring->groups[place->group].name),
								place->slot, quoted(shard)),
			 errhint("Read the ring again and send the statement to that "
					 "shard."),
			 table == NULL ? 0 : errtable(table)));
}

/*
 * 55000 unless a sealed version of the ring names this shard: to send the
 * statement elsewhere is no help where the setting is misspelt.
 */
static void
require_known(const Memo *memo)
{
	CatalogRing ring = catalog_ring(cstring_to_text_with_len(memo->name,
															 memo->name_len),
									GetLatestSnapshot());
	int32		number;

	if (!catalog_read_shard_number(&ring, cstring_to_text(this_shard()),
								   &number))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is shard \"%s\", which ring \"%s\" "
						"does not have", this_shard(),
						text_to_cstring(ring.name)),
				 errhint("Correct parameter \"shardring.shard\" with ALTER "
						 "DATABASE, or push a version that has the shard.")));
}

/*
 * A name in quotation marks, those inside it doubled.
 */
static char *
quoted(RingName name)
{
	char	   *result = palloc(2 * (Size) name.len + 3);
	char	   *out = result;

	*out++ = '"';
	for (uint32 i = 0; i < name.len; i++)
	{
		if (name.bytes[i] == '"')
			*out++ = '"';
		*out++ = name.bytes[i];
	}
	*out++ = '"';
	*out = '\0';
	return result;
}
