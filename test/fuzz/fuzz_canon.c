/*
 * fuzz_canon.c
 *		The canonical byte string can be read back: what is read from any bytes
 *		is written as the same bytes, and what is written of any version is
 *		read as the same version.  So no two versions have one string.
 *
 * The reader is a second description of the layout at the top of canon.c, and
 * shares no code with it.
 */
#include "fuzz.h"

typedef struct Reader
{
	const uint8_t *next;
	size_t		left;
	bool		wrong;
} Reader;

static uint32_t
read_u32(Reader *reader)
{
	const uint8_t *b = reader->next;

	if (reader->left < 4)
	{
		reader->wrong = true;
		return 0;
	}
	reader->next += 4;
	reader->left -= 4;
	return (uint32_t) b[0] << 24 | (uint32_t) b[1] << 16 |
		(uint32_t) b[2] << 8 | b[3];
}

/*
 * A number of things that need at least so many bytes each.
 */
static uint32_t
read_count(Reader *reader, size_t bytes_each)
{
	uint32_t	n = read_u32(reader);

	if (n > reader->left / bytes_each)
		reader->wrong = true;
	return reader->wrong ? 0 : n;
}

static RingName
read_name(Reader *reader)
{
	uint32_t	len = read_count(reader, 1);
	RingName	name = {(const char *) reader->next, len};

	reader->next += len;
	reader->left -= len;
	return name;
}

static RingShardDef
read_shard(Reader *reader)
{
	RingShardDef shard = {{NULL, 0}, {NULL, 0}, 0, NULL};
	RingRange  *ranges;
	uint32_t	i;

	shard.name = shard.utf8 = read_name(reader);
	shard.nranges = read_count(reader, 8);
	ranges = test_alloc((shard.nranges + 1) * sizeof(RingRange));
	for (i = 0; i < shard.nranges; i++)
	{
		ranges[i].lo = read_u32(reader);
		ranges[i].hi = read_u32(reader);
	}
	shard.ranges = ranges;
	return shard;
}

static RingGroupDef
read_group(Reader *reader)
{
	RingGroupDef group;
	RingShardDef *shards;
	uint32_t   *points;
	uint32_t	i;

	memset(&group, 0, sizeof(group));
	group.name = group.utf8 = read_name(reader);
	group.slots = read_u32(reader);
	group.npoints = read_count(reader, 4);
	group.wanted_points = group.npoints;
	points = test_alloc((group.npoints + 1) * sizeof(uint32_t));
	for (i = 0; i < group.npoints; i++)
		points[i] = read_u32(reader);
	group.points = points;
	group.nshards = read_count(reader, 8);
	shards = test_alloc((group.nshards + 1) * sizeof(RingShardDef));
	for (i = 0; i < group.nshards; i++)
		shards[i] = read_shard(reader);
	group.shards = shards;
	return group;
}

static bool
same(RingName a, RingName b)
{
	return a.len == b.len && (a.len == 0 ||
							  memcmp(a.bytes, b.bytes, a.len) == 0);
}

static void
read_pins(Reader *reader, RingDef *def)
{
	RingPinDef *pins;
	uint32_t	i;
	uint32_t	g;

	def->npins = read_count(reader, 8);
	pins = test_alloc((def->npins + 1) * sizeof(RingPinDef));
	for (i = 0; i < def->npins; i++)
	{
		pins[i].position = read_u32(reader);
		pins[i].group_name = pins[i].group_utf8 = read_name(reader);
		pins[i].group = RING_NONE;
		for (g = 0; g < def->ngroups && g < 64; g++)
			if (same(def->groups[g].utf8, pins[i].group_utf8))
				pins[i].group = g;
	}
	def->pins = pins;
}

/*
 * The definition that these bytes are the canonical string of; false when
 * they are of none.
 */
