/*
 * remote_hosts.c
 *		Which hosts of a server are names, and their addresses for libpq.
 *
 * libpq looks up a name in line, unless it has the address too, in hostaddr.
 * So names are looked up before (by resolve.c), and each address becomes a
 * host of its own: lists of hosts, addresses and ports are of one length.
 * Rules of this file:
 *	- a host keeps its name, which TLS and .pgpass look at;
 *	- hosts are given to libpq when all of them are known, or, when that takes
 *	  long, those that are; the others have their turn if libpq fails;
 *	- a server without names, and one whose lists libpq will refuse, are left
 *	  to libpq as they are.
 */
#include "remote_hosts.h"

#include "lib/stringinfo.h"
#include "libpq-fe.h"

static RemoteHosts *split_hosts(PQconninfoOption *options);
static PQconninfoOption *effective_options(RemoteAddress *address);
static const char *option_value(const PQconninfoOption *options,
								const char *keyword);
static char **split_list(const char *list, int *n);
static List *known_addresses(const RemoteHosts *hosts, int i);
static void append_item(StringInfo list, const char *item, bool first);

/*
 * The hosts of a server, whose names it adds to the resolver; NULL if no host
 * is a name.
 */
RemoteHosts *
remote_hosts_find(RemoteAddress *address, Resolver *resolver)
{
	PQconninfoOption *options = effective_options(address);
	RemoteHosts *hosts = NULL;
	bool		found = false;

	if (options == NULL)
		return NULL;			/* LCOV_EXCL_LINE: only without memory */
	PG_TRY();
	{
		hosts = split_hosts(options);
	}
	PG_FINALLY();				/* LCOV_EXCL_LINE: only without memory */
	{
		PQconninfoFree(options);
	}
	PG_END_TRY();
	if (hosts == NULL)
		return NULL;
	hosts->noptions = address->n;
	for (int i = 0; i < hosts->n; i++)
	{
		if (hosts->hostaddrs[i][0] != '\0' ||
			!resolve_is_name(hosts->hosts[i]))
			continue;
		hosts->names[i] = resolve_add(resolver, hosts->hosts[i]);
		found = true;
	}
	return found ? hosts : NULL;
}

/*
 * A name that is not resolved yet, or NULL.
 */
const char *
remote_hosts_unknown(const RemoteHosts *hosts)
{
	for (int i = 0; i < hosts->n; i++)
		if (hosts->names[i] != NULL && !hosts->names[i]->known)
			return hosts->names[i]->name;
	return NULL;
}

/* Whether there is a host to be tried whose address is known. */
bool
remote_hosts_any(const RemoteHosts *hosts)
{
	for (int i = 0; i < hosts->n; i++)
		if (!hosts->tried[i] && (hosts->names[i] == NULL ||
								 hosts->names[i]->addresses != NIL))
			return true;
	return false;
}

/*
 * Puts the hosts that are known and were not tried into the address.  Names
 * that could not be resolved are left out; if no host is left, returns what is
 * wrong: the first error, after that of hosts that were tried.
 */
const char *
remote_hosts_put(RemoteHosts *hosts, RemoteAddress *address)
{
	StringInfoData names;
	StringInfoData addresses;
	StringInfoData ports;
	const char *error = NULL;
	int			n = 0;

	initStringInfo(&names);
	initStringInfo(&addresses);
	initStringInfo(&ports);
	for (int i = 0; i < hosts->n; i++)
	{
		const HostName *name = hosts->names[i];
		ListCell   *cell;

		if (hosts->tried[i] || (name != NULL && !name->known))
			continue;
		hosts->tried[i] = true;
		foreach(cell, known_addresses(hosts, i))
		{
			append_item(&names, hosts->hosts[i], n == 0);
			append_item(&addresses, lfirst(cell), n == 0);
			if (hosts->ports != NULL)
				append_item(&ports, hosts->ports[i], n == 0);
			n++;
		}
		if (name != NULL && error == NULL)
			error = name->error;
	}
	if (n == 0)
		return hosts->failure[0] == '\0' ? error :
			remote_hosts_explain(hosts, "");
	address->n = hosts->noptions;
	remote_add_option(address, "host", names.data);
	remote_add_option(address, "hostaddr", addresses.data);
	if (hosts->ports != NULL)
		remote_add_option(address, "port", ports.data);
	return NULL;
}

