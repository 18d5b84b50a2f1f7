/*
 * remote_frame.h
 *		The commands around a question: what remote_frame.c offers.
 */
#ifndef SHARDRING_REMOTE_FRAME_H
#define SHARDRING_REMOTE_FRAME_H

#include "remote_question.h"

extern char *remote_frame_begin(const RemoteQuestion *question, int timeout);
extern const char *remote_frame_end(const RemoteQuestion *question);

#endif							/* SHARDRING_REMOTE_FRAME_H */
