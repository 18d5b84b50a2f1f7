/*
 * remote_address.c
 *		Where a server is, and who asks: a foreign server and a user mapping
 *		as libpq wants them; and what libpq says as we want it.
 *
 * Rules of this file:
 *	- USAGE on the foreign server is needed, and only options that libpq knows
 *	  count;
 *	- a role that is not superuser must supply a password, and the server must
 *	  have asked for it (which remote.c looks at): else it would get in as the
 *	  user that runs this server.  These are the two rules of dblink;
 *	- how this server logs in as a subscriber is a setting that everybody can
 *	  read, so it has no secret, only the way to one.
 */
#include "remote_address.h"

#include "access/reloptions.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"

static bool check_subscriber(char **value, void **extra, GucSource source);
static const char *refused_option(const PQconninfoOption *options);
static List *mapping_options(Oid server);
static void add_options(RemoteAddress *address, List *options,
						bool (*counts) (const char *keyword));
static bool is_server_option(const char *keyword);
static bool is_mapping_option(const char *keyword);
static const PQconninfoOption *known_option(const char *keyword);

PG_FUNCTION_INFO_V1(shardring_subscriber);

static char *setting_subscriber;

/*
 * Called once, when the library is loaded.
 */
void
remote_address_init(void)
{
	DefineCustomStringVariable("shardring.subscriber",
							   "How subscriptions of a move log in.",
							   "A connection string without an address and "
							   "without a password, such as \"user=mover "
							   "passfile=/path\".",
							   &setting_subscriber, "", PGC_SUSET, 0,
							   check_subscriber, NULL, NULL);
}

/*
 * subscriber(): the setting, which is unknown, or was not checked, in a
 * session that has not loaded the library.
 */
Datum
shardring_subscriber(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(setting_subscriber));
}

/*
 * A connection string of which every part may be known to all.
 */
static bool
check_subscriber(char **value, void **extra, GucSource source)
{
	char	   *error = NULL;
	PQconninfoOption *options = PQconninfoParse(*value, &error);
	const char *refused = NULL;

	if (options == NULL)
		GUC_check_errdetail("%s", error != NULL ?
							remote_clean_message(error) : "Out of memory.");
	else
		refused = refused_option(options);
	if (refused != NULL)
		GUC_check_errdetail("Option \"%s\" does not belong there.", refused);
	PQfreemem(error);
	PQconninfoFree(options);
	return options != NULL && refused == NULL;
}

/*
 * The name of an option that is set and is an address or a secret, or NULL.
 * libpq marks its secrets.
 */
static const char *
refused_option(const PQconninfoOption *options)
{
	static const char *const address[] = {"host", "hostaddr", "port",
	"dbname"};

	for (; options->keyword != NULL; options++)
	{
		if (options->val == NULL)
			continue;
		if (strchr(options->dispchar, '*') != NULL)
			return options->keyword;
		for (int i = 0; i < lengthof(address); i++)
			if (strcmp(options->keyword, address[i]) == 0)
				return address[i];
	}
	return NULL;
}

/*
 * The address of a foreign server as libpq's connection string, without
 * secrets and without a user; 42704 or 42501 if there is none.
 */
char *
remote_connect_string(const char *server_name)
{
	ForeignServer *server = GetForeignServerByName(server_name, false);
	StringInfoData string;
	ListCell   *cell;

	if (!compat_may_use_server(server->serverid))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER, server_name);
	initStringInfo(&string);
	foreach(cell, server->options)
	{
		DefElem    *option = lfirst(cell);

		if (!is_server_option(option->defname))
			continue;
		appendStringInfo(&string, "%s%s='", string.len > 0 ? " " : "",
						 option->defname);
		for (const char *c = defGetString(option); *c != '\0'; c++)
		{
			if (*c == '\'' || *c == '\\')
				appendStringInfoChar(&string, '\\');
			appendStringInfoChar(&string, *c);
		}
		appendStringInfoChar(&string, '\'');
	}
	return string.data;
}

/*
 * The address of a foreign server for the current user.  Returns what is
 * wrong with it, or NULL.
 */
