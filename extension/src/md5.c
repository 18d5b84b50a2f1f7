/*
 * md5.c
 *		MD5 (RFC 1321) of one message, or of eight short ones at once.
 *
 * Why not libcrypto's: of what a short key costs there, a third goes into
 * what surrounds the hash; there is no interface for several messages; and
 * FIPS mode refuses it.  Here MD5 protects nothing, it only places keys.
 *
 * Every step of MD5 waits for the one before, so a processor is half idle with
 * one message.  Eight messages are hashed by the same code with vectors (of
 * GCC and clang, for any processor) in place of numbers.
 */
#include "md5.h"

#include <string.h>

/* One number of each of several messages. */
typedef uint32_t Md5Vector __attribute__((vector_size(4 * MD5_LANES)));

/*
 * The four functions of RFC 1321.  Where it is shorter, what does not wait
 * for x, the result of the step before, comes first.
 */
#define MD5_F(x, y, z)	(((y ^ z) & x) ^ z)
#define MD5_G(x, y, z)	((~z & y) + (z & x))
#define MD5_H(x, y, z)	((y ^ z) ^ x)
#define MD5_I(x, y, z)	(y ^ (~z | x))

#define MD5_STEP(f, a, b, c, d, number, constant, turn) \
	do { \
		a += number + constant; \
		a += f(b, c, d); \
		a = (a << turn | a >> (32 - turn)) + b; \
	} while (0)

/*
 * Sixteen steps.  Step i takes number (first + stride * i) % 16 of the block.
 * Unrolled, all of that is known to the compiler, and it is 13 % quicker.
 */
#define MD5_ROUND(f, first, stride, constants, t1, t2, t3, t4) \
	_Pragma("GCC unroll 4") \
	for (i = 0; i < 16; i += 4) \
	{ \
		MD5_STEP(f, a, b, c, d, block[(first + stride * i) & 15], \
				 constants[i], t1); \
		MD5_STEP(f, d, a, b, c, block[(first + stride * (i + 1)) & 15], \
				 constants[i + 1], t2); \
		MD5_STEP(f, c, d, a, b, block[(first + stride * (i + 2)) & 15], \
				 constants[i + 2], t3); \
		MD5_STEP(f, b, c, d, a, block[(first + stride * (i + 3)) & 15], \
				 constants[i + 3], t4); \
	}

/*
 * All of MD5 for one block of numbers, or of vectors of them.
 */
#define MD5_BLOCK(Word, state, block) \
	do { \
		Word		a = state[0]; \
		Word		b = state[1]; \
		Word		c = state[2]; \
		Word		d = state[3]; \
		int			i; \
\
		MD5_ROUND(MD5_F, 0, 1, md5_constants, 7, 12, 17, 22); \
		MD5_ROUND(MD5_G, 1, 5, (md5_constants + 16), 5, 9, 14, 20); \
		MD5_ROUND(MD5_H, 5, 3, (md5_constants + 32), 4, 11, 16, 23); \
		MD5_ROUND(MD5_I, 0, 7, (md5_constants + 48), 6, 10, 15, 21); \
		state[0] += a; \
		state[1] += b; \
		state[2] += c; \
		state[3] += d; \
	} while (0)

/* floor(2^32 * abs(sin(i + 1))) */
static const uint32_t md5_constants[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee,
	0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
	0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
	0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
	0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
	0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
	0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
	0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
	0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
	0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05,
	0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
	0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039,
	0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
	0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391
};

static void md5_block(uint32_t state[4], const uint8_t bytes[64]);
static void md5_pad(uint8_t block[64], uint64_t length);
static uint32_t md5_number(const uint8_t *bytes);
static uint32_t md5_position(uint32_t word);

static const uint32_t md5_start[4] = {
	UINT32_C(0x67452301), UINT32_C(0xefcdab89),
	UINT32_C(0x98badcfe), UINT32_C(0x10325476)
};

/*
 * Begin a message.
 */
void
md5_begin(Md5Stream *stream)
{
	memcpy(stream->state, md5_start, sizeof(md5_start));
	stream->length = 0;
}

/*
 * The next piece of it.
 */
void
md5_feed(Md5Stream *stream, const void *bytes, size_t len)
{
	const uint8_t *next = bytes;

	while (len > 0)
	{
		size_t		used = stream->length % 64;
		size_t		piece = (len < 64 - used) ? len : 64 - used;

		memcpy(stream->block + used, next, piece);
		stream->length += piece;
		next += piece;
		len -= piece;
		if (used + piece == 64)
			md5_block(stream->state, stream->block);
	}
	}

/*
 * The first four bytes of its digest.
 */
uint32_t
md5_end(Md5Stream *stream)
{
	size_t		used = stream->length % 64;

	if (used > MD5_SHORT)
	{
		/* no room for the length: that makes a block of its own */
		stream->block[used] = 0x80;
		memset(stream->block + used + 1, 0, 63 - used);
		md5_block(stream->state, stream->block);
		memset(stream->block, 0, 56);
	}
	else
	{
		stream->block[used] = 0x80;
		memset(stream->block + used + 1, 0, 55 - used);
	}
	md5_pad(stream->block, stream->length);
	md5_block(stream->state, stream->block);
	return md5_position(stream->state[0]);
}

/*
 * The first four bytes of the digest of at most MD5_SHORT bytes.
 */
uint32_t
md5_short(const void *bytes, size_t len)
{
	uint32_t	state[4];
	uint8_t		block[64] = {0};

	memcpy(state, md5_start, sizeof(md5_start));
	memcpy(block, bytes, len);
	block[len] = 0x80;
	md5_pad(block, len);
	md5_block(state, block);
	return md5_position(state[0]);
}

/*
 * md5_short of several messages.
 */
void
md5_lanes(const void *const bytes[MD5_LANES], const size_t len[MD5_LANES],
		  uint32_t positions[MD5_LANES])
{
	Md5Vector	state[4];
	Md5Vector	block[16];
	int			lane;
	int			n;

	for (lane = 0; lane < MD5_LANES; lane++)
	{
		uint8_t		padded[64] = {0};

		memcpy(padded, bytes[lane], len[lane]);
		padded[len[lane]] = 0x80;
		md5_pad(padded, len[lane]);
		for (n = 0; n < 16; n++)
			block[n][lane] = md5_number(padded + 4 * n);
	}
	for (n = 0; n < 4; n++)
		state[n] = (Md5Vector) {0} + md5_start[n];
	MD5_BLOCK(Md5Vector, state, block);
	for (lane = 0; lane < MD5_LANES; lane++)
		positions[lane] = md5_position(state[0][lane]);
}

static void
md5_block(uint32_t state[4], const uint8_t bytes[64])
{
	uint32_t	block[16];
	int			n;

	for (n = 0; n < 16; n++)
		block[n] = md5_number(bytes + 4 * n);
	MD5_BLOCK(uint32_t, state, block);
}

/*
 * The end of the last block: the length of the message in bits.
 */
static void
md5_pad(uint8_t block[64], uint64_t length)
{
	int			i;

	for (i = 0; i < 8; i++)
		block[56 + i] = (uint8_t) (length << 3 >> (8 * i));
}

static uint32_t
md5_number(const uint8_t *bytes)
{
	return (uint32_t) bytes[0] | (uint32_t) bytes[1] << 8 |
		(uint32_t) bytes[2] << 16 | (uint32_t) bytes[3] << 24;
}

/*
 * A digest is written low byte first, a position is read high byte first.
 */
static uint32_t
md5_position(uint32_t word)
{
	return word << 24 | (word << 8 & 0xff0000) | (word >> 8 & 0xff00) |
		word >> 24;
}
