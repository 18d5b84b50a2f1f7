/*
 * table_read.c
 *		Reading tables that others may have filled anew meanwhile.
 *
 * TRUNCATE and a rewrite give a table new storage, whose rows a snapshot from
 * before does not see; so who waited for the lock of the other transaction
 * would find a table without rows.  PostgreSQL takes the snapshot of a SELECT
 * after its locks.  The functions that read tables run in a statement that
 * has its snapshot already: they lock first, and look whether it still fits.
 */
#include "table_read.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static Oid	find_replaced(SPIPlanPtr plan);
static Oid	storage_now(Oid relation);
static Oid	storage_seen(Oid relation);
static Oid	storage_of(HeapTuple row);

PG_FUNCTION_INFO_V1(shardring_lock_table);

/*
 * lock_table(relation): locks a table and all that is read with it, as a
 * reader.  What a volatile function runs next has a snapshot from after that;
 * where snapshots stay, 40001 if this one has become too old.
 */
Datum
shardring_lock_table(PG_FUNCTION_ARGS)
{
	Oid			relation = PG_GETARG_OID(0);
	char	   *name;

	LockRelationOid(relation, AccessShareLock);
	name = get_rel_name(relation);
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	name = quote_qualified_identifier(
			get_namespace_name(get_rel_namespace(relation)), name);
	table_connect();
	(void) table_lock(table_prepare(psprintf("SELECT FROM %s", name)));
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Connects to SPI.
 */
void
table_connect(void)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		/* LCOV_EXCL_START: SPI returns errors only for misuse */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not connect to SPI")));
	/* LCOV_EXCL_STOP */
}

/*
 * Prepares a query that reads tables.
 */
SPIPlanPtr
table_prepare(const char *query)
{
	SPIPlanPtr	plan = SPI_prepare(query, 0, NULL);

	if (plan == NULL)
		/* LCOV_EXCL_START: SPI returns errors only for misuse */
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not prepare a query: %s",
						SPI_result_code_string(SPI_result))));
	/* LCOV_EXCL_STOP */
	return plan;
}

/*
 * Locks all tables that a plan reads.  True when the active snapshot is too
 * old for one of them and the plan wants a new one; 40001 where there is no
 * new one.
 */
bool
table_lock(SPIPlanPtr plan)
{
	Oid			replaced = find_replaced(plan);

	if (!OidIsValid(replaced))
		return false;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to table \"%s\"",
						get_rel_name(replaced)),
				 errdetail("It was truncated or rewritten after this "
						   "transaction took its snapshot."),
				 errhint("The transaction might succeed if retried.")));
	return true;
}

/*
 * A table whose storage is not the one that the active snapshot sees, among
 * those that a plan reads; InvalidOid when there is none.  Planning locks all
 * of them, partitions and what is below views too.
 */
static Oid
find_replaced(SPIPlanPtr plan)
{
	CachedPlan *cached = SPI_plan_get_cached_plan(plan);
	PlannedStmt *statement = linitial_node(PlannedStmt, cached->stmt_list);
	Oid			replaced = InvalidOid;
	ListCell   *cell;

	foreach(cell, statement->relationOids)
	{
		Oid			relation = lfirst_oid(cell);

		if (storage_now(relation) == storage_seen(relation))
			continue;
		replaced = relation;
		break;
	}
	ReleaseCachedPlan(cached, NULL);
	return replaced;
}

/*
 * The storage of a locked table; InvalidOid where it has none.
 */
static Oid
storage_now(Oid relation)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			storage = storage_of(row);

	if (HeapTupleIsValid(row))
		ReleaseSysCache(row);
	return storage;
}

/*
 * The storage of a table as the active snapshot sees it; InvalidOid where it
 * has none, or is not there yet.
 */
static Oid
storage_seen(Oid relation)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	Oid			storage;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation));
	scan = systable_beginscan(pg_class, ClassOidIndexId, true,
							  GetActiveSnapshot(), 1, &key);
	storage = storage_of(systable_getnext(scan));
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	return storage;
}

/*
 * The storage in a row of pg_class; InvalidOid without a row.
 */
static Oid
storage_of(HeapTuple row)
{
	if (!HeapTupleIsValid(row))
		return InvalidOid;		/* LCOV_EXCL_LINE: a table made since */
	return ((Form_pg_class) GETSTRUCT(row))->relfilenode;
}
