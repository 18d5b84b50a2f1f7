/*
 * remote_keep.h
 *		Connections that outlive a question: what remote_keep.c offers.
 */
#ifndef SHARDRING_REMOTE_KEEP_H
#define SHARDRING_REMOTE_KEEP_H

#include "remote_address.h"

#include "libpq-fe.h"

extern char *remote_keep_key(const RemoteAddress *address);
extern PGconn *remote_keep_take(const char *key);
extern bool remote_keep_give(const char *key, PGconn *conn);
extern bool remote_keep_close(void);

#endif							/* SHARDRING_REMOTE_KEEP_H */
