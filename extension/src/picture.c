/*
 * picture.c
 *		What a picture of a ring shows: whose arcs are where, what moves and
 *		to whom.
 *
 * The hard idea is the brush.  A ring may have more arcs than a picture has
 * pixels, and yet the colours must have the shares that their groups have.
 * So arcs are paid into an account per colour; whenever a pixel's worth has
 * come in, it is painted in the colour that is owed most, which goes into
 * debt if need be, and debts are worked off by the pixels that follow.  An
 * arc that is wider than a pixel is painted as it is.  In the end the pieces
 * of each colour are stretched by what is still owed (far less than a pixel
 * each), so the sums are exact and no piece is off its place by more than a
 * few pixels.
 *
 * Where groups stay and only slots move, arcs would show nothing, because the
 * slots of a group lie side by side all along them.  Then the owners are the
 * shards, each with one arc as long as its share.
 */
#include "svg.h"

typedef struct Brush
{
	double		wet;			/* paid in and not painted yet */
	double		owned[ALL_COLOURS]; /* all that was paid in */
	double		painted[ALL_COLOURS];
	double		widest[ALL_COLOURS];	/* the longest payment, */
	uint32		place[ALL_COLOURS]; /* and the piece it came before */
	PictureBand band;
} Brush;

/* Positions [lo, hi) of which a part moves to a group. */
typedef struct MovingPart
{
	uint64		lo;
	uint64		hi;
	uint32		to_group;
	double		part;
} MovingPart;

static bool groups_stay(const Ring *from, const Ring *to);
static void draw_groups(Picture *picture, const Ring *from, const Ring *ring);
static void draw_shards(Picture *picture, const Ring *from, const Ring *ring);
static uint32 *choose_entries(Picture *picture, uint32 n,
							  const RingName *names, const uint64 *positions,
							  const uint64 *gained);
static void merge_others(Picture *picture, uint32 *colours);
static int	compare_entries(const void *a, const void *b);
static int	compare_gains(const void *a, const void *b);
static PictureBand paint_owners(const Ring *ring, const uint32 *colours);
static PictureBand paint_shards(uint32 n, const uint64 *positions,
								const uint64 *coloured,
								const uint32 *colours);
static MovingPart *find_moves(const Ring *from, const Ring *to, uint32 *n,
							  uint64 *gained);
static int	compare_parts(const void *a, const void *b);
static PictureBand paint_moves(const MovingPart *parts, uint32 n,
							   const uint32 *colours);
static Brush *brush_create(void);
static void brush_pay(Brush *brush, uint32 colour, double length);
static void brush_paint(Brush *brush);
static PictureBand brush_finish(Brush *brush);
static void band_add(PictureBand *band, uint32 colour, double length);

PG_FUNCTION_INFO_V1(shardring_ring_svg);

/*
 * ring_svg(ring, version) or ring_svg(ring, from_version, to_version): a
 * picture of the ring, and of what moves.
 */
Datum
shardring_ring_svg(PG_FUNCTION_ARGS)
{
	CallSite   *site = memo_call_site(fcinfo);
	Picture		picture = {0};
	const Memo *memo;
	const Ring *from = NULL;
	int			to = PG_NARGS() - 1;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	picture.ring = PG_GETARG_TEXT_PP(0);
	memo = memo_get_routable(&site->memo, picture.ring, PG_ARGISNULL(to) ?
							 ACTIVE_VERSION : PG_GETARG_INT32(to));
	picture.version = memo->version;
	picture.npoints = memo->ring->npoints;
	if (to > 1 && !PG_ARGISNULL(1))
	{
		const Memo *from_memo = memo_get(&site->memo_from, picture.ring,
										 PG_GETARG_INT32(1));

		picture.from_version = from_memo->version;
		from = from_memo->ring;
	}
	if (from != NULL && groups_stay(from, memo->ring))
		draw_shards(&picture, from, memo->ring);
	else
		draw_groups(&picture, from, memo->ring);
	PG_RETURN_TEXT_P(svg_write(&picture));
}

/*
 * Whether slots move and no position changes its group.
 */
static bool
groups_stay(const Ring *from, const Ring *to)
{
	DiffList	groups;
	DiffList	shards;

	diff_list(from, to, DIFF_GROUPS, &shardring_env, &groups);
	diff_list(from, to, DIFF_SHARDS, &shardring_env, &shards);
	return groups.npairs == 0 && shards.npairs > 0;
}

/*
 * The owners are groups.
 */
static void
draw_groups(Picture *picture, const Ring *from, const Ring *ring)
{
	uint32		n = ring->ngroups;
	RingName   *names = palloc(n * sizeof(RingName));
	uint64	   *positions = palloc(n * sizeof(uint64));
	uint64	   *gained = palloc0(n * sizeof(uint64));
	uint32	   *colours;
	MovingPart *parts = NULL;
	uint32		nparts = 0;

	picture->owner = "group";
	for (uint32 i = 0; i < n; i++)
		names[i] = ring->groups[i].name;
	ring_shares(&ring->arcs, n, positions);
	if (from != NULL)
		parts = find_moves(from, ring, &nparts, gained);
	colours = choose_entries(picture, n, names, positions, gained);
	picture->owners = paint_owners(ring, colours);
	if (from != NULL)
		picture->moves = paint_moves(parts, nparts, colours);
}

