/*
 * remote_keep.c
 *		Connections that outlive a question.
 *
 * A procedure that asks the same servers many times, with a COMMIT between two
 * questions, asks to keep its connections.  Rules of this file:
 *	- they are kept until the statement that asked for it is over, the CALL and
 *	  not one of its transactions, and closed by every abort;
 *	- a connection is used again only by the same role with the same address
 *	  and the same credentials, to the letter;
 *	- a kept connection is idle, outside a transaction, and owns the file
 *	  descriptor that was reserved for it.
 */
#include "remote_keep.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "tcop/pquery.h"

/* A connection that waits for the next question. */
typedef struct Kept
{
	dlist_node	node;
	char	   *key;
	PGconn	   *conn;
} Kept;

/* The memory of the statement that keeps connections; NULL: none does. */
static MemoryContext keeper = NULL;
static dlist_head kept = DLIST_STATIC_INIT(kept);

static void end_keeping(void *arg);
static void close_after_abort(XactEvent event, void *arg);
static void forget(Kept *one);

PG_FUNCTION_INFO_V1(shardring_keep_connections);

/*
 * keep_connections(): the calling statement keeps its connections.
 */
Datum
shardring_keep_connections(PG_FUNCTION_ARGS)
{
	static bool registered = false;
	MemoryContextCallback *callback;

	if (keeper != NULL || PortalContext == NULL)
		PG_RETURN_VOID();
	if (!registered)
		RegisterXactCallback(close_after_abort, NULL);
	registered = true;
	callback = MemoryContextAllocZero(PortalContext,
									  sizeof(MemoryContextCallback));
	callback->func = end_keeping;
	MemoryContextRegisterResetCallback(PortalContext, callback);
	keeper = PortalContext;
	PG_RETURN_VOID();
}

/*
 * What must be the same for a connection to be used again; NULL when
 * connections are not kept.  An address that grows later keeps its key.
 */
char *
remote_keep_key(const RemoteAddress *address)
{
	StringInfoData key;

	if (keeper == NULL)
		return NULL;
	initStringInfo(&key);
	appendStringInfo(&key, "%u", GetUserId());
	for (int i = 0; i < address->n; i++)
		appendStringInfo(&key, " %s=%zu:%s", address->keywords[i],
						 strlen(address->values[i]), address->values[i]);
	return key.data;
}

/*
 * A kept connection with that key, and with it its descriptor; NULL when
 * there is none.
 */
PGconn *
remote_keep_take(const char *key)
{
	dlist_iter	iter;

	dlist_foreach(iter, &kept)
	{
		Kept	   *one = dlist_container(Kept, node, iter.cur);
		PGconn	   *conn = one->conn;

		if (strcmp(one->key, key) != 0)
			continue;
		forget(one);
		return conn;
	}
	return NULL;
}

/*
 * Keeps a connection and its descriptor, if it can be used again.
 */
bool
remote_keep_give(const char *key, PGconn *conn)
{
	Kept	   *one;

	if (keeper == NULL || PQstatus(conn) != CONNECTION_OK ||
		PQtransactionStatus(conn) != PQTRANS_IDLE)
		return false;			/* LCOV_EXCL_LINE: it was closed meanwhile */
	one = MemoryContextAlloc(TopMemoryContext, sizeof(Kept));
	one->conn = conn;
	one->key = MemoryContextStrdup(TopMemoryContext, key);
	dlist_push_tail(&kept, &one->node);
	return true;
}

/*
 * Closes all kept connections; false when there was none.
 */
bool
remote_keep_close(void)
{
	bool		any = !dlist_is_empty(&kept);

	while (!dlist_is_empty(&kept))
	{
		Kept	   *one = dlist_head_element(Kept, node, &kept);

		PQfinish(one->conn);
		ReleaseExternalFD();
		forget(one);
	}
	return any;
}

/* The statement that kept connections is over. */
static void
end_keeping(void *arg)
{
	keeper = NULL;
	remote_keep_close();
}

/*
 * What was asked for in a transaction that failed must not leave connections
 * behind; a procedure that goes on opens new ones.
 */
static void
close_after_abort(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		remote_keep_close();
}

/* Forgets a connection, which is somebody else's now or closed. */
static void
forget(Kept *one)
{
	dlist_delete(&one->node);
	pfree(one->key);
	pfree(one);
}
