/*
 * flush.c
 *		Flushing the WAL from SQL.
 */
#include "shardring.h"

#include "access/xlog.h"
#include "utils/pg_lsn.h"

PG_FUNCTION_INFO_V1(shardring_flush_wal);

/*
 * flush_wal(): all that was written before, commits that did not wait for it
 * included, is on disk.  The message also wakes the readers of slots for which
 * there was nothing else to send.  It is not transactional, so no xid is
 * assigned.
 */
Datum
shardring_flush_wal(PG_FUNCTION_ARGS)
{
	XLogRecPtr	end = compat_emit_message("shardring");

	XLogFlush(end);
	PG_RETURN_LSN(end);
}
