/*
 * test_no_memory.c
 *		A hash that libcrypto has no memory for is refused and says why, at
 *		whichever allocation it ends, and is right when there is some again.
 *
 * A program of its own, because libcrypto takes its allocator before it has
 * allocated anything.
 */
#include "support.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>

/* How an attempt ended: its exit status. */
enum
{
	DONE = 10,
	NO_MEMORY,
	REFUSED,
	WRONG_LATER
};

static long left;				/* allocations that still succeed */

static bool
may_allocate(void)
{
	if (left > 0)
	{
		left--;
		return true;
	}
	errno = ENOMEM;
	return false;
}

static void *
limited_malloc(size_t size, const char *file, int line)
{
	(void) file;
	(void) line;
	return may_allocate() ? malloc(size) : NULL;
}

static void *
limited_realloc(void *old, size_t size, const char *file, int line)
{
	(void) file;
	(void) line;
	return may_allocate() ? realloc(old, size) : NULL;
}

static void
plain_free(void *old, const char *file, int line)
{
	(void) file;
	(void) line;
	free(old);
}

/*
 * The first hash of this process with so many allocations, and then one with
 * as many as it wants.
 */
static int
attempt(long allocations)
{
	uint32_t	position = 0;
	bool		ok;
	int			result;

	left = allocations;
	ok = hash_once(HASH_MD5, "a", 1, &position) && position == 214005177;
	result = ok ? DONE : digest_no_memory() ? NO_MEMORY : REFUSED;
	left = LONG_MAX;
	ok = hash_once(HASH_MD5, "a", 1, &position) && position == 214005177;
	return ok ? result : WRONG_LATER;
}

/*
 * The same in a process of its own, since what was opened stays open.
 */
static int
attempt_apart(long allocations)
{
	int			status;
	pid_t		child = fork();

	assert_int_not_equal(child, -1);
	if (child == 0)
		_exit(attempt(allocations));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/*
 * One attempt, which may fail only for want of memory.
 */
static bool
is_done(long allocations)
{
	int			result = attempt_apart(allocations);

	if (result != DONE && result != NO_MEMORY)
		fail_msg("with %ld allocations: %d", allocations, result);
	return result == DONE;
}

static void
says_that_memory_is_short(void **state)
{
	long		n = 0;

	(void) state;
	while (!is_done(n))
		n++;
	assert_true(n > 0);
	print_message("a first hash takes %ld allocations\n", n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_that_memory_is_short)
	};

	/*
	 * What libcrypto does once in a process is over before a server has its
	 * first backend, and has deadlocked without memory (3.5).
	 */
	left = LONG_MAX;
	assert_true(CRYPTO_set_mem_functions(limited_malloc, limited_realloc,
										 plain_free));
	assert_true(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG |
									OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL));
	assert_int_equal(ERR_peek_error(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
