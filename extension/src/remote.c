/*
 * remote.c
 *		Asking many servers at once.
 *
 * This file and the other remote_*.c files are the only ones that know libpq.
 * Rules:
 *	- nothing blocks: one loop waits for all sockets, the latch and the nearest
 *	  deadline, and lets a cancel through.  Every server has a deadline of its
 *	  own, shardring.remote_timeout from when it is first contacted;
 *	- every connection is closed and its file descriptor given back on every
 *	  way out, unless remote_keep.c takes it over.  The server ends unfinished
 *	  work by itself, since it is told to check the connection and to limit its
 *	  time.
 */
#include "remote.h"

#include <math.h>

#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "remote_keep.h"
#include "remote_talk.h"

/* Events that are taken from one wait; more come with the next. */
#define EVENTS_AT_ONCE	64

/* Pauses between checks of names that are being resolved, ms. */
#define SHORTEST_NAP	1
#define LONGEST_NAP		16

/* All conversations. */
typedef struct Talks
{
	Talk	   *talks;
	int			n;
	int			started;		/* this many, from the first */
	Resolver	resolver;
	int			nap;			/* 0: no name is being resolved */
	WaitEventSet *set;
} Talks;

static void start_talks(Talks *talks);
static bool take_descriptor(void);
static int	count_running(const Talks *talks);
static void resolve_for_talks(Talks *talks);
static void wait_for_talks(Talks *talks);
static long time_to_wait(const Talks *talks);
static void expire_talks(Talks *talks);
static void end_talks(Talks *talks);

/*
 * Asks all servers the same, at once; fills in the answers.
 */
void
remote_ask(RemoteAnswer *answers, int n, const RemoteQuestion *question)
{
	Talks		talks = {.n = n};

	talks.talks = palloc0(n * sizeof(Talk));
	for (int i = 0; i < n; i++)
	{
		talks.talks[i].question = question;
		talks.talks[i].answer = &answers[i];
	}
	PG_TRY();
	{
		do
		{
			start_talks(&talks);
			resolve_for_talks(&talks);
			if (count_running(&talks) > 0)
				wait_for_talks(&talks);
			expire_talks(&talks);
			CHECK_FOR_INTERRUPTS();
		} while (talks.started < n || count_running(&talks) > 0);
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
			if (count_running(talks) > 0)
				return;			/* one of them will give its own back */
			if (remote_keep_close())
				continue;
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
		talk_start(talk, &talks->resolver);
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

static int
count_running(const Talks *talks)
{
	int			running = 0;

	for (int i = 0; i < talks->started; i++)
		running += talk_is_running(&talks->talks[i]);
	return running;
}

/*
 * Collects names that have been resolved, and connects to their servers.  The
 * first pauses are short, since most names are resolved at once.
 */
static void
resolve_for_talks(Talks *talks)
{
	if (!resolve_go_on(&talks->resolver))
		talks->nap = 0;
	else
		talks->nap = Max(SHORTEST_NAP, Min(talks->nap * 2, LONGEST_NAP));
	for (int i = 0; i < talks->started; i++)
		talk_resolved(&talks->talks[i]);
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
	talks->set = compat_create_wait_set(count_running(talks) + 2);
	AddWaitEventToSet(talks->set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch,
					  NULL);
	if (IsUnderPostmaster)		/* not in postgres --single */
		AddWaitEventToSet(talks->set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET,
						  NULL, NULL);
	for (int i = 0; i < talks->started; i++)
	{
		Talk	   *talk = &talks->talks[i];

		if (talk_is_running(talk) && talk->phase != TALK_RESOLVE)
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
			talk_advance(events[i].user_data);
	}
}

/* Milliseconds until the nearest deadline, or the next check of names. */
static long
time_to_wait(const Talks *talks)
{
	double		nearest = talks->nap > 0 ? talks->nap : INT_MAX;
	double		now = talk_now();

	for (int i = 0; i < talks->started; i++)
		if (talk_is_running(&talks->talks[i]))
			nearest = Min(nearest, talks->talks[i].deadline - now);
	return (long) ceil(Max(nearest, 0));
}

/* Gives up on servers whose time is over. */
static void
expire_talks(Talks *talks)
{
	double		now = talk_now();

	for (int i = 0; i < talks->started; i++)
	{
		Talk	   *talk = &talks->talks[i];

		if (talk_is_running(talk) && now >= talk->deadline)
			talk_expire(talk);
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
	resolve_abandon(&talks->resolver);
}
