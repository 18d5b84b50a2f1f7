/*
 * this_shard.c
 *		Which shard this database is: the setting shardring.shard.
 *
 * A session keeps what ALTER DATABASE ... SET said when it began, and pools
 * keep sessions open for days.  So what the database has now is read from the
 * catalogue, once a transaction, and counts for more than anything but what
 * the role, the client or the session itself has set.  (Kept in a table
 * instead, it would travel with dumps and make two shards of one name.)
 */
#include "this_shard.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"

#define SETTING		"shardring.shard="

static bool check_setting(char **value, void **extra, GucSource source);
static void assign_setting(const char *value, void *extra);
static void read_setting(void);
static void keep_setting(Datum settings);

PG_FUNCTION_INFO_V1(shardring_this_shard);

static char *setting_shard = NULL;
static GucSource setting_source = PGC_S_DEFAULT;

/* What the database has, "" for nothing, and the epoch that read it. */
static char database_shard[4 * RING_MAX_SHARD_NAME + 1];
static uint64 read_in = 0;

/*
 * Called once, when the library is loaded.
 */
void
this_shard_init(void)
{
	DefineCustomStringVariable("shardring.shard",
							   "The name of the shard in this database.",
							   "Used by guard and require_here.",
							   &setting_shard, "", PGC_SUSET, 0,
							   check_setting, assign_setting, NULL);
}

/*
 * The name of this shard; 55000 when it is not set.
 */
const char *
this_shard(void)
{
	const char *name = setting_shard;

	if (setting_source <= PGC_S_DATABASE)
	{
		if (read_in != memo_epoch())
			read_setting();
		if (database_shard[0] != '\0' || setting_source == PGC_S_DATABASE)
			name = database_shard;
	}
	if (name == NULL || name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parameter \"shardring.shard\" is not set"),
				 errhint("Name the shard: ALTER DATABASE %s SET "
						 "shardring.shard = '...';",
						 quote_identifier(get_database_name(MyDatabaseId)))));
	return name;
}

/*
 * Lets assign_setting know where the value comes from.
 */
static bool
check_setting(char **value, void **extra, GucSource source)
{
	*extra = compat_guc_malloc(sizeof(GucSource));
	if (*extra == NULL)
		return false;			/* LCOV_EXCL_LINE: only without memory */
	*(GucSource *) *extra = source;
	return true;
}

/*
 * Also called when an older value comes back, with what was checked then.
 */
static void
assign_setting(const char *value, void *extra)
{
	setting_source = *(GucSource *) extra;
}

/*
 * this_shard(): the same in SQL.
 */
Datum
shardring_this_shard(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(this_shard()));
}

/*
 * Reads the row of pg_db_role_setting that is for all roles.
 */
static void
read_setting(void)
{
	Relation	table = table_open(DbRoleSettingRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;

	database_shard[0] = '\0';
	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase,
				BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(InvalidOid));
	scan = systable_beginscan(table, DbRoleSettingDatidRolidIndexId, true,
							  NULL, 2, keys);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row))
	{
		bool		isnull;
		Datum		settings = heap_getattr(row,
											Anum_pg_db_role_setting_setconfig,
											RelationGetDescr(table), &isnull);

		if (!isnull)
			keep_setting(settings);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	read_in = memo_epoch();
}

/*
 * Keeps the value among "name=value", if it is there.
 */
static void
keep_setting(Datum settings)
{
	Datum	   *texts;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(settings), TEXTOID, -1, false,
					  TYPALIGN_INT, &texts, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *setting = TextDatumGetCString(texts[i]);

		if (strncmp(setting, SETTING, strlen(SETTING)) == 0)
			strlcpy(database_shard, setting + strlen(SETTING),
					sizeof(database_shard));
	}
}
