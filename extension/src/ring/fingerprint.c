/*
 * fingerprint.c
 *		The canonical byte string of a definition and its fingerprint.
 *
 * Rules of this file:
 *	- the string holds everything that decides routing and nothing else (no
 *	  weights, no zones), so equal fingerprints mean equal routing;
 *	- its layout is a published contract: a change of it is a new format
 *	  number.
 *
 * The layout; u32 is unsigned, 32 bits, big-endian; str is a u32 number of
 * bytes and the bytes, in UTF-8:
 *
 *	u32 format number = 1, str hash name, one byte hash_tags (0 or 1),
 *	u32 number of groups, and for each by name:
 *		str name, u32 slots, u32 number of points, u32 each point in the order
 *		it was taken, u32 number of shards, and for each by name:
 *			str name, u32 number of ranges of slots, and for each ascending:
 *				u32 first slot, u32 slot after the last,
 *	u32 number of pins, and for each by position:
 *		u32 position, str name of the group
 *
 * Names are ordered by their bytes.
 *
 * Zones have a string and a SHA-256 of their own, since they decide where
 * copies go:
 *
 *	u32 format number = 1, u32 number of groups, and for each by name:
 *		str name, one byte: 1 with a zone, else 0; with one, str zone
 */
#include "digest.h"
#include "ring.h"

#include <string.h>

#define CANON_FORMAT	1
#define ZONES_FORMAT	1

/* Bytes are passed on by the block, so that no size has to be known. */
typedef struct Sink
{
	FingerprintTake take;
	void	   *arg;
	bool		ok;				/* nothing was refused */
	size_t		used;
	uint8_t		block[1024];
} Sink;

static bool end_hex(Sink *sink, char hex[65]);
static void sink_start(Sink *sink, FingerprintTake take, void *arg);
static bool take_digest(void *arg, const uint8_t *bytes, size_t len);
static void put_ring(Sink *sink, const RingDef *def);
static void put_group(Sink *sink, const RingGroupDef *group);
static void put_name(Sink *sink, RingName name);
static inline void put_u32(Sink *sink, uint32_t number);
static void put_bytes(Sink *sink, const void *bytes, size_t len);
static void flush_block(Sink *sink);

/*
 * Gives the canonical byte string to "take", piece by piece.  False when that
 * refused one.
 */
bool
fingerprint_bytes(const RingDef *def, FingerprintTake take, void *arg)
{
	Sink		sink;

	sink_start(&sink, take, arg);
	put_ring(&sink, def);
	flush_block(&sink);
	return sink.ok;
}

/*
 * The SHA-256 of the canonical byte string, in lower-case hex with a closing
 * NUL.  False when libcrypto gives no SHA-256.
 */
bool
fingerprint_hex(const RingDef *def, char hex[65])
{
	Sink		sink;

	if (!digest_begin(DIGEST_SHA256))
		return false;
	sink_start(&sink, take_digest, NULL);
	put_ring(&sink, def);
	return end_hex(&sink, hex);
}

/*
 * The same for the zones of n groups, which are in the order of their names.
 */
bool
fingerprint_zones_hex(const RingZone *zones, uint32_t n, char hex[65])
{
	Sink		sink;
	uint32_t	i;

	if (!digest_begin(DIGEST_SHA256))
		return false;
	sink_start(&sink, take_digest, NULL);
	put_u32(&sink, ZONES_FORMAT);
	put_u32(&sink, n);
	for (i = 0; i < n; i++)
	{
		uint8_t		has_zone = zones[i].zone.bytes != NULL ? 1 : 0;

		put_name(&sink, zones[i].group);
		put_bytes(&sink, &has_zone, 1);
		if (has_zone)
			put_name(&sink, zones[i].zone);
	}
	return end_hex(&sink, hex);
}

/*
 * The digest of what went into a sink of take_digest.
 */
