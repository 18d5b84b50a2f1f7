/*
 * model.c
 *		Rings that are easy to write down and slow to ask; see support.h.
 *
 * Rules of this file: nothing here is clever, so that it can be believed.
 */
#include "support.h"

static int	test_compare_groups(const void *a, const void *b);
static int	test_compare_pins(const void *a, const void *b);
static int	test_compare_names(const void *a, const void *b);
static void test_define_shards(const TestGroup *group, RingGroupDef *def);

TestRing *
test_ring(HashKind hash)
{
	TestRing   *ring = test_alloc(sizeof(TestRing));

	memset(ring, 0, sizeof(TestRing));
	ring->hash = hash;
	return ring;
}

/*
 * The usual ring: md5, the groups in this order with one slot each, on a shard
 * of their own name.  The list of names ends with NULL.
 */
TestRing *
test_ring_of(uint32_t npoints,...)
{
	TestRing   *ring = test_ring(HASH_MD5);
	const char *name;
	va_list		names;

	va_start(names, npoints);
	while ((name = va_arg(names, const char *)) != NULL)
	{
		test_add(ring, name, 1);
		assert_int_equal(test_points(ring, name, npoints), RING_OK);
	}
	va_end(names);
	return ring;
}

/*
 * A ring of one group with all of the circle.
 */
TestRing *
test_one_group(uint32_t slots)
{
	TestRing   *ring = test_ring(HASH_MD5);

	test_add(ring, "g", slots);
	assert_int_equal(test_points(ring, "g", 3), RING_OK);
	return ring;
}

/*
 * A copy that can be changed without the other.
 */
TestRing *
test_copy(const TestRing *ring)
{
	TestRing   *copy = test_alloc(sizeof(TestRing));
	uint32_t	i;

	*copy = *ring;
	for (i = 0; i < ring->ngroups; i++)
	{
		TestGroup  *group = &copy->groups[i];
		size_t		points = group->npoints * sizeof(uint32_t);
		size_t		shards = group->slots * sizeof(const char *);

		group->points = test_alloc(points);
		if (points > 0)
			memcpy(group->points, ring->groups[i].points, points);
		group->shards = test_alloc(shards);
		memcpy(group->shards, ring->groups[i].shards, shards);
	}
	return copy;
}

TestGroup *
test_group(TestRing *ring, const char *name)
{
	uint32_t	i;

	for (i = 0; i < ring->ngroups; i++)
		if (strcmp(ring->groups[i].name, name) == 0)
			return &ring->groups[i];
	return NULL;
}

/*
 * A group without points, all slots on the shard of its name.
 */
TestGroup *
test_add(TestRing *ring, const char *name, uint32_t slots)
{
	TestGroup  *group = &ring->groups[ring->ngroups++];

	assert_true(ring->ngroups <= LENGTH(ring->groups));
	group->name = name;
	group->slots = slots;
	group->wanted = 0;
	group->npoints = 0;
	group->points = NULL;
	group->shards = test_alloc(slots * sizeof(const char *));
	test_assign(group, 0, slots, name);
	return group;
}

void
test_remove(TestRing *ring, const char *name)
{
	TestGroup  *group = test_group(ring, name);
	TestGroup  *end = ring->groups + ring->ngroups;
	uint32_t	i;
	uint32_t	n = 0;

	memmove(group, group + 1, (size_t) (end - group - 1) * sizeof(*group));
	ring->ngroups--;
	for (i = 0; i < ring->npins; i++)
		if (strcmp(ring->pins[i].group, name) != 0)
			ring->pins[n++] = ring->pins[i];
	ring->npins = n;
}

/*
 * Give a group so many points: by points_extend, or dropped from the end.
 */
