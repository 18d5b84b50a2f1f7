/*
 * test_md5.c
 *		MD5 of our own against libcrypto's, on random messages.
 */
#include "support.h"

#include <stdio.h>

#include <openssl/evp.h>

/*
 * The first four bytes of the digest by libcrypto.
 */
static uint32_t
reference(const unsigned char *bytes, size_t len)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	assert_int_equal(EVP_Digest(bytes, len, digest, NULL, EVP_md5(), NULL),
					 1);
	return (uint32_t) digest[0] << 24 | (uint32_t) digest[1] << 16 |
		(uint32_t) digest[2] << 8 | (uint32_t) digest[3];
}

static void
fill(unsigned char *bytes, size_t len)
{
	size_t		i;

	for (i = 0; i < len; i++)
		bytes[i] = (unsigned char) test_random(256);
}

/*
 * Every length around the borders of blocks, each as a whole and in pieces.
 */
static void
agrees_on_every_length(void **state)
{
	unsigned char message[520];
	size_t		len;

	(void) state;
	for (len = 0; len <= sizeof(message); len++)
	{
		Md5Stream	stream;
		size_t		i;
		size_t		piece;

		fill(message, len);
		md5_begin(&stream);
		for (i = 0; i < len; i += piece)
		{
			piece = test_random(150);
			if (piece > len - i)
				piece = len - i;
			md5_feed(&stream, message + i, piece);
		}
		assert_int_equal(md5_end(&stream), reference(message, len));
		if (len <= MD5_SHORT)
			assert_int_equal(md5_short(message, len),
							 reference(message, len));
	}
}

/*
 * Eight messages of any lengths at once.
 */
static void
agrees_in_lanes(void **state)
{
	unsigned char messages[MD5_LANES][MD5_SHORT];
	uint32_t	rounds = test_rounds(20000);
	uint32_t	round;
	int			i;

	(void) state;
	for (round = 0; round < rounds; round++)
	{
		const void *bytes[MD5_LANES];
		size_t		lens[MD5_LANES];
		uint32_t	positions[MD5_LANES];

		for (i = 0; i < MD5_LANES; i++)
		{
			bytes[i] = messages[i];
			lens[i] = test_random(MD5_SHORT + 1);
			fill(messages[i], lens[i]);
		}
		md5_lanes(bytes, lens, positions);
		for (i = 0; i < MD5_LANES; i++)
			assert_int_equal(positions[i], reference(messages[i], lens[i]));
	}
}

/*
 * The bits of a length that does not fit into 32 of them.
 */
static void
agrees_on_a_long_message(void **state)
{
	size_t		size = 1024 * 1024;
	unsigned char *piece = test_alloc(size);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	Md5Stream	stream;
	int			i;

	(void) state;
	fill(piece, size);
	assert_int_equal(EVP_DigestInit_ex(context, EVP_md5(), NULL), 1);
	md5_begin(&stream);
	for (i = 0; i < 513; i++)
	{
		assert_int_equal(EVP_DigestUpdate(context, piece, size), 1);
		md5_feed(&stream, piece, size);
	}
	assert_int_equal(EVP_DigestFinal_ex(context, digest, NULL), 1);
	EVP_MD_CTX_free(context);
	assert_int_equal(md5_end(&stream),
					 (uint32_t) digest[0] << 24 | (uint32_t) digest[1] << 16 |
					 (uint32_t) digest[2] << 8 | (uint32_t) digest[3]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(agrees_on_every_length),
		TEST(agrees_in_lanes),
		TEST(agrees_on_a_long_message)
	};

	test_seed();
	return cmocka_run_group_tests_name("md5", tests, NULL, NULL);
}
