/*
 * svg.c
 *		Writes a picture of a ring as SVG.
 *
 * Rules of this file:
 *	- the SVG is self-contained, 600 units wide, on white ground, and ASCII
 *	  but for names;
 *	- a band is one path per colour, so that a pointer or a screen reader
 *	  finds the group of an arc; the paths of a band are in a group of class
 *	  "owners" or "moves", and have no other coordinates than those of arcs;
 *	- the legend stands beside the ring while it is short, else below it.
 */
#include "svg.h"

#include <math.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#define TURN			(2 * 3.14159265358979323846)
#define SHORT_LEGEND	16

/* The layout of the picture. */
typedef struct SvgLayout
{
	double		x;				/* centre of the ring */
	double		y;
	double		height;
	double		owners_width;	/* of the outer band */
	double		moves_radius;	/* middle of the inner band */
	double		moves_width;
	double		hole;			/* radius that is free for text */
} SvgLayout;

/* The columns of a legend, in units from its left edge. */
typedef struct SvgLegend
{
	double		left;
	double		top;
	double		step;			/* from one column of entries to the next */
	uint32		rows;
	double		row;			/* height */
	double		font;
	double		bar;			/* width of the longest */
	double		name;
	int			letters;		/* of a name */
	double		share;			/* right edge */
	double		gained;			/* right edge */
} SvgLegend;

static SvgLayout svg_layout(const Picture *picture);
static SvgLegend svg_legend(const Picture *picture);
static void write_start(StringInfo svg, const Picture *picture,
						const SvgLayout *layout);
static void write_band(StringInfo svg, const Picture *picture,
					   const SvgLayout *layout, const char *class,
					   const PictureBand *band, double radius, double width);
static void write_arc(StringInfo path, const SvgLayout *layout,
					  double radius, double from, double to);
static void write_point(StringInfo path, const SvgLayout *layout,
						double radius, double angle);
static void write_path(StringInfo svg, const Picture *picture, uint32 colour,
					   const char *path, double positions, bool moves);
static void write_words(StringInfo svg, const Picture *picture,
						const SvgLayout *layout);
static char *count_owners(const Picture *picture);
static void write_line(StringInfo svg, const SvgLayout *layout, double y,
					   double font, const char *style, const char *words);
static void write_legend(StringInfo svg, const Picture *picture);
static void write_heads(StringInfo svg, const Picture *picture,
						const SvgLegend *legend, double x);
static void write_entry(StringInfo svg, const Picture *picture,
						const SvgLegend *legend, const PictureEntry *entry,
						double x, double y);
static void write_number(StringInfo svg, double x, double y, double share,
						 const char *sign);
static char *entry_name(const PictureEntry *entry, int letters);
static char *xml_text(RingName name, int letters);
static int	text_columns(const char *p, const char *end);
static void xml_character(StringInfo xml, const char *p, int len);
static char *with_commas(uint64 number);

/*
 * The picture as text in the encoding of the server.
 */
text *
svg_write(const Picture *picture)
{
	SvgLayout	layout = svg_layout(picture);
	StringInfoData svg;

	initStringInfo(&svg);
	write_start(&svg, picture, &layout);
	write_band(&svg, picture, &layout, "owners", &picture->owners,
			   PICTURE_RADIUS - layout.owners_width / 2, layout.owners_width);
	if (picture->from_version != NO_VERSION)
		write_band(&svg, picture, &layout, "moves", &picture->moves,
				   layout.moves_radius, layout.moves_width);
	write_words(&svg, picture, &layout);
	write_legend(&svg, picture);
	appendStringInfoString(&svg, "</svg>\n");
	return cstring_to_text_with_len(svg.data, svg.len);
}

/*
 * Computes the layout of this picture.
 */
static SvgLayout
svg_layout(const Picture *picture)
{
	SvgLegend	legend = svg_legend(picture);
	bool		beside = picture->nentries <= SHORT_LEGEND;
	bool		moves = picture->from_version != NO_VERSION;
	double		bottom = legend.top + legend.rows * legend.row + 14;
	SvgLayout	layout;

	layout.height = Max(bottom, 2 * PICTURE_RADIUS + 28);
	layout.x = beside ? PICTURE_RADIUS + 16 : 300;
	layout.y = beside ? layout.height / 2 : PICTURE_RADIUS + 16;
	layout.owners_width = moves ? 36 : 44;
	layout.moves_width = 28;
	layout.moves_radius = PICTURE_RADIUS - 36 - 4 - 14;
	layout.hole = PICTURE_RADIUS - (moves ? 36 + 4 + 28 : 44);
	return layout;
}

