/*
 * guard_statement.c
 *		Guards of whole statements: UPDATE and DELETE with an old snapshot, and
 *		TRUNCATE.
 *
 * Rules of this file:
 *	- an UPDATE or DELETE that finds no row fires no row trigger, so a
 *	  REPEATABLE READ transaction from before a switch would be told that it
 *	  changed 0 rows where the row has come to since.  A statement trigger
 *	  fires for 0 rows, too;
 *	- in READ COMMITTED each statement has a snapshot of its own, and there is
 *	  nothing to look up;
 *	- a TRUNCATE fires no row trigger at all.  It has locked out all others
 *	  when its trigger looks, and is waited for like a writer.
 */
#include "shardring.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static text *ring_of_trigger(FunctionCallInfo fcinfo, const char *function);

PG_FUNCTION_INFO_V1(shardring_guard_statement);
PG_FUNCTION_INFO_V1(shardring_guard_truncate);

/*
 * guard_statement(ring): 40001 if the active version is another one than that
 * in the snapshot of the transaction.
 */
Datum
shardring_guard_statement(PG_FUNCTION_ARGS)
{
	text	   *ring = ring_of_trigger(fcinfo, "guard_statement");

	if (IsolationUsesXactSnapshot() &&
		catalog_active_version(ring, GetTransactionSnapshot()) !=
		catalog_active_version(ring, GetLatestSnapshot()))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the active version of ring \"%s\" changed after this "
						"transaction began", text_to_cstring(ring)),
				 errhint("Read the ring again and repeat the "
						 "transaction.")));
	return PointerGetDatum(NULL);
}

/*
 * guard_truncate(ring): 55000 while the ring moves.
 */
Datum
shardring_guard_truncate(PG_FUNCTION_ARGS)
{
	text	   *name = ring_of_trigger(fcinfo, "guard_truncate");
	Relation	table = ((TriggerData *) fcinfo->context)->tg_relation;
	CatalogRing ring;

	PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(name, GetActiveSnapshot());
	catalog_require_ring(&ring);
	PopActiveSnapshot();
	if (ring.row.moving_to != NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" cannot be truncated while its rows move",
						RelationGetRelationName(table)),
				 errdetail("Ring \"%s\" is moving from version %d to version "
						   "%d.", text_to_cstring(name), ring.row.moving_from,
						   ring.row.moving_to),
				 errhint("Wait until the move is over."),
				 errtable(table)));
	return PointerGetDatum(NULL);
}

/*
 * The ring that a trigger guards for.  Refuses one that is not BEFORE and FOR
 * EACH STATEMENT, or has not one argument.
 */
static text *
ring_of_trigger(FunctionCallInfo fcinfo, const char *function)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called by a trigger",
						function)));
	if (!TRIGGER_FIRED_FOR_STATEMENT(data->tg_event) ||
		!TRIGGER_FIRED_BEFORE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" must be BEFORE and FOR EACH STATEMENT",
						data->tg_trigger->tgname)));
	if (data->tg_trigger->tgnargs != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"%s\" needs a ring",
						data->tg_trigger->tgname)));
	return cstring_to_text(data->tg_trigger->tgargs[0]);
}
