/*
 * move_predicate.c
 *		What moves as SQL for a server without this extension.
 *
 * It is the condition of move_plan, row by row, for one pair of shards; rows
 * with the same slots are put together, so that the hash is computed as rarely
 * as possible.  Rules for the text:
 *	- whoever may create in a schema of the reader's search_path captures a
 *	  bare name, so functions, operators and types are written with their
 *	  schema.  What the grammar alone resolves (AND, OR, COALESCE) is safe;
 *	  IN, BETWEEN and NULLIF look for an operator, so they are not used;
 *	- CREATE PUBLICATION ... WHERE accepts it: built-in functions only, all of
 *	  them immutable, and no cast that goes through an input function at run
 *	  time;
 *	- no backslash in a literal: standard_conforming_strings may be off.
 */
#include "shardring.h"

#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"

/* Moves that differ in their positions only. */
typedef struct Term
{
	char	   *slots;			/* the condition on slots, or "" */
	uint32		nsegments;
	uint32		space;
	DiffSegment *segments;
} Term;

/* Which term has a condition. */
typedef struct TermNumber
{
	const char *slots;			/* hash key: what it points to */
	uint32		number;
} TermNumber;

static text *predicate(RingPair rings, uint32 from, uint32 to,
					   const char *position);
static void check_expression(const char *name, const char *expression);
static void require_utf8(void);
static char *position_expression(const Ring *ring, const char *key,
								 const char *type);
static char *key_as_text(const char *key, const char *type);
static uint32 require_shard(text *ring_name, int32 version, text *name,
							const Ring *ring, const Ring *other);
static bool find_shard(const Ring *ring, text *name, uint32 *number);
static Term *collect_terms(RingPair rings, const DiffPlan *plan, uint32 from,
						   uint32 to, const char *position, uint32 *n);
static Term *find_term(Term *terms, uint32 *n, HTAB *numbers, char *slots);
static HTAB *term_numbers(void);
static uint32 hash_slots(const void *key, Size size);
static int	compare_slots(const void *a, const void *b, Size size);
static char *slots_condition(RingPair rings, const DiffPair *pair,
							 const DiffMove *move, const char *position);
static void append_slots(StringInfo out, const char *position,
						 uint32 modulus, const RingRange *slots, uint32 n);
static void term_add(Term *term, const DiffSegment *segments, uint32 n);
static text *any_term(const Term *terms, uint32 n, const char *position);
static void append_term(StringInfo out, const Term *term,
						const char *position);
static char *multirange_literal(Datum multirange);
static char *text_argument(FunctionCallInfo fcinfo, int arg);

PG_FUNCTION_INFO_V1(shardring_move_predicate);

/*
 * move_predicate(ring, from_version, to_version, from_shard, to_shard,
 * key_expression, key_type, position_expression, for_utf8): "false" when
 * nothing moves.
 */
Datum
shardring_move_predicate(PG_FUNCTION_ARGS)
{
	text	   *ring;
	char	   *key;
	char	   *position;
	char	   *type;
	RingPair	rings;
	uint32		from;
	uint32		to;

	for (int i = 0; i < PG_NARGS(); i++)
		if (PG_ARGISNULL(i) && i != 5 && i != 7)
			PG_RETURN_NULL();
	if (PG_ARGISNULL(5) && PG_ARGISNULL(7))
		PG_RETURN_NULL();
	ring = PG_GETARG_TEXT_PP(0);
	key = text_argument(fcinfo, 5);
	type = text_to_cstring(PG_GETARG_TEXT_PP(6));
	position = text_argument(fcinfo, 7);
	check_expression("key_expression", key);
	check_expression("position_expression", position);
	(void) key_as_text("", type);
	if (position == NULL && strcmp(type, "text") == 0 && !PG_GETARG_BOOL(8))
		require_utf8();
	rings = memo_pair(memo_call_site(fcinfo), ring, PG_GETARG_INT32(1),
					  PG_GETARG_INT32(2));
	position = position == NULL ?
		position_expression(rings.from, key, type) :
		psprintf("(%s)::pg_catalog.int8", position);
	from = require_shard(ring, PG_GETARG_INT32(1), PG_GETARG_TEXT_PP(3),
						 rings.from, rings.to);
	to = require_shard(ring, PG_GETARG_INT32(2), PG_GETARG_TEXT_PP(4),
					   rings.to, rings.from);
	PG_RETURN_TEXT_P(predicate(rings, from, to, position));
}

/*
 * The predicate for the moves between two shards.
 */
