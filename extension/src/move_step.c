/*
 * move_step.c
 *		Whose change of a row of "ring" it is: that of a step, or anybody's.
 *
 * While a ring moves, only the steps of move_step may change its active
 * version and the columns that say how it moves: a trigger refuses all else.
 * The trigger knows a step by a variable of this file, which no SQL can set:
 * it is true only while the one UPDATE below runs.
 */
#include "shardring.h"

#include "executor/spi.h"

static bool step_runs = false;

static void update_ring(Datum row, Oid type);

PG_FUNCTION_INFO_V1(shardring_change_ring);
PG_FUNCTION_INFO_V1(shardring_step_runs);

/*
 * change_ring(row): gives the ring of this name what the row says of its
 * active version and of its move.  55000 if no row of "ring" was changed.
 */
Datum
shardring_change_ring(PG_FUNCTION_ARGS)
{
	Datum		row = PG_GETARG_DATUM(0);
	Oid			type = HeapTupleHeaderGetTypeId(DatumGetHeapTupleHeader(row));

	PG_TRY();
	{
		step_runs = true;
		update_ring(row, type);
	}
	PG_FINALLY();
	{
		step_runs = false;
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}

/*
 * step_runs(): whether the UPDATE that fires the trigger is that of a step.
 */
Datum
shardring_step_runs(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(step_runs);
}

/*
 * The UPDATE.
 */
static void
update_ring(Datum row, Oid type)
{
	static const char *const command =
		"UPDATE shardring.ring AS r "
		"SET active_version = ($1).active_version, "
		"fingerprint = ($1).fingerprint, "
		"moving_from = ($1).moving_from, moving_to = ($1).moving_to, "
		"closed_until = ($1).closed_until, move_token = ($1).move_token, "
		"back_lsn = ($1).back_lsn "
		"WHERE r.ring OPERATOR(pg_catalog.=) ($1).ring";

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(command, 1, &type, &row, NULL, false, 0) !=
		SPI_OK_UPDATE)
		/* LCOV_EXCL_START: SPI returns errors only for misuse */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not change the ring")));
	/* LCOV_EXCL_STOP */
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the ring was not changed"),
				 errhint("Check for a trigger on table shardring.ring.")));
	SPI_finish();
}
