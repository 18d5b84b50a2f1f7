/*
 * ring.h
 *		The pure part: bytes to a position, points to a ring, two rings to
 *		what moves between them.
 *
 * Rules of this header, of digest.h and hash.h, and of everything in this
 * folder, which implements them:
 *	- nothing of PostgreSQL is included; everything can be built, tested and
 *	  fuzzed by itself;
 *	- memory comes from the caller (RingEnv) and is never freed here: the
 *	  caller drops it as a whole;
 *	- a position is a uint32_t; where one past the last is needed, the type is
 *	  uint64_t, so that 2^32 can be written;
 *	- names are bytes with a length, not NUL-terminated.
 *
 * Calls go one way: digest <- hash <- ring <- diff.
 */
#ifndef SHARDRING_RING_H
#define SHARDRING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"

#define RING_CIRCLE				UINT64_C(4294967296)
#define RING_MAX_POINTS			4194304
#define RING_MAX_SLOTS			65536
#define RING_MAX_CRC16_POINTS	4096
#define RING_MAX_GROUP_NAME		255
#define RING_MAX_SHARD_NAME		63
#define RING_NONE				UINT32_MAX

/*
 * What the pure part needs from its caller.  alloc never returns NULL (it
 * raises its own error or ends the program); pause is called from loops that
 * can be long and need not come back.
 */
typedef struct RingEnv
{
	void	   *(*alloc) (void *arg, size_t size);
	void		(*pause) (void *arg);
	void	   *arg;
} RingEnv;

/*
 * Room for n of something; also where n is 0.
 */
static inline void *
ring_alloc(const RingEnv *env, size_t n, size_t size)
{
	return env->alloc(env->arg, (n > 0 ? n : 1) * size);
}

/* ---------- ring.c, ring_build.c: points to a ring ---------- */

typedef struct RingName
{
	const char *bytes;
	uint32_t	len;
} RingName;

/* Half-open range of slots. */
typedef struct RingRange
{
	uint32_t	lo;
	uint32_t	hi;
} RingRange;

/* A range of a group's slots on one shard, by the caller's number of it. */
typedef struct RingPiece
{
	uint32_t	lo;
	uint32_t	hi;
	uint32_t	shard;
} RingPiece;

/*
 * The definition of a version, as it stands in the tables.  It may be wrong
 * in any way; check.c says how.  "name" is in the encoding of the server and
 * is what people are shown; "utf8" is what is hashed, sorted and
 * fingerprinted, and comes first for ring_compare_utf8.
 */
typedef struct RingShardDef
{
	RingName	utf8;
	RingName	name;
	uint32_t	nranges;
	const RingRange *ranges;	/* ascending, disjoint, not adjacent */
} RingShardDef;

typedef struct RingGroupDef
{
	RingName	utf8;
	RingName	name;
	uint32_t	slots;
	uint64_t	wanted_points;	/* round(vnodes * weight) */
	uint32_t	npoints;
	const uint32_t *points;		/* in the order they were taken */
	uint32_t	nshards;
	const RingShardDef *shards; /* ascending by utf8 */
} RingGroupDef;

typedef struct RingPinDef
{
	uint32_t	position;
	RingName	group_name;
	RingName	group_utf8;
	uint32_t	group;			/* index, or RING_NONE: a pin to nowhere */
} RingPinDef;

typedef struct RingDef
{
	HashKind	hash;
	bool		hash_tags;
	uint32_t	ngroups;
	const RingGroupDef *groups; /* ascending by utf8, distinct */
	uint32_t	npins;
	const RingPinDef *pins;		/* ascending by position, distinct */
} RingDef;

/*
 * Who owns which positions, as ascending arcs: arc i is every position in
 * [ends[i-1] + 1, ends[i]] and belongs to group owners[i].  Neighbours of one
 * group are merged, the arc over zero is cut in two, and ends[n-1] is always
 * 2^32 - 1; so the arc of a position is the first one whose end is not below
 * it, and no lookup ever wraps.  n is 0 for a ring without points.
 *
 * buckets[b] is the first arc whose end is not below b << shift: the table
 * over the top bits that replaces a binary search.  NULL where lookups are
 * not needed.
 */
