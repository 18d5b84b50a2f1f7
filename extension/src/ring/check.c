/*
 * check.c
 *		What is wrong with a definition.
 *
 * Rules of this file:
 *	- check_structure accepts exactly what ring_build compiles right and
 *	  fingerprint.c writes unambiguously; check_points adds what hashing shows;
 *	- each fault is one sentence that names the place; neighbouring slots with
 *	  the same fault are one report;
 *	- after false from the caller nothing more is reported.
 */
#include "ring.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A name as the two arguments that "%.*s" takes. */
#define CHECK_NAME(name)	(int) (name).len, (name).bytes

typedef struct Checker
{
	const RingDef *def;
	const RingEnv *env;
	RingReport	report;
	void	   *arg;
	char	   *message;
	size_t		room;
	bool		dirty;			/* something was reported */
	bool		stopped;		/* the caller wants no more */
} Checker;

/* A subject and its verb: "slot 2" and "is", or "slots 2 to 5" and "are". */
typedef struct CheckSlots
{
	char		subject[40];
	const char *verb;
} CheckSlots;

static bool check_all(Checker checker, bool positions);
static bool check_sizes(Checker *checker);
static void check_groups(Checker *checker);
static void check_group(Checker *checker, const RingGroupDef *group);
static bool check_shards(Checker *checker, const RingGroupDef *group);
static bool check_ranges(Checker *checker, const RingGroupDef *group,
						 const RingShardDef *shard);
static void check_slots(Checker *checker, const RingGroupDef *group);
static uint32_t check_collect(Checker *checker, const RingGroupDef *group,
							  RingPiece **pieces);
static void check_outside(Checker *checker, const RingGroupDef *group,
						  const RingShardDef *shard, RingRange range);
static void check_overlap(Checker *checker, const RingGroupDef *group,
						  const RingPiece *a, const RingPiece *b);
static void check_hole(Checker *checker, const RingGroupDef *group,
					   uint32_t lo, uint32_t hi);
static CheckSlots check_name_slots(uint32_t lo, uint32_t hi);
static void check_positions(Checker *checker);
static void check_same_position(Checker *checker, uint32_t position,
								uint32_t a, uint32_t b);
static void check_pins(Checker *checker);
static RingResult check_candidates(Checker *checker,
								   const RingGroupDef *group,
								   uint32_t *salts);
static void check_say(Checker *checker, const char *format,...)
			__attribute__((format(printf, 2, 3)));

/*
 * Whether the definition can be compiled.  Needs no hash.
 */
bool
check_structure(const RingDef *def, const RingEnv *env, RingReport report,
				void *arg)
{
	return check_all((Checker) {def, env, report, arg, NULL, 0, false, false},
					 true);
}

/*
 * Like check_structure, for a caller that is about to build the ring, which
 * finds equal positions itself (Ring.ndoubled).
 */
bool
check_shape(const RingDef *def, const RingEnv *env, RingReport report,
			void *arg)
{
	return check_all((Checker) {def, env, report, arg, NULL, 0, false, false},
					 false);
}

/* check_structure, with or without looking for equal positions. */
static bool
check_all(Checker checker, bool positions)
{
	if (!check_sizes(&checker))
		return false;
	check_groups(&checker);
	if (positions)
		check_positions(&checker);
	check_pins(&checker);
	return !checker.dirty;
}

/*
 * Whether every group has the points it should have: as many as its weight
 * says, candidates in ascending order.  RING_INVALID: something was reported;
 * RING_NO_HASH: it cannot be determined.
 */
RingResult
check_points(const RingDef *def, const RingEnv *env, RingReport report,
			 void *arg)
{
	Checker		checker = {def, env, report, arg, NULL, 0, false, false};
	uint32_t	most = 1;
	uint32_t   *salts;
	uint32_t	i;

	for (i = 0; i < def->ngroups; i++)
		if (def->groups[i].npoints > most)
			most = def->groups[i].npoints;
	salts = env->alloc(env->arg, most * sizeof(uint32_t));
	for (i = 0; i < def->ngroups && !checker.stopped; i++)
		if (check_candidates(&checker, &def->groups[i],
							 salts) == RING_NO_HASH)
			return RING_NO_HASH;
	return checker.dirty ? RING_INVALID : RING_OK;
}

/*
 * Checks the limits of the whole version.  False if it is too large to
 * examine.
 */
