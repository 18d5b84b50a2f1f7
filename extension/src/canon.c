/*
 * canon.c
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
 */
#include "ring.h"

#include <string.h>

#define CANON_FORMAT	1

/* Where the bytes go, and how many there are; bytes is NULL to only count. */
typedef struct CanonSink
{
	uint8_t    *bytes;
	size_t		used;
} CanonSink;

static void canon_put_ring(CanonSink *sink, const RingDef *def);
static void canon_put_group(CanonSink *sink, const RingGroupDef *group);
static void canon_put_name(CanonSink *sink, RingName name);
static void canon_put_u32(CanonSink *sink, uint32_t number);
static void canon_put_bytes(CanonSink *sink, const void *bytes, size_t len);

/*
 * How many bytes canon_write will write.
 */
size_t
canon_size(const RingDef *def)
{
	CanonSink	sink = {NULL, 0};

	canon_put_ring(&sink, def);
	return sink.used;
}

/*
 * The canonical byte string; "bytes" has room for canon_size(def).
 */
void
canon_write(const RingDef *def, uint8_t *bytes)
{
	CanonSink	sink = {bytes, 0};

	canon_put_ring(&sink, def);
}

/*
 * The SHA-256 of the canonical byte string, in lower-case hex with a closing
 * NUL.  False when libcrypto gives no SHA-256.
 */
bool
canon_fingerprint(const RingDef *def, const RingEnv *env, char hex[65])
{
	static const char digits[] = "0123456789abcdef";
	size_t		size = canon_size(def);
	uint8_t    *bytes = env->alloc(env->arg, size);
	uint8_t		digest[32];
	int			i;

	canon_write(def, bytes);
	if (!digest_sha256(bytes, size, digest))
		return false;
	for (i = 0; i < 32; i++)
	{
		hex[2 * i] = digits[digest[i] >> 4];
		hex[2 * i + 1] = digits[digest[i] & 15];
	}
	hex[64] = '\0';
	return true;
}

static void
canon_put_ring(CanonSink *sink, const RingDef *def)
{
	const char *hash = hash_kind_name(def->hash);
	uint8_t		hash_tags = def->hash_tags ? 1 : 0;
	uint32_t	i;

	canon_put_u32(sink, CANON_FORMAT);
	canon_put_name(sink, (RingName) {hash, (uint32_t) strlen(hash)});
	canon_put_bytes(sink, &hash_tags, 1);
	canon_put_u32(sink, def->ngroups);
	for (i = 0; i < def->ngroups; i++)
		canon_put_group(sink, &def->groups[i]);
	canon_put_u32(sink, def->npins);
	for (i = 0; i < def->npins; i++)
	{
		canon_put_u32(sink, def->pins[i].position);
		canon_put_name(sink, def->pins[i].group_utf8);
	}
}

static void
canon_put_group(CanonSink *sink, const RingGroupDef *group)
{
	uint32_t	i;
	uint32_t	r;

	canon_put_name(sink, group->utf8);
	canon_put_u32(sink, group->slots);
	canon_put_u32(sink, group->npoints);
	for (i = 0; i < group->npoints; i++)
		canon_put_u32(sink, group->points[i]);
	canon_put_u32(sink, group->nshards);
	for (i = 0; i < group->nshards; i++)
	{
		const RingShardDef *shard = &group->shards[i];

		canon_put_name(sink, shard->utf8);
		canon_put_u32(sink, shard->nranges);
		for (r = 0; r < shard->nranges; r++)
		{
			canon_put_u32(sink, shard->ranges[r].lo);
			canon_put_u32(sink, shard->ranges[r].hi);
		}
	}
}

static void
canon_put_name(CanonSink *sink, RingName name)
{
	canon_put_u32(sink, name.len);
	canon_put_bytes(sink, name.bytes, name.len);
}

static void
canon_put_u32(CanonSink *sink, uint32_t number)
{
	uint8_t		bytes[4];

	bytes[0] = (uint8_t) (number >> 24);
	bytes[1] = (uint8_t) (number >> 16);
	bytes[2] = (uint8_t) (number >> 8);
	bytes[3] = (uint8_t) number;
	canon_put_bytes(sink, bytes, 4);
}

static void
canon_put_bytes(CanonSink *sink, const void *bytes, size_t len)
{
	if (sink->bytes != NULL && len > 0)
		memcpy(sink->bytes + sink->used, bytes, len);
	sink->used += len;
}
