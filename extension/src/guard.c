/*
 * guard.c
 *		Does this row belong on this shard?
 *
 * Rules of this file:
 *	- what counts is the version that is active now (here.c), read once for a
 *	  statement of the trigger and once for a call of require_here;
 *	- the guard must have the last word: it refuses to work beside BEFORE ROW
 *	  triggers that fire after it, which could set another key, and on tables
 *	  whose rows other tables inherit, where it does not fire;
 *	- a wrong shard is SR001, and its DETAIL tells a client where to go:
 *
 *		version=3 group="node-8" slot=5 shard="node-8-1"
 *
 *	  with quotation marks inside names doubled.
 */
#include "here.h"

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
	Here		here;
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
static uint32 guard_row(const Guard *guard, Relation table, HeapTuple row);
static Datum key_value(const Guard *guard, Datum value);
static Datum require_here(FunctionCallInfo fcinfo, KeyType type);
static Datum is_here(FunctionCallInfo fcinfo, KeyType type);
static void require_seen(CallSite *site, text *ring, uint32 position);
static void require_known_once(CallSite *site);

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
	uint32		before;
	uint32		after;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"guard\" must be called by a trigger")));
	if (guard == NULL)
		guard = guard_of_statement(site, data);
	before = guard_row(guard, data->tg_relation, data->tg_trigtuple);
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return PointerGetDatum(data->tg_trigtuple);
	after = guard_row(guard, data->tg_relation, data->tg_newtuple);
	here_refuse_border(&guard->here, before, after, data->tg_relation);
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
	guard->here = here_now(site, cstring_to_text(args[0]));
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
 * The position of the row; 22004 if its key is NULL, SR001 if it lives
 * elsewhere, SR003 if it is about to.
 */
static uint32
guard_row(const Guard *guard, Relation table, HeapTuple row)
{
	TupleDesc	desc = RelationGetDescr(table);
	const Ring *ring = guard->here.active->ring;
	uint32		position;
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
	position = key_position_on(ring, guard->key_type,
							   key_value(guard, value));
	here_require(&guard->here, position, true, table);
	return position;
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
	CallSite   *site = memo_call_site(fcinfo);
	text	   *ring = PG_GETARG_TEXT_PP(0);
	Here		here = here_now(site, ring);
	uint32		position = key_position_on(here.active->ring, type,
										   PG_GETARG_DATUM(1));

	here_require(&here, position, false, NULL);
	if (unlikely(!memo_same_snapshot(here.active, memo_snapshot())))
		require_seen(site, ring, position);
	PG_RETURN_TEXT_P(cstring_to_text(this_shard()));
}

/*
 * 40001 if the key did not live here in the version that the statement sees.
 * It would not see the row that has come since, and its UPDATE, which fires no
 * row trigger where it finds no row, would be acknowledged.
 */
static void
require_seen(CallSite *site, text *ring, uint32 position)
{
	int32		seen = catalog_active_version(ring, memo_snapshot());
	RingPlace	place;

	if (seen == site->memo.version ||
		(seen != NO_VERSION &&
		 here_by_version(memo_get_routable(&site->memo_from, ring,
										   seen)->ring, position, &place)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("key came to this shard after the snapshot of this "
					"statement was taken"),
			 errhint("Repeat the transaction.")));
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

	if (here_by_version(memo->ring,
						key_position_on(memo->ring, type, PG_GETARG_DATUM(1)),
						&place))
		PG_RETURN_BOOL(true);
	require_known_once(site);
	PG_RETURN_BOOL(false);
}

/*
 * here_require_known, but not again for the same answer of the memo: most rows
 * of a statement may live elsewhere.
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
	here_require_known(&site->memo);
	*known = site->memo.serial;
}
