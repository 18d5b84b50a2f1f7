/*
 * remote_answer.h
 *		What is kept of a server's rows: what remote_answer.c offers.
 */
#ifndef SHARDRING_REMOTE_ANSWER_H
#define SHARDRING_REMOTE_ANSWER_H

#include "remote_question.h"

#include "libpq-fe.h"

#include "remote_meter.h"

extern const char *remote_answer_row(RemoteAnswer *answer,
									 const RemoteQuestion *question,
									 RemoteMeter *meter,
									 const PGresult *result);

#endif							/* SHARDRING_REMOTE_ANSWER_H */
