/*
 * first.c
 *		Starts the address sanitizer before anything else in the process.
 *
 * Debian's postgres hangs when the sanitizer starts in the middle of the
 * loading of its libraries.  Preloaded and linked with -z initfirst, this one
 * comes before them, and its first malloc starts it.
 */
#include <stdlib.h>

/* The compiler must not take the pair away. */
static void *volatile block;

__attribute__((constructor))
static void
first_malloc(void)
{
	block = malloc(1);
	free(block);
}
