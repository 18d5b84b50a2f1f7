/*
 * replicas.c
 *		Where do the copies of a key go?
 *
 * Rules of this file:
 *	- rank 1 is what locate answers, a pin included; the other copies follow
 *	  the ring clockwise, pins aside, so that a pin moves one copy only;
 *	- a group counts once; groups in zones that hold no copy yet come first,
 *	  then the others, both in the order of the ring;
 *	- a group without a zone stands in a zone of its own;
 *	- zones decide no routing, so a compiled ring does not have them: they
 *	  are read from the rows, once for each answer of the call site's memo;
 *	  rows of other groups than the ring's are refused.
 */
#include "shardring.h"

/* The zones of a version, by the numbers of its groups. */
typedef struct PlaceZones
{
	uint64		serial;			/* of the answer they belong to; 0: not read */
	MemoryContext context;
	text	  **names;			/* NULL where a group has none */
	uint32	   *numbers;		/* equal for groups in one zone */
	uint32		n;
	bool	   *on_ring;		/* has the zone a group with points? */
	uint32		n_on_ring;		/* how many have */
} PlaceZones;

/* Groups in the order of the copies they get. */
typedef struct Placing
{
	const Ring *ring;
	const PlaceZones *zones;
	uint32		wanted;
	bool	   *group_seen;
	bool	   *zone_used;
	uint32		zones_left;		/* zones on the ring that hold no copy */
	uint32		nchosen;
	uint32	   *chosen;
	uint32		ndeferred;
	uint32	   *deferred;		/* their zones hold a copy already */
} Placing;

static Datum replicas(FunctionCallInfo fcinfo, KeyType type);
static const PlaceZones *place_zones(CallSite *site, text *ring_name);
static void read_zones(PlaceZones *zones, const Memo *memo, text *ring_name);
static void number_zones(const Ring *ring, PlaceZones *zones);
static int	compare_zones(const void *a, const void *b, void *names);
static void placing_init(Placing *placing, const Ring *ring,
						 const PlaceZones *zones, int32 wanted);
static void placing_walk(Placing *placing, uint32 position);
static void placing_meet(Placing *placing, uint32 group);
static bool placing_done(const Placing *placing);
static void put_replica(ReturnSetInfo *set, const Placing *placing,
						uint32 rank, uint32 position);

PG_FUNCTION_INFO_V1(shardring_replicas_for_text);
PG_FUNCTION_INFO_V1(shardring_replicas_for_int8);
PG_FUNCTION_INFO_V1(shardring_replicas_for_uuid);

/*
 * replicas_for(ring, key, n [, version]): the groups for n copies of a key;
 * fewer rows when there are fewer groups.
 */
Datum
shardring_replicas_for_text(PG_FUNCTION_ARGS)
{
	return replicas(fcinfo, KEY_TEXT);
}

Datum
shardring_replicas_for_int8(PG_FUNCTION_ARGS)
{
	return replicas(fcinfo, KEY_INT8);
}

Datum
shardring_replicas_for_uuid(PG_FUNCTION_ARGS)
{
	return replicas(fcinfo, KEY_UUID);
}

/*
 * replicas_for for keys of one type, with or without a version.
 */
