/*
 * moving_keys.c
 *		Which keys of an array or a table move between two versions.
 *
 * A table is read by one SELECT under the caller's rights and snapshot, or a
 * newer one where table_read.c finds that too old.  Its rows come one by one
 * through a DestReceiver and only the moving ones are kept, in a tuplestore
 * that spills at work_mem.  So memory does not grow with the table, and a scan
 * may be parallel.  A NULL key is an error that counts them, never a silent
 * skip.
 */
#include "table_read.h"

#include "access/attnum.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/* Everything that is needed to turn keys into rows of the result. */
typedef struct KeyMoves
{
	ReturnSetInfo *set;
	RingPair	rings;
	Datum	   *from_groups;
	Datum	   *from_shards;
	Datum	   *to_groups;
	Datum	   *to_shards;
	uint64		nulls;
	MemoryContext per_key;		/* reset after each key */
} KeyMoves;

/* Receives the rows of the query over a table. */
typedef struct KeyReceiver
{
	DestReceiver pub;
	KeyMoves   *moves;
	KeyType		type;
} KeyReceiver;

/* A key column: how its values are read as one of the key types. */
typedef struct KeyColumn
{
	KeyType		type;
	const char *type_name;
	char	   *table;			/* quoted */
	char	   *column;			/* quoted */
} KeyColumn;

static void moves_begin(KeyMoves *moves, ReturnSetInfo *set, RingPair rings);
static void moves_add(KeyMoves *moves, KeyType type, Datum key, bool isnull);
static void moves_put(KeyMoves *moves, KeyType type, Datum key,
					  uint32 position, const RingPlace *from,
					  const RingPlace *to);
static Datum key_text(KeyType type, Datum key);
static KeyColumn lock_column(Oid relation, const char *name);
static KeyColumn find_column(Oid relation, const char *name);
static char *key_expression(const KeyColumn *column);
static void run_query(const char *query, DestReceiver *receiver);
static void receiver_startup(DestReceiver *self, int operation,
							 TupleDesc typeinfo);
static bool receiver_receive(TupleTableSlot *slot, DestReceiver *self);
static void receiver_shutdown(DestReceiver *self);
static void receiver_destroy(DestReceiver *self);
static void refuse_nulls(const KeyMoves *moves, const char *where);

PG_FUNCTION_INFO_V1(shardring_moving_keys_array);
PG_FUNCTION_INFO_V1(shardring_moving_keys_relation);
PG_FUNCTION_INFO_V1(shardring_key_expression);

/*
 * moving_keys(ring, from_version, to_version, keys): those of the keys that
 * change their shard, in the order of the array.
 */
Datum
shardring_moving_keys_array(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	ArrayIterator iterator;
	KeyMoves	moves;
	Datum		key;
	bool		isnull;

	moves_begin(&moves, set,
				memo_routable_pair(memo_call_site(fcinfo),
								   PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								   PG_GETARG_INT32(2)));
	iterator = array_create_iterator(PG_GETARG_ARRAYTYPE_P(3), 0, NULL);
	while (array_iterate(iterator, &key, &isnull))
	{
		CHECK_FOR_INTERRUPTS();
		moves_add(&moves, KEY_TEXT, key, isnull);
	}
	refuse_nulls(&moves, "the array");
	return (Datum) 0;
}

/*
 * moving_keys(ring, from_version, to_version, relation, key_column): those of
 * the column's keys that change their shard, one row a row of the table.
 */
Datum
shardring_moving_keys_relation(PG_FUNCTION_ARGS)
{
	KeyColumn	column = lock_column(PG_GETARG_OID(3),
									 NameStr(*PG_GETARG_NAME(4)));
	ReturnSetInfo *set = result_set(fcinfo);
	KeyMoves	moves;
	KeyReceiver receiver = {
		.pub = {
			receiver_receive, receiver_startup, receiver_shutdown,
			receiver_destroy, DestNone
		},
		.moves = &moves,
		.type = column.type
	};

	moves_begin(&moves, set,
				memo_routable_pair(memo_call_site(fcinfo),
								   PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								   PG_GETARG_INT32(2)));
	run_query(psprintf("SELECT %s FROM %s", key_expression(&column),
					   column.table), &receiver.pub);
	refuse_nulls(&moves, psprintf("column \"%s\"",
								  NameStr(*PG_GETARG_NAME(4))));
	return (Datum) 0;
}

/*
 * key_expression(relation, key_column): SQL for the column's values as one of
 * the key types.
 */
Datum
shardring_key_expression(PG_FUNCTION_ARGS)
{
	KeyColumn	column = find_column(PG_GETARG_OID(0),
									 NameStr(*PG_GETARG_NAME(1)));

	PG_RETURN_TEXT_P(cstring_to_text(key_expression(&column)));
}

/*
 * Begins a result over two versions.
 */
static void
moves_begin(KeyMoves *moves, ReturnSetInfo *set, RingPair rings)
{
	moves->set = set;
	moves->rings = rings;
	moves->from_groups = result_group_names(moves->rings.from);
	moves->from_shards = result_shard_names(moves->rings.from);
	moves->to_groups = result_group_names(moves->rings.to);
	moves->to_shards = result_shard_names(moves->rings.to);
	moves->nulls = 0;
	moves->per_key = AllocSetContextCreate(CurrentMemoryContext,
										   "shardring key",
										   ALLOCSET_DEFAULT_SIZES);
}

