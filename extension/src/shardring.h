/*
 * shardring.h
 *		Shared declarations of the files that know PostgreSQL.
 *
 * What each file offers stands under its name below, in the order in which
 * they may call each other: a file calls those above it, and all of them the
 * pure part (ring/ring.h).  The map is in doc/design.md.
 */
#ifndef SHARDRING_H
#define SHARDRING_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "utils/memutils.h"
#include "utils/snapshot.h"

#include "compat.h"
#include "ring/ring.h"

/* The only SQLSTATEs of our own: those a client must react to. */
#define ERRCODE_SHARDRING_WRONG_SHARD	MAKE_SQLSTATE('S', 'R', '0', '0', '1')
#define ERRCODE_SHARDRING_STALE_VERSION	MAKE_SQLSTATE('S', 'R', '0', '0', '2')
#define ERRCODE_SHARDRING_HELD			MAKE_SQLSTATE('S', 'R', '0', '0', '3')

#define FINGERPRINT_LEN			64
#define RING_MAX_RING_NAME		63	/* bytes of UTF-8 */
#define NO_VERSION				0	/* versions start at 1 */
#define ACTIVE_VERSION			PG_INT64_MIN	/* no version was asked for */

/* ---------- module.c ---------- */

extern int	setting_remote_timeout;	/* ms */

/* ---------- fail.c ---------- */

extern ErrorContextCallback *fail_outer_frames(void);

/* ---------- env.c: what the pure part needs ---------- */

extern const RingEnv shardring_env;

pg_noreturn extern void env_no_hash(void);
extern RingName env_utf8_name(RingName name);
extern void env_require_points(RingResult result);
extern void env_extend_points(HashKind hash, RingName utf8,
							  PointsTaken *taken, uint32 *points,
							  uint32 have, uint32 want);

/* ---------- catalog.c: the tables ---------- */

typedef struct CatalogRingRow
{
	HashKind	hash;
	bool		hash_tags;
	int32		active_version; /* NO_VERSION: nothing is active yet */
	char		fingerprint[FINGERPRINT_LEN + 1];	/* of the active one */
	char		cluster[NAMEDATALEN];	/* PL/Proxy's; "": its own */
	int32		moving_from;	/* NO_VERSION: it does not move */
	int32		moving_to;		/* so too */
	TimestampTz closed_until;	/* DT_NOBEGIN: it is not */
} CatalogRingRow;

/*
 * A ring as a snapshot sees it: what every read of the tables starts from.
 * It is made for one call and not kept.
 */
typedef struct CatalogRing
{
	Oid			schema;			/* of the tables; invalid: they are missing */
	text	   *name;
	Snapshot	snapshot;
	CatalogRingRow row;			/* for those functions that say so */
} CatalogRing;

typedef struct CatalogVersion
{
	int32		version;
	int32		vnodes;
	bool		sealed;
	char		fingerprint[FINGERPRINT_LEN + 1];	/* "" in a draft */
	char		zone_fingerprint[FINGERPRINT_LEN + 1];	/* so too */
} CatalogVersion;

/* The rows of a version. */
typedef struct CatalogDef
{
	RingDef		ring;
	bool		sealed;
	char	   *malformed;		/* first row that no RingDef can express */
} CatalogDef;

/* What a compiled ring does not keep of its groups, by their numbers. */
typedef struct CatalogExtras
{
	Datum	   *weights;		/* numeric */
	text	  **zones;			/* NULL where there is none */
} CatalogExtras;

/* What is needed to choose more points. */
typedef struct GroupPoints
{
	RingName	name;
	uint32		npoints;
	uint32	   *points;
} GroupPoints;

typedef struct CatalogPoints
{
	uint32		ngroups;
	GroupPoints *groups;		/* ascending by name */
	uint64		npoints;		/* of all of them */
} CatalogPoints;

extern CatalogRing catalog_ring(text *name, Snapshot snapshot);
extern bool catalog_read_version(const CatalogRing *ring, int32 version,
								 CatalogVersion *row);
extern CatalogDef *catalog_read_def(const CatalogRing *ring,
									const CatalogVersion *version_row);
extern CatalogPoints catalog_read_points(const CatalogRing *ring,
										 int32 version);
extern CatalogExtras catalog_read_extras(const CatalogRing *ring,
										 int32 version, const Ring *compiled);
extern void catalog_zone_fingerprint(const CatalogRing *ring, int32 version,
									 char *hex);
extern const RingGroupDef *catalog_find_group(const CatalogDef *def,
											  RingName utf8);
extern bool catalog_read_shard_number(const CatalogRing *ring, text *shard,
									  int32 *number);
extern bool catalog_read_ring(CatalogRing *ring);
extern int32 catalog_active_version(text *name, Snapshot snapshot);
extern void catalog_require_ring(CatalogRing *ring);
extern char *catalog_known_rings(const CatalogRing *ring);
extern void catalog_require_version(const CatalogRing *ring, int32 version,
									CatalogVersion *row);

/* ---------- cache.c: compiled rings ---------- */

