/*
 * waiting.h
 *		Waiting for transactions to end: what waiting.c offers.
 */
#ifndef SHARDRING_WAITING_H
#define SHARDRING_WAITING_H

#include "shardring.h"

#include "datatype/timestamp.h"

/*
 * Those waited for, and how they are described.  All is zero at first, but
 * for the list.
 */
typedef struct Waiting
{
	VirtualTransactionId *open;
	int			n;
	MemoryContext context;		/* of the next two; NULL: not known yet */
	char	   *pids;
	char	   *prepared;
} Waiting;

extern TimestampTz waiting_deadline(Interval *timeout);
extern bool waiting_end(Waiting *waiting, TimestampTz deadline);
extern Datum waiting_prepared_xids(const Waiting *waiting);

#endif							/* SHARDRING_WAITING_H */
