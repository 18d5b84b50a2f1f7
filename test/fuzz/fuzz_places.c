/*
 * fuzz_places.c
 *		Every position has one owner, the one that the rules say.
 *
 * The test is agrees_on_places of test/unit/test_random_ring.c,
 * with the bytes of the fuzzer for chance.
 */
#include "fuzz.h"

#define main unit_main
extern int	unit_main(void);
#include "test_random_ring.c"

void
fuzz_one(const uint8_t *bytes, size_t size)
{
	(void) bytes;
	(void) size;
	agrees_on_places(NULL);
}
