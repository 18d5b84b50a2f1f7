/*
 * resolve.h
 *		Resolving host names, many at once: what resolve.c offers.
 *
 * Neither libpq nor threads appear here.
 */
#ifndef SHARDRING_RESOLVE_H
#define SHARDRING_RESOLVE_H

#include "shardring.h"

#include "nodes/pg_list.h"

/* A name and its addresses. */
typedef struct HostName
{
	const char *name;
	bool		known;			/* then one of the next two is set */
	const char *error;
	List	   *addresses;		/* of char *, in the order of libc */
	struct Lookup *lookup;		/* of a running thread, or NULL */
} HostName;

/* The names that one question needs.  All is zero at first. */
typedef struct Resolver
{
	List	   *names;			/* of HostName * */
} Resolver;

extern bool resolve_is_name(const char *host);
extern HostName *resolve_add(Resolver *resolver, const char *name);
extern bool resolve_go_on(Resolver *resolver);
extern void resolve_abandon(Resolver *resolver);

#endif							/* SHARDRING_RESOLVE_H */
