/*
 * move_plan.c
 *		What moves between two versions: ranges, slots, single keys.
 *
 * Both versions come from the cache; diff.c compares them.  Positions and
 * shares are exact.  All functions are STRICT.
 */
#include "shardring.h"

#include "miscadmin.h"

/* The names in both rings as text, by their numbers there. */
typedef struct MoveNames
{
	Datum	   *from_groups;
	Datum	   *to_groups;
	Datum	   *from_shards;
	Datum	   *to_shards;
} MoveNames;

static void put_move(ReturnSetInfo *set, const MoveNames *names,
					 const DiffMove *move, const DiffPair *pair,
					 Datum positions);
static Datum moves(FunctionCallInfo fcinfo, KeyType type);

PG_FUNCTION_INFO_V1(shardring_moved_ranges);
PG_FUNCTION_INFO_V1(shardring_move_plan);
PG_FUNCTION_INFO_V1(shardring_moves_text);
PG_FUNCTION_INFO_V1(shardring_moves_int8);
PG_FUNCTION_INFO_V1(shardring_moves_uuid);

/*
 * moved_ranges(ring, from_version, to_version): where the group differs, one
 * row per pair of groups.
 */
Datum
shardring_moved_ranges(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RingPair	rings = memo_pair(memo_call_site(fcinfo),
								  PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								  PG_GETARG_INT32(2));
	Datum	   *from_names = result_group_names(rings.from);
	Datum	   *to_names = result_group_names(rings.to);
	DiffList	list;

	diff_list(rings.from, rings.to, DIFF_GROUPS, &shardring_env, &list);
	for (uint32 i = 0; i < list.npairs; i++)
	{
		const DiffPair *pair = &list.pairs[i];
		bool		nulls[4] = {0};
		Datum		values[4];

		values[0] = from_names[pair->from_group];
		values[1] = to_names[pair->to_group];
		values[2] = result_positions(list.segments + pair->first, pair->n);
		values[3] = result_share(pair->positions);
		result_put(set, values, nulls);
	}
	return (Datum) 0;
}

/*
 * move_plan(ring, from_version, to_version): where the shard differs, as
 * disjoint rows of positions and slots.
 */
Datum
shardring_move_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RingPair	rings = memo_pair(memo_call_site(fcinfo),
								  PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								  PG_GETARG_INT32(2));
	MoveNames	names = {
		result_group_names(rings.from), result_group_names(rings.to),
		result_shard_names(rings.from), result_shard_names(rings.to)
	};
	MemoryContext old = CurrentMemoryContext;
	MemoryContext per_pair = AllocSetContextCreate(old, "shardring pair",
												   ALLOCSET_DEFAULT_SIZES);
	MemoryContext per_move = AllocSetContextCreate(old, "shardring move",
												   ALLOCSET_DEFAULT_SIZES);
	Datum		positions = (Datum) 0;
	DiffPlan	plan;

	diff_plan(rings.from, rings.to, &shardring_env, &plan);
	for (uint32 i = 0; i < plan.nmoves; i++)
	{
		const DiffMove *move = &plan.moves[i];
		const DiffPair *pair = &plan.list.pairs[move->pair];

		CHECK_FOR_INTERRUPTS();
		/* all moves of a pair share its positions */
		if (i == 0 || move->pair != plan.moves[i - 1].pair)
		{
			MemoryContextReset(per_pair);
			MemoryContextSwitchTo(per_pair);
			positions = result_positions(plan.list.segments + pair->first,
										 pair->n);
		}
		MemoryContextSwitchTo(per_move);
		put_move(set, &names, move, pair, positions);
		MemoryContextReset(per_move);
	}
	MemoryContextSwitchTo(old);
	return (Datum) 0;
}

/*
 * moves(ring, from_version, to_version, key): does the key change its shard?
 */
Datum
shardring_moves_text(PG_FUNCTION_ARGS)
{
	return moves(fcinfo, KEY_TEXT);
}

Datum
shardring_moves_int8(PG_FUNCTION_ARGS)
{
	return moves(fcinfo, KEY_INT8);
}

Datum
shardring_moves_uuid(PG_FUNCTION_ARGS)
{
	return moves(fcinfo, KEY_UUID);
}

/*
 * Adds a row of the plan.
 */
static void
put_move(ReturnSetInfo *set, const MoveNames *names, const DiffMove *move,
		 const DiffPair *pair, Datum positions)
{
	bool		nulls[8] = {0};
	Datum		values[8];

	values[0] = names->from_shards[move->from_shard];
	values[1] = names->to_shards[move->to_shard];
	values[2] = names->from_groups[pair->from_group];
	values[3] = names->to_groups[pair->to_group];
	values[4] = result_slots(move->from_slots, move->nfrom_slots);
	values[5] = result_slots(move->to_slots, move->nto_slots);
	values[6] = positions;
	values[7] = result_share(move->positions);
	result_put(set, values, nulls);
}

/*
 * moves for keys of one type; the hash is the same in all versions.
 */
static Datum
moves(FunctionCallInfo fcinfo, KeyType type)
{
	RingPair	rings = memo_routable_pair(memo_call_site(fcinfo),
										   PG_GETARG_TEXT_PP(0),
										   PG_GETARG_INT32(1),
										   PG_GETARG_INT32(2));
	uint32		position = key_position_on(rings.from, type,
										   PG_GETARG_DATUM(3));
	RingPlace	from_place;
	RingPlace	to_place;

	PG_RETURN_BOOL(diff_moves(rings.from, rings.to, position, &from_place,
							  &to_place));
}