RingResult
test_points(TestRing *ring, const char *name, uint32_t npoints)
{
	TestGroup  *group = test_group(ring, name);
	uint32_t   *points = test_alloc((npoints + 1) * sizeof(uint32_t));
	uint32_t	have = group->npoints < npoints ? group->npoints : npoints;
	uint32_t	total = npoints;
	PointsTaken  *taken;
	RingResult	result;
	uint32_t	g;
	uint32_t	i;

	for (g = 0; g < ring->ngroups; g++)
		total += ring->groups[g].npoints;
	taken = points_taken_create(total, &test_env);
	for (g = 0; g < ring->ngroups; g++)
		for (i = 0; i < ring->groups[g].npoints; i++)
			points_taken_add(taken, ring->groups[g].points[i]);
	if (have > 0)
		memcpy(points, group->points, have * sizeof(uint32_t));
	result = points_extend(ring->hash, test_name(name), taken, points, have,
						 npoints, &test_env);
	group->points = points;
	group->npoints = npoints;
	group->wanted = npoints;
	return result;
}

void
test_assign(TestGroup *group, uint32_t lo, uint32_t hi, const char *shard)
{
	uint32_t	slot;

	for (slot = lo; slot < hi; slot++)
		group->shards[slot] = shard;
}

/*
 * A position has one pin: the last one given.
 */
void
test_pin(TestRing *ring, uint32_t position, const char *group)
{
	uint32_t	i;

	for (i = 0; i < ring->npins; i++)
		if (ring->pins[i].position == position)
			break;
	if (i == ring->npins)
		ring->npins++;
	assert_true(ring->npins <= LENGTH(ring->pins));
	ring->pins[i] = (TestPin) {position, group};
}

/*
 * The definition as the tables give it: everything in order.
 */
RingDef *
test_def(const TestRing *ring)
{
	TestRing   *sorted = test_copy(ring);
	RingDef    *def = test_alloc(sizeof(RingDef));
	RingGroupDef *groups = test_alloc(64 * sizeof(RingGroupDef));
	RingPinDef *pins = test_alloc(64 * sizeof(RingPinDef));
	uint32_t	i;
	uint32_t	g;

	qsort(sorted->groups, sorted->ngroups, sizeof(TestGroup),
		  test_compare_groups);
	qsort(sorted->pins, sorted->npins, sizeof(TestPin), test_compare_pins);
	for (i = 0; i < sorted->ngroups; i++)
	{
		const TestGroup *group = &sorted->groups[i];

		groups[i].name = groups[i].utf8 = test_name(group->name);
		groups[i].slots = group->slots;
		groups[i].wanted_points = group->wanted;
		groups[i].npoints = group->npoints;
		groups[i].points = group->points;
		test_define_shards(group, &groups[i]);
	}
	for (i = 0; i < sorted->npins; i++)
	{
		const TestPin *pin = &sorted->pins[i];

		pins[i].position = pin->position;
		pins[i].group_name = pins[i].group_utf8 = test_name(pin->group);
		pins[i].group = RING_NONE;
		for (g = 0; g < sorted->ngroups; g++)
			if (strcmp(sorted->groups[g].name, pin->group) == 0)
				pins[i].group = g;
	}
	*def = (RingDef) {ring->hash, ring->hash_tags, ring->ngroups, groups,
		ring->npins, pins};
	return def;
}

static void
test_define_shards(const TestGroup *group, RingGroupDef *def)
{
	size_t		size = group->slots * sizeof(const char *);
	const char **names = test_alloc(size);
	RingShardDef *shards = test_alloc(group->slots * sizeof(RingShardDef));
	RingRange  *ranges = test_alloc((group->slots + 1) * sizeof(RingRange));
	uint32_t	i;
	uint32_t	slot;

	memcpy(names, group->shards, size);
	qsort(names, group->slots, sizeof(const char *), test_compare_names);
	def->nshards = 0;
	def->shards = shards;
	for (i = 0; i < group->slots; i++)
	{
		RingShardDef *shard = &shards[def->nshards];

		if (i > 0 && strcmp(names[i - 1], names[i]) == 0)
			continue;
		shard->name = shard->utf8 = test_name(names[i]);
		shard->nranges = 0;
		shard->ranges = ranges;
		for (slot = 0; slot < group->slots; slot++)
		{
			if (strcmp(group->shards[slot], names[i]) != 0)
				continue;
			if (shard->nranges == 0 || ranges[-1].hi != slot)
			{
				*ranges++ = (RingRange) {slot, slot};
				shard->nranges++;
			}
			ranges[-1].hi = slot + 1;
		}
		def->nshards++;
	}
}

