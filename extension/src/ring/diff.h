/*
 * diff.h
 *		What diff.c, diff_count.c and diff_plan.c share; nobody else's.
 *
 * Calls go one way: diff_list and diff_collect <- diff_count <- diff_plan.
 */
#ifndef SHARDRING_DIFF_H
#define SHARDRING_DIFF_H

#include "ring.h"

/* How many steps of a long loop are made between two pauses. */
#define DIFF_PACE		65536

/* Positions of one pair of groups on one pair of shards. */
typedef struct DiffCell
{
	uint32_t	from_shard;
	uint32_t	to_shard;
	uint64_t	positions;
	uint32_t	bucket;			/* the one that leads here */
} DiffCell;

/* Counts the positions of one pair of groups after the other. */
typedef struct DiffCounter
{
	const Ring *from;
	const Ring *to;
	const RingEnv *env;
	uint32_t	ncells;
	DiffCell   *cells;
	uint32_t	mask;			/* of buckets; cells has half as much room */
	uint32_t   *buckets;		/* index of a cell + 1, or 0 */
	uint32_t   *ends;			/* residues where the weight changes, */
	uint32_t   *changes;		/* by 1: DIFF_RISES or DIFF_FALLS */
	uint32_t   *spare;			/* for sorting them */
	uint32_t	steps;
} DiffCounter;

/* diff.c */
extern uint32_t *diff_match_shards(const Ring *from, const Ring *to,
								   const RingEnv *env);
extern void diff_collect(const Ring *from, const Ring *to,
						 const uint32_t *stays, const RingEnv *env,
						 DiffList *list);

/* diff_count.c */
extern void diff_counter_init(DiffCounter *counter, const Ring *from,
							  const Ring *to, const DiffList *list,
							  const RingEnv *env);
extern void diff_count(DiffCounter *counter, const DiffList *list,
					   const DiffPair *pair);

#endif							/* SHARDRING_DIFF_H */
