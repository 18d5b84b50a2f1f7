/*
 * remote.c
 *		Asking many servers at once.
 *
 * This file and remote_address.c are the only ones that know libpq.  Rules:
 *	- nothing blocks (name resolution aside): one loop waits for all sockets,
 *	  the latch and the nearest deadline, and lets a cancel through.  Every
 *	  server has a deadline of its own, shardring.remote_timeout from when it
 *	  is first contacted;
 *	- a question is one transaction.  Whatever goes wrong with a server is
 *	  its answer, and no error here; nothing it sends is trusted to be text;
 *	- every connection is closed and its file descriptor given back on every
 *	  way out.  The server ends unfinished work by itself, since it is told to
 *	  check the connection and to limit its time.
 */
#include "remote.h"

#include <math.h>

#include "libpq-fe.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "remote_address.h"

/* Events that are taken from one wait; more come with the next. */
#define EVENTS_AT_ONCE	64

/* How often the server checks that we are still connected, ms. */
#define CHECK_INTERVAL	500

typedef enum TalkPhase
{
	TALK_NOT_STARTED,
	TALK_CONNECT,
	TALK_BEGIN,
	TALK_ASK,
	TALK_COMMIT,
	TALK_OVER
} TalkPhase;

/* The conversation with one server. */
typedef struct Talk
{
	RemoteAnswer *answer;
	TalkPhase	phase;
	bool		holds_fd;		/* an external one, for the connection */
	PGconn	   *conn;
	PGresult   *result;			/* being read */
	uint32		wait_for;		/* WL_SOCKET_* */
	double		started;
	double		deadline;
} Talk;

/* All of them. */
typedef struct Talks
{
	const RemoteQuestion *question;
	Talk	   *talks;
	int			n;
	int			started;		/* this many, from the first */
	int			running;
	WaitEventSet *set;
} Talks;

static void start_talks(Talks *talks);
static bool take_descriptor(void);
static void wait_for_talks(Talks *talks);
static long time_to_wait(const Talks *talks);
static void expire_talks(Talks *talks);
static void end_talks(Talks *talks);
static void talk_start(Talks *talks, Talk *talk);
static void talk_advance(Talks *talks, Talk *talk);
static void talk_connect(Talks *talks, Talk *talk);
static void talk_begin(Talks *talks, Talk *talk);
static void talk_listen(Talks *talks, Talk *talk);
static bool talk_result(Talks *talks, Talk *talk);
static void talk_next(Talks *talks, Talk *talk);
static void talk_sent(Talks *talks, Talk *talk, TalkPhase phase, int sent);
static void keep_values(Talks *talks, Talk *talk);
static void talk_fail(Talks *talks, Talk *talk, const char *error);
static void talk_end(Talks *talks, Talk *talk);
static void talk_close(Talk *talk);
static void ignore_notice(void *arg, const char *message);
static double now_ms(void);

/*
 * Asks all servers the same, at once; fills in the answers.
 */
void
remote_ask(RemoteAnswer *answers, int n, const RemoteQuestion *question)
{
	Talks		talks = {.question = question, .n = n};

	talks.talks = palloc0(n * sizeof(Talk));
	for (int i = 0; i < n; i++)
		talks.talks[i].answer = &answers[i];
	PG_TRY();
	{
		start_talks(&talks);
		while (talks.running > 0)
		{
			wait_for_talks(&talks);
			expire_talks(&talks);
			CHECK_FOR_INTERRUPTS();
			start_talks(&talks);
		}
	}
	PG_FINALLY();
	{
		end_talks(&talks);
	}
	PG_END_TRY();
}

/*
 * Connects to as many servers as there are file descriptors for.
 */
static void
start_talks(Talks *talks)
{
	while (talks->started < talks->n)
	{
		Talk	   *talk = &talks->talks[talks->started];

		if (!take_descriptor())
		{
			if (talks->running > 0)
				return;			/* one of them will give its own back */
			/*
			 * LCOV_EXCL_START: others in this session, dblink's connections
			 * say, would have to hold all descriptors.  That servers are
			 * asked in turns while there are few is tested.
			 */
			talks->started++;
			talk->phase = TALK_OVER;
			talk->answer->error = pstrdup("out of file descriptors");
			continue;
			/* LCOV_EXCL_STOP */
		}
		talk->holds_fd = true;
		talks->started++;
		talks->running++;
		talk_start(talks, talk);
	}
}

/*
 * Reserves a descriptor for a connection, while there is another one for the
 * wait set.
 */
static bool
take_descriptor(void)
{
	if (!AcquireExternalFD())
		return false;			/* LCOV_EXCL_LINE: as in start_talks */
	if (!AcquireExternalFD())
	{
		ReleaseExternalFD();
		return false;
	}
	ReleaseExternalFD();
	return true;
}

/*
 * Waits until there is something to do, and does it.
 */
