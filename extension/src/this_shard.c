/*
 * this_shard.c
 *		Which shard this database is: the setting shardring.shard.
 *
 * A session that was open before ALTER DATABASE ... SET does not have the
 * setting, and pools keep sessions open for days.  So where the session has
 * none, what the database has is read, once a transaction.  (Kept in a table
 * instead, it would travel with dumps and make two shards of one name.)
 */
#include "this_shard.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#define SETTING		"shardring.shard="

static void read_setting(void);
static void keep_setting(Datum settings);

PG_FUNCTION_INFO_V1(shardring_this_shard);

/* What the database has, "" for nothing, and the transaction that read it. */
static char database_shard[4 * RING_MAX_SHARD_NAME + 1];
static LocalTransactionId read_in = InvalidLocalTransactionId;

/*
 * The name of this shard; 55000 when nobody said it.
 */
const char *
this_shard(void)
{
	if (setting_shard != NULL && setting_shard[0] != '\0')
		return setting_shard;
	if (read_in != compat_this_transaction())
		read_setting();
	if (database_shard[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("parameter \"shardring.shard\" is not set"),
				 errhint("Use ALTER DATABASE to set it to the name of this "
						 "shard.")));
	return database_shard;
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
	read_in = compat_this_transaction();
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
