/*
 * remote_rows.h
 *		Rows of other servers, as JSON or counted: what remote_rows.c offers.
 */
#ifndef SHARDRING_REMOTE_ROWS_H
#define SHARDRING_REMOTE_ROWS_H

#include "shardring.h"

#include "libpq-fe.h"

extern Size remote_row_bytes(const PGresult *result);
extern const char *remote_row_error(const PGresult *result);
extern char *remote_row_json(const PGresult *result);

#endif							/* SHARDRING_REMOTE_ROWS_H */
