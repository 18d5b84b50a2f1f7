/*
 * remote_question.h
 *		What servers are asked, and what they answer.
 *
 * Nothing of libpq here: its types stay in the files that use them.
 */
#ifndef SHARDRING_REMOTE_QUESTION_H
#define SHARDRING_REMOTE_QUESTION_H

#include "shardring.h"

#include "nodes/pg_list.h"

/* What came back from a server.  "server" is set by the caller. */
typedef struct RemoteAnswer
{
	const char *server;			/* name of a foreign server */
	char	   *server_version; /* NULL: no connection was made */
	char	   *error;			/* NULL: none */
	int			nvalues;		/* columns of the first row */
	char	  **values;			/* NULL where the column is */
	List	   *rows;			/* of char *, if all were asked for */
	double		milliseconds;	/* until the answer or the error */
} RemoteAnswer;

/* How the transaction of a question ends. */
typedef enum RemoteEnding
{
	REMOTE_COMMIT,
	REMOTE_ROLLBACK,
	REMOTE_PREPARE,
	REMOTE_ALONE				/* it is not in a transaction */
} RemoteEnding;

/*
 * What every server is asked: a statement and its arguments as text.  What
 * answers with all of its rows, as JSON objects, is run read only.
 */
typedef struct RemoteQuestion
{
	bool		all_rows;
	RemoteEnding ending;
	const char *prepared_as;	/* with REMOTE_PREPARE */
	const char *statement;
	int			narguments;
	const char *const *arguments;
} RemoteQuestion;

#endif							/* SHARDRING_REMOTE_QUESTION_H */
