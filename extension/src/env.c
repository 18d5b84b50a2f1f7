/*
 * env.c
 *		What the pure part needs from PostgreSQL: memory, and a way out of long
 *		loops.
 *
 * It stands by itself, below all files that build or compare rings.
 */
#include "shardring.h"

#include "miscadmin.h"

static void *env_alloc(void *arg, size_t size);
static void env_pause(void *arg);

const RingEnv shardring_env = {env_alloc, env_pause, NULL};

/*
 * Memory of the current context, of any size; an error releases it.
 */
static void *
env_alloc(void *arg, size_t size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, size);
}

/*
 * Lets a cancel through.
 */
static void
env_pause(void *arg)
{
	CHECK_FOR_INTERRUPTS();
}