/*
 * The owners are shards.
 */
static void
draw_shards(Picture *picture, const Ring *from, const Ring *ring)
{
	uint32		n = ring->nshards;
	uint64	   *positions = palloc(n * sizeof(uint64));
	uint64	   *gained = palloc0(n * sizeof(uint64));
	uint32	   *colours;
	DiffPlan	plan;

	picture->owner = "shard";
	diff_shard_shares(ring, &shardring_env, positions);
	diff_plan(from, ring, &shardring_env, &plan);
	for (uint32 i = 0; i < plan.nmoves; i++)
		gained[plan.moves[i].to_shard] += plan.moves[i].positions;
	colours = choose_entries(picture, n, ring->shards, positions, gained);
	picture->owners = paint_shards(n, positions, positions, colours);
	picture->moves = paint_shards(n, positions, gained, colours);
}

/*
 * The lines of the legend, the largest first; returns each owner's colour.
 * While there are enough, they go by the order of names, so that pictures of
 * two versions are alike.
 */
static uint32 *
choose_entries(Picture *picture, uint32 n, const RingName *names,
			   const uint64 *positions, const uint64 *gained)
{
	uint32	   *colours = palloc(n * sizeof(uint32));

	picture->nowners = n;
	picture->nentries = n;
	picture->entries = palloc(n * sizeof(PictureEntry));
	for (uint32 i = 0; i < n; i++)
	{
		picture->moved += gained[i];
		colours[i] = i;
		picture->entries[i] = (PictureEntry) {
			i, names[i], 1, positions[i], gained[i]
		};
	}
	if (n <= PICTURE_COLOURS)
		qsort(picture->entries, n, sizeof(PictureEntry), compare_entries);
	else
	{
		qsort(picture->entries, n, sizeof(PictureEntry), compare_gains);
		merge_others(picture, colours);
	}
	return colours;
}

/*
 * There are more owners than colours: the first get one, the others have the
 * last line.
 */
static void
merge_others(Picture *picture, uint32 *colours)
{
	PictureEntry others = {.colour = COLOUR_OTHERS};

	for (uint32 i = 0; i < picture->nentries; i++)
	{
		PictureEntry *entry = &picture->entries[i];
		uint32		owner = entry->colour;

		entry->colour = Min(i, COLOUR_OTHERS);
		colours[owner] = entry->colour;
		if (i < PICTURE_COLOURS)
			continue;
		others.owners++;
		others.positions += entry->positions;
		others.gained += entry->gained;
	}
	picture->entries[PICTURE_COLOURS] = others;
	picture->nentries = PICTURE_COLOURS + 1;
}

/*
 * The largest first; equals in the order of their names.
 */
static int
compare_entries(const void *a, const void *b)
{
	const PictureEntry *x = a;
	const PictureEntry *y = b;

	if (x->positions != y->positions)
		return x->positions < y->positions ? 1 : -1;
	return (x->colour > y->colour) - (x->colour < y->colour);
}

/*
 * As compare_entries, but those that gain something before those that do not.
 */
static int
compare_gains(const void *a, const void *b)
{
	bool		x = ((const PictureEntry *) a)->gained > 0;
	bool		y = ((const PictureEntry *) b)->gained > 0;

	return x != y ? y - x : compare_entries(a, b);
}

/*
 * The band of who owns what.
 */
static PictureBand
paint_owners(const Ring *ring, const uint32 *colours)
{
	Brush	   *brush = brush_create();
	uint64		lo = 0;

	for (uint32 i = 0; i < ring->arcs.n; i++)
	{
		uint64		hi = (uint64) ring->arcs.ends[i] + 1;

		brush_pay(brush, colours[ring->arcs.owners[i]], hi - lo);
		brush_paint(brush);
		lo = hi;
	}
	return brush_finish(brush);
}

/*
 * A band with one arc a shard, of which the first "coloured" positions are in
 * its colour.
 */
static PictureBand
paint_shards(uint32 n, const uint64 *positions, const uint64 *coloured,
			 const uint32 *colours)
{
	Brush	   *brush = brush_create();

	for (uint32 i = 0; i < n; i++)
	{
		brush_pay(brush, colours[i], coloured[i]);
		brush_paint(brush);
		brush_pay(brush, COLOUR_NONE, positions[i] - coloured[i]);
		brush_paint(brush);
	}
	return brush_finish(brush);
}

/*
 * Where something moves, ascending, and how much each group gains.  Slots
 * that move inside a group are spread evenly over all of its arcs, so there a
 * part of every arc moves.
 */
