/*
 * chance_of_bytes.c
 *		The entry of every target, and chance that comes from its bytes; see
 *		fuzz.h.  Takes the place of what support.c has of the same names.
 */
#include "fuzz.h"

#include <stdlib.h>

static const uint8_t *fuzz_bytes;
static size_t fuzz_left;
static uint64_t fuzz_state;

extern int	LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	fuzz_bytes = bytes;
	fuzz_left = size;
	fuzz_state = size;
	fuzz_one(bytes, size);
	test_teardown(NULL);
	return 0;
}

void
test_seed(void)
{
}

uint32_t
test_rounds(uint32_t usual)
{
	(void) usual;
	return 1;
}

/*
 * One byte is enough for most choices, so that a byte more or less changes
 * one of them.
 */
uint32_t
test_random(uint32_t below)
{
	if (below > 256 || fuzz_left == 0)
		return test_random32() % below;
	fuzz_left--;
	return *fuzz_bytes++ % below;
}

uint32_t
test_random32(void)
{
	uint32_t	number = 0;
	size_t		n = fuzz_left < 4 ? fuzz_left : 4;

	if (n > 0)
		memcpy(&number, fuzz_bytes, n);
	fuzz_bytes += n;
	fuzz_left -= n;
	fuzz_state = fuzz_state * UINT64_C(6364136223846793005) + number +
		UINT64_C(1442695040888963407);
	return n > 0 ? number : (uint32_t) (fuzz_state >> 32);
}
