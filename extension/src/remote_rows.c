/*
 * remote_rows.c
 *		Rows of other servers as JSON objects, by the names of their columns.
 *
 * Booleans, decimal numbers, and JSON are taken as their text stands, which is
 * exact; all else is a string.  The OIDs of these types are the same
 * everywhere.  What is made here is text that is parsed later, where an error
 * can be caught: the other server may have sent anything.
 */
#include "remote_rows.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/jsonapi.h"
#include "lib/stringinfo.h"
#include "utils/json.h"

#include "remote_address.h"

static const char *name_error(const PGresult *result, int column);
static void append_value(StringInfo out, const PGresult *result, int column);
static bool is_literal(Oid type, const char *value);

/*
 * Bytes of the values of a row.
 */
Size
remote_row_bytes(const PGresult *result)
{
	Size		bytes = 0;

	for (int i = 0; i < PQnfields(result); i++)
		bytes += PQgetlength(result, 0, i);
	return bytes;
}

/*
 * Why the row of a result cannot be an object, or NULL: two columns of one
 * name, too many columns, or text that is invalid in our encoding.
 */
const char *
remote_row_error(const PGresult *result)
{
	int			n = PQnfields(result);

	if (n > MaxTupleAttributeNumber)
		/* LCOV_EXCL_START: PostgreSQL itself sends no more */
		return psprintf("a row has more than %d columns",
						MaxTupleAttributeNumber);
	/* LCOV_EXCL_STOP */
	for (int i = 0; i < n; i++)
	{
		const char *error = name_error(result, i);

		if (error != NULL)
			return error;
		if (!remote_is_text(PQgetvalue(result, 0, i),
							PQgetlength(result, 0, i)))
			return REMOTE_NO_TEXT;	/* LCOV_EXCL_LINE: no server of ours */
	}
	return NULL;
}

/*
 * The row of a result that has no error.
 */
char *
remote_row_json(const PGresult *result)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	for (int i = 0; i < PQnfields(result); i++)
	{
		if (i > 0)
			appendStringInfoChar(&out, ',');
		escape_json(&out, PQfname(result, i));
		appendStringInfoChar(&out, ':');
		append_value(&out, result, i);
	}
	appendStringInfoChar(&out, '}');
	return out.data;
}

/*
 * What is wrong with the name of a column, or NULL.
 */
static const char *
name_error(const PGresult *result, int column)
{
	const char *name = PQfname(result, column);

	if (!remote_is_text(name, strlen(name)))
		return REMOTE_NO_TEXT;	/* LCOV_EXCL_LINE: no server of ours */
	for (int i = 0; i < column; i++)
		if (strcmp(PQfname(result, i), name) == 0)
			return psprintf("two columns are named \"%s\"", name);
	return NULL;
}

/* Appends a value of the row as JSON. */
static void
append_value(StringInfo out, const PGresult *result, int column)
{
	const char *value = PQgetvalue(result, 0, column);
	Oid			type = PQftype(result, column);

	if (PQgetisnull(result, 0, column))
		appendStringInfoString(out, "null");
	else if (type == BOOLOID && strcmp(value, "t") == 0)
		appendStringInfoString(out, "true");
	else if (type == BOOLOID && strcmp(value, "f") == 0)
		appendStringInfoString(out, "false");
	else if (is_literal(type, value))
		appendStringInfoString(out, value);
	else
		escape_json(out, value);
}

/*
 * Whether a value is JSON as it stands.  NaN is no number there.
 */
static bool
is_literal(Oid type, const char *value)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case NUMERICOID:
			return IsValidJsonNumber(value, strlen(value));
		case JSONOID:
		case JSONBOID:
			return true;
		default:
			return false;
	}
}