/*
 * Adds a row if the key moves; counts it if it is NULL.
 */
static void
moves_add(KeyMoves *moves, KeyType type, Datum key, bool isnull)
{
	const Ring *ring = moves->rings.from;
	MemoryContext old;
	uint32		position;
	RingPlace	from;
	RingPlace	to;

	if (isnull)
	{
		moves->nulls++;
		return;
	}
	old = MemoryContextSwitchTo(moves->per_key);
	position = key_position_on(ring, type, key);
	if (diff_moves(ring, moves->rings.to, position, &from, &to))
		moves_put(moves, type, key, position, &from, &to);
	MemoryContextSwitchTo(old);
	MemoryContextReset(moves->per_key);
}

/*
 * Adds the row of a key that moves.
 */
static void
moves_put(KeyMoves *moves, KeyType type, Datum key, uint32 position,
		  const RingPlace *from, const RingPlace *to)
{
	bool		nulls[8] = {0};
	Datum		values[8];

	values[0] = key_text(type, key);
	values[1] = Int64GetDatum(position);
	values[2] = moves->from_groups[from->group];
	values[3] = Int32GetDatum(from->slot);
	values[4] = moves->from_shards[from->shard];
	values[5] = moves->to_groups[to->group];
	values[6] = Int32GetDatum(to->slot);
	values[7] = moves->to_shards[to->shard];
	result_put(moves->set, values, nulls);
}

/*
 * The key as text, which is what was hashed.
 */
static Datum
key_text(KeyType type, Datum key)
{
	switch (type)
	{
		case KEY_TEXT:
			return key;
		case KEY_INT8:
			key = DirectFunctionCall1(int8out, key);
			break;
		case KEY_UUID:
			key = DirectFunctionCall1(uuid_out, key);
			break;
	}
	return CStringGetTextDatum(DatumGetCString(key));
}

/*
 * find_column for a table that is read next: locked, so that the column stays
 * what it is.
 */
static KeyColumn
lock_column(Oid relation, const char *name)
{
	LockRelationOid(relation, AccessShareLock);
	return find_column(relation, name);
}

/*
 * Looks up a key column: 42P01 without the table, 42703 without the column,
 * 42804 when its type is no key type, 42P22 when its collation is not
 * deterministic.
 */
static KeyColumn
find_column(Oid relation, const char *name)
{
	char	   *table = get_rel_name(relation);
	AttrNumber	number;
	Oid			type;
	int32		typmod;
	Oid			collation;
	KeyColumn	column;

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	number = get_attnum(relation, name);
	if (number == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, table)));
	get_atttypetypmodcoll(relation, number, &type, &typmod, &collation);
	key_require_deterministic(collation, name);
	column.type = key_column_type(getBaseType(type), name);
	column.type_name = column.type == KEY_INT8 ? "int8" :
		column.type == KEY_UUID ? "uuid" : "text";
	column.table = quote_qualified_identifier(
			get_namespace_name(get_rel_namespace(relation)), table);
	column.column = psprintf("%s", quote_identifier(name));
	return column;
}

/*
 * SQL for the values of a column as their key type.
 */
static char *
key_expression(const KeyColumn *column)
{
	return psprintf("%s::pg_catalog.%s", column->column, column->type_name);
}

/*
 * Runs a query under the caller's rights and the statement's snapshot; under
 * a new one where a table was filled anew since that one was taken.
 */
static void
run_query(const char *query, DestReceiver *receiver)
{
	SPIExecuteOptions options = {.read_only = true, .dest = receiver};
	SPIPlanPtr	plan;
	bool		outdated;
	int			result;

	table_connect();
	plan = table_prepare(query);
	outdated = table_lock(plan);
	if (outdated)
		PushActiveSnapshot(GetTransactionSnapshot());
	result = SPI_execute_plan_extended(plan, &options);
	if (result < 0)
		/* LCOV_EXCL_START: SPI returns errors only for misuse */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not read the keys: %s",
						SPI_result_code_string(result))));
	/* LCOV_EXCL_STOP */
	if (outdated)
		PopActiveSnapshot();
	SPI_finish();
}

/*
 * Nothing to be done: the query has one column of a known type.
 */
static void
receiver_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
}

/*
 * Takes one row; the executor looks for interrupts between rows.
 */
static bool
receiver_receive(TupleTableSlot *slot, DestReceiver *self)
{
	KeyReceiver *receiver = (KeyReceiver *) self;
	bool		isnull;
	Datum		key = slot_getattr(slot, 1, &isnull);

	moves_add(receiver->moves, receiver->type, key, isnull);
	return true;
}

/*
 * Nothing to be done: the rows are in the result already.
 */
static void
receiver_shutdown(DestReceiver *self)
{
}

/*
 * Nothing to be freed: the receiver is on the stack.
 */
static void
/* LCOV_EXCL_START: every DestReceiver has this; SPI does not call it */
receiver_destroy(DestReceiver *self)
{
}
/* LCOV_EXCL_STOP */

/*
 * 22004 if there were NULL keys.
 */
static void
refuse_nulls(const KeyMoves *moves, const char *where)
{
	if (moves->nulls > 0)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg_plural("%s has " UINT64_FORMAT " NULL key",
							   "%s has " UINT64_FORMAT " NULL keys",
							   moves->nulls, where, moves->nulls),
				 errhint("A NULL key has no shard.")));
}
