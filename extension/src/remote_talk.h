/*
 * remote_talk.h
 *		The conversation with one server: what remote_talk.c offers.
 *
 * This header and remote_meter.h are the only ones with types of libpq.
 */
#ifndef SHARDRING_REMOTE_TALK_H
#define SHARDRING_REMOTE_TALK_H

#include "remote_question.h"

#include "libpq-fe.h"

#include "remote_hosts.h"
#include "remote_meter.h"

typedef enum TalkPhase
{
	TALK_NOT_STARTED,
	TALK_RESOLVE,				/* no connection yet, so no socket */
	TALK_CONNECT,
	TALK_BEGIN,
	TALK_ASK,
	TALK_COMMIT,
	TALK_OVER
} TalkPhase;

/* The conversation with one server.  At first only the first two are set. */
typedef struct Talk
{
	const RemoteQuestion *question;
	RemoteAnswer *answer;
	TalkPhase	phase;
	bool		holds_fd;		/* an external one, for the connection */
	RemoteAddress address;
	Resolver   *resolver;
	RemoteHosts *hosts;			/* NULL: none of them is a name */
	char	   *key;			/* of the connection; NULL: it is not kept */
	bool		reused;			/* the connection was kept, and has not
								 * answered yet */
	PGconn	   *conn;
	PGresult   *result;			/* being read */
	uint32		wait_for;		/* WL_SOCKET_* */
	RemoteMeter meter;			/* of what the server sends */
	double		started;
	double		deadline;
} Talk;

extern void talk_start(Talk *talk, Resolver *resolver);
extern bool talk_is_running(const Talk *talk);
extern void talk_resolved(Talk *talk);
extern void talk_advance(Talk *talk);
extern void talk_expire(Talk *talk);
extern void talk_close(Talk *talk);
extern double talk_now(void);

#endif							/* SHARDRING_REMOTE_TALK_H */
