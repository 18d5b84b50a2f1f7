/*
 * hash.c
 *		Bytes to a position: MD5, FNV-1a, MurmurHash3 and CRC-16; the hash tag
 *		and the candidates of a group.
 *
 * Rules of this file:
 *	- the values are a published contract (extension/doc/hashing.md) and never
 *	  change;
 *	- bytes are unsigned everywhere;
 *	- MD5 comes from digest.c, which has one state for it: while an md5 stream
 *	  is open, no other may be begun and neither hash_once nor hash_candidate
 *	  be called with HASH_MD5.  A stream may be abandoned at any time;
 *	- everything that returns bool returns false only when libcrypto refuses.
 */
#include "hash.h"

#include "digest.h"

#include <string.h>

#define FNV1A_BASIS		UINT32_C(2166136261)
#define FNV1A_PRIME		UINT32_C(16777619)

static bool hash_md5_end(uint32_t *position);
static uint32_t hash_fnv1a(uint32_t state, const unsigned char *bytes,
						   size_t len);
static void hash_murmur3_feed(HashStream *stream, const unsigned char *bytes,
							  size_t len);
static uint32_t hash_murmur3_end(const HashStream *stream);
static uint32_t hash_murmur3_mix(uint32_t state, uint32_t block);
static uint32_t hash_murmur3_scramble(uint32_t block);
static uint32_t hash_crc16(uint32_t state, const unsigned char *bytes,
						   size_t len);
static size_t hash_decimal(uint32_t number, char digits[10]);

static const char *const hash_names[] = {
	[HASH_MD5] = "md5",
	[HASH_FNV1A] = "fnv1a",
	[HASH_MURMUR3] = "murmur3",
	[HASH_CRC16] = "crc16"
};

/*
 * The hash called "name"; false when there is none.
 */
bool
hash_parse_kind(const char *name, size_t len, HashKind *kind)
{
	size_t		i;

	for (i = 0; i < sizeof(hash_names) / sizeof(hash_names[0]); i++)
	{
		if (strlen(hash_names[i]) == len &&
			memcmp(hash_names[i], name, len) == 0)
		{
			*kind = (HashKind) i;
			return true;
		}
	}
	return false;
}

/*
 * The name of a hash, as hash_parse_kind reads it.
 */
const char *
hash_kind_name(HashKind kind)
{
	return hash_names[kind];
}

/*
 * Begin to hash something that comes in pieces.  At most one md5 stream is
 * open at a time (see the top of the file).
 */
bool
hash_begin(HashStream *stream, HashKind kind)
{
	stream->kind = kind;
	stream->state = (kind == HASH_FNV1A) ? FNV1A_BASIS : 0;
	stream->tail = 0;
	stream->length = 0;
	return kind != HASH_MD5 || digest_begin(DIGEST_MD5);
}

/*
 * Feed the next piece.
 */
bool
hash_feed(HashStream *stream, const void *bytes, size_t len)
{
	switch (stream->kind)
	{
		case HASH_MD5:
			return digest_feed(DIGEST_MD5, bytes, len);
		case HASH_FNV1A:
			stream->state = hash_fnv1a(stream->state, bytes, len);
			break;
		case HASH_MURMUR3:
			hash_murmur3_feed(stream, bytes, len);
			break;
		case HASH_CRC16:
			stream->state = hash_crc16(stream->state, bytes, len);
			break;
	}
	return true;
}

/*
 * The position of all that was fed.
 */
bool
hash_end(HashStream *stream, uint32_t *position)
{
	if (stream->kind == HASH_MD5)
		return hash_md5_end(position);
	if (stream->kind == HASH_MURMUR3)
		*position = hash_murmur3_end(stream);
	else
		*position = stream->state;
	return true;
}

/*
 * The position of a whole key.
 */
bool
hash_once(HashKind kind, const void *bytes, size_t len, uint32_t *position)
{
	HashStream	stream;

	if (kind == HASH_MD5)
		return digest_begin(DIGEST_MD5) &&
			digest_feed(DIGEST_MD5, bytes, len) &&
			hash_md5_end(position);
	return hash_begin(&stream, kind) &&
		hash_feed(&stream, bytes, len) &&
		hash_end(&stream, position);
}

/*
 * The position of candidate number "salt" of the group "name": the hash of
 * the name, a '#' and the number in decimal.
 */
bool
hash_candidate(HashKind kind, const char *name, size_t len, uint32_t salt,
			   uint32_t *position)
{
	HashStream	stream;
	char		suffix[11];
	size_t		digits;

	suffix[0] = '#';
	digits = hash_decimal(salt, suffix + 1);
	return hash_begin(&stream, kind) &&
		hash_feed(&stream, name, len) &&
		hash_feed(&stream, suffix, digits + 1) &&
		hash_end(&stream, position);
}

