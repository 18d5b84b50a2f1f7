/*
 * md5.h
 *		MD5 as hash.c needs it: the first four bytes of the digest.
 */
#ifndef SHARDRING_MD5_H
#define SHARDRING_MD5_H

#include <stddef.h>
#include <stdint.h>

/* The longest message that is one block together with its padding. */
#define MD5_SHORT		55

/* How many short messages are hashed at once. */
#define MD5_LANES		8

/* A message that comes in pieces. */
typedef struct Md5Stream
{
	uint32_t	state[4];
	uint64_t	length;
	uint8_t		block[64];		/* its last length % 64 bytes */
} Md5Stream;

extern void md5_begin(Md5Stream *stream);
extern void md5_feed(Md5Stream *stream, const void *bytes, size_t len);
extern uint32_t md5_end(Md5Stream *stream);
extern uint32_t md5_short(const void *bytes, size_t len);
extern void md5_lanes(const void *const bytes[MD5_LANES],
					  const size_t len[MD5_LANES],
					  uint32_t positions[MD5_LANES]);

#endif							/* SHARDRING_MD5_H */