typedef struct RingArcs
{
	uint32_t	n;
	uint32_t   *ends;
	uint32_t   *owners;
	uint32_t	shift;
	uint32_t   *buckets;
} RingArcs;

/*
 * A compiled group.  Run i is every slot in [run_ends[i-1], run_ends[i]) and
 * lies on shard run_shards[i]; the last run_end is the number of slots.
 */
typedef struct RingGroup
{
	RingName	utf8;
	RingName	name;
	uint32_t	slots;
	uint32_t	npoints;
	uint32_t	nruns;
	uint32_t   *run_ends;
	uint32_t   *run_shards;
} RingGroup;

typedef struct Ring
{
	HashKind	hash;
	bool		hash_tags;
	uint32_t	ngroups;
	RingGroup  *groups;			/* ascending by utf8, as in the definition */
	uint32_t	nshards;
	RingName   *shards;			/* distinct, ascending by utf8 */
	RingName   *shards_utf8;	/* the same in UTF-8: what is compared */
	uint32_t	npoints;
	uint32_t	ndoubled;		/* points on a position that was taken; only
								 * where check_structure was not asked */
	uint32_t	npins;
	RingArcs	arcs;			/* with pins: what routing uses */
	RingArcs	plain;			/* without pins; the same arrays, if none */
} Ring;

typedef struct RingPlace
{
	uint32_t	group;
	uint32_t	slot;
	uint32_t	shard;
} RingPlace;

typedef enum RingResult
{
	RING_OK,
	RING_INVALID,				/* the definition breaks a rule */
	RING_EXHAUSTED,				/* no free position was found */
	RING_NO_HASH				/* libcrypto gave no MD5 or SHA-256 */
} RingResult;

extern int	ring_name_compare(RingName a, RingName b);
extern int	ring_compare_utf8(const void *a, const void *b);
extern Ring *ring_build(const RingDef *def, const RingEnv *env);
extern void ring_sort_pieces(RingPiece *pieces, size_t n);
extern void ring_sort(uint32_t *keys, uint32_t *values, uint32_t *spare,
					  uint32_t n, const RingEnv *env);
extern uint32_t ring_arc(const RingArcs *arcs, uint32_t position);
extern void ring_locate(const Ring *ring, uint32_t position,
						RingPlace *place);
extern void ring_locate_shards(const Ring *ring, const uint32_t *positions,
							   uint32_t n, uint32_t *shards);
extern uint32_t ring_run(const RingGroup *group, uint32_t slot);
extern uint32_t ring_slot_shard(const RingGroup *group, uint32_t slot);
extern void ring_shares(const RingArcs *arcs, uint32_t ngroups,
						uint64_t *positions);

/* ---------- points.c: the choice of points ---------- */

/* Positions that are taken while points are chosen (open addressing). */
typedef struct PointsTaken
{
	uint32_t	mask;
	uint32_t	used;
	uint32_t	limit;
	uint64_t   *cells;			/* position + 1, or 0: free */
} PointsTaken;

/* How far the choice of a group's points has come. */
typedef struct PointsCursor
{
	uint32_t	n;				/* points it has */
	uint32_t	salt;			/* the candidate to go on with */
} PointsCursor;

/* Which positions some candidates may have: many others pass too. */
typedef struct PointsFilter
{
	uint32_t	shift;
	uint64_t   *bits;
} PointsFilter;

extern PointsTaken *points_taken_create(uint32_t capacity, const RingEnv *env);
extern bool points_taken_add(PointsTaken *taken, uint32_t position);
extern RingResult points_extend(HashKind hash, RingName utf8,
								PointsTaken *taken, uint32_t *points,
								uint32_t have, uint32_t want,
								const RingEnv *env);
extern RingResult points_resume(HashKind hash, RingName utf8,
								const uint32_t *points, PointsCursor *cursor,
								const RingEnv *env);
extern RingResult points_choose(HashKind hash, RingName utf8,
								PointsTaken *taken, uint32_t *points,
								PointsCursor *cursor, uint32_t want,
								uint32_t end, const RingEnv *env);
extern PointsFilter *points_filter_create(uint32_t candidates,
										  const RingEnv *env);
