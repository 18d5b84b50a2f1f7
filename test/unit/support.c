/*
 * support.c
 *		Memory, chance and names for the unit tests; see support.h.
 */
#include "support.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

typedef struct TestBlock
{
	struct TestBlock *next;
	long double bytes[];		/* aligned for anything */
} TestBlock;

static void *test_env_alloc(void *arg, size_t size);
static void test_env_pause(void *arg);

const RingEnv test_env = {test_env_alloc, test_env_pause, NULL};
uint64_t	test_pauses = 0;

static TestBlock *test_blocks = NULL;
static uint64_t test_state = 0;

/*
 * A block of its own for every request, filled with rubbish: so that a
 * sanitizer sees every overrun and nobody relies on zeros.
 */
void *
test_alloc(size_t size)
{
	TestBlock  *block = malloc(sizeof(TestBlock) + size);

	assert(block != NULL);
	block->next = test_blocks;
	test_blocks = block;
	return memset(block->bytes, 0xa5, size);
}

char *
test_format(const char *format,...)
{
	char	   *string = test_alloc(512);
	va_list		args;

	va_start(args, format);
	vsnprintf(string, 512, format, args);
	va_end(args);
	return string;
}

int
test_teardown(void **state)
{
	(void) state;
	while (test_blocks != NULL)
	{
		TestBlock  *next = test_blocks->next;

		free(test_blocks);
		test_blocks = next;
	}
	return 0;
}

static void *
test_env_alloc(void *arg, size_t size)
{
	(void) arg;
	assert(size > 0);
	return test_alloc(size);
}

static void
test_env_pause(void *arg)
{
	(void) arg;
	test_pauses++;
}

/*
 * Takes SEED, or the time, and says which.
 */
void
test_seed(void)
{
	const char *seed = getenv("SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	test_state = (seed != NULL) ? strtoull(seed, NULL, 10) :
		(uint64_t) now.tv_sec ^ (uint64_t) now.tv_nsec;
	printf("SEED=%llu\n", (unsigned long long) test_state);
	fflush(stdout);
}

uint32_t
test_rounds(uint32_t usual)
{
	const char *rounds = getenv("ROUNDS");

	return (rounds != NULL) ? (uint32_t) strtoul(rounds, NULL, 10) : usual;
}

/*
 * splitmix64
 */
uint32_t
test_random32(void)
{
	uint64_t	z = (test_state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t) (z >> 32);
}

uint32_t
test_random(uint32_t below)
{
	return test_random32() % below;
}

RingName
test_name(const char *name)
{
	return (RingName) {name, (uint32_t) strlen(name)};
}

uint32_t
test_hash(HashKind kind, const char *key)
{
	uint32_t	position;

	assert_true(hash_once(kind, key, strlen(key), &position));
	return position;
}

/*
 * SHA-256, in two pieces.
 */
void
test_sha256(const void *bytes, size_t len, uint8_t digest[32])
{
	assert_true(digest_begin(DIGEST_SHA256));
	assert_true(digest_feed(DIGEST_SHA256, bytes, len / 2));
	assert_true(digest_feed(DIGEST_SHA256, (const char *) bytes + len / 2,
							len - len / 2));
	assert_true(digest_end(DIGEST_SHA256, digest));
}

/* What fingerprint_bytes has given so far. */
typedef struct Collected
{
	uint8_t    *bytes;
	size_t		size;
	size_t		room;
} Collected;

static bool
collect(void *arg, const uint8_t *bytes, size_t len)
{
	Collected  *all = arg;

	if (all->room - all->size < len)
	{
		uint8_t    *old = all->bytes;

		all->room = 2 * all->room + len;
		all->bytes = test_alloc(all->room);
		if (all->size > 0)
			memcpy(all->bytes, old, all->size);
	}
	memcpy(all->bytes + all->size, bytes, len);
	all->size += len;
	return true;
}

/*
 * The canonical byte string.
 */
uint8_t *
test_canon(const RingDef *def, size_t *size)
{
	Collected	all = {NULL, 0, 0};

	assert_true(fingerprint_bytes(def, collect, &all));
	*size = all.size;
	return all.bytes;
}