static text *
predicate(RingPair rings, uint32 from, uint32 to, const char *position)
{
	DiffPlan	plan;
	Term	   *terms;
	uint32		n;

	diff_plan(rings.from, rings.to, &shardring_env, &plan);
	terms = collect_terms(rings, &plan, from, to, position, &n);
	return any_term(terms, n, position);
}

/*
 * 22023 for an expression that is given, but without a word.
 */
static void
check_expression(const char *name, const char *expression)
{
	if (expression != NULL &&
		expression[strspn(expression, " \t\r\n\f\v")] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be empty", name)));
}

/*
 * 0A000 unless text has the bytes here that are hashed: those of UTF-8, which
 * SQL_ASCII keeps as they came.  Nothing immutable would convert it, so in any
 * other encoding the condition is wrong.
 */
static void
require_utf8(void)
{
	if (GetDatabaseEncoding() != PG_UTF8 &&
		GetDatabaseEncoding() != PG_SQL_ASCII)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the condition for text keys is right in UTF8 "
						"databases only"),
				 errdetail("The encoding of this database is %s.",
						   GetDatabaseEncodingName()),
				 errhint("Say for_utf8 => true if the database that runs it "
						 "is UTF8; in this one use shardring.moves.")));
}

/*
 * The position of a key as SQL.  bit_in(textout()) rather than ::bit(32),
 * which is a cast through an input function and refused in publications.
 */
static char *
position_expression(const Ring *ring, const char *key, const char *type)
{
	char	   *as_text = key_as_text(key, type);

	if (ring->hash != HASH_MD5)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hash function \"%s\" cannot be computed by built-in "
						"functions", hash_kind_name(ring->hash)),
				 errhint("Store the position in a column and pass it as "
						 "position_expression.")));
	if (ring->hash_tags && strcmp(type, "text") == 0)
		as_text = psprintf("coalesce(pg_catalog.substring(%s, "
						   "'^[^{]*[{]([^}]+)[}]'), %s)", as_text, as_text);
	return psprintf("(pg_catalog.bit_in(pg_catalog.textout('x' "
					"OPERATOR(pg_catalog.||) pg_catalog.substr("
					"pg_catalog.md5(%s), 1, 8)), 0, 32))::pg_catalog.int8",
					as_text);
}

/*
 * The key as the text that is hashed; 22023 for an unknown key type.
 */
static char *
key_as_text(const char *key, const char *type)
{
	if (strcmp(type, "text") == 0)
		return psprintf("(%s)", key);
	if (strcmp(type, "bigint") == 0)
		return psprintf("pg_catalog.textin(pg_catalog.int8out((%s)))",
						key);
	if (strcmp(type, "uuid") == 0)
		return psprintf("pg_catalog.textin(pg_catalog.uuid_out((%s)))",
						key);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown key type \"%s\"", type),
			 errhint("Keys must be text, bigint, or uuid.")));
}

/*
 * The number of the shard of this name in "ring", which is the version of
 * that number; 42704 when it has none, with a hint when the other one has.
 */
static uint32
require_shard(text *ring_name, int32 version, text *name, const Ring *ring,
			  const Ring *other)
{
	uint32		number;

	if (find_shard(ring, name, &number))
		return number;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("shard \"%s\" does not exist in version %d of ring "
					"\"%s\"", text_to_cstring(name), version,
					text_to_cstring(ring_name)),
			 find_shard(other, name, &number) ?
			 errhint("It exists in the other version; check that from and "
					 "to are not swapped.") : 0));
}

/*
 * Sets *number to that of the shard of this name; false if there is none.
 */
static bool
find_shard(const Ring *ring, text *name, uint32 *number)
{
	RingName	wanted = {VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)};

	for (*number = 0; *number < ring->nshards; (*number)++)
		if (ring_name_compare(ring->shards[*number], wanted) == 0)
			return true;
	return false;
}

/*
 * The moves between two shards, those with equal slot conditions together;
 * terms stand in the order in which their first moves do.
 */