static bool
check_sizes(Checker *checker)
{
	const RingDef *def = checker->def;
	uint64_t	npoints = 0;
	uint32_t	i;

	for (i = 0; i < def->ngroups; i++)
		npoints += def->groups[i].npoints;
	if (def->hash == HASH_CRC16 && def->ngroups > 1)
		check_say(checker, "the version has %" PRIu32 " groups, but hash"
				  " crc16 allows one", def->ngroups);
	if (npoints > RING_MAX_POINTS)
		check_say(checker, "the version has %" PRIu64 " points, but at most"
				  " %d are allowed", npoints, RING_MAX_POINTS);
	return npoints <= RING_MAX_POINTS;
}

/* Checks every group by itself, and their order. */
static void
check_groups(Checker *checker)
{
	const RingDef *def = checker->def;
	uint32_t	i;

	for (i = 0; i < def->ngroups && !checker->stopped; i++)
	{
		const RingGroupDef *group = &def->groups[i];

		check_group(checker, group);
		if (i > 0 && ring_name_compare(def->groups[i - 1].utf8,
									   group->utf8) >= 0)
			check_say(checker, "group \"%.*s\" is listed twice or out of"
					  " order", CHECK_NAME(group->name));
		checker->env->pause(checker->env->arg);
	}
}

/* Checks one group by itself, and its slots if they can be compared. */
static void
check_group(Checker *checker, const RingGroupDef *group)
{
	if (group->utf8.len < 1 || group->utf8.len > RING_MAX_GROUP_NAME)
		check_say(checker, "the name of group \"%.*s\" has %" PRIu32
				  " bytes, but must have 1 to %d", CHECK_NAME(group->name),
				  group->utf8.len, RING_MAX_GROUP_NAME);
	if (checker->def->hash == HASH_CRC16 &&
		group->npoints > RING_MAX_CRC16_POINTS)
		check_say(checker, "group \"%.*s\" has %" PRIu32 " points, but hash"
				  " crc16 allows at most %d", CHECK_NAME(group->name),
				  group->npoints, RING_MAX_CRC16_POINTS);
	if (group->slots < 1 || group->slots > RING_MAX_SLOTS)
		check_say(checker, "group \"%.*s\" has %" PRIu32 " slots, but must"
				  " have 1 to %d", CHECK_NAME(group->name), group->slots,
				  RING_MAX_SLOTS);
	else if (group->nshards == 0)
		check_say(checker, "group \"%.*s\" is not on any shard",
				  CHECK_NAME(group->name));
	else if (check_shards(checker, group))
		check_slots(checker, group);
}

/*
 * Whether the shards of a group can be compared slot by slot.
 */
static bool
check_shards(Checker *checker, const RingGroupDef *group)
{
	bool		comparable = true;
	uint32_t	i;

	for (i = 0; i < group->nshards; i++)
	{
		const RingShardDef *shard = &group->shards[i];

		if (shard->utf8.len < 1 || shard->utf8.len > RING_MAX_SHARD_NAME)
			check_say(checker, "the name of shard \"%.*s\" has %" PRIu32
					  " bytes, but must have 1 to %d",
					  CHECK_NAME(shard->name), shard->utf8.len,
					  RING_MAX_SHARD_NAME);
		if (i > 0 && ring_name_compare(group->shards[i - 1].utf8,
									   shard->utf8) >= 0)
			check_say(checker, "shard \"%.*s\" of group \"%.*s\" is listed"
					  " twice or out of order", CHECK_NAME(shard->name),
					  CHECK_NAME(group->name));
		if (!check_ranges(checker, group, shard))
			comparable = false;
	}
	return comparable;
}

/*
 * Whether the slots of one shard are in the form of a multirange.
 */
static bool
check_ranges(Checker *checker, const RingGroupDef *group,
			 const RingShardDef *shard)
{
	uint32_t	i;

	if (shard->nranges == 0)
		check_say(checker, "shard \"%.*s\" of group \"%.*s\" holds no slots",
				  CHECK_NAME(shard->name), CHECK_NAME(group->name));
	for (i = 0; i < shard->nranges; i++)
	{
		if (shard->ranges[i].lo < shard->ranges[i].hi &&
			(i == 0 || shard->ranges[i].lo > shard->ranges[i - 1].hi))
			continue;
		check_say(checker, "the slots of group \"%.*s\" on shard \"%.*s\" are"
				  " out of order at slot %" PRIu32, CHECK_NAME(group->name),
				  CHECK_NAME(shard->name), shard->ranges[i].lo);
		return false;
	}
	return true;
}

