/*
 * fuzz_diff.c
 *		What moves between two versions, applied to the old owner, gives the
 *		new one.
 *
 * The test is agrees_on_moves of test/unit/test_random_diff.c,
 * with the bytes of the fuzzer for chance.
 */
#include "fuzz.h"

#define main unit_main
extern int	unit_main(void);
#include "test_random_diff.c"

void
fuzz_one(const uint8_t *bytes, size_t size)
{
	(void) bytes;
	(void) size;
	agrees_on_moves(NULL);
}