static void
wait_for_talks(Talks *talks)
{
	WaitEvent	events[EVENTS_AT_ONCE];
	int			n;

	/* sockets come and go while connecting: a new set each time */
	talks->set = compat_create_wait_set(talks->running + 2);
	AddWaitEventToSet(talks->set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch,
					  NULL);
	AddWaitEventToSet(talks->set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET,
					  NULL, NULL);
	for (int i = 0; i < talks->started; i++)
	{
		Talk	   *talk = &talks->talks[i];

		if (talk->phase != TALK_OVER)
			AddWaitEventToSet(talks->set, talk->wait_for,
							  PQsocket(talk->conn), NULL, talk);
	}
	n = WaitEventSetWait(talks->set, time_to_wait(talks), events,
						 EVENTS_AT_ONCE, PG_WAIT_EXTENSION);
	FreeWaitEventSet(talks->set);
	talks->set = NULL;
	for (int i = 0; i < n; i++)
	{
		if (events[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		else if (events[i].user_data != NULL)
			talk_advance(talks, events[i].user_data);
	}
}

/* Milliseconds until the nearest deadline. */
static long
time_to_wait(const Talks *talks)
{
	double		nearest = INT_MAX;
	double		now = now_ms();

	for (int i = 0; i < talks->started; i++)
		if (talks->talks[i].phase != TALK_OVER)
			nearest = Min(nearest, talks->talks[i].deadline - now);
	return (long) ceil(Max(nearest, 0));
}

/* Gives up on servers whose time is over. */
static void
expire_talks(Talks *talks)
{
	double		now = now_ms();

	for (int i = 0; i < talks->started; i++)
	{
		Talk	   *talk = &talks->talks[i];

		if (talk->phase != TALK_OVER && now >= talk->deadline)
			talk_fail(talks, talk,
					  psprintf("no answer within %d ms",
							   setting_remote_timeout));
	}
}

/* Closes whatever is open, also after an error. */
static void
end_talks(Talks *talks)
{
	if (talks->set != NULL)
		/* LCOV_EXCL_START: left over only by a failing epoll */
		FreeWaitEventSet(talks->set);
	/* LCOV_EXCL_STOP */
	talks->set = NULL;
	for (int i = 0; i < talks->started; i++)
		talk_close(&talks->talks[i]);
}

/*
 * Begins to connect.  The caller has a descriptor for it.
 */
static void
talk_start(Talks *talks, Talk *talk)
{
	RemoteAddress address = {0};
	const char *error;

	talk->started = now_ms();
	talk->deadline = talk->started + setting_remote_timeout;
	error = remote_find_address(talk->answer->server, &address);
	if (error == NULL)
		talk->conn = PQconnectStartParams(address.keywords, address.values,
										  false);
	if (talk->conn == NULL)
	{
		talk_fail(talks, talk, error != NULL ? error : "out of memory");
		return;
	}
	PQsetNoticeProcessor(talk->conn, ignore_notice, NULL);
	talk->phase = TALK_CONNECT;
	talk->wait_for = WL_SOCKET_WRITEABLE;
	if (PQstatus(talk->conn) == CONNECTION_BAD)
		talk_fail(talks, talk, PQerrorMessage(talk->conn));
}

/* Something happened on the socket. */
static void
talk_advance(Talks *talks, Talk *talk)
{
	if (talk->phase == TALK_CONNECT)
		talk_connect(talks, talk);
	else if (talk->phase != TALK_OVER)
		talk_listen(talks, talk);
}

/* Goes on connecting; once connected, asks for the transaction. */
static void
talk_connect(Talks *talks, Talk *talk)
{
	switch (PQconnectPoll(talk->conn))
	{
		case PGRES_POLLING_READING:
			talk->wait_for = WL_SOCKET_READABLE;
			break;
		case PGRES_POLLING_OK:
			/* the second rule of remote_address.c */
			if (superuser() || PQconnectionUsedPassword(talk->conn))
				talk_begin(talks, talk);
			else
				talk_fail(talks, talk, "the server did not ask for the "
						  "password, so only a superuser may connect");
			break;
		case PGRES_POLLING_FAILED:
			talk_fail(talks, talk, PQerrorMessage(talk->conn));
			break;
		default:
			talk->wait_for = WL_SOCKET_WRITEABLE;
			break;
	}
}

/*
 * Opens the transaction.  Settings that end with it, as there may be a pooler
 * between us, keep the server from waiting longer than we do.
 */
static void
talk_begin(Talks *talks, Talk *talk)
{
	const char *version = PQparameterStatus(talk->conn, "server_version");
	int			left = (int) Max(talk->deadline - now_ms(), 1);

	talk->answer->server_version =
		remote_clean_message(version ? version : "unknown");
	if (version != NULL && !remote_is_text(version, strlen(version)))
		talk_fail(talks, talk, REMOTE_NO_TEXT);
	else if (PQsetnonblocking(talk->conn, 1) != 0)
		/* LCOV_EXCL_START: libpq refuses only on a bad connection */
		talk_fail(talks, talk, PQerrorMessage(talk->conn));
	/* LCOV_EXCL_STOP */
	else
		talk_sent(talks, talk, TALK_BEGIN,
				  PQsendQuery(talk->conn,
							  psprintf("BEGIN;"
									   "SET LOCAL search_path = pg_catalog;"
									   "SET LOCAL statement_timeout = %d;"
									   "SET LOCAL lock_timeout = %d;"
									   "SET LOCAL "
									   "client_connection_check_interval = %d",
									   left, left, CHECK_INTERVAL)));
}

/*
 * Takes what has arrived, and goes on when all of it is there.
 */
static void
talk_listen(Talks *talks, Talk *talk)
{
	int			unsent = PQflush(talk->conn);

	if (unsent < 0 || PQconsumeInput(talk->conn) == 0)
	{
		talk_fail(talks, talk, PQerrorMessage(talk->conn));
		return;
	}
	talk->wait_for = WL_SOCKET_READABLE |
		(unsent > 0 ? WL_SOCKET_WRITEABLE : 0);
	while (talk->phase != TALK_OVER && !PQisBusy(talk->conn))
		if (!talk_result(talks, talk))
			return;
}

/*
 * Reads one result.  False when it was the last or an error.
 */
static bool
talk_result(Talks *talks, Talk *talk)
{
	const char *refusal;

	talk->result = PQgetResult(talk->conn);
	if (talk->result == NULL)
	{
		talk_next(talks, talk);
		return false;
	}
	switch (PQresultStatus(talk->result))
	{
		case PGRES_TUPLES_OK:
			if (talk->phase == TALK_ASK)
				keep_values(talks, talk);
			break;
		case PGRES_COMMAND_OK:
			break;
		default:
			refusal = PQresultErrorField(talk->result,
										 PG_DIAG_MESSAGE_PRIMARY);
			talk_fail(talks, talk, refusal != NULL ? refusal :
					  PQerrorMessage(talk->conn));
			return false;
	}
	PQclear(talk->result);
	talk->result = NULL;
	return true;
}

/* A command has completed: sends the next one. */
static void
talk_next(Talks *talks, Talk *talk)
{
	const RemoteQuestion *question = talks->question;

	switch (talk->phase)
	{
		case TALK_BEGIN:
			talk_sent(talks, talk, TALK_ASK,
					  PQsendQueryParams(talk->conn, question->statement,
										question->narguments, NULL,
										question->arguments, NULL, NULL, 0));
			break;
		case TALK_ASK:
			talk_sent(talks, talk, TALK_COMMIT,
					  PQsendQuery(talk->conn, "COMMIT"));
			break;
		default:
			talk_end(talks, talk);
			break;
	}
}

/*
 * Notes that a command was sent, or ends the conversation if it was not.
 */
static void
talk_sent(Talks *talks, Talk *talk, TalkPhase phase, int sent)
{
	if (sent == 0 || PQflush(talk->conn) < 0)
	{
		/*
		 * LCOV_EXCL_START: libpq refuses only without memory or on a
		 * connection that is known to be bad.  Since PostgreSQL 12 a failed
		 * write is not reported before the next read, which is tested.
		 */
		talk_fail(talks, talk, PQerrorMessage(talk->conn));
		return;
		/* LCOV_EXCL_STOP */
	}
	talk->phase = phase;
	talk->wait_for = WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE;
}

/*
 * Keeps the first row.  Text that is invalid in our encoding ends the
 * conversation.
 */
static void
keep_values(Talks *talks, Talk *talk)
{
	RemoteAnswer *answer = talk->answer;

	if (PQntuples(talk->result) == 0)
		return;
	answer->nvalues = PQnfields(talk->result);
	answer->values = palloc0(answer->nvalues * sizeof(char *));
	for (int i = 0; i < answer->nvalues; i++)
	{
		const char *value = PQgetvalue(talk->result, 0, i);

		if (PQgetisnull(talk->result, 0, i))
			continue;
		answer->values[i] = pstrdup(value);
		if (remote_is_text(value, PQgetlength(talk->result, 0, i)))
			continue;
		talk_fail(talks, talk, REMOTE_NO_TEXT);
		return;
	}
}

/*
 * Ends the conversation with an error; then there are no values.
 */
static void
talk_fail(Talks *talks, Talk *talk, const char *error)
{
	talk->answer->nvalues = 0;
	talk->answer->error = remote_clean_message(error);
	talk_end(talks, talk);
}

/* Ends the conversation, well or not. */
static void
talk_end(Talks *talks, Talk *talk)
{
	talk->answer->milliseconds = now_ms() - talk->started;
	talk->phase = TALK_OVER;
	talks->running--;
	talk_close(talk);
}

/* Releases what the conversation holds; safe to call twice. */
static void
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
static double
now_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MILLISEC(now);
}
