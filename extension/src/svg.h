/*
 * svg.h
 *		A picture of a ring, and writing it down as SVG.
 *
 * picture.c decides what is drawn and fills in a Picture; svg.c writes it.
 */
#ifndef SHARDRING_SVG_H
#define SHARDRING_SVG_H

#include "shardring.h"

#define PICTURE_COLOURS		100 /* of owners; then there are two greys */
#define COLOUR_OTHERS		PICTURE_COLOURS /* owners without one */
#define COLOUR_NONE			(PICTURE_COLOURS + 1)	/* what does not move */
#define ALL_COLOURS			(PICTURE_COLOURS + 2)

/* A part of a band, in one colour.  Lengths are in positions. */
typedef struct PicturePiece
{
	uint32		colour;
	double		length;
} PicturePiece;

/* A closed circle of pieces, from position 0 clockwise. */
typedef struct PictureBand
{
	uint32		n;
	PicturePiece *pieces;
} PictureBand;

/* A line of the legend. */
typedef struct PictureEntry
{
	uint32		colour;
	RingName	name;			/* of COLOUR_OTHERS: none */
	uint32		owners;			/* 1, or how many are others */
	uint64		positions;		/* that it owns */
	uint64		gained;			/* of them, what moves to it */
} PictureEntry;

typedef struct Picture
{
	text	   *ring;
	int32		version;
	int32		from_version;	/* NO_VERSION: one band only */
	const char *owner;			/* "group", or "shard" where groups stay */
	uint32		nowners;
	uint32		npoints;
	uint64		moved;			/* positions that change their shard */
	PictureBand owners;
	PictureBand moves;			/* when there is a from_version */
	uint32		nentries;
	PictureEntry *entries;
} Picture;

/* The circle is drawn with this radius, and nothing thinner than a pixel. */
#define PICTURE_RADIUS		150.0
#define PICTURE_PIXEL		((double) RING_CIRCLE / (2 * 3.14159265 * \
													 PICTURE_RADIUS))

/* ---------- palette.c ---------- */

extern const uint32 picture_palette[ALL_COLOURS];

/* ---------- svg.c ---------- */

extern text *svg_write(const Picture *picture);

#endif							/* SHARDRING_SVG_H */
