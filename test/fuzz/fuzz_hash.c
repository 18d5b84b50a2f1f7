/*
 * fuzz_hash.c
 *		A hash is the same in one piece and in any pieces, md5 and sha256 are
 *		what libcrypto computes, a candidate is the hash of its name and
 *		number, and a tag is what the rules say.
 *
 * The first four bytes say which hash and where the rest is cut.
 */
#include "fuzz.h"

#include <stdio.h>

#include <openssl/evp.h>

static uint32_t
in_pieces(HashKind kind, const uint8_t *key, size_t len, size_t piece)
{
	HashStream	stream;
	uint32_t	position;
	size_t		done = 0;

	assert_true(hash_begin(&stream, kind));
	while (done < len)
	{
		size_t		n = len - done < piece ? len - done : piece;

		assert_true(hash_feed(&stream, key + done, n));
		done += n;
		piece = piece * 5 % 131 + 1;
	}
	assert_true(hash_end(&stream, &position));
	return position;
}

static void
check_digests(const uint8_t *key, size_t len)
{
	uint8_t		digest[EVP_MAX_MD_SIZE];
	uint8_t		mine[32];
	uint32_t	position;

	assert_true(EVP_Digest(key, len, digest, NULL, EVP_md5(), NULL) == 1);
	assert_true(hash_once(HASH_MD5, key, len, &position));
	assert_int_equal(position, (uint32_t) digest[0] << 24 |
					 (uint32_t) digest[1] << 16 |
					 (uint32_t) digest[2] << 8 | digest[3]);
	assert_true(EVP_Digest(key, len, digest, NULL, EVP_sha256(), NULL) == 1);
	test_sha256(key, len, mine);
	assert_memory_equal(mine, digest, 32);
}

static void
check_candidate(HashKind kind, const uint8_t *key, size_t len, uint32_t salt)
{
	char	   *written = test_alloc(len + 12);
	uint32_t	expected;
	uint32_t	position;
	int			digits;

	if (len > 0)
		memcpy(written, key, len);
	digits = sprintf(written + len, "#%u", salt);
	assert_true(hash_once(kind, written, len + (size_t) digits, &expected));
	assert_true(hash_candidate(kind, (const char *) key, (uint32_t) len, salt,
							   &position));
	assert_int_equal(position, expected);
}

/*
 * The tag, byte by byte.
 */
static void
check_tag(const char *key, size_t len)
{
	const char *tag = key;
	size_t		tag_len = len;
	size_t		open = 0;
	size_t		close;

	while (open < len && key[open] != '{')
		open++;
	close = open + 1;
	while (close < len && key[close] != '}')
		close++;
	hash_tag(&tag, &tag_len);
	if (close < len && close > open + 1)
	{
		assert_ptr_equal(tag, key + open + 1);
		assert_int_equal(tag_len, close - open - 1);
	}
	else
	{
		assert_ptr_equal(tag, key);
		assert_int_equal(tag_len, len);
	}
}

void
fuzz_one(const uint8_t *bytes, size_t size)
{
	HashKind	kind;
	uint32_t	piece;
	uint32_t	salt;
	uint32_t	whole;
	uint8_t    *key;

	if (size < 4)
		return;
	kind = (HashKind) (bytes[0] % 4);
	piece = bytes[1] % 131 + 1u;
	salt = (uint32_t) bytes[2] << (bytes[3] % 25);
	bytes += 4;
	size -= 4;
	key = test_alloc(size + 1);		/* on its own, to see every overrun */
	memcpy(key + 1, bytes, size);
	assert_true(hash_once(kind, key + 1, size, &whole));
	assert_int_equal(in_pieces(kind, key + 1, size, piece), whole);
	check_digests(key + 1, size);
	check_candidate(kind, key + 1, size, salt);
	check_tag((const char *) key + 1, size);
}
