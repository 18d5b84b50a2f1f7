/*
 * module.c
 *		Module start, and the settings.
 *
 * Nothing that costs time happens here: libcrypto is opened by the first
 * hash, tables are read by the first call.
 */
#include "remote_address.h"
#include "this_shard.h"

#include "utils/guc.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/* The settings. */
int			setting_remote_timeout;
static bool dropping = false;

/*
 * Called once per backend, when the library is loaded.
 */
void
_PG_init(void)
{
	DefineCustomBoolVariable("shardring.dropping",
							 "Allows rows of sealed versions to be deleted.",
							 "Set by drop_version, prune, and drop_ring while "
							 "they run; not for other use.",
							 &dropping, false, PGC_USERSET,
							 GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE |
							 GUC_DISALLOW_IN_FILE,
							 NULL, NULL, NULL);
	this_shard_init();
	remote_address_init();
	DefineCustomIntVariable("shardring.remote_timeout",
							"How long each shard may take to answer.",
							"For shard_status, probe and push_version.",
							&setting_remote_timeout, 10000, 1, INT_MAX / 2,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	MarkGUCPrefixReserved("shardring");
	memo_init();
	plproxy_init();
}
