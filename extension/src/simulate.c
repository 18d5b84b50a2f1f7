/*
 * simulate.c
 *		A ring compared with other ways to distribute keys, before it exists.
 *
 * No table is read: groups, keys and points are made from numbers by the pure
 * part.  Limits are checked before anything is allocated.
 */
#include "shardring.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/builtins.h"

#define SIM_SLOTS		16384

/* Ways to distribute keys, in the order of the rows. */
typedef enum SimScheme
{
	SIM_MODULO,
	SIM_RING,
	SIM_SLOTS_ONLY,
	SIM_SCHEMES
} SimScheme;

typedef struct Simulation
{
	uint32		before;			/* how many groups */
	uint32		after;
	HashKind	hash;
	Ring	   *ring_before;
	Ring	   *ring_after;
	uint32		slots_before[SIM_SLOTS];	/* the group of each slot */
	uint32		slots_after[SIM_SLOTS];
	uint64		moved[SIM_SCHEMES];
	uint64	   *keys[SIM_SCHEMES];	/* of each group afterwards */
} Simulation;

static uint32 sim_number(int32 number, const char *name);
static void sim_check_points(HashKind hash, uint64 points);
static void sim_build_rings(Simulation *sim, uint32 vnodes);
static void sim_choose_points(HashKind hash, RingGroupDef *group, uint32 n,
							  PointsTaken *taken);
static RingName sim_name(uint32 i);
static void sim_deal_slots(Simulation *sim);
static void sim_targets(const Simulation *sim, uint32 *targets);
static void sim_key(Simulation *sim, uint32 position);
static void sim_put(ReturnSetInfo *set, const Simulation *sim,
					const char *name, SimScheme scheme, uint32 keys);

PG_FUNCTION_INFO_V1(shardring_simulate);

/*
 * simulate(groups_before, groups_after, vnodes, keys, hash): what four ways to
 * distribute keys "user:0" ... over groups "node-0" ... move, and how even
 * they are.
 *
 * Slots inside the groups of a ring never change a key's group, so the last
 * row repeats the ring's: that is what they are for.
 */
Datum
shardring_simulate(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	Simulation *sim = palloc0(sizeof(Simulation));
	uint32		vnodes = sim_number(PG_GETARG_INT32(2), "vnodes");
	uint32		keys = sim_number(PG_GETARG_INT32(3), "keys");

	sim->before = sim_number(PG_GETARG_INT32(0), "groups_before");
	sim->after = sim_number(PG_GETARG_INT32(1), "groups_after");
	sim->hash = key_hash_kind(PG_GETARG_TEXT_PP(4));
	sim_check_points(sim->hash,
					 (uint64) Max(sim->before, sim->after) * vnodes);
	sim_build_rings(sim, vnodes);
	sim_deal_slots(sim);
	for (int i = 0; i < SIM_SCHEMES; i++)
		sim->keys[i] = palloc0(sim->after * sizeof(uint64));
	for (uint32 i = 0; i < keys; i++)
	{
		char		key[32];
		int			len = snprintf(key, sizeof(key), "user:%u", i);

		CHECK_FOR_INTERRUPTS();
		sim_key(sim, key_bytes_position(sim->hash, key, len));
	}
	sim_put(set, sim, "modulo", SIM_MODULO, keys);
	sim_put(set, sim, "ring", SIM_RING, keys);
	sim_put(set, sim, "slots", SIM_SLOTS_ONLY, keys);
	sim_put(set, sim, "ring+slots", SIM_RING, keys);
	return (Datum) 0;
}

/*
 * A count, which must be at least 1.
 */
static uint32
sim_number(int32 number, const char *name)
{
	if (number < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at least 1", name)));
	return number;
}

/*
 * 54000 when the larger ring would have too many points for its hash.
 */
static void
sim_check_points(HashKind hash, uint64 points)
{
	uint64		limit = hash == HASH_CRC16 ? RING_MAX_CRC16_POINTS :
		RING_MAX_POINTS;

	if (points > limit)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many points"),
				 errdetail("The larger ring would have " UINT64_FORMAT
						   " points; at most " UINT64_FORMAT " are allowed.",
						   points, limit)));
}

/*
 * Both rings.  Points stay, so the smaller ring is the larger one without
 * its last groups, whichever of them came first.
 */