static bool
end_hex(Sink *sink, char hex[65])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t		digest[DIGEST_MAX];
	int			i;

	flush_block(sink);
	if (!sink->ok || !digest_end(DIGEST_SHA256, digest))
		return false;
	for (i = 0; i < 32; i++)
	{
		hex[2 * i] = digits[digest[i] >> 4];
		hex[2 * i + 1] = digits[digest[i] & 15];
	}
	hex[64] = '\0';
	return true;
}

/*
 * Nothing was put yet; the block is left as it is.
 */
static void
sink_start(Sink *sink, FingerprintTake take, void *arg)
{
	sink->take = take;
	sink->arg = arg;
	sink->ok = true;
	sink->used = 0;
}

/*
 * FingerprintTake that hashes what it is given.
 */
static bool
take_digest(void *arg, const uint8_t *bytes, size_t len)
{
	(void) arg;
	return digest_feed(DIGEST_SHA256, bytes, len);
}

/*
 * The whole string; see the head of this file.
 */
static void
put_ring(Sink *sink, const RingDef *def)
{
	const char *hash = hash_kind_name(def->hash);
	uint8_t		hash_tags = def->hash_tags ? 1 : 0;
	uint32_t	i;

	put_u32(sink, CANON_FORMAT);
	put_name(sink, (RingName) {hash, (uint32_t) strlen(hash)});
	put_bytes(sink, &hash_tags, 1);
	put_u32(sink, def->ngroups);
	for (i = 0; i < def->ngroups; i++)
		put_group(sink, &def->groups[i]);
	put_u32(sink, def->npins);
	for (i = 0; i < def->npins; i++)
	{
		put_u32(sink, def->pins[i].position);
		put_name(sink, def->pins[i].group_utf8);
	}
}

/*
 * One group, with its points and shards.
 */
static void
put_group(Sink *sink, const RingGroupDef *group)
{
	uint32_t	i;
	uint32_t	r;

	put_name(sink, group->utf8);
	put_u32(sink, group->slots);
	put_u32(sink, group->npoints);
	for (i = 0; i < group->npoints; i++)
		put_u32(sink, group->points[i]);
	put_u32(sink, group->nshards);
	for (i = 0; i < group->nshards; i++)
	{
		const RingShardDef *shard = &group->shards[i];

		put_name(sink, shard->utf8);
		put_u32(sink, shard->nranges);
		for (r = 0; r < shard->nranges; r++)
		{
			put_u32(sink, shard->ranges[r].lo);
			put_u32(sink, shard->ranges[r].hi);
		}
	}
}

/*
 * A str: length and bytes.
 */
static void
put_name(Sink *sink, RingName name)
{
	put_u32(sink, name.len);
	put_bytes(sink, name.bytes, name.len);
}

/*
 * A u32, big-endian.
 */
static inline void
put_u32(Sink *sink, uint32_t number)
{
	uint8_t    *to;

	if (sizeof(sink->block) - sink->used < 4)
		flush_block(sink);
	to = sink->block + sink->used;
	to[0] = (uint8_t) (number >> 24);
	to[1] = (uint8_t) (number >> 16);
	to[2] = (uint8_t) (number >> 8);
	to[3] = (uint8_t) number;
	sink->used += 4;
}

/*
 * Bytes as they are, however many.
 */
static void
put_bytes(Sink *sink, const void *bytes, size_t len)
{
	const uint8_t *from = bytes;

	while (len > 0)
	{
		size_t		piece = sizeof(sink->block) - sink->used;

		if (piece > len)
			piece = len;
		memcpy(sink->block + sink->used, from, piece);
		sink->used += piece;
		from += piece;
		len -= piece;
		if (sink->used == sizeof(sink->block))
			flush_block(sink);
	}
}

/*
 * Passes the block on, and starts a new one.
 */
static void
flush_block(Sink *sink)
{
	sink->ok = sink->ok && sink->take(sink->arg, sink->block, sink->used);
	sink->used = 0;
}