/*
 * Where the legend is and how it is divided.
 */
static SvgLegend
svg_legend(const Picture *picture)
{
	bool		moves = picture->from_version != NO_VERSION;
	int			columns = moves ? 3 : 4;

	if (picture->nentries <= SHORT_LEGEND)
		return (SvgLegend) {
			336, 40, 0, picture->nentries, 20, 12, moves ? 44 : 60,
				moves ? 52 : 68, moves ? 11 : 16, moves ? 184 : 250, 250
		};
	return (SvgLegend) {
		16, 2 * PICTURE_RADIUS + 64, moves ? 192 : 144,
			(picture->nentries + columns - 1) / columns, 15, 10, 10, 15,
			12, moves ? 138 : 132, 184
	};
}

/*
 * Writes what comes before the first band.
 */
static void
write_start(StringInfo svg, const Picture *picture, const SvgLayout *layout)
{
	char	   *ring = xml_text((RingName) {
		VARDATA_ANY(picture->ring), VARSIZE_ANY_EXHDR(picture->ring)
	}, 0);

	appendStringInfo(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" "
					 "width=\"600\" height=\"%.0f\" "
					 "viewBox=\"0 0 600 %.0f\" role=\"img\" "
					 "font-family=\"Helvetica,Arial,sans-serif\" "
					 "fill=\"#222222\">\n",
					 layout->height, layout->height);
	appendStringInfo(svg, "<title>ring %s, version %d</title>\n", ring,
					 picture->version);
	appendStringInfoString(svg, "<rect width=\"100%\" height=\"100%\" "
						   "rx=\"6\" fill=\"#ffffff\"/>\n");
}

/*
 * A band, on a grey one that keeps white from shining through where pieces
 * meet.
 */
static void
write_band(StringInfo svg, const Picture *picture, const SvgLayout *layout,
		   const char *class, const PictureBand *band, double radius,
		   double width)
{
	StringInfoData paths[ALL_COLOURS] = {0};
	double		positions[ALL_COLOURS] = {0};
	double		at = 0;

	appendStringInfo(svg, "<circle cx=\"%g\" cy=\"%g\" r=\"%g\" "
					 "fill=\"none\" stroke=\"#888888\" "
					 "stroke-width=\"%g\"/>\n",
					 layout->x, layout->y, radius, width - 1);
	appendStringInfo(svg, "<g class=\"%s\" fill=\"none\" "
					 "stroke-width=\"%g\">\n", class, width);
	for (uint32 i = 0; i < band->n; i++)
	{
		uint32		colour = band->pieces[i].colour;
		double		end = at + band->pieces[i].length;

		if (paths[colour].data == NULL)
			initStringInfo(&paths[colour]);
		write_arc(&paths[colour], layout, radius,
				  at / (double) RING_CIRCLE, end / (double) RING_CIRCLE);
		positions[colour] += band->pieces[i].length;
		at = end;
	}
	for (uint32 c = 0; c < ALL_COLOURS; c++)
		if (paths[c].data != NULL)
			write_path(svg, picture, c, paths[c].data, positions[c],
					   band == &picture->moves);
	appendStringInfoString(svg, "</g>\n");
}

/*
 * An arc from one fraction of the circle to another; none of its parts is so
 * long that its direction could be mistaken.
 */
static void
write_arc(StringInfo path, const SvgLayout *layout, double radius,
		  double from, double to)
{
	int			parts = 1 + (int) ((to - from) * 3);

	appendStringInfoChar(path, 'M');
	write_point(path, layout, radius, from);
	for (int i = 1; i <= parts; i++)
	{
		appendStringInfo(path, "A%g %g 0 0 1 ", radius, radius);
		write_point(path, layout, radius,
					from + (to - from) * i / parts);
	}
}

/*
 * Position 0 is at the top, and positions go clockwise.
 */
