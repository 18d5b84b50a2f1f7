/*
 * remote_address.h
 *		Where a server is, and what libpq says of it as text of ours.
 *
 * Nothing of libpq here: its types stay in remote.c and remote_address.c.
 */
#ifndef SHARDRING_REMOTE_ADDRESS_H
#define SHARDRING_REMOTE_ADDRESS_H

#include "shardring.h"

/* Keywords and values as libpq takes them, with NULL after the last. */
typedef struct RemoteAddress
{
	int			n;
	const char **keywords;
	const char **values;
	bool		has_password;
} RemoteAddress;

/* The error of a server whose text could not be stored here. */
#define REMOTE_NO_TEXT \
	"an answer is not valid in the encoding of this database"

extern bool remote_is_text(const char *bytes, int len);
extern char *remote_clean_message(const char *message);
extern const char *remote_find_address(const char *server_name,
									   RemoteAddress *address);
extern char *remote_connect_string(const char *server_name);

#endif							/* SHARDRING_REMOTE_ADDRESS_H */
