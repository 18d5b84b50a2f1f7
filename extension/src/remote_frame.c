/*
 * remote_frame.c
 *		The commands around a question: its transaction, and how that ends.
 *
 * Settings that end with the transaction, as there may be a pooler between us,
 * keep the server from waiting longer than we do.  What cannot run in a
 * transaction gets them for the session, which ends with the answer.
 */
#include "remote_frame.h"

#include "utils/builtins.h"

/* How often the server checks that we are still connected, ms. */
#define CHECK_INTERVAL	500

/*
 * What is sent before the question.
 */
char *
remote_frame_begin(const RemoteQuestion *question, int timeout)
{
	const char *set = question->ending == REMOTE_ALONE ? "SET" : "SET LOCAL";

	return psprintf("%s"
					"%s search_path = pg_catalog;"
					"%s statement_timeout = %d;"
					"%s lock_timeout = %d;"
					"%s client_connection_check_interval = %d",
					question->ending == REMOTE_ALONE ? "" :
					question->all_rows ? "BEGIN READ ONLY;" : "BEGIN;",
					set, set, timeout, set, timeout, set, CHECK_INTERVAL);
}

/*
 * What is sent after the answer; NULL: nothing.
 */
const char *
remote_frame_end(const RemoteQuestion *question)
{
	switch (question->ending)
	{
		case REMOTE_COMMIT:
			return "COMMIT";
		case REMOTE_ROLLBACK:
			return "ROLLBACK";
		case REMOTE_PREPARE:
			return psprintf("PREPARE TRANSACTION %s",
							quote_literal_cstr(question->prepared_as));
		default:
			return NULL;
	}
}
