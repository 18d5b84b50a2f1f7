/*
 * this_shard.h
 *		Which shard this database is.
 */
#ifndef SHARDRING_THIS_SHARD_H
#define SHARDRING_THIS_SHARD_H

#include "shardring.h"

extern void this_shard_init(void);
extern const char *this_shard(void);

#endif							/* SHARDRING_THIS_SHARD_H */