static Datum
replicas(FunctionCallInfo fcinfo, KeyType type)
{
	ReturnSetInfo *set = result_set(fcinfo);
	CallSite   *site = memo_call_site(fcinfo);
	text	   *ring_name = PG_GETARG_TEXT_PP(0);
	int32		wanted = PG_GETARG_INT32(2);
	int64		version = PG_NARGS() > 3 ? PG_GETARG_INT32(3) :
		ACTIVE_VERSION;
	const Ring *ring;
	Placing		placing;
	uint32		position;

	if (wanted < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of replicas must be at least 1")));
	ring = memo_get_routable(&site->memo, ring_name, version)->ring;
	position = key_position_on(ring, type, PG_GETARG_DATUM(1));
	placing_init(&placing, ring, place_zones(site, ring_name), wanted);
	placing_walk(&placing, position);
	for (uint32 i = 0; i < placing.nchosen; i++)
		put_replica(set, &placing, i, position);
	return (Datum) 0;
}

/*
 * The zones of the version that the call site's memo answers with.
 */
static const PlaceZones *
place_zones(CallSite *site, text *ring_name)
{
	PlaceZones *zones = site->extra;

	if (zones == NULL)
	{
		zones = MemoryContextAllocZero(site->context, sizeof(PlaceZones));
		zones->context = AllocSetContextCreate(site->context,
											   "shardring zones",
											   ALLOCSET_SMALL_SIZES);
		site->extra = zones;
	}
	if (zones->serial != site->memo.serial)
		read_zones(zones, &site->memo, ring_name);
	return zones;
}

/*
 * Reads the zones of the version; after an error they count as not read.
 */
static void
read_zones(PlaceZones *zones, const Memo *memo, text *ring_name)
{
	CatalogRing ring = memo_ring(memo, ring_name);
	MemoryContext old;

	zones->serial = 0;
	MemoryContextReset(zones->context);
	old = MemoryContextSwitchTo(zones->context);
	zones->names = catalog_read_extras(&ring, memo->version,
									   memo->ring).zones;
	number_zones(memo->ring, zones);
	MemoryContextSwitchTo(old);
	zones->serial = memo->serial;
}

/*
 * Numbers the zones and counts those with a group that has points.
 */
static void
number_zones(const Ring *ring, PlaceZones *zones)
{
	uint32	   *order = palloc(ring->ngroups * sizeof(uint32));

	zones->numbers = palloc(ring->ngroups * sizeof(uint32));
	zones->on_ring = palloc0(ring->ngroups * sizeof(bool));
	zones->n = 0;
	zones->n_on_ring = 0;
	for (uint32 i = 0; i < ring->ngroups; i++)
		order[i] = i;
	qsort_arg(order, ring->ngroups, sizeof(uint32), compare_zones,
			  zones->names);
	for (uint32 i = 0; i < ring->ngroups; i++)
	{
		uint32		group = order[i];

		if (i == 0 || zones->names[group] == NULL ||
			compare_zones(&order[i - 1], &group, zones->names) != 0)
			zones->n++;
		zones->numbers[group] = zones->n - 1;
		if (ring->groups[group].npoints > 0 && !zones->on_ring[zones->n - 1])
		{
			zones->on_ring[zones->n - 1] = true;
			zones->n_on_ring++;
		}
	}
	pfree(order);
}

/*
 * Comparator: by the name of the zone, groups without one last.
 */
static int
compare_zones(const void *a, const void *b, void *names)
{
	const text *x = ((text **) names)[*(const uint32 *) a];
	const text *y = ((text **) names)[*(const uint32 *) b];

	if (x == NULL || y == NULL)
		return (x == NULL) - (y == NULL);
	return ring_name_compare((RingName) {
		VARDATA_ANY(x), VARSIZE_ANY_EXHDR(x)
	}, (RingName) {
		VARDATA_ANY(y), VARSIZE_ANY_EXHDR(y)
	});
}

/*
 * Begins with no group met; no more are wanted than there are.
 */
static void
placing_init(Placing *placing, const Ring *ring, const PlaceZones *zones,
			 int32 wanted)
{
	placing->ring = ring;
	placing->zones = zones;
	placing->wanted = Min((uint32) wanted, ring->ngroups);
	placing->group_seen = palloc0(ring->ngroups * sizeof(bool));
	placing->zone_used = palloc0(zones->n * sizeof(bool));
	placing->zones_left = zones->n_on_ring;
	placing->nchosen = 0;
	placing->chosen = palloc(placing->wanted * sizeof(uint32));
	placing->ndeferred = 0;
	placing->deferred = palloc(placing->wanted * sizeof(uint32));
}

/*
 * Fills "chosen": the owner of the position, then once around the ring, or
 * until no further group can matter.
 */
static void
placing_walk(Placing *placing, uint32 position)
{
	const RingArcs *arcs = &placing->ring->plain;
	uint32		arc = ring_arc(arcs, position);
	RingPlace	first;

	ring_locate(placing->ring, position, &first);
	placing_meet(placing, first.group);
	for (uint32 i = 0; i < arcs->n && !placing_done(placing); i++)
	{
		placing_meet(placing, arcs->owners[arc]);
		arc = arc + 1 < arcs->n ? arc + 1 : 0;
		if (i % 65536 == 65535)
			shardring_env.pause(shardring_env.arg);
	}
	for (uint32 i = 0; i < placing->ndeferred &&
		 placing->nchosen < placing->wanted; i++)
		placing->chosen[placing->nchosen++] = placing->deferred[i];
}

/*
 * Takes a group the first time it is met: at once when its zone is new.
 */
static void
placing_meet(Placing *placing, uint32 group)
{
	uint32		zone = placing->zones->numbers[group];

	if (placing->group_seen[group])
		return;
	placing->group_seen[group] = true;
	if (!placing->zone_used[zone])
	{
		placing->zone_used[zone] = true;
		placing->chosen[placing->nchosen++] = group;
		if (placing->zones->on_ring[zone])
			placing->zones_left--;
	}
	else if (placing->ndeferred < placing->wanted)
		placing->deferred[placing->ndeferred++] = group;
}

/*
 * Whether no group that is still to be met can be among those wanted.
 */
static bool
placing_done(const Placing *placing)
{
	return placing->nchosen == placing->wanted ||
		(placing->zones_left == 0 &&
		 placing->nchosen + placing->ndeferred >= placing->wanted);
}

/*
 * Adds the row of one copy; ranks count from 0 here.
 */
static void
put_replica(ReturnSetInfo *set, const Placing *placing, uint32 rank,
			uint32 position)
{
	uint32		number = placing->chosen[rank];
	const RingGroup *group = &placing->ring->groups[number];
	text	   *zone = placing->zones->names[number];
	uint32		slot = position % group->slots;
	uint32		shard = ring_slot_shard(group, slot);
	bool		nulls[5] = {false, false, zone == NULL, false, false};
	Datum		values[5];

	values[0] = Int32GetDatum(rank + 1);
	values[1] = PointerGetDatum(result_text(group->name));
	values[2] = PointerGetDatum(zone);
	values[3] = Int32GetDatum(slot);
	values[4] = PointerGetDatum(result_text(placing->ring->shards[shard]));
	result_put(set, values, nulls);
}
