/*
 * test_md5_lanes.c
 *		MD5 of several keys at once against libcrypto's of one after the other.
 */
#include "support.h"

#include "md5_lanes.h"

#define LONGEST		300
#define ROUNDS		(2000000 / MD5_LANES)

static unsigned char bytes[MD5_LANES][LONGEST];
static const unsigned char *keys[MD5_LANES];
static size_t lens[MD5_LANES];
static uint64_t seed = 88172645463325252u;

/*
 * The next of a row of numbers that is the same in every run (xorshift).
 */
static uint64_t
next_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/*
 * Fills all lanes by chance.
 */
static void
fill_lanes(void)
{
	for (size_t i = 0; i < MD5_LANES; i++)
	{
		keys[i] = bytes[i];
		for (size_t j = 0; j < LONGEST; j++)
			bytes[i][j] = (unsigned char) next_number();
	}
}

/*
 * All lanes have the position that hash_once has.
 */
static void
assert_same(void)
{
	uint32_t	positions[MD5_LANES];
	uint32_t	position;

	md5_lanes(keys, lens, positions);
	for (size_t i = 0; i < MD5_LANES; i++)
	{
		assert_true(hash_once(HASH_MD5, keys[i], lens[i], &position));
		assert_int_equal(positions[i], position);
	}
}

/*
 * Every length, beside others that are equal to it, empty, and the longest.
 */
static void
hashes_every_length(void **state)
{
	(void) state;
	fill_lanes();
	for (size_t len = 0; len <= LONGEST; len++)
	{
		for (size_t i = 0; i < MD5_LANES; i++)
			lens[i] = len;
		assert_same();
		for (size_t i = 0; i < MD5_LANES; i++)
			lens[i] = (i % 3 == 0) ? len : (i % 3 == 1) ? 0 : LONGEST;
		assert_same();
	}
}

/*
 * Two million keys of random bytes and lengths, mostly short.
 */
static void
hashes_random_keys(void **state)
{
	(void) state;
	fill_lanes();
	for (size_t round = 0; round < ROUNDS; round++)
	{
		size_t		most = (round % 16 == 0) ? LONGEST : 40;

		for (size_t i = 0; i < MD5_LANES; i++)
		{
			uint64_t	number = next_number();

			lens[i] = number % (most + 1);
			memcpy(bytes[i] + (number >> 32) % (LONGEST - 8), &number, 8);
		}
		assert_same();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hashes_every_length),
		TEST(hashes_random_keys)
	};

	return cmocka_run_group_tests_name("md5_lanes", tests, NULL, NULL);
}
