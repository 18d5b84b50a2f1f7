/*
 * shards.h
 *		What shards.c wants from remote.c and remote_address.c.
 *
 * Nothing of libpq here: its types stay in those files.
 */
#ifndef SHARDRING_SHARDS_H
#define SHARDRING_SHARDS_H

#include "shardring.h"

/* What came back from a server.  "server" is set by the caller. */
typedef struct RemoteAnswer
{
	const char *server;			/* name of a foreign server */
	char	   *server_version; /* NULL: no connection was made */
	char	   *error;			/* NULL: none */
	int			nvalues;		/* columns of the first row */
	char	  **values;			/* NULL where the column is */
	double		milliseconds;	/* until the answer or the error */
} RemoteAnswer;

/* What every server is asked: a statement and its arguments as text. */
typedef struct RemoteQuestion
{
	const char *statement;
	int			narguments;
	const char *const *arguments;
} RemoteQuestion;

/* Keywords and values as libpq takes them, with NULL after the last. */
typedef struct RemoteAddress
{
	int			n;
	const char **keywords;
	const char **values;
	bool		has_password;
} RemoteAddress;

/* ---------- remote.c ---------- */

extern void remote_ask(RemoteAnswer *answers, int n,
					   const RemoteQuestion *question);

/* ---------- remote_address.c ---------- */

/* The error of a server whose text could not be stored here. */
#define REMOTE_NO_TEXT \
	"an answer is not valid in the encoding of this database"

extern bool remote_is_text(const char *bytes, int len);
extern char *remote_clean_message(const char *message);
extern const char *remote_find_address(const char *server_name,
									   RemoteAddress *address);
extern char *remote_connect_string(const char *server_name);

#endif							/* SHARDRING_SHARDS_H */