typedef struct CompiledRing
{
	char		fingerprint[FINGERPRINT_LEN + 1];	/* "" in a draft */
	Ring	   *ring;
	MemoryContext context;		/* holds the ring and this struct */
	Size		bytes;
	int			pins;
	bool		shared;			/* in the cache; a draft is not */
	dlist_node	lru;			/* when shared */
} CompiledRing;

extern CompiledRing *cache_find(const char *fingerprint);
extern CompiledRing *cache_make(const CatalogRing *ring, int32 version,
								const char *fingerprint);
extern CatalogDef *cache_rows(const CatalogRing *ring, int32 version,
							  const char *fingerprint);
extern void cache_unpin(CompiledRing *compiled);
extern void cache_shrink(void);

/* ---------- memo.c: which ring a statement sees ---------- */

/*
 * An answer to "which ring is this version of that ring?", with all of the
 * snapshot it was found with.
 */
typedef struct Memo
{
	MemoryContext context;		/* of what the memo points to */
	/* the question */
	bool		valid;
	int64		asked_version;	/* a version, or ACTIVE_VERSION */
	uint32		name_len;
	char		name[RING_MAX_RING_NAME * 4];	/* any server encoding */
	/* the snapshot */
	uint64		epoch;
	SnapshotData snapshot;
	int			xid_space;
	TransactionId *xids;		/* xip and subxip, one after the other */
	/* the answer */
	uint64		serial;			/* the answer's number: what was derived from
								 * it holds for every memo with the same */
	CatalogRingRow row;
	int32		version;		/* NO_VERSION: nothing is active */
	char		fingerprint[FINGERPRINT_LEN + 1];	/* "" in a draft */
	CompiledRing *compiled;		/* pinned; NULL while not asked for */
	const Ring *ring;			/* that one's */
} Memo;

/* What hangs on fn_extra: everything one call site remembers. */
typedef struct CallSite
{
	MemoryContext context;
	MemoryContextCallback callback;
	Memo		memo;
	Memo		memo_from;		/* of the version that "memo" is compared with,
								 * in functions of two versions */
	TupleDesc	tupdesc;		/* of a composite result */
	void	   *extra;			/* whatever else the function keeps */
} CallSite;

/* Two versions of a ring. */
typedef struct RingPair
{
	const Ring *from;
	const Ring *to;
} RingPair;

extern void memo_init(void);
extern uint64 memo_epoch(void);
extern CallSite *memo_call_site(FunctionCallInfo fcinfo);
extern CallSite *memo_new_site(MemoryContext context);
extern const Memo *memo_resolve(Memo *memo, text *ring, int64 version);
extern const Memo *memo_get(Memo *memo, text *ring, int64 version);
extern const Memo *memo_get_routable(Memo *memo, text *ring, int64 version);
extern RingPair memo_pair(CallSite *site, text *ring, int32 from_version,
						  int32 to_version);
extern RingPair memo_routable_pair(CallSite *site, text *ring,
								   int32 from_version, int32 to_version);
extern CatalogRing memo_ring(const Memo *memo, text *ring);
extern Snapshot memo_snapshot(void);
extern bool memo_same_snapshot(const Memo *memo, Snapshot snapshot);

/* ---------- key.c: a key's bytes ---------- */

typedef enum KeyType
{
	KEY_TEXT,
	KEY_INT8,
	KEY_UUID
} KeyType;

/* What is hashed of a key. */
typedef struct KeyBytes
{
	const char *bytes;
	size_t		len;
	char	   *made;			/* to be freed with pfree; NULL: nothing */
	char		digits[24];		/* of a bigint, MAXINT8LEN and a zero */
} KeyBytes;

extern HashKind key_hash_kind(text *name);
extern void key_require_deterministic(Oid collation, const char *column);
extern KeyType key_column_type(Oid type, const char *column);
extern uint32 key_position(HashKind hash, bool hash_tags, KeyType type,
						   Datum key);
extern void key_bytes_on(const Ring *ring, KeyType type, Datum key,
						 KeyBytes *bytes);
extern uint32 key_position_on(const Ring *ring, KeyType type, Datum key);
extern uint32 key_bytes_position(HashKind hash, const char *bytes,
								 size_t len);
extern uint32 key_check_position(int64 position);

/* ---------- result.c: Datums and tuples of answers ---------- */

extern text *result_text(RingName name);
extern Datum *result_group_names(const Ring *ring);
extern Datum *result_definition_names(const RingDef *def);
extern Datum *result_shard_names(const Ring *ring);
extern Datum result_share(uint64 positions);
extern Datum result_range(uint64 lo, uint64 hi);
extern Datum result_positions(const DiffSegment *segments, uint32 n);
extern Datum result_slots(const RingRange *ranges, uint32 n);
extern ReturnSetInfo *result_set(FunctionCallInfo fcinfo);
extern void result_put(ReturnSetInfo *set, const Datum *values,
					   const bool *nulls);

/* ---------- plproxy.c: the numbers of PL/Proxy ---------- */

extern void plproxy_init(void);

#endif							/* SHARDRING_H */
