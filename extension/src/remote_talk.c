/*
 * remote_talk.c
 *		The conversation with one server, from its names to the answer.
 *
 * Rules of this file:
 *	- nothing blocks: every function does what can be done now, and says in
 *	  wait_for what it needs next;
 *	- a question is one transaction.  Whatever goes wrong with a server is
 *	  its answer, and no error here; nothing it sends is trusted to be text,
 *	  or to be short.
 */
#include "remote_talk.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/latch.h"

#include "remote_answer.h"
#include "remote_frame.h"
#include "remote_keep.h"

static bool talk_reuse(Talk *talk);
static void talk_resolve(Talk *talk);
static bool talk_may_dial(const Talk *talk);
static void talk_dial(Talk *talk);
static void talk_connect(Talk *talk);
static void talk_connected(Talk *talk);
static void talk_fail_to_connect(Talk *talk);
static void talk_begin(Talk *talk);
static void talk_listen(Talk *talk);
static bool talk_says_too_much(Talk *talk);
static bool talk_result(Talk *talk);
static const char *result_error(const Talk *talk);
static void talk_next(Talk *talk);
static void talk_ask(Talk *talk);
static void talk_sent(Talk *talk, TalkPhase phase, int sent);
static void talk_row(Talk *talk);
static void talk_fail(Talk *talk, const char *error);
static void talk_end(Talk *talk);
static void ignore_notice(void *arg, const char *message);

/*
 * Begins the conversation.  The caller has reserved a file descriptor for the
 * connection.
 */
void
talk_start(Talk *talk, Resolver *resolver)
{
	const char *error;

	talk->started = talk_now();
	talk->deadline = talk->started + setting_remote_timeout;
	error = remote_find_address(talk->answer->server, &talk->address);
	if (error != NULL)
	{
		talk_fail(talk, error);
		return;
	}
	talk->resolver = resolver;
	talk->key = remote_keep_key(&talk->address);
	if (talk_reuse(talk))
		return;
	talk_resolve(talk);
	talk_resolved(talk);
}

/*
 * Goes on with a connection that was kept, which brings its own descriptor.
 */
static bool
talk_reuse(Talk *talk)
{
	if (talk->key != NULL)
		talk->conn = remote_keep_take(talk->key);
	if (talk->conn == NULL)
		return false;
	ReleaseExternalFD();
	talk->reused = true;
	talk_connected(talk);
	return true;
}

/*
 * Looks for the addresses of the server's names.
 */
static void
talk_resolve(Talk *talk)
{
	talk->hosts = remote_hosts_find(&talk->address, talk->resolver);
	talk->phase = TALK_RESOLVE;
}

/* Whether the conversation has begun and not ended. */
bool
talk_is_running(const Talk *talk)
{
	return talk->phase != TALK_NOT_STARTED && talk->phase != TALK_OVER;
}

/*
 * Connects if enough host names of the server are resolved.
 */
void
talk_resolved(Talk *talk)
{
	const char *error = NULL;

	if (talk->phase != TALK_RESOLVE || !talk_may_dial(talk))
		return;
	if (talk->hosts != NULL)
		error = remote_hosts_put(talk->hosts, &talk->address);
	if (error != NULL)
		talk_fail(talk, error);
	else
		talk_dial(talk);
}

/*
 * Whether all hosts are known, or half of the time is over and one of them is:
 * a name that hangs must not keep us from a host that lives.
 */
static bool
talk_may_dial(const Talk *talk)
{
	return talk->hosts == NULL ||
		remote_hosts_unknown(talk->hosts) == NULL ||
		(talk_now() >= (talk->started + talk->deadline) / 2 &&
		 remote_hosts_any(talk->hosts));
}

/*
 * Begins to connect.
 */
static void
talk_dial(Talk *talk)
{
	talk->conn = PQconnectStartParams(talk->address.keywords,
									  talk->address.values, false);
	if (talk->conn == NULL)
	{
		/* LCOV_EXCL_START: libpq returns nothing only without memory */
		talk_fail(talk, "out of memory");
		return;
		/* LCOV_EXCL_STOP */
	}
	PQsetNoticeProcessor(talk->conn, ignore_notice, NULL);
	talk->phase = TALK_CONNECT;
	talk->wait_for = WL_SOCKET_WRITEABLE;
	if (PQstatus(talk->conn) == CONNECTION_BAD)
		talk_fail_to_connect(talk);
}

