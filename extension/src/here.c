/*
 * here.c
 *		Does a key live on this shard now, and may it be written here?
 *
 * What is asked is not which version the statement sees but which one is
 * active now: a snapshot of its own is taken.  With the transaction's
 * snapshot, an old REPEATABLE READ transaction could write after a switch.
 *
 * While a ring moves from one version to another, keys that leave this shard
 * may be held: with a lease, writes are SR003, which means "in milliseconds";
 * for good, all is SR001, as if the new version were active.  The lease is a
 * courtesy, and nothing rests on the clock.
 */
#include "here.h"

#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

static void require_not_held(const Here *here, uint32 position, bool writes,
							 Relation table);
pg_noreturn static void refuse_elsewhere(const Ring *ring, int32 version,
										 const RingPlace *place,
										 Relation table);
pg_noreturn static void refuse_held(const Ring *ring, int32 version,
									const RingPlace *place, Relation table);
static char *place_text(const Ring *ring, int32 version,
						const RingPlace *place);
static char *quoted(RingName name);

/*
 * The ring in the version that is active now, and, while it moves, in both of
 * its versions, so that nobody compiles one while keys are held.  Nothing
 * active is 55000: to activate a version early, only so that rows can be
 * copied in, would let two shards write the same key.
 */
Here
here_now(CallSite *site, text *ring)
{
	Here		here = {.active = &site->memo};
	const CatalogRingRow *row = &site->memo.row;

	PushActiveSnapshot(GetLatestSnapshot());
	if (memo_resolve(&site->memo, ring, ACTIVE_VERSION)->version == NO_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no active version",
						text_to_cstring(ring)),
				 errhint("Until a version is active, rows can be written "
						 "only under session_replication_role = replica.")));
	(void) memo_get_routable(&site->memo, ring, ACTIVE_VERSION);
	if (row->moving_to != NO_VERSION)
	{
		bool		switched = row->active_version == row->moving_to;
		const Ring *other = memo_get_routable(&site->memo_from, ring,
											  switched ? row->moving_from :
											  row->moving_to)->ring;

		here.from = switched ? other : site->memo.ring;
		here.to = switched ? site->memo.ring : other;
	}
	PopActiveSnapshot();
	return here;
}

/*
 * SR001 unless the position lives on this shard, SR003 where it is about to
 * leave and may not be written; "table" may be NULL.
 */
void
here_require(const Here *here, uint32 position, bool writes, Relation table)
{
	const Memo *active = here->active;
	RingPlace	place;

	if (!here_by_version(active->ring, position, &place))
	{
		here_require_known(active);
		refuse_elsewhere(active->ring, active->version, &place, table);
	}
	if (unlikely(here->to != NULL))
		require_not_held(here, position, writes, table);
}

/*
 * Refuses a position that lives here and is held.
 */
static void
require_not_held(const Here *here, uint32 position, bool writes,
				 Relation table)
{
	const CatalogRingRow *row = &here->active->row;
	RingPlace	place;

	if (here_by_version(here->to, position, &place))
		return;
	if (TIMESTAMP_IS_NOEND(row->closed_until))
		refuse_elsewhere(here->to, row->moving_to, &place, table);
	if (writes && GetCurrentTimestamp() < row->closed_until)
		refuse_held(here->to, row->moving_to, &place, table);
}

/*
 * 55000 for an UPDATE that changes which way a row goes while the ring moves:
 * what copies rows would see it as an INSERT on the other side.
 */
void
here_refuse_border(const Here *here, uint32 before, uint32 after,
				   Relation table)
{
	RingPlace	from[2];
	RingPlace	to[2];

	if (here->to == NULL || before == after)
		return;
	ring_locate(here->from, before, &from[0]);
	ring_locate(here->from, after, &from[1]);
	ring_locate(here->to, before, &to[0]);
	ring_locate(here->to, after, &to[1]);
	if (from[0].shard == from[1].shard && to[0].shard == to[1].shard)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("key cannot be changed to one that moves differently"),
			 errdetail("The ring is moving from version %d to version %d, and "
					   "the two keys do not live together in both.",
					   here->active->row.moving_from,
					   here->active->row.moving_to),
			 errhint("Delete the row and insert another one."),
			 errtable(table)));
}

/*
 * Whether the position lives on this shard in that version, and where it
 * lives; names are compared by bytes.
 */
bool
here_by_version(const Ring *ring, uint32 position, RingPlace *place)
{
	const char *here = this_shard();
	RingName	shard;

	ring_locate(ring, position, place);
	shard = ring->shards[place->shard];
	return strlen(here) == shard.len &&
		memcmp(here, shard.bytes, shard.len) == 0;
}

/*
 * 55000 unless a sealed version of the ring names this shard: to send the
 * statement elsewhere is no help where the setting is misspelt.
 */
void
here_require_known(const Memo *memo)
{
	CatalogRing ring = catalog_ring(cstring_to_text_with_len(memo->name,
															 memo->name_len),
									GetLatestSnapshot());
	int32		number;

	if (!catalog_read_shard_number(&ring, cstring_to_text(this_shard()),
								   &number))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is shard \"%s\", which ring \"%s\" "
						"does not have", this_shard(),
						text_to_cstring(ring.name)),
				 errhint("Correct parameter \"shardring.shard\" with ALTER "
						 "DATABASE, or push a version that has the shard.")));
}

/*
 * Raises SR001 with the place in DETAIL.
 */
static void
refuse_elsewhere(const Ring *ring, int32 version, const RingPlace *place,
				 Relation table)
{
	RingName	shard = ring->shards[place->shard];

	ereport(ERROR,
			(errcode(ERRCODE_SHARDRING_WRONG_SHARD),
			 errmsg("key belongs on shard \"%.*s\", not on \"%s\"",
					(int) shard.len, shard.bytes, this_shard()),
			 errdetail_internal("%s", place_text(ring, version, place)),
			 errhint("Read the ring again and send the statement to that "
					 "shard."),
			 table == NULL ? 0 : errtable(table)));
}

/*
 * Raises SR003 with the place in DETAIL.
 */
static void
refuse_held(const Ring *ring, int32 version, const RingPlace *place,
			Relation table)
{
	RingName	shard = ring->shards[place->shard];

	ereport(ERROR,
			(errcode(ERRCODE_SHARDRING_HELD),
			 errmsg("key is moving from shard \"%s\" to \"%.*s\" right now",
					this_shard(), (int) shard.len, shard.bytes),
			 errdetail_internal("%s", place_text(ring, version, place)),
			 errhint("Roll the transaction back and repeat it on that shard "
					 "after a few milliseconds."),
			 table == NULL ? 0 : errtable(table)));
}

/*
 * A place as a program reads it.
 */
static char *
place_text(const Ring *ring, int32 version, const RingPlace *place)
{
	return psprintf("version=%d group=%s slot=%u shard=%s", version,
					quoted(ring->groups[place->group].name), place->slot,
					quoted(ring->shards[place->shard]));
}

/*
 * A name in quotation marks, those inside it doubled.
 */
static char *
quoted(RingName name)
{
	char	   *result = palloc(2 * (Size) name.len + 3);
	char	   *out = result;

	*out++ = '"';
	for (uint32 i = 0; i < name.len; i++)
	{
		if (name.bytes[i] == '"')
			*out++ = '"';
		*out++ = name.bytes[i];
	}
	*out++ = '"';
	*out = '\0';
	return result;
}