static void
write_point(StringInfo path, const SvgLayout *layout, double radius,
			double fraction)
{
	appendStringInfo(path, "%.2f %.2f",
					 layout->x + radius * sin(fraction * TURN),
					 layout->y - radius * cos(fraction * TURN));
}

/*
 * Writes all pieces of one colour of a band, with a title.
 */
static void
write_path(StringInfo svg, const Picture *picture, uint32 colour,
		   const char *path, double positions, bool moves)
{
	double		share = 100 * positions / (double) RING_CIRCLE;

	appendStringInfo(svg, "<path stroke=\"#%06x\" d=\"%s\"><title>",
					 picture_palette[colour], path);
	if (colour == COLOUR_NONE)
		appendStringInfo(svg, "stays: %.2f %%", share);
	for (uint32 i = 0; i < picture->nentries; i++)
		if (picture->entries[i].colour == colour)
			appendStringInfo(svg, "%s%s: %.2f %%", moves ? "to " : "",
							 entry_name(&picture->entries[i], 0), share);
	appendStringInfoString(svg, "</title></path>\n");
}

/*
 * Writes the text inside the ring.
 */
static void
write_words(StringInfo svg, const Picture *picture, const SvgLayout *layout)
{
	bool		moves = picture->from_version != NO_VERSION;
	double		y = layout->y - (moves ? 24 : 26);
	RingName	ring = {VARDATA_ANY(picture->ring),
	VARSIZE_ANY_EXHDR(picture->ring)};

	write_line(svg, layout, y, moves ? 18 : 22, " font-weight=\"bold\"",
			   xml_text(ring, moves ? 13 : 15));
	if (moves)
	{
		write_line(svg, layout, y + 21, 12, "",
				   psprintf("version %d &#8594; %d", picture->from_version,
							picture->version));
		write_line(svg, layout, y + 39, 12, "",
				   count_owners(picture));
		write_line(svg, layout, y + 60, 14, " font-weight=\"bold\"",
				   psprintf("%.2f %% moves", 100 * (double) picture->moved /
							(double) RING_CIRCLE));
		return;
	}
	write_line(svg, layout, y + 24, 13, "",
			   psprintf("version %d", picture->version));
	write_line(svg, layout, y + 44, 13, "",
			   count_owners(picture));
	write_line(svg, layout, y + 62, 13, "",
			   psprintf("%s point%s", with_commas(picture->npoints),
						picture->npoints == 1 ? "" : "s"));
}

/*
 * How many groups, or shards, the bands show.
 */
static char *
count_owners(const Picture *picture)
{
	return psprintf("%s %s%s", with_commas(picture->nowners), picture->owner,
					picture->nowners == 1 ? "" : "s");
}

/*
 * Writes one line of text, centred in the ring.
 */
static void
write_line(StringInfo svg, const SvgLayout *layout, double y, double font,
		   const char *style, const char *words)
{
	appendStringInfo(svg, "<text x=\"%g\" y=\"%g\" font-size=\"%g\" "
					 "text-anchor=\"middle\"%s>%s</text>\n",
					 layout->x, y, font, style, words);
}

/*
 * The legend, column by column.
 */
static void
write_legend(StringInfo svg, const Picture *picture)
{
	SvgLegend	legend = svg_legend(picture);

	appendStringInfo(svg, "<g class=\"legend\" font-size=\"%g\">\n",
					 legend.font);
	for (uint32 i = 0; i < picture->nentries; i++)
	{
		double		x = legend.left + i / legend.rows * legend.step;
		double		y = legend.top + i % legend.rows * legend.row;

		if (i % legend.rows == 0)
			write_heads(svg, picture, &legend, x);
		write_entry(svg, picture, &legend, &picture->entries[i], x, y);
	}
	appendStringInfoString(svg, "</g>\n");
}

/*
 * The heads over one column of entries.
 */
static void
write_heads(StringInfo svg, const Picture *picture, const SvgLegend *legend,
			double x)
{
	double		y = legend->top - 10;

	appendStringInfo(svg, "<g fill=\"#666666\" font-size=\"%g\">"
					 "<text x=\"%g\" y=\"%g\">%s</text>"
					 "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">share"
					 "</text>", legend->font - 1, x + legend->name, y,
					 picture->owner, x + legend->share, y);
	if (picture->from_version != NO_VERSION)
		appendStringInfo(svg, "<text x=\"%g\" y=\"%g\" "
						 "text-anchor=\"end\">moves in</text>",
						 x + legend->gained, y);
	appendStringInfoString(svg, "</g>\n");
}