static Term *
collect_terms(RingPair rings, const DiffPlan *plan, uint32 from, uint32 to,
			  const char *position, uint32 *n)
{
	Term	   *terms = palloc_extended(plan->nmoves * sizeof(Term),
										MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	HTAB	   *numbers = term_numbers();

	*n = 0;
	for (uint32 i = 0; i < plan->nmoves; i++)
	{
		const DiffMove *move = &plan->moves[i];
		const DiffPair *pair = &plan->list.pairs[move->pair];
		Term	   *term;

		CHECK_FOR_INTERRUPTS();
		if (move->from_shard != from || move->to_shard != to)
			continue;
		term = find_term(terms, n, numbers,
						 slots_condition(rings, pair, move, position));
		term_add(term, plan->list.segments + pair->first, pair->n);
	}
	return terms;
}

/*
 * The term with this condition: one of the *n, or a new one after them.
 */
static Term *
find_term(Term *terms, uint32 *n, HTAB *numbers, char *slots)
{
	TermNumber *entry;
	bool		found;

	entry = hash_search(numbers, &slots, HASH_ENTER, &found);
	if (found)
		pfree(slots);
	else
	{
		terms[*n].slots = slots;
		entry->number = (*n)++;
	}
	return &terms[entry->number];
}

/*
 * An empty table of terms.
 */
static HTAB *
term_numbers(void)
{
	HASHCTL		control = {
		.keysize = sizeof(char *), .entrysize = sizeof(TermNumber),
		.hash = hash_slots, .match = compare_slots,
		.hcxt = CurrentMemoryContext
	};

	return hash_create("shardring terms", 256, &control,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE |
					   HASH_CONTEXT);
}

/* For dynahash: the hash of what a key points to. */
static uint32
hash_slots(const void *key, Size size)
{
	const char *slots = *(const char *const *) key;

	return DatumGetUInt32(hash_any((const unsigned char *) slots,
								   strlen(slots)));
}

/* For dynahash: 0 when both keys point to equal strings. */
static int
compare_slots(const void *a, const void *b, Size size)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/*
 * " AND ..." for the slots of a move; "" when all slots of both groups move.
 * Where both groups have as many slots, both sets of slots are the same.
 */
static char *
slots_condition(RingPair rings, const DiffPair *pair, const DiffMove *move,
				const char *position)
{
	uint32		from_slots = rings.from->groups[pair->from_group].slots;
	uint32		to_slots = rings.to->groups[pair->to_group].slots;
	StringInfoData out;

	initStringInfo(&out);
	append_slots(&out, position, from_slots, move->from_slots,
				 move->nfrom_slots);
	if (to_slots != from_slots)
		append_slots(&out, position, to_slots, move->to_slots,
					 move->nto_slots);
	return out.data;
}

/*
 * Appends the condition on slots, unless all slots of the group are meant.
 */
static void
append_slots(StringInfo out, const char *position, uint32 modulus,
			 const RingRange *slots, uint32 n)
{
	if (n == 1 && slots[0].lo == 0 && slots[0].hi == modulus)
		return;
	appendStringInfo(out, " AND %s::pg_catalog.int4multirange "
					 "OPERATOR(pg_catalog.@>) (%s OPERATOR(pg_catalog.%%) %u)"
					 "::pg_catalog.int4",
					 multirange_literal(result_slots(slots, n)), position,
					 modulus);
}

/*
 * Adds positions to a term, in any order.
 */
static void
term_add(Term *term, const DiffSegment *segments, uint32 n)
{
	if (term->nsegments + n > term->space)
	{
		term->space = 2 * (term->nsegments + n);
		term->segments = term->segments == NULL ?
			palloc_extended(term->space * sizeof(DiffSegment),
							MCXT_ALLOC_HUGE) :
			repalloc_huge(term->segments, term->space * sizeof(DiffSegment));
	}
	memcpy(term->segments + term->nsegments, segments,
		   n * sizeof(DiffSegment));
	term->nsegments += n;
}

/*
 * The terms with OR between them; "false" without any.
 */
static text *
any_term(const Term *terms, uint32 n, const char *position)
{
	StringInfoData out;

	if (n == 0)
		return cstring_to_text("false");
	initStringInfo(&out);
	for (uint32 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0)
			appendStringInfoString(&out, " OR ");
		append_term(&out, &terms[i], position);
	}
	return cstring_to_text_with_len(out.data, out.len);
}

/*
 * Appends one term in parentheses.
 */
static void
append_term(StringInfo out, const Term *term, const char *position)
{
	Datum		positions = result_positions(term->segments,
											 term->nsegments);

	appendStringInfo(out, "(%s::pg_catalog.int8multirange "
					 "OPERATOR(pg_catalog.@>) %s%s)",
					 multirange_literal(positions), position, term->slots);
}

/*
 * A multirange as a quoted literal; it holds digits and brackets only.
 */
static char *
multirange_literal(Datum multirange)
{
	return psprintf("'%s'", OidOutputFunctionCall(F_MULTIRANGE_OUT,
												  multirange));
}

/*
 * An argument as a string; NULL when it is.
 */
static char *
text_argument(FunctionCallInfo fcinfo, int arg)
{
	if (PG_ARGISNULL(arg))
		return NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(arg));
}