static MovingPart *
find_moves(const Ring *from, const Ring *to, uint32 *n, uint64 *gained)
{
	DiffPlan	plan;
	uint64	   *moving;
	MovingPart *parts;

	diff_plan(from, to, &shardring_env, &plan);
	moving = palloc0(plan.list.npairs * sizeof(uint64));
	for (uint32 i = 0; i < plan.nmoves; i++)
		moving[plan.moves[i].pair] += plan.moves[i].positions;
	parts = palloc_extended(plan.list.nsegments * sizeof(MovingPart),
							MCXT_ALLOC_HUGE);
	*n = 0;
	for (uint32 i = 0; i < plan.list.npairs; i++)
	{
		const DiffPair *pair = &plan.list.pairs[i];

		gained[pair->to_group] += moving[i];
		for (uint32 k = 0; k < pair->n && moving[i] > 0; k++)
		{
			const DiffSegment *segment = &plan.list.segments[pair->first + k];

			parts[(*n)++] = (MovingPart) {
				segment->lo, segment->hi, pair->to_group,
				(double) moving[i] / pair->positions
			};
		}
	}
	qsort(parts, *n, sizeof(MovingPart), compare_parts);
	return parts;
}

/*
 * Comparator: by position.
 */
static int
compare_parts(const void *a, const void *b)
{
	uint64		x = ((const MovingPart *) a)->lo;
	uint64		y = ((const MovingPart *) b)->lo;

	return (x > y) - (x < y);
}

/*
 * The band of what moves, in the colour of whom it moves to.
 */
static PictureBand
paint_moves(const MovingPart *parts, uint32 n, const uint32 *colours)
{
	Brush	   *brush = brush_create();
	uint64		at = 0;

	for (uint32 i = 0; i < n; i++)
	{
		const MovingPart *part = &parts[i];
		double		left = part->hi - part->lo;

		brush_pay(brush, COLOUR_NONE, part->lo - at);
		brush_paint(brush);
		at = part->hi;
		while (left > 0)
		{
			/* where only a part moves, the colours alternate */
			double		step = part->part < 1 ? Min(left, PICTURE_PIXEL) :
				left;

			brush_pay(brush, colours[part->to_group], step * part->part);
			brush_pay(brush, COLOUR_NONE, step * (1 - part->part));
			brush_paint(brush);
			left -= step;
		}
	}
	brush_pay(brush, COLOUR_NONE, RING_CIRCLE - at);
	brush_paint(brush);
	return brush_finish(brush);
}

/*
 * A brush that nothing was paid to.
 */
static Brush *
brush_create(void)
{
	return palloc0(sizeof(Brush));
}

/*
 * Pays in a length of a colour, for brush_paint.
 */
static void
brush_pay(Brush *brush, uint32 colour, double length)
{
	brush->wet += length;
	brush->owned[colour] += length;
	if (length > brush->widest[colour])
	{
		brush->widest[colour] = length;
		brush->place[colour] = brush->band.n;
	}
}

/*
 * Paints what has come in, once it makes a pixel.
 */
static void
brush_paint(Brush *brush)
{
	uint32		best = 0;

	if (brush->wet < PICTURE_PIXEL)
		return;
	for (uint32 c = 1; c < ALL_COLOURS; c++)
		if (brush->owned[c] - brush->painted[c] >
			brush->owned[best] - brush->painted[best])
			best = c;
	band_add(&brush->band, best, brush->wet);
	brush->painted[best] += brush->wet;
	brush->wet = 0;
}

/*
 * Stretches the pieces of each colour to what it owned.  A colour that was
 * never painted gets its piece where it had most.
 */
static PictureBand
brush_finish(Brush *brush)
{
	PictureBand band = {0};

	for (uint32 i = 0; i <= brush->band.n; i++)
	{
		for (uint32 c = 0; c < ALL_COLOURS; c++)
			if (brush->painted[c] == 0 && brush->owned[c] > 0 &&
				brush->place[c] == i)
				band_add(&band, c, brush->owned[c]);
		if (i < brush->band.n)
		{
			const PicturePiece *piece = &brush->band.pieces[i];

			band_add(&band, piece->colour, piece->length *
					 brush->owned[piece->colour] /
					 brush->painted[piece->colour]);
		}
	}
	return band;
}

/*
 * Adds a piece, or lengthens the last one of the same colour.
 */
static void
band_add(PictureBand *band, uint32 colour, double length)
{
	if (band->n > 0 && band->pieces[band->n - 1].colour == colour)
	{
		band->pieces[band->n - 1].length += length;
		return;
	}
	if (band->n == 0)
		band->pieces = palloc(1024 * sizeof(PicturePiece));
	else if (band->n % 1024 == 0)
		/*
		 * LCOV_EXCL_START: a circle has 942 pixels, each one piece, and there
		 * are 102 colours that may get a piece without being painted: more
		 * than 1024 takes a ring where the colour changes at nearly every
		 * pixel and 82 colours have no pixel at all.
		 */
		band->pieces = repalloc(band->pieces,
								(band->n + 1024) * sizeof(PicturePiece));
		/* LCOV_EXCL_STOP */
	band->pieces[band->n++] = (PicturePiece) {colour, length};
}
