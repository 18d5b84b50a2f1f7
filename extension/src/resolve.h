/*
 * resolve.h
 *		Host names to addresses, many at once: what resolve.c offers.
 *
 * Nothing of libpq here, and nothing of threads: both stay where they are
 * used.
 */
#ifndef SHARDRING_RESOLVE_H
#define SHARDRING_RESOLVE_H

#include "shardring.h"

#include "nodes/pg_list.h"

/* A name, and what has become of it. */
typedef struct HostName
{
	const char *name;
	bool		known;			/* then one of these two is there */
	const char *error;
	List	   *addresses;		/* of char *, in the order of libc */
	struct Lookup *lookup;		/* a thread is at work, or NULL */
} HostName;

/* The names that one question needs.  Begins as zeros. */
typedef struct Resolver
{
	List	   *names;			/* of HostName * */
} Resolver;

extern bool resolve_is_name(const char *host);
extern HostName *resolve_add(Resolver *resolver, const char *name);
extern bool resolve_go_on(Resolver *resolver);
extern void resolve_abandon(Resolver *resolver);

#endif							/* SHARDRING_RESOLVE_H */
