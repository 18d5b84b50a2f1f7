/*
 * draft.c
 *		What the define chapter of the install script needs from C.
 *
 * Internal functions, called by seal, problems and the triggers.  They read
 * the rows themselves, never a compiled ring, because the rows may be wrong;
 * with "fresh" they read what is committed now rather than what the
 * transaction saw when it began.
 */
#include "shardring.h"

#include "utils/builtins.h"
#include "utils/snapmgr.h"

static CatalogDef *define_def(text *name, int32 version, bool fresh);
static bool put_problem(void *arg, const char *problem);

PG_FUNCTION_INFO_V1(shardring_version_problems);
PG_FUNCTION_INFO_V1(shardring_version_fingerprint);
PG_FUNCTION_INFO_V1(shardring_zone_fingerprint);
PG_FUNCTION_INFO_V1(shardring_version_exists);
PG_FUNCTION_INFO_V1(shardring_known_rings);

/*
 * version_problems(ring, version, fresh): everything that keeps the rows of a
 * version from being a ring; no row when it may be sealed.
 */
Datum
shardring_version_problems(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	CatalogDef *def = define_def(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								 PG_GETARG_BOOL(2));

	if (def->malformed != NULL)
		put_problem(set, def->malformed);
	(void) check_structure(&def->ring, &shardring_env, put_problem, set);
	if (check_points(&def->ring, &shardring_env, put_problem,
					 set) == RING_NO_HASH)
		env_no_hash();
	return (Datum) 0;
}

/*
 * version_fingerprint(ring, version, fresh): the fingerprint of the rows as
 * they are.
 */
Datum
shardring_version_fingerprint(PG_FUNCTION_ARGS)
{
	CatalogDef *def = define_def(PG_GETARG_TEXT_PP(0), PG_GETARG_INT32(1),
								 PG_GETARG_BOOL(2));
	char		hex[FINGERPRINT_LEN + 1];

	if (!fingerprint_hex(&def->ring, hex))
		env_no_hash();
	PG_RETURN_TEXT_P(cstring_to_text(hex));
}

/*
 * zone_fingerprint(ring, version, fresh): the fingerprint of the zones as they
 * are.
 */
Datum
shardring_zone_fingerprint(PG_FUNCTION_ARGS)
{
	bool		fresh = PG_GETARG_BOOL(2);
	char		hex[FINGERPRINT_LEN + 1];
	CatalogRing ring;

	if (fresh)
		PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(PG_GETARG_TEXT_PP(0), memo_snapshot());
	catalog_zone_fingerprint(&ring, PG_GETARG_INT32(1), hex);
	if (fresh)
		PopActiveSnapshot();
	PG_RETURN_TEXT_P(cstring_to_text(hex));
}

/*
 * version_exists(ring, version): whether there is such a version now, whatever
 * the transaction sees.
 */
Datum
shardring_version_exists(PG_FUNCTION_ARGS)
{
	CatalogRing ring;
	CatalogVersion row;
	bool		found;

	PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(PG_GETARG_TEXT_PP(0), memo_snapshot());
	found = catalog_read_version(&ring, PG_GETARG_INT32(1), &row);
	PopActiveSnapshot();
	PG_RETURN_BOOL(found);
}

/*
 * known_rings(): a sentence that names the first few rings, for a hint.
 */
Datum
shardring_known_rings(PG_FUNCTION_ARGS)
{
	CatalogRing ring = catalog_ring(NULL, memo_snapshot());
	char	   *known = catalog_known_rings(&ring);

	if (known == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(known));
}

/*
 * The rows of a version; 42704 when there is no such version or ring.
 */
static CatalogDef *
define_def(text *name, int32 version, bool fresh)
{
	CatalogRing ring;
	CatalogVersion version_row;
	CatalogDef *def;

	if (fresh)
		PushActiveSnapshot(GetLatestSnapshot());
	ring = catalog_ring(name, memo_snapshot());
	catalog_require_ring(&ring);
	catalog_require_version(&ring, version, &version_row);
	def = catalog_read_def(&ring, &version_row);
	if (fresh)
		PopActiveSnapshot();
	return def;
}

/*
 * RingReport that makes each problem a row.
 */
static bool
put_problem(void *arg, const char *problem)
{
	bool		isnull = false;
	Datum		value = CStringGetTextDatum(problem);

	result_put(arg, &value, &isnull);
	pfree(DatumGetPointer(value));
	return true;
}
