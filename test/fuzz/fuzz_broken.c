/*
 * fuzz_broken.c
 *		Definitions that break the rules do no harm, and what is accepted is
 *		sound.
 *
 * The test is survives_broken_rules of test/unit/test_random_ring.c,
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
	survives_broken_rules(NULL);
}
