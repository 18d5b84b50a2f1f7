/*
 * table_read.h
 *		Reading tables under a snapshot that fits: what table_read.c offers.
 *
 * table_connect, table_prepare, table_lock, then SPI_finish.
 */
#ifndef SHARDRING_TABLE_READ_H
#define SHARDRING_TABLE_READ_H

#include "shardring.h"

#include "executor/spi.h"

extern void table_connect(void);
extern SPIPlanPtr table_prepare(const char *query);
extern bool table_lock(SPIPlanPtr plan);

#endif							/* SHARDRING_TABLE_READ_H */