Ring *
test_build(const TestRing *ring)
{
	return ring_build(test_def(ring), &test_env);
}

/*
 * The rules of ownership, word by word: a pin, or else the point that is
 * reached first going up from the position, around the circle.
 */
TestPlace
test_locate(const TestRing *ring, uint32_t position)
{
	TestPlace	place = {NULL, 0, NULL};
	uint32_t	nearest = 0;
	uint32_t	g;
	uint32_t	i;

	for (g = 0; g < ring->ngroups; g++)
	{
		for (i = 0; i < ring->groups[g].npoints; i++)
		{
			uint32_t	distance = ring->groups[g].points[i] - position;

			if (place.group == NULL || distance < nearest)
			{
				place.group = &ring->groups[g];
				nearest = distance;
			}
		}
	}
	if (place.group == NULL)
		return place;
	for (i = 0; i < ring->npins; i++)
		for (g = 0; g < ring->ngroups; g++)
			if (ring->pins[i].position == position &&
				strcmp(ring->pins[i].group, ring->groups[g].name) == 0)
				place.group = &ring->groups[g];
	place.slot = position % place.group->slots;
	place.shard = place.group->shards[place.slot];
	return place;
}

/*
 * The name of the group that the compiled ring finds, as a string.
 */
const char *
test_owner(const Ring *ring, uint32_t position)
{
	RingPlace	place;

	ring_locate(ring, position, &place);
	return test_format("%.*s", (int) ring->groups[place.group].utf8.len,
					   ring->groups[place.group].utf8.bytes);
}

/*
 * The same of a key.
 */
const char *
test_owner_of(const Ring *ring, const char *key)
{
	return test_owner(ring, test_hash(ring->hash, key));
}

/*
 * The compiled ring says of a position what the model says.
 */
void
test_check_place(const TestRing *model, const Ring *ring, uint32_t position)
{
	TestPlace	expected = test_locate(model, position);
	RingPlace	place;
	uint32_t	shard;
	const RingGroup *group;

	ring_locate(ring, position, &place);
	ring_locate_shards(ring, &position, 1, &shard);
	assert_int_equal(shard, place.shard);
	group = &ring->groups[place.group];
	if (!test_is(group->utf8, expected.group->name) ||
		place.slot != expected.slot ||
		!test_is(ring->shards[place.shard], expected.shard))
		fail_msg("position %u: expected group %s, slot %u, shard %s", position,
				 expected.group->name, expected.slot, expected.shard);
}

/*
 * The number of the candidate that each point of a group is.
 */
uint32_t *
test_salts(TestRing *ring, const char *name)
{
	const TestGroup *group = test_group(ring, name);
	uint32_t   *salts = test_alloc(group->npoints * sizeof(uint32_t));
	uint32_t	bad = 0;

	assert_int_equal(points_salts(ring->hash, test_name(name), group->points,
								group->npoints, salts, &bad, &test_env),
					 RING_OK);
	return salts;
}

DiffList *
test_list(const Ring *from, const Ring *to, DiffScope scope)
{
	DiffList   *list = test_alloc(sizeof(DiffList));

	diff_list(from, to, scope, &test_env, list);
	return list;
}

/*
 * How many of the positions below n leave the rest "rest".
 */
uint64_t
test_count_rest(uint64_t n, uint64_t cycle, uint64_t rest)
{
	return n / cycle + (n % cycle > rest);
}

bool
test_is(RingName name, const char *string)
{
	return name.len == strlen(string) &&
		memcmp(name.bytes, string, name.len) == 0;
}

static int
test_compare_groups(const void *a, const void *b)
{
	return strcmp(((const TestGroup *) a)->name,
				  ((const TestGroup *) b)->name);
}

static int
test_compare_pins(const void *a, const void *b)
{
	uint32_t	x = ((const TestPin *) a)->position;
	uint32_t	y = ((const TestPin *) b)->position;

	return (x > y) - (x < y);
}

static int
test_compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}
