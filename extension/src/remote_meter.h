/*
 * remote_meter.h
 *		How much a server has sent: what remote_meter.c offers.
 */
#ifndef SHARDRING_REMOTE_METER_H
#define SHARDRING_REMOTE_METER_H

#include "shardring.h"

#include "libpq-fe.h"

/* What was counted so far.  All is zero at first. */
typedef struct RemoteMeter
{
	int			rows;
	Size		bytes;			/* of these rows */
	Size		arrived;		/* bytes of anything, a lower bound */
} RemoteMeter;

extern PostgresPollingStatusType meter_connect(RemoteMeter *meter,
											   PGconn *conn);
extern bool meter_consume(RemoteMeter *meter, PGconn *conn);
extern bool meter_parse(RemoteMeter *meter, PGconn *conn);
extern void meter_row(RemoteMeter *meter, Size bytes);
extern const char *meter_error(const RemoteMeter *meter);

#endif							/* SHARDRING_REMOTE_METER_H */
