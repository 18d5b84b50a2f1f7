/*
 * remote_answer.c
 *		What is kept of a server's rows.
 *
 * The functions return what is wrong with a row, or NULL.
 */
#include "remote_answer.h"

#include "nodes/pg_list.h"

#include "remote_address.h"
#include "remote_rows.h"

static const char *keep_values(RemoteAnswer *answer, const PGresult *result);

/*
 * Counts a row; keeps the first one, or each, as a JSON object, where all are
 * asked for.
 */
const char *
remote_answer_row(RemoteAnswer *answer, const RemoteQuestion *question,
				  RemoteMeter *meter, const PGresult *result)
{
	const char *error = NULL;
	char	   *json;

	if (!question->all_rows)
	{
		meter_row(meter, remote_row_bytes(result));
		error = meter_error(meter);
		return error != NULL || meter->rows > 1 ? error :
			keep_values(answer, result);
	}
	error = remote_row_error(result);
	if (error != NULL)
		return error;
	json = remote_row_json(result);
	meter_row(meter, strlen(json));
	answer->rows = lappend(answer->rows, json);
	return meter_error(meter);
}

/*
 * Keeps the values of a row; they must be valid in our encoding.
 */
static const char *
keep_values(RemoteAnswer *answer, const PGresult *result)
{
	answer->nvalues = PQnfields(result);
	answer->values = palloc0(answer->nvalues * sizeof(char *));
	for (int i = 0; i < answer->nvalues; i++)
	{
		const char *value = PQgetvalue(result, 0, i);

		if (PQgetisnull(result, 0, i))
			continue;
		answer->values[i] = pstrdup(value);
		if (!remote_is_text(value, PQgetlength(result, 0, i)))
			return REMOTE_NO_TEXT;
	}
	return NULL;
}
