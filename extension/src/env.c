/*
 * env.c
 *		What the pure part needs from PostgreSQL: memory, a way out of long
 *		loops, names in UTF-8, and errors where libcrypto has no digest or
 *		points cannot be chosen.
 *
 * It stands by itself, below all files that build or compare rings.
 */
#include "shardring.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "ring/digest.h"

static void *env_alloc(void *arg, size_t size);
static void env_pause(void *arg);

const RingEnv shardring_env = {env_alloc, env_pause, NULL};

/*
 * Raises the error for a failure of libcrypto: 53200 if it was out of memory.
 */
void
env_no_hash(void)
{
	if (digest_no_memory())
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("libcrypto could not compute an MD5 or SHA-256 "
						   "hash.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("could not compute an MD5 or SHA-256 hash"),
			 errdetail("The default provider of libcrypto is not "
					   "available.")));
}

/*
 * The UTF-8 bytes of a name in the server's encoding; 22021 where there are
 * none.  The same bytes when nothing has to be converted.
 */
RingName
env_utf8_name(RingName name)
{
	char	   *utf8 = pg_server_to_any(name.bytes, name.len, PG_UTF8);

	if (utf8 == name.bytes)
		return name;
	return (RingName) {utf8, strlen(utf8)};
}

/*
 * Gives a group that has "have" points "want" of them; errors as of
 * env_require_points.
 */
void
env_extend_points(HashKind hash, RingName utf8, PointsTaken *taken,
				  uint32 *points, uint32 have, uint32 want)
{
	env_require_points(points_extend(hash, utf8, taken, points, have, want,
									 &shardring_env));
}

/*
 * Raises unless points were chosen: 55000 when those that the group has are
 * not its candidates, 54000 when no position is free.
 */
void
env_require_points(RingResult result)
{
	switch (result)
	{
		case RING_OK:
			break;
		case RING_NO_HASH:
			env_no_hash();
			break;
		case RING_INVALID:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the points of a group are not its candidates in "
							"ascending order"),
					 errhint("Use shardring.seal to find out which.")));
			break;
			/* LCOV_EXCL_START: limits refuse so many points before */
		case RING_EXHAUSTED:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("could not find a free position for a point")));
			break;
			/* LCOV_EXCL_STOP */
	}
}

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
