/*
 * guard_statement.c
 *		Does this transaction see the version that is active now?
 *
 * Rules of this file:
 *	- an UPDATE or DELETE that finds no row fires no row trigger, so a
 *	  REPEATABLE READ transaction from before a switch would be told that it
 *	  changed 0 rows where the row has come to since.  A statement trigger
 *	  fires for 0 rows, too;
 *	- in READ COMMITTED each statement has a snapshot of its own, and there is
 *	  nothing to look up.
 */
#include "shardring.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

static void check_trigger(FunctionCallInfo fcinfo);
static int32 active_version(text *ring, Snapshot snapshot);

PG_FUNCTION_INFO_V1(shardring_guard_statement);

/*
 * guard_statement(ring): 40001 if the active version is another one than that
 * in the snapshot of the transaction.
 */
Datum
shardring_guard_statement(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	text	   *ring;

	check_trigger(fcinfo);
	if (!IsolationUsesXactSnapshot())
		return PointerGetDatum(NULL);
	ring = cstring_to_text(data->tg_trigger->tgargs[0]);
	if (active_version(ring, GetTransactionSnapshot()) !=
		active_version(ring, GetLatestSnapshot()))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the active version of ring \"%s\" changed after this "
						"transaction began", text_to_cstring(ring)),
				 errhint("Read the ring again and repeat the "
						 "transaction.")));
	return PointerGetDatum(NULL);
}

/*
 * Refuses to be anything but a trigger that is BEFORE and FOR EACH STATEMENT
 * and has one argument.
 */
static void
check_trigger(FunctionCallInfo fcinfo)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"guard_statement\" must be called by a "
						"trigger")));
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
}

/*
 * The version that is active by this snapshot, NO_VERSION for none; a ring
 * that it does not see has none.
 */
static int32
active_version(text *ring, Snapshot snapshot)
{
	CatalogRing row;
	int32		active;

	PushActiveSnapshot(snapshot);
	row = catalog_ring(ring, GetActiveSnapshot());
	active = catalog_read_ring(&row) ? row.row.active_version : NO_VERSION;
	PopActiveSnapshot();
	return active;
}