const char *
remote_find_address(const char *server_name, RemoteAddress *address)
{
	ForeignServer *server = GetForeignServerByName(server_name, true);
	List	   *mapping;
	int			space;

	if (server == NULL)
		return psprintf("server \"%s\" does not exist", server_name);
	if (!compat_may_use_server(server->serverid))
		return psprintf("permission denied for foreign server %s",
						server_name);
	mapping = mapping_options(server->serverid);
	space = list_length(server->options) + list_length(mapping) + 3 +
		REMOTE_MORE_OPTIONS;
	*address = (RemoteAddress) {0};
	address->keywords = palloc(space * sizeof(char *));
	address->values = palloc(space * sizeof(char *));
	remote_add_option(address, "fallback_application_name", "shardring");
	add_options(address, server->options, is_server_option);
	add_options(address, mapping, is_mapping_option);
	if (!superuser() && !address->has_password)
		return "the user mapping has no password, so only a superuser may "
			"connect";
	remote_add_option(address, "client_encoding", GetDatabaseEncodingName());
	return NULL;
}

/*
 * Adds one; there is room for it.
 */
void
remote_add_option(RemoteAddress *address, const char *keyword,
				  const char *value)
{
	address->keywords[address->n] = keyword;
	address->values[address->n] = value;
	address->n++;
	address->keywords[address->n] = NULL;
	address->values[address->n] = NULL;
	if (strcmp(keyword, "password") == 0)
		address->has_password = value[0] != '\0';
}

/*
 * Is what came from elsewhere valid in the encoding of this database?
 */
bool
remote_is_text(const char *bytes, int len)
{
	return pg_verifymbstr(bytes, len, true);
}

/*
 * A message on one line, in the encoding of this server.
 */
char *
remote_clean_message(const char *message)
{
	char	   *result = pstrdup(message);
	bool		valid = remote_is_text(result, strlen(result));
	char	   *out = result;

	for (const char *in = result; *in != '\0'; in++)
	{
		bool		space = *in == '\n' || *in == '\t' || *in == ' ';

		if (!space)
			*out++ = !valid && IS_HIGHBIT_SET(*in) ? '?' : *in;
		else if (out > result && out[-1] != ' ')
			*out++ = ' ';
	}
	if (out > result && out[-1] == ' ')
		out--;
	*out = '\0';
	return result;
}

/*
 * The options of the current user's mapping, or of the one for PUBLIC; none
 * when there is neither.
 */
static List *
mapping_options(Oid server)
{
	HeapTuple	tuple;
	Datum		options;
	bool		isnull;
	List	   *result;

	tuple = SearchSysCache2(USERMAPPINGUSERSERVER,
							ObjectIdGetDatum(GetUserId()),
							ObjectIdGetDatum(server));
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER,
								ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(server));
	if (!HeapTupleIsValid(tuple))
		return NIL;
	options = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple,
							  Anum_pg_user_mapping_umoptions, &isnull);
	result = isnull ? NIL : untransformRelOptions(options);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Adds those of the options that count.
 */
static void
add_options(RemoteAddress *address, List *options,
			bool (*counts) (const char *keyword))
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		if (counts(option->defname))
			remote_add_option(address, option->defname, defGetString(option));
	}
}

/*
 * Of a server: where it is and how to get there.  What a wrapper understands
 * beyond libpq is passed over.
 */
static bool
is_server_option(const char *keyword)
{
	const PQconninfoOption *known = known_option(keyword);

	return known != NULL &&
		strchr(known->dispchar, 'D') == NULL &&
		strchr(known->dispchar, '*') == NULL &&
		strcmp(keyword, "user") != 0 &&
		strcmp(keyword, "client_encoding") != 0 &&
		strcmp(keyword, "fallback_application_name") != 0;
}

/*
 * Options of a user mapping: credentials, never another address.
 */
static bool
is_mapping_option(const char *keyword)
{
	const PQconninfoOption *known = known_option(keyword);

	return known != NULL && (strchr(known->dispchar, '*') != NULL ||
							 strcmp(keyword, "user") == 0);
}

/*
 * What libpq knows of an option, or NULL; asked once for the backend's life.
 */
static const PQconninfoOption *
known_option(const char *keyword)
{
	static PQconninfoOption *known = NULL;

	if (known == NULL)
		known = PQconndefaults();
	if (known == NULL)
		/* LCOV_EXCL_START: PQconndefaults fails only without memory */
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	/* LCOV_EXCL_STOP */
	for (const PQconninfoOption *option = known; option->keyword != NULL;
		 option++)
		if (strcmp(option->keyword, keyword) == 0)
			return option;
	return NULL;
}