/* Something happened on the socket. */
void
talk_advance(Talk *talk)
{
	if (talk->phase == TALK_CONNECT)
		talk_connect(talk);
	else if (talk_is_running(talk))
		talk_listen(talk);
}

/* Goes on connecting; once connected, asks for the transaction. */
static void
talk_connect(Talk *talk)
{
	PostgresPollingStatusType status;

	status = meter_connect(&talk->meter, talk->conn);
	if (talk_says_too_much(talk))
		return;
	switch (status)
	{
		case PGRES_POLLING_READING:
			talk->wait_for = WL_SOCKET_READABLE;
			break;
		case PGRES_POLLING_OK:
			talk_connected(talk);
			break;
		case PGRES_POLLING_FAILED:
			talk_fail_to_connect(talk);
			break;
		default:
			talk->wait_for = WL_SOCKET_WRITEABLE;
			break;
	}
}

/*
 * Goes on if the second rule of remote_address.c is kept.
 */
static void
talk_connected(Talk *talk)
{
	if (superuser() || PQconnectionUsedPassword(talk->conn))
		talk_begin(talk);
	else
		talk_fail(talk, "the server did not ask for the "
				  "password, so only a superuser may connect");
}

/*
 * Ends the conversation, or goes back to the hosts that libpq did not try
 * because they were not known.
 */
static void
talk_fail_to_connect(Talk *talk)
{
	const char *error = PQerrorMessage(talk->conn);

	if (talk->hosts == NULL)
		talk_fail(talk, error);
	else if (!remote_hosts_left(talk->hosts))
		talk_fail(talk, remote_hosts_explain(talk->hosts, error));
	else
	{
		talk->hosts->failure = psprintf("%s%s", talk->hosts->failure, error);
		PQfinish(talk->conn);
		talk->conn = NULL;
		talk->phase = TALK_RESOLVE;
	}
}

/*
 * Opens the transaction.
 */
static void
talk_begin(Talk *talk)
{
	const char *version = PQparameterStatus(talk->conn, "server_version");
	int			left = (int) Max(talk->deadline - talk_now(), 1);

	talk->answer->server_version =
		remote_clean_message(version ? version : "unknown");
	if (version != NULL && !remote_is_text(version, strlen(version)))
		talk_fail(talk, REMOTE_NO_TEXT);
	else if (PQsetnonblocking(talk->conn, 1) != 0)
		/* LCOV_EXCL_START: libpq refuses only on a bad connection */
		talk_fail(talk, PQerrorMessage(talk->conn));
	/* LCOV_EXCL_STOP */
	else
		talk_sent(talk, TALK_BEGIN,
				  PQsendQuery(talk->conn,
							  remote_frame_begin(talk->question, left)));
}

/*
 * Takes what has arrived, and goes on when all of it is there.
 */
static void
talk_listen(Talk *talk)
{
	int			unsent = PQflush(talk->conn);

	if (unsent < 0 || !meter_consume(&talk->meter, talk->conn))
	{
		talk_fail(talk, PQerrorMessage(talk->conn));
		return;
	}
	talk->wait_for = WL_SOCKET_READABLE |
		(unsent > 0 ? WL_SOCKET_WRITEABLE : 0);
	while (talk->phase != TALK_OVER)
	{
		bool		has_result = meter_parse(&talk->meter, talk->conn);

		if (talk_says_too_much(talk) || !has_result || !talk_result(talk))
			return;
	}
}

/*
 * Ends the conversation if the server has sent too many rows, too many bytes
 * of rows, or too many bytes of anything.
 */
static bool
talk_says_too_much(Talk *talk)
{
	const char *error = meter_error(&talk->meter);

	if (error != NULL)
		talk_fail(talk, error);
	return error != NULL;
}

/*
 * Reads one result.  False when it was the last or an error.
 */
static bool
talk_result(Talk *talk)
{
	talk->result = PQgetResult(talk->conn);
	if (talk->result == NULL)
	{
		talk_next(talk);
		return false;
	}
	switch (PQresultStatus(talk->result))
	{
		case PGRES_SINGLE_TUPLE:
			talk_row(talk);
			break;
		case PGRES_TUPLES_OK:
		case PGRES_COMMAND_OK:
			break;
		default:
			talk_fail(talk, result_error(talk));
			return false;
	}
	PQclear(talk->result);
	talk->result = NULL;
	return true;
}

/*
 * The error of a result that is none of ours.  That of a COPY, say, has no
 * text.
 */