/*
 * Narrow a key to its hash tag, as Redis does: what stands between the first
 * '{' and the first '}' after it.  Without such a pair, or with nothing in
 * it, the key stays whole; a later pair is not looked for.
 */
void
hash_tag(const char **key, size_t *len)
{
	const char *open;
	const char *close;
	size_t		rest;

	open = (*len == 0) ? NULL : memchr(*key, '{', *len);
	if (open == NULL)
		return;
	rest = *len - (size_t) (open + 1 - *key);
	close = (rest == 0) ? NULL : memchr(open + 1, '}', rest);
	if (close == NULL || close == open + 1)
		return;
	*key = open + 1;
	*len = (size_t) (close - *key);
}

/*
 * The first four bytes of the digest, big-endian.
 */
static bool
hash_md5_end(uint32_t *position)
{
	uint8_t		digest[DIGEST_MAX];

	if (!digest_end(DIGEST_MD5, digest))
		return false;
	*position = (uint32_t) digest[0] << 24 | (uint32_t) digest[1] << 16 |
		(uint32_t) digest[2] << 8 | (uint32_t) digest[3];
	return true;
}

/*
 * FNV-1a with 32 bits, going on from "state".
 */
static uint32_t
hash_fnv1a(uint32_t state, const unsigned char *bytes, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i++)
		state = (state ^ bytes[i]) * FNV1A_PRIME;
	return state;
}

/*
 * MurmurHash3 x86_32 with seed 0.  Blocks of four bytes are read
 * little-endian; bytes that do not fill a block wait in the tail.
 */
static void
hash_murmur3_feed(HashStream *stream, const unsigned char *bytes, size_t len)
{
	size_t		i = 0;

	while (i < len)
	{
		uint32_t	waiting = (uint32_t) stream->length & 3;

		if (waiting == 0 && len - i >= 4)
		{
			stream->tail = (uint32_t) bytes[i] |
				(uint32_t) bytes[i + 1] << 8 |
				(uint32_t) bytes[i + 2] << 16 |
				(uint32_t) bytes[i + 3] << 24;
			i += 4;
			stream->length += 4;
		}
		else
		{
			stream->tail |= (uint32_t) bytes[i++] << (8 * waiting);
			stream->length++;
		}
		if ((stream->length & 3) == 0)
		{
			stream->state = hash_murmur3_mix(stream->state, stream->tail);
			stream->tail = 0;
		}
	}
}

/*
 * An empty tail scrambles to 0, so it needs no test.
 */
static uint32_t
hash_murmur3_end(const HashStream *stream)
{
	uint32_t	h = stream->state ^ hash_murmur3_scramble(stream->tail);

	h ^= (uint32_t) stream->length;
	h ^= h >> 16;
	h *= UINT32_C(0x85ebca6b);
	h ^= h >> 13;
	h *= UINT32_C(0xc2b2ae35);
	h ^= h >> 16;
	return h;
}

/*
 * Takes a full block into the state.
 */
static uint32_t
hash_murmur3_mix(uint32_t state, uint32_t block)
{
	state ^= hash_murmur3_scramble(block);
	state = state << 13 | state >> 19;
	return state * 5 + UINT32_C(0xe6546b64);
}

/*
 * Scrambles a block, or the tail, before it is mixed into the state.
 */
static uint32_t
hash_murmur3_scramble(uint32_t block)
{
	block *= UINT32_C(0xcc9e2d51);
	block = block << 15 | block >> 17;
	return block * UINT32_C(0x1b873593);
}

/*
 * CRC-16/XMODEM (polynomial 0x1021, from 0), half a byte at a time.
 */
static uint32_t
hash_crc16(uint32_t state, const unsigned char *bytes, size_t len)
{
	static const uint16_t table[16] = {
		0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
		0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef
	};
	size_t		i;

	for (i = 0; i < len; i++)
	{
		state = (state << 4 ^ table[state >> 12 ^ bytes[i] >> 4]) & 0xffff;
		state = (state << 4 ^ table[state >> 12 ^ (bytes[i] & 15)]) & 0xffff;
	}
	return state;
}

/*
 * Writes a number in decimal and returns how many digits it took.
 */
static size_t
hash_decimal(uint32_t number, char digits[10])
{
	char		reversed[10];
	size_t		n = 0;
	size_t		i;

	do
	{
		reversed[n++] = (char) ('0' + number % 10);
		number /= 10;
	} while (number > 0);
	for (i = 0; i < n; i++)
		digits[i] = reversed[n - 1 - i];
	return n;
}
