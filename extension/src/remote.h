/*
 * remote.h
 *		Asking many servers at once: what remote.c offers.
 *
 * Nothing of libpq here: its types stay in remote.c and remote_address.c.
 */
#ifndef SHARDRING_REMOTE_H
#define SHARDRING_REMOTE_H

#include "remote_question.h"

extern void remote_ask(RemoteAnswer *answers, int n,
					   const RemoteQuestion *question);

#endif							/* SHARDRING_REMOTE_H */