extern bool points_filter_add(PointsFilter *filter, HashKind hash,
							  RingName utf8, uint32_t salt, uint32_t end);
extern uint32_t points_filter_pick(const PointsFilter *filter,
								   const uint32_t *points, uint32_t n,
								   uint32_t *picked);
extern RingResult points_salts(HashKind hash, RingName utf8,
							   const uint32_t *points, uint32_t n,
							   uint32_t *salts, uint32_t *first_bad,
							   const RingEnv *env);

/* ---------- check.c: what is wrong with a definition ---------- */

/*
 * Called once for each fault with a sentence in the server's encoding (no
 * full stop, names in double quotes); return false to stop.
 */
typedef bool (*RingReport) (void *arg, const char *problem);

extern bool check_shape(const RingDef *def, const RingEnv *env,
						RingReport report, void *arg);
extern bool check_structure(const RingDef *def, const RingEnv *env,
							RingReport report, void *arg);
extern RingResult check_points(const RingDef *def, const RingEnv *env,
							   RingReport report, void *arg);

/* ---------- fingerprint.c: canonical bytes and their SHA-256 ---------- */

/* Takes the next piece; false to refuse it. */
typedef bool (*FingerprintTake) (void *arg, const uint8_t *bytes, size_t len);

extern bool fingerprint_bytes(const RingDef *def, FingerprintTake take,
							  void *arg);
extern bool fingerprint_hex(const RingDef *def, char hex[65]);

/* The zone of a group, both in UTF-8; no bytes: it has none. */
typedef struct RingZone
{
	RingName	group;			/* first, for ring_compare_utf8 */
	RingName	zone;
} RingZone;

extern bool fingerprint_zones_hex(const RingZone *zones, uint32_t n,
								  char hex[65]);

/* ---------- diff*.c: two rings to what moves ---------- */

/* Positions [lo, hi) that belong to from_group in one ring, to_group in the
 * other; the numbers are indexes into Ring.groups of either ring. */
typedef struct DiffSegment
{
	uint64_t	lo;
	uint64_t	hi;
	uint32_t	from_group;
	uint32_t	to_group;
} DiffSegment;

/* All segments of one pair of groups: [first, first + n) of the sorted list,
 * and how many positions they hold. */
typedef struct DiffPair
{
	uint32_t	from_group;
	uint32_t	to_group;
	uint32_t	first;
	uint32_t	n;
	uint64_t	positions;
} DiffPair;

typedef enum DiffScope
{
	DIFF_GROUPS,				/* where the name of the group differs */
	DIFF_SHARDS					/* where the shard may differ: also groups that
								 * stay but hold a slot elsewhere */
} DiffScope;

typedef struct DiffList
{
	uint32_t	nsegments;
	DiffSegment *segments;		/* by from_group, to_group, then lo */
	uint32_t	npairs;
	DiffPair   *pairs;
} DiffList;

/*
 * One line of a move plan.  What moves is every position of pair "pair" whose
 * slot in the from-group is in from_slots and whose slot in the to-group is
 * in to_slots; "positions" counts them exactly and is never 0.  Lines share
 * the arrays of slots, which nobody may change.
 */
typedef struct DiffMove
{
	uint32_t	pair;			/* index into DiffList.pairs */
	uint32_t	from_shard;		/* index into Ring.shards of the from-ring */
	uint32_t	to_shard;
	uint32_t	nfrom_slots;
	RingRange  *from_slots;
	uint32_t	nto_slots;
	RingRange  *to_slots;
	uint64_t	positions;
} DiffMove;

typedef struct DiffPlan
{
	DiffList	list;
	uint32_t	nmoves;
	DiffMove   *moves;			/* by pair, from_shard, to_shard */
} DiffPlan;

extern void diff_list(const Ring *from, const Ring *to, DiffScope scope,
					  const RingEnv *env, DiffList *list);
extern void diff_plan(const Ring *from, const Ring *to, const RingEnv *env,
					  DiffPlan *plan);
extern bool diff_moves(const Ring *from, const Ring *to, uint32_t position,
					   RingPlace *from_place, RingPlace *to_place);
extern void diff_shard_shares(const Ring *ring, const RingEnv *env,
							  uint64_t *positions);

#endif							/* SHARDRING_RING_H */
