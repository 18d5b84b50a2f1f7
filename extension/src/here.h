/*
 * here.h
 *		Whether a key lives on this shard now: what here.c offers.
 */
#ifndef SHARDRING_HERE_H
#define SHARDRING_HERE_H

#include "this_shard.h"

#include "utils/relcache.h"

/* The ring as it is now, for as long as its call site is not asked again. */
typedef struct Here
{
	const Memo *active;
	const Ring *from;			/* while it moves; else NULL */
	const Ring *to;				/* so too */
} Here;

extern Here here_now(CallSite *site, text *ring);
extern void here_require(const Here *here, uint32 position, bool writes,
						 Relation table);
extern void here_refuse_border(const Here *here, uint32 before, uint32 after,
							   Relation table);
extern bool here_by_version(const Ring *ring, uint32 position,
							RingPlace *place);
extern void here_require_known(const Memo *memo);

#endif							/* SHARDRING_HERE_H */
