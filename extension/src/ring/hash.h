/*
 * hash.h
 *		Bytes to a position, and the candidates of a group.
 *
 * Rules as in ring.h.  A function returns false where there is no digest
 * (digest.h), hash_parse_kind where there is no such hash.
 */
#ifndef SHARDRING_HASH_H
#define SHARDRING_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum HashKind
{
	HASH_MD5,
	HASH_FNV1A,
	HASH_MURMUR3,
	HASH_CRC16
} HashKind;

/* A hash that is being fed piece by piece. */
typedef struct HashStream
{
	HashKind	kind;
	uint32_t	state;
	uint32_t	tail;			/* murmur3: bytes that wait for a block of 4 */
	uint64_t	length;
} HashStream;

extern bool hash_parse_kind(const char *name, size_t len, HashKind *kind);
extern const char *hash_kind_name(HashKind kind);
extern bool hash_begin(HashStream *stream, HashKind kind);
extern bool hash_feed(HashStream *stream, const void *bytes, size_t len);
extern bool hash_end(HashStream *stream, uint32_t *position);
extern bool hash_once(HashKind kind, const void *bytes, size_t len,
					  uint32_t *position);
extern bool hash_candidate(HashKind kind, const char *name, size_t len,
						   uint32_t salt, uint32_t *position);
extern void hash_tag(const char **key, size_t *len);

#endif							/* SHARDRING_HASH_H */
