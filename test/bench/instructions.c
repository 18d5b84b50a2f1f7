/*
 * instructions.c
 *		Fixed work for the pure part, to be counted in instructions.
 *
 *		instructions hash | lookup | build | check | canon | diff | plan | none
 *
 * Every kind of work makes the same two rings of 80,000 points first, with a
 * cheap hash; "none" does only that.  So what a kind costs is its count less
 * the count of "none".
 */
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS		500
#define POINTS		160
#define SLOTS		16
#define KEYS		20000

static void *env_alloc(void *arg, size_t size);
static void env_pause(void *arg);
static RingDef make_def(uint32_t ngroups);
static RingGroupDef make_group(uint32_t number, PointsTaken *taken);
static RingName make_name(const char *prefix, uint32_t number);
static bool no_report(void *arg, const char *problem);
static void work(const char *kind, const RingDef *def, const Ring *from,
				 const Ring *to);

static const RingEnv env = {env_alloc, env_pause, NULL};

/* What the work found, so that no compiler leaves it out. */
static uint64_t found = 0;

int
main(int argc, char **argv)
{
	RingDef		from_def = make_def(GROUPS);
	RingDef		to_def = make_def(GROUPS + 1);
	Ring	   *from = ring_build(&from_def, &env);
	Ring	   *to = ring_build(&to_def, &env);
	uint32_t	position;

	/* libcrypto is opened by the first hash */
	if (argc != 2 || !hash_once(HASH_MD5, "", 0, &position))
		return EXIT_FAILURE;
	work(argv[1], &to_def, from, to);
	printf("%llu\n", (unsigned long long) found);
	return EXIT_SUCCESS;
}

static void
work(const char *kind, const RingDef *def, const Ring *from, const Ring *to)
{
	uint32_t	position = 0;
	RingPlace	place;
	DiffList	list;
	DiffPlan	plan;
	char		hex[65];
	char		key[12] = "user:123";
	uint32_t	i;

	if (strcmp(kind, "hash") == 0)
		for (i = 0; i < KEYS; i++)
		{
			memcpy(key + 8, &i, sizeof(i));
			if (!hash_once(HASH_MD5, key, 12, &position))
				exit(EXIT_FAILURE);
			found += position;
		}
	else if (strcmp(kind, "lookup") == 0)
		for (i = 0; i < KEYS; i++)
		{
			ring_locate(to, i * UINT32_C(2654435769), &place);
			found += place.shard;
		}
	else if (strcmp(kind, "build") == 0)
		found += ring_build(def, &env)->arcs.n;
	else if (strcmp(kind, "check") == 0)
		found += check_structure(def, &env, no_report, NULL);
	else if (strcmp(kind, "canon") == 0)
		found += fingerprint_hex(def, hex);
	else if (strcmp(kind, "diff") == 0)
	{
		diff_list(from, to, DIFF_GROUPS, &env, &list);
		found += list.nsegments;
	}
	else if (strcmp(kind, "plan") == 0)
	{
		diff_plan(from, to, &env, &plan);
		found += plan.nmoves;
	}
	else if (strcmp(kind, "none") != 0)
		exit(EXIT_FAILURE);
}

/*
 * Groups node-0, node-1 ... of 16 slots on 4 shards.
 */
static RingDef
make_def(uint32_t ngroups)
{
	RingGroupDef *groups = env_alloc(NULL, ngroups * sizeof(RingGroupDef));
	PointsTaken  *taken = points_taken_create(ngroups * POINTS, &env);
	uint32_t	i;

	for (i = 0; i < ngroups; i++)
		groups[i] = make_group(i, taken);
	return (RingDef) {HASH_MURMUR3, false, ngroups, groups, 0, NULL};
}

static RingGroupDef
make_group(uint32_t number, PointsTaken *taken)
{
	RingGroupDef group = {0};
	uint32_t   *points = env_alloc(NULL, POINTS * sizeof(uint32_t));
	RingShardDef *shards = env_alloc(NULL, 4 * sizeof(RingShardDef));
	RingRange  *ranges = env_alloc(NULL, 4 * sizeof(RingRange));
	uint32_t	i;

	/* as many digits for each, so that the names are in order */
	group.name = group.utf8 = make_name("node-", number);
	group.slots = SLOTS;
	group.wanted_points = group.npoints = POINTS;
	group.points = points;
	group.nshards = 4;
	group.shards = shards;
	if (points_extend(HASH_MURMUR3, group.utf8, taken, points, 0, POINTS,
					&env) != RING_OK)
		exit(EXIT_FAILURE);
	for (i = 0; i < 4; i++)
	{
		ranges[i] = (RingRange) {i * SLOTS / 4, (i + 1) * SLOTS / 4};
		shards[i].name = shards[i].utf8 = make_name("shard-", 4 * number + i);
		shards[i].nranges = 1;
		shards[i].ranges = &ranges[i];
	}
	return group;
}

static RingName
make_name(const char *prefix, uint32_t number)
{
	char	   *name = env_alloc(NULL, 32);

	return (RingName) {name, (uint32_t) sprintf(name, "%s%05u", prefix,
												number)};
}

static bool
no_report(void *arg, const char *problem)
{
	(void) arg;
	fprintf(stderr, "%s\n", problem);
	return true;
}

static void *
env_alloc(void *arg, size_t size)
{
	void	   *block = malloc(size);

	(void) arg;
	if (block == NULL)
		exit(EXIT_FAILURE);
	return block;
}

static void
env_pause(void *arg)
{
	(void) arg;
}
