/*
 * support.h
 *		What the unit tests share: memory, chance, and rings that are easy to
 *		write down and slow to ask.
 *
 * A TestRing is the model that the code is held against: points, pins and the
 * shard of every single slot.  It is asked by looking at all of them, straight
 * from the rules, and shares no code with what is tested.
 */
#ifndef SHARDRING_SUPPORT_H
#define SHARDRING_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "digest.h"
#include "ring.h"

#define TEST(function)	cmocka_unit_test_teardown(function, test_teardown)
#define LENGTH(array)	(sizeof(array) / sizeof((array)[0]))

typedef struct TestGroup
{
	const char *name;
	uint32_t	slots;
	uint32_t	wanted;			/* points by weight */
	uint32_t	npoints;
	uint32_t   *points;
	const char **shards;		/* of every slot */
} TestGroup;

typedef struct TestPin
{
	uint32_t	position;
	const char *group;
} TestPin;

typedef struct TestRing
{
	HashKind	hash;
	bool		hash_tags;
	uint32_t	ngroups;
	TestGroup	groups[64];
	uint32_t	npins;
	TestPin		pins[64];
} TestRing;

/* Where the model finds a position; group is NULL on a ring without points. */
typedef struct TestPlace
{
	const TestGroup *group;
	uint32_t	slot;
	const char *shard;
} TestPlace;

/* memory that is gone after the test, and the environment that uses it */
extern const RingEnv test_env;
extern uint64_t test_pauses;
extern void *test_alloc(size_t size);
extern char *test_format(const char *format,...)
			__attribute__((format(printf, 1, 2)));
extern int	test_teardown(void **state);

/* chance: SEED and ROUNDS come from the environment */
extern void test_seed(void);
extern uint32_t test_rounds(uint32_t usual);
extern uint32_t test_random(uint32_t below);
extern uint32_t test_random32(void);

/* making rings */
extern RingName test_name(const char *name);
extern void test_sha256(const void *bytes, size_t len, uint8_t digest[32]);
extern uint8_t *test_canon(const RingDef *def, size_t *size);
extern uint32_t test_hash(HashKind kind, const char *key);
extern TestRing *test_ring(HashKind hash);
extern TestRing *test_ring_of(uint32_t npoints,...);
extern TestRing *test_one_group(uint32_t slots);
extern TestRing *test_copy(const TestRing *ring);
extern TestGroup *test_group(TestRing *ring, const char *name);
extern TestGroup *test_add(TestRing *ring, const char *name, uint32_t slots);
extern void test_remove(TestRing *ring, const char *name);
extern RingResult test_points(TestRing *ring, const char *name,
							  uint32_t npoints);
extern void test_assign(TestGroup *group, uint32_t lo, uint32_t hi,
						const char *shard);
extern void test_pin(TestRing *ring, uint32_t position, const char *group);
extern RingDef *test_def(const TestRing *ring);
extern Ring *test_build(const TestRing *ring);

/* asking them */
extern TestPlace test_locate(const TestRing *ring, uint32_t position);
extern const char *test_owner(const Ring *ring, uint32_t position);
extern const char *test_owner_of(const Ring *ring, const char *key);
extern void test_check_place(const TestRing *model, const Ring *ring,
							 uint32_t position);
extern uint32_t *test_salts(TestRing *ring, const char *name);
extern DiffList *test_list(const Ring *from, const Ring *to, DiffScope scope);
extern uint64_t test_count_rest(uint64_t n, uint64_t cycle, uint64_t rest);
extern bool test_is(RingName name, const char *string);

/* random rings (chance.c) */
extern TestRing *test_any_ring(bool close);
extern void test_change(TestRing *ring, bool close);

#endif							/* SHARDRING_SUPPORT_H */
