/*
 * blocks.c
 *		Every allocation of the extension is a block that the address
 *		sanitizer knows: one byte behind it, or one moment after it, is a
 *		finding.
 *
 * PostgreSQL cuts small allocations from big ones, and what happens between
 * them no sanitizer sees.  test/lanes/asan.sh links this file into the extension,
 * with --wrap for each function here.  Rules:
 *	- what is asked for is enlarged beyond the limit from which a memory
 *	  context takes a block from malloc for each allocation, and gives it back
 *	  to free;
 *	- what is too much is poisoned.  When the block goes back, with its context
 *	  or by itself, the sanitizer's own rules are in force again: so PostgreSQL
 *	  needs to know nothing.
 */
#include "postgres.h"

#include <sanitizer/asan_interface.h>

#include "utils/memutils.h"

/* The largest allocation that a context cuts from a block that it has. */
#define MOST_CUT	8192

/* At the end there are some bytes to poison, for every size. */
#define FENCE	8

extern void *__real_palloc(Size size);
extern void *__real_palloc0(Size size);
extern void *__real_palloc_extended(Size size, int flags);
extern void *__real_repalloc(void *pointer, Size size);
extern void *__real_repalloc_huge(void *pointer, Size size);
extern void *__real_MemoryContextAlloc(MemoryContext context, Size size);
extern void *__real_MemoryContextAllocZero(MemoryContext context, Size size);
extern void *__real_MemoryContextAllocHuge(MemoryContext context, Size size);

extern void *__wrap_palloc(Size size);
extern void *__wrap_palloc0(Size size);
extern void *__wrap_palloc_extended(Size size, int flags);
extern void *__wrap_repalloc(void *pointer, Size size);
extern void *__wrap_repalloc_huge(void *pointer, Size size);
extern void *__wrap_MemoryContextAlloc(MemoryContext context, Size size);
extern void *__wrap_MemoryContextAllocZero(MemoryContext context, Size size);
extern void *__wrap_MemoryContextAllocHuge(MemoryContext context, Size size);
extern char *__wrap_MemoryContextStrdup(MemoryContext context,
										const char *string);
extern char *__wrap_pstrdup(const char *string);
extern char *__wrap_pnstrdup(const char *string, Size len);

/*
 * What to ask PostgreSQL for.  Sizes that it refuses stay refused, and what
 * it grants is not refused because of what was added.
 */
static Size
more(Size size)
{
	if (size <= MOST_CUT)
		return size + MOST_CUT + FENCE;
	return (size <= MaxAllocSize - FENCE) ? size + FENCE : size;
}

/*
 * The first "size" bytes of a block that more() is the size of.
 */
static void *
fenced(void *block, Size size)
{
	if (block != NULL)
		ASAN_POISON_MEMORY_REGION((char *) block + size, more(size) - size);
	return block;
}

void *
__wrap_palloc(Size size)
{
	return fenced(__real_palloc(more(size)), size);
}

void *
__wrap_palloc0(Size size)
{
	return fenced(__real_palloc0(more(size)), size);
}

void *
__wrap_palloc_extended(Size size, int flags)
{
	return fenced(__real_palloc_extended(more(size), flags), size);
}

void *
__wrap_repalloc(void *pointer, Size size)
{
	return fenced(__real_repalloc(pointer, more(size)), size);
}

void *
__wrap_repalloc_huge(void *pointer, Size size)
{
	return fenced(__real_repalloc_huge(pointer, more(size)), size);
}

void *
__wrap_MemoryContextAlloc(MemoryContext context, Size size)
{
	return fenced(__real_MemoryContextAlloc(context, more(size)), size);
}

void *
__wrap_MemoryContextAllocZero(MemoryContext context, Size size)
{
	return fenced(__real_MemoryContextAllocZero(context, more(size)), size);
}

void *
__wrap_MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return fenced(__real_MemoryContextAllocHuge(context, more(size)), size);
}

char *
__wrap_MemoryContextStrdup(MemoryContext context, const char *string)
{
	Size		size = strlen(string) + 1;

	return memcpy(__wrap_MemoryContextAlloc(context, size), string, size);
}

char *
__wrap_pstrdup(const char *string)
{
	return __wrap_MemoryContextStrdup(CurrentMemoryContext, string);
}

char *
__wrap_pnstrdup(const char *string, Size len)
{
	char	   *copy;

	len = strnlen(string, len);
	copy = __wrap_palloc(len + 1);
	copy[len] = '\0';
	return memcpy(copy, string, len);
}