/*
 * A bar in the group's colour, its name and its share.  Short bars keep a
 * width at which their colour can be seen.
 */
static void
write_entry(StringInfo svg, const Picture *picture, const SvgLegend *legend,
			const PictureEntry *entry, double x, double y)
{
	double		share = (double) entry->positions / (double) RING_CIRCLE;
	double		largest = (double) picture->entries[0].positions /
		(double) RING_CIRCLE;
	double		bar = legend->bar;
	double		base = y + legend->row - 5;

	if (bar > 10)
		bar = Max(6, bar * Min(share / largest, 1));
	appendStringInfo(svg, "<rect x=\"%g\" y=\"%g\" width=\"%.1f\" "
					 "height=\"%g\" fill=\"#%06x\"/>"
					 "<text x=\"%g\" y=\"%g\">%s</text>",
					 x + (legend->bar > 10 ? legend->bar - bar : 0),
					 base - legend->font + 2, bar, legend->font,
					 picture_palette[entry->colour], x + legend->name, base,
					 entry_name(entry, legend->letters));
	write_number(svg, x + legend->share, base, share, "");
	if (picture->from_version != NO_VERSION && entry->gained > 0)
		write_number(svg, x + legend->gained, base,
					 (double) entry->gained / (double) RING_CIRCLE, "+");
	appendStringInfoChar(svg, '\n');
}

/*
 * A share in percent, its right edge at x.
 */
static void
write_number(StringInfo svg, double x, double y, double share,
			 const char *sign)
{
	appendStringInfo(svg, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">"
					 "%s%.2f %%</text>", x, y, sign, 100 * share);
}

/*
 * The label of an entry, cut to a number of letters (0: whole).
 */
static char *
entry_name(const PictureEntry *entry, int letters)
{
	if (entry->colour == COLOUR_OTHERS)
		return psprintf("&#8230; %s more", with_commas(entry->owners));
	return xml_text(entry->name, letters);
}

/*
 * A name as text in XML, cut in the middle to a number of columns (0: whole):
 * names that begin alike differ at their ends.  Characters that XML cannot
 * hold become a question mark.
 */
static char *
xml_text(RingName name, int letters)
{
	const char *end = name.bytes + name.len;
	const char *next;
	int			columns = text_columns(name.bytes, end);
	int			tail = (letters - 1) / 2;
	int			head = letters - 1 - tail;
	int			at = 0;
	bool		whole = letters == 0 || columns <= letters;
	bool		cut = false;
	StringInfoData xml;

	initStringInfo(&xml);
	for (const char *p = name.bytes; p < end; p = next)
	{
		int			width;

		next = p + Min(pg_mblen(p), end - p);
		width = text_columns(p, next);
		if (whole || at + width <= head || at >= columns - tail)
			xml_character(&xml, p, next - p);
		else if (!cut)
		{
			appendStringInfoString(&xml, "&#8230;");
			cut = true;
		}
		at += width;
	}
	return xml.data;
}

/*
 * How many columns these characters take.
 */
static int
text_columns(const char *p, const char *end)
{
	int			columns = 0;

	for (; p < end; p += pg_mblen(p))
		columns += Max(pg_dsplen(p), 0);
	return columns;
}

/*
 * Adds one character of "len" bytes.
 */
static void
xml_character(StringInfo xml, const char *p, int len)
{
	if (*p == '<' || *p == '>' || *p == '&' || *p == '"')
		appendStringInfo(xml, "&#%d;", *p);
	else if (len == 1 && (unsigned char) *p < ' ')
		appendStringInfoChar(xml, '?');
	else
		appendBinaryStringInfo(xml, p, len);
}

/*
 * 1234567 as 1,234,567.
 */
static char *
with_commas(uint64 number)
{
	char	   *digits = psprintf(UINT64_FORMAT, number);
	int			len = strlen(digits);
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i < len; i++)
	{
		if (i > 0 && (len - i) % 3 == 0)
			appendStringInfoChar(&out, ',');
		appendStringInfoChar(&out, digits[i]);
	}
	return out.data;
}
