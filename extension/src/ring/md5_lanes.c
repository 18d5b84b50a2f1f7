/*
 * md5_lanes.c
 *		MD5 of several keys at once, for those who read whole tables.
 *
 * Rules of this file:
 *	- It returns what hash_once returns for HASH_MD5, and is four times as
 *	  quick: MD5 is one long chain, in which a processor waits for each step,
 *	  so that further keys cost it little.  Each lane of a vector is a key.
 *	- It is RFC 1321 written out, with the vectors that gcc and clang make of
 *	  whatever the processor has.  libcrypto takes no part, so nothing can
 *	  fail.
 *	- Keys need not be equally long: a lane that is done keeps its state while
 *	  the others go on.
 */
#include "md5_lanes.h"

#include <string.h>

#define BLOCK		64
#define NVECTORS	(MD5_LANES / 4)

/* Four lanes, which every processor with vectors has. */
typedef uint32_t Lanes __attribute__((vector_size(16)));

/* One word of all keys; NVECTORS chains that do not wait for each other. */
typedef struct Words
{
	Lanes		v[NVECTORS];
} Words;

static void md5_load(const unsigned char *key, size_t len, size_t at,
					 Words words[16], int lane);
static void md5_block(Words state[4], const Words words[16],
					  const Words *active);
static uint32_t md5_word(const unsigned char bytes[4]);

/* The integer part of 2^32 * abs(sin(i + 1)). */
static const uint32_t sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a,
	0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
	0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
	0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
	0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
	0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
	0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,
	0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391
};

/*
 * The position of each key.
 */
void
md5_lanes(const unsigned char *const keys[MD5_LANES],
		  const size_t lens[MD5_LANES], uint32_t positions[MD5_LANES])
{
	static const uint32_t start[4] = {
		0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476
	};
	Words		state[4];
	size_t		longest = 0;
	size_t		at;
	int			i;
	int			j;

	for (i = 0; i < 4; i++)
		for (j = 0; j < NVECTORS; j++)
			state[i].v[j] = (Lanes) {0} + start[i];
	for (i = 0; i < MD5_LANES; i++)
		longest = (lens[i] > longest) ? lens[i] : longest;
	/* the last block has to hold a byte and the length, too */
	for (at = 0; at < longest + 9; at += BLOCK)
	{
		Words		words[16];
		Words		active;

		memset(words, 0, sizeof(words));
		for (i = 0; i < MD5_LANES; i++)
		{
			md5_load(keys[i], lens[i], at, words, i);
			active.v[i / 4][i % 4] = (at < lens[i] + 9) ? UINT32_MAX : 0;
		}
		md5_block(state, words, &active);
	}
	for (i = 0; i < MD5_LANES; i++)
		positions[i] = __builtin_bswap32(state[0].v[i / 4][i % 4]);
}

/*
 * Puts one block of a key, from byte "at" on, into a lane of words that are 0:
 * what is left of the key, after it a bit, and in the last block its length.
 */
static void
md5_load(const unsigned char *key, size_t len, size_t at, Words words[16],
		 int lane)
{
	size_t		n = (at >= len) ? 0 : (len - at < BLOCK) ? len - at : BLOCK;
	uint32_t	tail = 0;
	size_t		i;

	for (i = 0; i < n / 4; i++)
		words[i].v[lane / 4][lane % 4] = md5_word(key + at + 4 * i);
	if (at <= len && n < BLOCK)
	{
		for (i = 0; i < n % 4; i++)
			tail |= (uint32_t) key[at + n - n % 4 + i] << 8 * i;
		tail |= (uint32_t) 0x80 << 8 * i;
		words[n / 4].v[lane / 4][lane % 4] = tail;
	}
	if (n + 9 <= BLOCK)
	{
		words[14].v[lane / 4][lane % 4] = (uint32_t) (len << 3);
		words[15].v[lane / 4][lane % 4] = (uint32_t) ((uint64_t) len >> 29);
	}
}

#define UNROLL	_Pragma("GCC unroll 4")

/* A step of RFC 1321, for all lanes. */
#define STEP(mix, a, b, c, d, word, sine, bits) \
	UNROLL for (j = 0; j < NVECTORS; j++) \
	{ \
		Lanes		sum = a.v[j] + mix(b.v[j], c.v[j], d.v[j]) + \
			words[(word) &15].v[j] + (sine); \
\
		a.v[j] = b.v[j] + (sum << (bits) | sum >> (32 - (bits))); \
	}
#define ROUND(mix, first, every, s1, s2, s3, s4) \
	UNROLL for (i = 0; i < 16; i += 4) \
	{ \
		STEP(mix, a, b, c, d, first + every * i, sine[0], s1) \
		STEP(mix, d, a, b, c, first + every * (i + 1), sine[1], s2) \
		STEP(mix, c, d, a, b, first + every * (i + 2), sine[2], s3) \
		STEP(mix, b, c, d, a, first + every * (i + 3), sine[3], s4) \
		sine += 4; \
	}
#define MIX_F(b, c, d)	((d) ^ ((b) & ((c) ^ (d))))
#define MIX_G(b, c, d)	((c) ^ ((d) & ((b) ^ (c))))
#define MIX_H(b, c, d)	((b) ^ (c) ^ (d))
#define MIX_I(b, c, d)	((c) ^ ((b) | ~(d)))

/*
 * Takes a block into the state of those lanes that are active: all ones.
 */
static void
md5_block(Words state[4], const Words words[16], const Words *active)
{
	Words		a = state[0];
	Words		b = state[1];
	Words		c = state[2];
	Words		d = state[3];
	const uint32_t *sine = sines;
	int			i;
	int			j;

	ROUND(MIX_F, 0, 1, 7, 12, 17, 22)
	ROUND(MIX_G, 1, 5, 5, 9, 14, 20)
	ROUND(MIX_H, 5, 3, 4, 11, 16, 23)
	ROUND(MIX_I, 0, 7, 6, 10, 15, 21)
	for (j = 0; j < NVECTORS; j++)
	{
		state[0].v[j] += a.v[j] & active->v[j];
		state[1].v[j] += b.v[j] & active->v[j];
		state[2].v[j] += c.v[j] & active->v[j];
		state[3].v[j] += d.v[j] & active->v[j];
	}
}

/* Four bytes, the lowest first. */
static uint32_t
md5_word(const unsigned char bytes[4])
{
	return (uint32_t) bytes[0] | (uint32_t) bytes[1] << 8 |
		(uint32_t) bytes[2] << 16 | (uint32_t) bytes[3] << 24;
}
