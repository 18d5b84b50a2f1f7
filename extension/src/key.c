/*
 * key.c
 *		A key's bytes, and the position they hash to.
 *
 * Text is hashed as UTF-8 whatever the server's encoding; bigint and uuid as
 * their text.  Key values never appear in messages.
 */
#include "shardring.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Long keys are hashed in pieces of this size, so that cancel works. */
#define KEY_PIECE	((size_t) 1024 * 1024)

static void key_spell(bool hash_tags, KeyType type, Datum key,
					  KeyBytes *bytes);
static void key_convert(KeyBytes *bytes);
static char *key_utf8(const char *bytes, size_t len);
static void hide_bytes(MemoryContext context);

/*
 * The hash function of this name, or 22023.
 */
HashKind
key_hash_kind(text *name)
{
	HashKind	kind;

	if (!hash_parse_kind(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), &kind))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown hash function \"%s\"",
						text_to_cstring(name)),
				 errhint("Valid hash functions are md5, fnv1a, murmur3, and "
						 "crc16.")));
	return kind;
}

/*
 * 42P22 where equal keys may have other bytes: one row of the application
 * would be several keys of ours.
 */
void
key_require_deterministic(Oid collation, const char *column)
{
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_COLLATION),
				 errmsg("column \"%s\" has a nondeterministic collation and "
						"cannot be a key", column),
				 errdetail("Keys that are equal under it may have different "
						   "bytes, and so different shards."),
				 errhint("Give the column a deterministic collation.")));
}

/*
 * The type that values of a column are hashed as, or 42804: those that
 * shard_for takes, and those that become them without a function.  "type" is
 * not a domain.
 */
KeyType
key_column_type(Oid type, const char *column)
{
	if (type == INT2OID || type == INT4OID || type == INT8OID)
		return KEY_INT8;
	if (type == UUIDOID)
		return KEY_UUID;
	if (type == NAMEOID || type == BPCHAROID ||
		IsBinaryCoercible(type, TEXTOID))
		return KEY_TEXT;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of type %s cannot be a key", column,
					format_type_be(type)),
			 errhint("Keys must be text, bigint, or uuid.")));
}

/*
 * The position of a key, a Datum of the given type.
 */
uint32
key_position(HashKind hash, bool hash_tags, KeyType type, Datum key)
{
	KeyBytes	bytes;
	uint32		position;

	key_spell(hash_tags, type, key, &bytes);
	position = key_bytes_position(hash, bytes.bytes, bytes.len);
	if (bytes.made != NULL)
		pfree(bytes.made);
	return position;
}

/*
 * The bytes of a key of the ring, those that are hashed.
 */
void
key_bytes_on(const Ring *ring, KeyType type, Datum key, KeyBytes *bytes)
{
	key_spell(ring->hash_tags, type, key, bytes);
}

/*
 * The position of a key on a ring.
 */
uint32
key_position_on(const Ring *ring, KeyType type, Datum key)
{
	return key_position(ring->hash, ring->hash_tags, type, key);
}

/*
 * The position of bytes as they are.
 */
uint32
key_bytes_position(HashKind hash, const char *bytes, size_t len)
{
	uint32		position;
	HashStream	stream;
	bool		ok;

	if (len <= KEY_PIECE)
		ok = hash_once(hash, bytes, len, &position);
	else
	{
		ok = hash_begin(&stream, hash);
		while (ok && len > 0)
		{
			size_t		piece = Min(len, KEY_PIECE);

			CHECK_FOR_INTERRUPTS();
			ok = hash_feed(&stream, bytes, piece);
			bytes += piece;
			len -= piece;
		}
		ok = ok && hash_end(&stream, &position);
	}
	if (!ok)
		env_no_hash();
	return position;
}

/*
 * A position given as bigint, or 22023 when it is not on the circle.
 */
uint32
key_check_position(int64 position)
{
	if (position < 0 || (uint64) position >= RING_CIRCLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key position is out of range"),
				 errdetail("Positions run from 0 to 4294967295.")));
	return (uint32) position;
}

/*
 * Text as it is, or the part of it that its hash tag is; bigint and uuid as
 * their text.
 */
static void
key_spell(bool hash_tags, KeyType type, Datum key, KeyBytes *bytes)
{
	text	   *value;

	bytes->made = NULL;
	switch (type)
	{
		case KEY_TEXT:
			value = DatumGetTextPP(key);
			bytes->bytes = VARDATA_ANY(value);
			bytes->len = VARSIZE_ANY_EXHDR(value);
			key_convert(bytes);
			if (hash_tags)
				hash_tag(&bytes->bytes, &bytes->len);
			return;
		case KEY_INT8:
			bytes->bytes = bytes->digits;
			bytes->len = pg_lltoa(DatumGetInt64(key), bytes->digits);
			return;
		case KEY_UUID:
			bytes->made = DatumGetCString(DirectFunctionCall1(uuid_out, key));
			bytes->bytes = bytes->made;
			bytes->len = strlen(bytes->made);
			return;
	}
	/* LCOV_EXCL_START: the switch has all types of keys */
	pg_unreachable();
	/* LCOV_EXCL_STOP */
}

/*
 * Makes the bytes of text those of UTF-8.
 */
static void
key_convert(KeyBytes *bytes)
{
	char	   *utf8 = key_utf8(bytes->bytes, bytes->len);

	if (utf8 == bytes->bytes)
		return;
	bytes->made = utf8;
	bytes->bytes = utf8;
	bytes->len = strlen(utf8);
}

/*
 * The key in UTF-8, the same bytes when nothing has to be converted; 22P05 or,
 * in an SQL_ASCII database, 22021 where there is no such form.
 */
static char *
key_utf8(const char *bytes, size_t len)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *utf8 = NULL;

	if (GetDatabaseEncoding() == PG_UTF8)
		return unconstify(char *, bytes);
	PG_TRY();
	{
		utf8 = pg_server_to_any(bytes, len, PG_UTF8);
	}
	PG_CATCH();
	{
		hide_bytes(context);
	}
	PG_END_TRY();
	return utf8;
}

/*
 * Raises the error that is being handled again; when it is about the bytes of
 * the key, with a message that does not show them.
 */
static void
hide_bytes(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (error->sqlerrcode != ERRCODE_UNTRANSLATABLE_CHARACTER &&
		error->sqlerrcode != ERRCODE_CHARACTER_NOT_IN_REPERTOIRE)
		PG_RE_THROW();			/* LCOV_EXCL_LINE: no memory, say */
	FlushErrorState();
	ereport(ERROR,
			(errcode(error->sqlerrcode),
			 errmsg("key cannot be converted to UTF-8"),
			 errhint("Keys are hashed in UTF-8.")));
}
