/*
 * digest.h
 *		MD5 and SHA-256, whatever OpenSSL the server has.
 *
 * Rules as in ring.h.  Each function is false when libcrypto gives no such
 * digest; digest_no_memory says whether only memory was missing.
 */
#ifndef SHARDRING_DIGEST_H
#define SHARDRING_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_MAX				32	/* bytes */

typedef enum DigestKind
{
	DIGEST_MD5,
	DIGEST_SHA256
} DigestKind;

extern bool digest_begin(DigestKind kind);
extern bool digest_feed(DigestKind kind, const void *bytes, size_t len);
extern bool digest_end(DigestKind kind, uint8_t bytes[DIGEST_MAX]);
extern bool digest_no_memory(void);

#endif							/* SHARDRING_DIGEST_H */
