/*
 * chance.c
 *		Random rings, and random steps from one version to the next.
 *
 * Rules of this file:
 *	- whatever people do to a ring can happen here, and what hurts happens
 *	  often: positions at the ends of the circle, pins beside points, one shard
 *	  in several groups, a group that comes back with other slots;
 *	- "close" puts the points together, so that everything meets on few
 *	  positions and all of them can be looked at.
 */
#include "support.h"

static const char *const group_names[] = {
	"a", "b", "ab", "c", "Z", "node-1", "node-10", "\xc3\xa9", "d", "e"
};
static const char *const shard_names[] = {
	"s0", "s1", "s10", "s2", "S", "\xc3\xa9", "s3", "s4"
};

/* The model looks at every slot; the fuzzer has no time for many. */
#ifndef TEST_MOST_SLOTS
#define TEST_MOST_SLOTS	65536
#endif

static const uint32_t slot_counts[] = {
	1, 1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 64, 64,
#if TEST_MOST_SLOTS >= 1000
	100, 1000, 997,
#endif
	TEST_MOST_SLOTS
};

static const char *
any_shard(void)
{
	return shard_names[test_random(LENGTH(shard_names))];
}

/*
 * The slots of a group on shards in one of the ways people do it.
 */
static void
scatter_slots(TestGroup *group)
{
	uint32_t	blocks = 1 + test_random(5);
	uint32_t	way = test_random(4);
	uint32_t	i;

	if (way == 0)
		test_assign(group, 0, group->slots, any_shard());
	else if (way == 1 && group->slots <= 1000)
		for (i = 0; i < group->slots; i++)
			group->shards[i] = any_shard();
	else if (way == 2 && group->slots <= 100)
		for (i = 0; i < group->slots; i++)
			group->shards[i] = test_format("own-%u", i);
	else
		for (i = 0; i < group->slots; i++)
			group->shards[i] = shard_names[i * blocks / group->slots];
}

static uint32_t
any_position(bool close)
{
	uint32_t	kind = test_random(20);

	if (kind == 0)
		return 0;
	if (kind == 1)
		return UINT32_MAX;
	return close ? UINT32_C(3000000000) + test_random(3000) :
		test_random32();
}

static bool
is_point(const TestRing *ring, uint32_t position)
{
	uint32_t	g;
	uint32_t	i;

	for (g = 0; g < ring->ngroups; g++)
		for (i = 0; i < ring->groups[g].npoints; i++)
			if (ring->groups[g].points[i] == position)
				return true;
	return false;
}

static void
append_points(TestRing *ring, TestGroup *group, uint32_t n, bool close)
{
	uint32_t   *points;

	points = test_alloc((group->npoints + n + 1) * sizeof(uint32_t));
	if (group->npoints > 0)
		memcpy(points, group->points, group->npoints * sizeof(uint32_t));
	group->points = points;
	while (n > 0)
	{
		uint32_t	position = any_position(close);

		if (is_point(ring, position))
			continue;
		points[group->npoints++] = position;
		n--;
	}
}

static void
join(TestRing *ring, bool close)
{
	const char *name = group_names[test_random(LENGTH(group_names))];
	TestGroup  *group;

	if (test_group(ring, name) != NULL)
		return;
	group = test_add(ring, name,
					 slot_counts[test_random(LENGTH(slot_counts))]);
	scatter_slots(group);
	if (!close && test_random(3) == 0)
		assert_int_equal(test_points(ring, name, test_random(12)), RING_OK);
	else
		append_points(ring, group, test_random(12), close);
}

/*
 * Anywhere, or on a point or beside one, where it hurts.
 */
static void
pin_something(TestRing *ring, bool close)
{
	const TestGroup *group = &ring->groups[test_random(ring->ngroups)];
	uint32_t	position = any_position(close);

	if (test_random(3) > 0 && group->npoints > 0)
		position = group->points[test_random(group->npoints)] +
			test_random(3) - 1;
	if (ring->npins < LENGTH(ring->pins))
		test_pin(ring, position,
				 ring->groups[test_random(ring->ngroups)].name);
}

TestRing *
test_any_ring(bool close)
{
	TestRing   *ring = test_ring((HashKind) test_random(3));
	uint32_t	ngroups = 1 + test_random(6);
	uint32_t	npins = test_random(2) * test_random(12);
	uint32_t	i;

	while (ring->ngroups < ngroups)
		join(ring, close);
	for (i = 0; i < npins; i++)
		pin_something(ring, close);
	if (!is_point(ring, 77))
		append_points(ring, &ring->groups[0], 1, close);
	return ring;
}

static void
change_slots(TestGroup *group)
{
	uint32_t	lo = test_random(group->slots);

	test_assign(group, lo, lo + 1 + test_random(group->slots - lo),
				any_shard());
}

/*
 * One step from a version to the next.
 */
void
test_change(TestRing *ring, bool close)
{
	TestGroup  *group = &ring->groups[test_random(ring->ngroups)];
	const char *name = group->name;
	TestGroup	old = *group;

	switch (test_random(8))
	{
		case 0:
			join(ring, close);
			break;
		case 1:
			if (ring->ngroups > 1)
				test_remove(ring, name);
			break;
		case 2:
			append_points(ring, group, test_random(8), close);
			break;
		case 3:
			group->npoints = test_random(group->npoints + 1);
			break;
		case 4:
			change_slots(group);
			break;
		case 5:					/* another number of slots */
			test_remove(ring, name);
			group = test_add(ring, name,
							 slot_counts[test_random(LENGTH(slot_counts))]);
			group->points = old.points;
			group->npoints = old.npoints;
			scatter_slots(group);
			break;
		case 6:
			pin_something(ring, close);
			break;
		case 7:
			if (ring->npins > 0)
				ring->pins[0] = ring->pins[--ring->npins];
			break;
	}
}
