/*
 * remote_address.h
 *		Where a server is, and what libpq says of it as text of ours.
 *
 * Nothing of libpq here: its types stay in the files that use them.
 */
#ifndef SHARDRING_REMOTE_ADDRESS_H
#define SHARDRING_REMOTE_ADDRESS_H

#include "shardring.h"

/*
 * Keywords and values as libpq takes them: NULL is after the last, and of two
 * the later one counts.  There is room for REMOTE_MORE_OPTIONS.
 */
typedef struct RemoteAddress
{
	int			n;
	const char **keywords;
	const char **values;
	bool		has_password;
} RemoteAddress;

/* What remote_hosts.c may add. */
#define REMOTE_MORE_OPTIONS		3

/* The error of a server whose text could not be stored here. */
#define REMOTE_NO_TEXT \
	"an answer is not valid in the encoding of this database"

extern bool remote_is_text(const char *bytes, int len);
extern char *remote_clean_message(const char *message);
extern const char *remote_find_address(const char *server_name,
									   RemoteAddress *address);
extern char *remote_connect_string(const char *server_name);
extern void remote_address_init(void);
extern void remote_add_option(RemoteAddress *address, const char *keyword,
							  const char *value);

#endif							/* SHARDRING_REMOTE_ADDRESS_H */