/*
 * Checks that every slot is on exactly one shard.  Goes through the pieces by
 * their first slot; "last" reaches furthest of those that were seen.
 */
static void
check_slots(Checker *checker, const RingGroupDef *group)
{
	RingPiece  *pieces;
	uint32_t	n = check_collect(checker, group, &pieces);
	RingPiece	last = {0, 0, 0};
	uint32_t	i;

	for (i = 0; i < n && !checker->stopped; i++)
	{
		if (pieces[i].lo > last.hi)
			check_hole(checker, group, last.hi, pieces[i].lo);
		else if (pieces[i].lo < last.hi)
			check_overlap(checker, group, &last, &pieces[i]);
		if (pieces[i].hi > last.hi)
			last = pieces[i];
	}
	if (last.hi < group->slots)
		check_hole(checker, group, last.hi, group->slots);
}

/*
 * The pieces of a group by their first slot, cut to the slots that the group
 * has.
 */
static uint32_t
check_collect(Checker *checker, const RingGroupDef *group,
			  RingPiece **pieces)
{
	size_t		total = 0;
	uint32_t	n = 0;
	uint32_t	s;
	uint32_t	r;

	for (s = 0; s < group->nshards; s++)
		total += group->shards[s].nranges;
	*pieces = checker->env->alloc(checker->env->arg,
								  (total + 1) * sizeof(RingPiece));
	for (s = 0; s < group->nshards; s++)
	{
		for (r = 0; r < group->shards[s].nranges; r++)
		{
			RingRange	range = group->shards[s].ranges[r];

			if (range.hi > group->slots)
			{
				check_outside(checker, group, &group->shards[s], range);
				range.hi = group->slots;
			}
			if (range.lo < range.hi)
				(*pieces)[n++] = (RingPiece) {range.lo, range.hi, s};
		}
	}
	ring_sort_pieces(*pieces, n);
	return n;
}

/* Reports slots the group does not have. */
static void
check_outside(Checker *checker, const RingGroupDef *group,
			  const RingShardDef *shard, RingRange range)
{
	CheckSlots	slots;

	if (range.lo < group->slots)
		range.lo = group->slots;
	slots = check_name_slots(range.lo, range.hi);
	check_say(checker, "%s of group \"%.*s\" on shard \"%.*s\" %s outside 0"
			  " to %" PRIu32, slots.subject, CHECK_NAME(group->name),
			  CHECK_NAME(shard->name), slots.verb, group->slots - 1);
}

/* Reports slots on two shards. */
static void
check_overlap(Checker *checker, const RingGroupDef *group,
			  const RingPiece *a, const RingPiece *b)
{
	CheckSlots	slots;

	slots = check_name_slots(b->lo, (a->hi < b->hi) ? a->hi : b->hi);
	check_say(checker, "%s of group \"%.*s\" %s on both shard \"%.*s\" and"
			  " shard \"%.*s\"", slots.subject, CHECK_NAME(group->name),
			  slots.verb, CHECK_NAME(group->shards[a->shard].name),
			  CHECK_NAME(group->shards[b->shard].name));
}

/* Reports slots that are not on any shard. */
static void
check_hole(Checker *checker, const RingGroupDef *group, uint32_t lo,
		   uint32_t hi)
{
	CheckSlots	slots = check_name_slots(lo, hi);

	check_say(checker, "%s of group \"%.*s\" %s not on any shard",
			  slots.subject, CHECK_NAME(group->name), slots.verb);
}

/* The subject and verb of a sentence about the slots [lo, hi). */
static CheckSlots
check_name_slots(uint32_t lo, uint32_t hi)
{
	CheckSlots	slots;

	slots.verb = (hi - lo == 1) ? "is" : "are";
	if (hi - lo == 1)
		snprintf(slots.subject, sizeof(slots.subject), "slot %" PRIu32, lo);
	else
		snprintf(slots.subject, sizeof(slots.subject),
				 "slots %" PRIu32 " to %" PRIu32, lo, hi - 1);
	return slots;
}

/*
 * Checks that no position is a point twice.
 */