/* Whether there are hosts that were not tried. */
bool
remote_hosts_left(const RemoteHosts *hosts)
{
	for (int i = 0; i < hosts->n; i++)
		if (!hosts->tried[i])
			return true;
	return false;
}

/*
 * Adds to libpq's connection error what libpq does not know: the host names,
 * the errors of those that were not resolved, and its own earlier errors.
 */
const char *
remote_hosts_explain(const RemoteHosts *hosts, const char *error)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < hosts->n; i++)
		if (hosts->names[i] != NULL && hosts->names[i]->error != NULL)
			appendStringInfo(&text, "%s; ", hosts->names[i]->error);
	appendStringInfo(&text, "host \"%s\": %s%s", hosts->list, hosts->failure,
					 error);
	return text.data;
}

/*
 * Splits the lists of hosts, addresses, and ports; NULL if their lengths
 * differ or there is no host.
 */
static RemoteHosts *
split_hosts(PQconninfoOption *options)
{
	RemoteHosts *hosts = palloc0(sizeof(RemoteHosts));
	int			n;

	hosts->list = option_value(options, "host");
	hosts->hosts = split_list(hosts->list, &hosts->n);
	hosts->hostaddrs = split_list(option_value(options, "hostaddr"), &n);
	if (hosts->hosts == NULL ||
		(hosts->hostaddrs != NULL && n != hosts->n))
		return NULL;
	hosts->list = pstrdup(hosts->list);
	hosts->names = palloc0(hosts->n * sizeof(HostName *));
	hosts->tried = palloc0(hosts->n * sizeof(bool));
	hosts->failure = "";
	if (hosts->hostaddrs == NULL)
	{
		hosts->hostaddrs = palloc(hosts->n * sizeof(char *));
		for (int i = 0; i < hosts->n; i++)
			hosts->hostaddrs[i] = "";
	}
	hosts->ports = split_list(option_value(options, "port"), &n);
	if (hosts->ports != NULL && n == 1)
		hosts->ports = NULL;
	else if (hosts->ports != NULL && n != hosts->n)
		return NULL;
	return hosts;
}

/*
 * The options that libpq would use, with defaults from the environment and
 * from a service.  Only PQconninfo() tells, and it needs a connection; so this
 * makes one that fails before it begins, since libpq checks sslmode first.
 */
static PQconninfoOption *
effective_options(RemoteAddress *address)
{
	PGconn	   *conn;
	PQconninfoOption *options;

	remote_add_option(address, "sslmode", "no such mode");
	conn = PQconnectStartParams(address->keywords, address->values, false);
	address->n--;
	address->keywords[address->n] = NULL;
	address->values[address->n] = NULL;
	options = conn == NULL ? NULL : PQconninfo(conn);
	PQfinish(conn);
	return options;
}

/* NULL if it is not set or empty. */
static const char *
option_value(const PQconninfoOption *options, const char *keyword)
{
	for (; options->keyword != NULL; options++)
		if (strcmp(options->keyword, keyword) == 0)
			return options->val != NULL && options->val[0] != '\0' ?
				options->val : NULL;
	return NULL;				/* LCOV_EXCL_LINE: libpq has all of them */
}

/*
 * The items of a list with commas, which may be empty; NULL for no list.
 */
static char **
split_list(const char *list, int *n)
{
	char	  **items;
	char	   *rest;

	*n = 0;
	if (list == NULL)
		return NULL;
	items = palloc((strlen(list) + 1) * sizeof(char *));
	for (rest = pstrdup(list); rest != NULL;)
		items[(*n)++] = strsep(&rest, ",");
	return items;
}

/* Of one host, which has "" if it is no name. */
static List *
known_addresses(const RemoteHosts *hosts, int i)
{
	return hosts->names[i] == NULL ? list_make1(hosts->hostaddrs[i]) :
		hosts->names[i]->addresses;
}

static void
append_item(StringInfo list, const char *item, bool first)
{
	appendStringInfo(list, "%s%s", first ? "" : ",", item);
}
