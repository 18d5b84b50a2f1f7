/*
 * remote_hosts.h
 *		Which hosts of a server are names, and their addresses for libpq.
 */
#ifndef SHARDRING_REMOTE_HOSTS_H
#define SHARDRING_REMOTE_HOSTS_H

#include "remote_address.h"
#include "resolve.h"

/* The hosts of one server, in the order in which libpq tries them. */
typedef struct RemoteHosts
{
	const char *list;			/* all of them as libpq was told */
	int			n;
	char	  **hosts;
	char	  **hostaddrs;		/* "" where there is none */
	char	  **ports;			/* NULL: one for all, or the default */
	HostName  **names;			/* NULL where nothing is to be looked up */
	bool	   *tried;			/* was given to libpq, or cannot be resolved */
	int			noptions;		/* of the address, without hosts */
	const char *failure;		/* what libpq said of those it tried, or "" */
} RemoteHosts;

extern RemoteHosts *remote_hosts_find(RemoteAddress *address,
									  Resolver *resolver);
extern const char *remote_hosts_unknown(const RemoteHosts *hosts);
extern bool remote_hosts_any(const RemoteHosts *hosts);
extern const char *remote_hosts_put(RemoteHosts *hosts,
									RemoteAddress *address);
extern bool remote_hosts_left(const RemoteHosts *hosts);
extern const char *remote_hosts_explain(const RemoteHosts *hosts,
										const char *error);

#endif							/* SHARDRING_REMOTE_HOSTS_H */