static const char *
result_error(const Talk *talk)
{
	const char *error = PQresultErrorField(talk->result,
										   PG_DIAG_MESSAGE_PRIMARY);

	if (error == NULL)
		error = PQerrorMessage(talk->conn);
	return error[0] != '\0' ? error : "unexpected answer";
}

/* A command has completed: sends the next one. */
static void
talk_next(Talk *talk)
{
	const char *end;

	switch (talk->phase)
	{
		case TALK_BEGIN:
			talk->reused = false;
			talk_ask(talk);
			break;
		case TALK_ASK:
			end = remote_frame_end(talk->question);
			if (end != NULL)
				talk_sent(talk, TALK_COMMIT, PQsendQuery(talk->conn, end));
			else
				talk_end(talk);
			break;
		default:
			if (talk->key != NULL && remote_keep_give(talk->key, talk->conn))
			{
				talk->conn = NULL;
				talk->holds_fd = false;
			}
			talk_end(talk);
			break;
	}
}

/*
 * Sends the question; rows are to come one by one.
 */
static void
talk_ask(Talk *talk)
{
	const RemoteQuestion *question = talk->question;
	int			sent = PQsendQueryParams(talk->conn, question->statement,
										 question->narguments, NULL,
										 question->arguments, NULL, NULL, 0);

	talk_sent(talk, TALK_ASK, sent && PQsetSingleRowMode(talk->conn));
}

/*
 * Notes that a command was sent, or ends the conversation if it was not.
 */
static void
talk_sent(Talk *talk, TalkPhase phase, int sent)
{
	if (sent == 0 || PQflush(talk->conn) < 0)
	{
		/*
		 * LCOV_EXCL_START: libpq refuses only without memory or on a
		 * connection that is known to be bad.  Since PostgreSQL 12 a failed
		 * write is not reported before the next read, which is tested.
		 */
		talk_fail(talk, PQerrorMessage(talk->conn));
		return;
		/* LCOV_EXCL_STOP */
	}
	talk->phase = phase;
	talk->wait_for = WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE;
}

/*
 * Keeps what is asked for of a row, or ends the conversation.
 */
static void
talk_row(Talk *talk)
{
	const char *error = remote_answer_row(talk->answer, talk->question,
										  &talk->meter, talk->result);

	if (error != NULL)
		talk_fail(talk, error);
}

/*
 * Ends the conversation because its deadline has passed.
 */
void
talk_expire(Talk *talk)
{
	const char *name = talk->phase != TALK_RESOLVE ? NULL :
		remote_hosts_unknown(talk->hosts);
	const char *error;

	if (name == NULL)
		error = psprintf("no answer within %d ms", setting_remote_timeout);
	else
		error = psprintf("could not translate host name \"%s\" to address "
						 "within %d ms", name, setting_remote_timeout);
	if (talk->hosts != NULL && talk->hosts->failure[0] != '\0')
		error = remote_hosts_explain(talk->hosts, error);
	talk_fail(talk, error);
}

/*
 * Ends the conversation with an error; then there are no values, and no rows
 * of those that came before.  But a connection that was lost while it was kept
 * has done nothing yet, and is made again.
 */
static void
talk_fail(Talk *talk, const char *error)
{
	if (talk->reused)
	{
		talk->reused = false;
		PQfinish(talk->conn);
		talk->conn = NULL;
		talk_resolve(talk);
		return;
	}
	talk->answer->nvalues = 0;
	list_free_deep(talk->answer->rows);
	talk->answer->rows = NIL;
	talk->answer->error = remote_clean_message(error);
	talk_end(talk);
}

/* Ends the conversation, well or not. */
static void
talk_end(Talk *talk)
{
	talk->answer->milliseconds = talk_now() - talk->started;
	talk->phase = TALK_OVER;
	talk_close(talk);
}

/* Releases what the conversation holds; safe to call twice. */
void
talk_close(Talk *talk)
{
	if (talk->result != NULL)
		PQclear(talk->result);
	talk->result = NULL;
	if (talk->conn != NULL)
		PQfinish(talk->conn);
	talk->conn = NULL;
	if (talk->holds_fd)
		ReleaseExternalFD();
	talk->holds_fd = false;
}

/* Notices of other servers are not ours to show. */
static void
ignore_notice(void *arg, const char *message)
{
}

/* The time, for differences only. */
double
talk_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MILLISEC(now);
}