static void
sim_build_rings(Simulation *sim, uint32 vnodes)
{
	uint32		n = Max(sim->before, sim->after);
	RingGroupDef *groups = palloc_extended(n * sizeof(RingGroupDef),
										   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	PointsTaken  *taken = points_taken_create(n * vnodes, &shardring_env);
	RingDef		def = {.hash = sim->hash, .groups = groups};

	for (uint32 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		groups[i].name = groups[i].utf8 = sim_name(i);
		groups[i].slots = 1;
		sim_choose_points(sim->hash, &groups[i], vnodes, taken);
	}
	def.ngroups = sim->before;
	sim->ring_before = ring_build(&def, &shardring_env);
	def.ngroups = sim->after;
	sim->ring_after = ring_build(&def, &shardring_env);
}

/*
 * Gives a group its points.
 */
static void
sim_choose_points(HashKind hash, RingGroupDef *group, uint32 n,
				  PointsTaken *taken)
{
	uint32	   *points = palloc(n * sizeof(uint32));

	env_extend_points(hash, group->utf8, taken, points, 0, n);
	group->points = points;
	group->npoints = n;
}

/*
 * The name of a group.
 */
static RingName
sim_name(uint32 i)
{
	char	   *name = psprintf("node-%u", i);

	return (RingName) {name, strlen(name)};
}

/*
 * Slots are dealt out in contiguous blocks at first, as add_group does.  Then
 * only those go to another group that have to: every group keeps its slots
 * up to its target.
 */
static void
sim_deal_slots(Simulation *sim)
{
	uint32	   *targets = palloc0(sim->after * sizeof(uint32));
	uint32		taker = 0;

	for (uint32 s = 0; s < SIM_SLOTS; s++)
		sim->slots_before[s] = (uint64) s * sim->before / SIM_SLOTS;
	sim_targets(sim, targets);
	for (uint32 s = 0; s < SIM_SLOTS; s++)
	{
		uint32		group = sim->slots_before[s];

		sim->slots_after[s] = RING_NONE;
		if (group < sim->after && targets[group] > 0)
		{
			sim->slots_after[s] = group;
			targets[group]--;
		}
	}
	for (uint32 s = 0; s < SIM_SLOTS; s++)
	{
		if (sim->slots_after[s] != RING_NONE)
			continue;
		while (targets[taker] == 0)
			taker++;
		sim->slots_after[s] = taker;
		targets[taker]--;
	}
}

/*
 * How many slots each group is to have: all the same, and where that leaves
 * some over, one more for groups that have them already.
 */
static void
sim_targets(const Simulation *sim, uint32 *targets)
{
	uint32		base = SIM_SLOTS / sim->after;
	uint32		over = SIM_SLOTS % sim->after;

	for (uint32 s = 0; s < SIM_SLOTS; s++)
		if (sim->slots_before[s] < sim->after)
			targets[sim->slots_before[s]]++;
	for (uint32 g = 0; g < sim->after; g++)
	{
		bool		more = over > 0 && targets[g] > base;

		targets[g] = base + more;
		over -= more;
	}
	for (uint32 g = 0; over > 0; g++)
	{
		if (targets[g] == base)
		{
			targets[g]++;
			over--;
		}
	}
}

/*
 * Counts one key for every scheme.
 */
static void
sim_key(Simulation *sim, uint32 position)
{
	const RingArcs *arcs_before = &sim->ring_before->arcs;
	const RingArcs *arcs_after = &sim->ring_after->arcs;
	uint32		groups[SIM_SCHEMES][2];

	groups[SIM_MODULO][0] = position % sim->before;
	groups[SIM_MODULO][1] = position % sim->after;
	groups[SIM_RING][0] = arcs_before->owners[ring_arc(arcs_before, position)];
	groups[SIM_RING][1] = arcs_after->owners[ring_arc(arcs_after, position)];
	groups[SIM_SLOTS_ONLY][0] = sim->slots_before[position % SIM_SLOTS];
	groups[SIM_SLOTS_ONLY][1] = sim->slots_after[position % SIM_SLOTS];
	for (int i = 0; i < SIM_SCHEMES; i++)
	{
		sim->moved[i] += groups[i][0] != groups[i][1];
		sim->keys[i][groups[i][1]]++;
	}
}

/*
 * Adds the row of a scheme, in shares of all keys.
 */
static void
sim_put(ReturnSetInfo *set, const Simulation *sim, const char *name,
		SimScheme scheme, uint32 keys)
{
	double		mean = 1.0 / sim->after;
	uint64		largest = 0;
	uint64		smallest = keys;
	double		squares = 0;
	bool		nulls[5] = {0};
	Datum		values[5];

	for (uint32 g = 0; g < sim->after; g++)
	{
		uint64		n = sim->keys[scheme][g];
		double		off = (double) n / keys - mean;

		largest = Max(largest, n);
		smallest = Min(smallest, n);
		squares += off * off;
	}
	values[0] = CStringGetTextDatum(name);
	values[1] = Float8GetDatum((double) sim->moved[scheme] / keys);
	values[2] = Float8GetDatum((double) largest / keys);
	values[3] = Float8GetDatum((double) smallest / keys);
	values[4] = Float8GetDatum(sqrt(squares / sim->after));
	result_put(set, values, nulls);
}