static bool
read_canon(const uint8_t *bytes, size_t size, RingDef *def)
{
	Reader		reader = {bytes, size, false};
	RingName	hash;
	RingGroupDef *groups;
	uint32_t	i;

	memset(def, 0, sizeof(RingDef));
	if (read_u32(&reader) != 1)
		return false;
	hash = read_name(&reader);
	if (reader.wrong || reader.left == 0 || *reader.next > 1 ||
		!hash_parse_kind(hash.bytes, hash.len, &def->hash))
		return false;
	def->hash_tags = *reader.next++ == 1;
	reader.left--;
	def->ngroups = read_count(&reader, 16);
	groups = test_alloc((def->ngroups + 1) * sizeof(RingGroupDef));
	for (i = 0; i < def->ngroups; i++)
		groups[i] = read_group(&reader);
	def->groups = groups;
	read_pins(&reader, def);
	return !reader.wrong && reader.left == 0;
}

static bool
same_group(const RingGroupDef *a, const RingGroupDef *b)
{
	uint32_t	i;

	if (!same(a->utf8, b->utf8) || a->slots != b->slots ||
		a->npoints != b->npoints || a->nshards != b->nshards)
		return false;
	for (i = 0; i < a->npoints; i++)
		if (a->points[i] != b->points[i])
			return false;
	for (i = 0; i < a->nshards; i++)
		if (!same(a->shards[i].utf8, b->shards[i].utf8) ||
			a->shards[i].nranges != b->shards[i].nranges ||
			memcmp(a->shards[i].ranges, b->shards[i].ranges,
				   a->shards[i].nranges * sizeof(RingRange)) != 0)
			return false;
	return true;
}

static bool
same_def(const RingDef *a, const RingDef *b)
{
	uint32_t	i;

	if (a->hash != b->hash || a->hash_tags != b->hash_tags ||
		a->ngroups != b->ngroups || a->npins != b->npins)
		return false;
	for (i = 0; i < a->ngroups; i++)
		if (!same_group(&a->groups[i], &b->groups[i]))
			return false;
	for (i = 0; i < a->npins; i++)
		if (a->pins[i].position != b->pins[i].position ||
			!same(a->pins[i].group_utf8, b->pins[i].group_utf8))
			return false;
	return true;
}

static bool
ignore_report(void *arg, const char *problem)
{
	(void) arg;
	(void) problem;
	return true;
}

/*
 * What could be read is as good as any definition: it is written as it was,
 * and compiled when it is sound.
 */
static void
check_bytes(const uint8_t *bytes, size_t size)
{
	RingDef		def;
	RingPlace	place;
	const Ring *ring;
	size_t		again_size;
	const uint8_t *again;

	if (!read_canon(bytes, size, &def))
		return;
	again = test_canon(&def, &again_size);
	assert_int_equal(again_size, size);
	assert_memory_equal(again, bytes, size);
	if (!check_structure(&def, &test_env, ignore_report, NULL))
		return;
	ring = ring_build(&def, &test_env);
	if (ring->arcs.n == 0)
		return;
	assert_int_equal(ring->arcs.ends[ring->arcs.n - 1], UINT32_MAX);
	ring_locate(ring, size > 40 ? bytes[40] : 0, &place);
	assert_true(place.group < def.ngroups);
	assert_true(place.shard < ring->nshards);
}

void
fuzz_one(const uint8_t *bytes, size_t size)
{
	TestRing   *one = test_any_ring(test_random(2) == 0);
	TestRing   *other = test_copy(one);
	RingDef    *defs[2];
	RingDef		back;
	uint8_t    *written[2];
	size_t		sizes[2];
	char		hex[2][65];
	int			i;

	check_bytes(bytes, size);
	test_change(other, test_random(2) == 0);
	other->hash_tags = test_random(4) == 0;
	defs[0] = test_def(one);
	defs[1] = test_def(other);
	for (i = 0; i < 2; i++)
	{
		written[i] = test_canon(defs[i], &sizes[i]);
		assert_true(read_canon(written[i], sizes[i], &back));
		assert_true(same_def(&back, defs[i]));
		check_bytes(written[i], sizes[i]);
		assert_true(fingerprint_hex(defs[i], hex[i]));
	}
	assert_int_equal(strcmp(hex[0], hex[1]) == 0,
					 same_def(defs[0], defs[1]));
}