static void
check_positions(Checker *checker)
{
	const RingDef *def = checker->def;
	const RingEnv *env = checker->env;
	uint32_t	n = 0;
	uint32_t   *positions;
	uint32_t   *owners;
	uint32_t	g;
	uint32_t	i;

	for (g = 0; g < def->ngroups; g++)
		n += def->groups[g].npoints;
	positions = ring_alloc(env, n, sizeof(uint32_t));
	owners = ring_alloc(env, n, sizeof(uint32_t));
	for (g = 0, n = 0; g < def->ngroups; g++)
	{
		for (i = 0; i < def->groups[g].npoints; i++)
		{
			positions[n] = def->groups[g].points[i];
			owners[n++] = g;
		}
	}
	ring_sort(positions, owners, NULL, n, env);
	for (i = 1; i < n && !checker->stopped; i++)
	{
		if (positions[i] != positions[i - 1])
			continue;
		if (i < 2 || positions[i - 2] != positions[i] ||
			owners[i - 2] != owners[i - 1] || owners[i - 1] != owners[i])
			check_same_position(checker, positions[i], owners[i - 1],
								owners[i]);
	}
}

/* Reports a position that two points have. */
static void
check_same_position(Checker *checker, uint32_t position, uint32_t a,
					uint32_t b)
{
	const RingGroupDef *groups = checker->def->groups;

	if (a == b)
		check_say(checker, "position %" PRIu32 " is a point of group"
				  " \"%.*s\" twice", position, CHECK_NAME(groups[a].name));
	else
		check_say(checker, "position %" PRIu32 " is a point of both group"
				  " \"%.*s\" and group \"%.*s\"", position,
				  CHECK_NAME(groups[a].name), CHECK_NAME(groups[b].name));
}

/* Checks that every pin leads to the group it names, and their order. */
static void
check_pins(Checker *checker)
{
	const RingDef *def = checker->def;
	uint32_t	i;

	for (i = 0; i < def->npins && !checker->stopped; i++)
	{
		const RingPinDef *pin = &def->pins[i];

		if (pin->group >= def->ngroups)
			check_say(checker, "pin at position %" PRIu32 " names group"
					  " \"%.*s\", which is not in the version",
					  pin->position, CHECK_NAME(pin->group_name));
		else if (ring_name_compare(pin->group_utf8,
								   def->groups[pin->group].utf8) != 0)
			check_say(checker, "pin at position %" PRIu32 " names group"
					  " \"%.*s\", but leads to group \"%.*s\"",
					  pin->position, CHECK_NAME(pin->group_name),
					  CHECK_NAME(def->groups[pin->group].name));
		if (i > 0 && pin->position <= def->pins[i - 1].position)
			check_say(checker, "pin at position %" PRIu32 " is listed twice"
					  " or out of order", pin->position);
	}
}

/*
 * A point is shown with its subscript in shard_group.points, from 1.
 */
static RingResult
check_candidates(Checker *checker, const RingGroupDef *group, uint32_t *salts)
{
	RingResult	result;
	uint32_t	bad;

	if (group->npoints != group->wanted_points)
		check_say(checker, "group \"%.*s\" has %" PRIu32 " point%s, but should"
				  " have %" PRIu64, CHECK_NAME(group->name), group->npoints,
				  (group->npoints == 1) ? "" : "s", group->wanted_points);
	result = points_salts(checker->def->hash, group->utf8, group->points,
						group->npoints, salts, &bad, checker->env);
	if (result == RING_INVALID)
		check_say(checker, "point %" PRIu32 " (number %" PRIu32 ") of group"
				  " \"%.*s\" is not a candidate of the group, in ascending"
				  " order", group->points[bad], bad + 1,
				  CHECK_NAME(group->name));
	return result;
}

/*
 * Report one fault.  The sentence lives until the next one.
 */
static void
check_say(Checker *checker, const char *format,...)
{
	va_list		args;
	int			len;

	checker->dirty = true;
	if (checker->stopped)
		return;
	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (checker->room <= (size_t) len)
	{
		checker->room = 2 * (size_t) len + 1;
		checker->message = checker->env->alloc(checker->env->arg,
											   checker->room);
	}
	va_start(args, format);
	vsnprintf(checker->message, checker->room, format, args);
	va_end(args);
	checker->stopped = !checker->report(checker->arg, checker->message);
}
