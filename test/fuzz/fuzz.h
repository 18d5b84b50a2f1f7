/*
 * fuzz.h
 *		What the fuzz targets share.
 *
 * A target is fuzz_*.c with one function, fuzz_one, that takes bytes and
 * checks properties with cmocka's assertions: outside of a cmocka run they
 * end the process, which libFuzzer reports with the bytes.
 *
 * The random tests of test/unit are targets too.  There, the bytes take the
 * place of chance: test_random32 reads them, and goes on with what follows
 * from them when they are used up, since some loops wait for a number that
 * suits.
 */
#ifndef SHARDRING_FUZZ_H
#define SHARDRING_FUZZ_H

#include "support.h"

extern void fuzz_one(const uint8_t *bytes, size_t size);

#endif							/* SHARDRING_FUZZ_H */
