/*
 * md5_lanes.h
 *		Positions of several keys at once, by MD5: what md5_lanes.c offers.
 */
#ifndef SHARDRING_MD5_LANES_H
#define SHARDRING_MD5_LANES_H

#include <stddef.h>
#include <stdint.h>

#define MD5_LANES	16

extern void md5_lanes(const unsigned char *const keys[MD5_LANES],
					  const size_t lens[MD5_LANES],
					  uint32_t positions[MD5_LANES]);

#endif							/* SHARDRING_MD5_LANES_H */
