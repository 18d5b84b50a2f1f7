/*
 * ask.c
 *		Asking shards: one statement on many servers.
 *
 * What is asked of a server is SQL in the install script; this file passes
 * questions to remote.c and makes rows of the answers.
 */
#include "remote.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "remote_address.h"

static RemoteEnding read_ending(const char *ending);
static RemoteAnswer *read_servers(ArrayType *servers, int *n);
static RemoteQuestion read_question(FunctionCallInfo fcinfo);
static char **read_texts(ArrayType *array, int *n);
static void put_answer(ReturnSetInfo *set, const RemoteAnswer *answer);
static Datum values_array(const RemoteAnswer *answer);
static void put_rows(ReturnSetInfo *set, const RemoteAnswer *answer);
static Datum rows_array(List *rows);

PG_FUNCTION_INFO_V1(shardring_connect_string);
PG_FUNCTION_INFO_V1(shardring_ask_servers);
PG_FUNCTION_INFO_V1(shardring_ask_rows);
PG_FUNCTION_INFO_V1(shardring_ask_ending);

/*
 * connect_string(server): how libpq gets to a foreign server.
 */
Datum
shardring_connect_string(PG_FUNCTION_ARGS)
{
	char	   *server = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_RETURN_TEXT_P(cstring_to_text(remote_connect_string(server)));
}

/*
 * ask_servers(servers, statement, arguments): the answer of each server to the
 * statement, one row each, in their order.
 */
Datum
shardring_ask_servers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RemoteQuestion question = read_question(fcinfo);
	RemoteAnswer *answers;
	int			n;

	answers = read_servers(PG_GETARG_ARRAYTYPE_P(0), &n);
	remote_ask(answers, n, &question);
	for (int i = 0; i < n; i++)
		put_answer(set, &answers[i]);
	return (Datum) 0;
}

/*
 * ask_rows(servers, statement, arguments): all rows with which each server
 * answers a query, one row for each server, in their order.
 */
Datum
shardring_ask_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RemoteQuestion question = read_question(fcinfo);
	RemoteAnswer *answers;
	int			n;

	question.all_rows = true;
	answers = read_servers(PG_GETARG_ARRAYTYPE_P(0), &n);
	remote_ask(answers, n, &question);
	for (int i = 0; i < n; i++)
		put_rows(set, &answers[i]);
	return (Datum) 0;
}

/*
 * ask_ending(servers, statement, arguments, ending, prepared_as): as
 * ask_servers, with another end of the transactions: "rollback", "prepare", or
 * "alone" for what is not in one.
 */
Datum
shardring_ask_ending(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = result_set(fcinfo);
	RemoteQuestion question = read_question(fcinfo);
	RemoteAnswer *answers;
	int			n;

	question.ending = read_ending(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	question.prepared_as = text_to_cstring(PG_GETARG_TEXT_PP(4));
	answers = read_servers(PG_GETARG_ARRAYTYPE_P(0), &n);
	remote_ask(answers, n, &question);
	for (int i = 0; i < n; i++)
		put_answer(set, &answers[i]);
	return (Datum) 0;
}

/*
 * How a transaction ends; 22023 for no such word.
 */
static RemoteEnding
read_ending(const char *ending)
{
	static const char *const endings[] = {"commit", "rollback", "prepare",
	"alone"};

	for (int i = 0; i < lengthof(endings); i++)
		if (strcmp(ending, endings[i]) == 0)
			return (RemoteEnding) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a transaction cannot end so"),
			 errhint("It can commit, rollback, prepare, or be alone.")));
}

/*
 * An empty answer for each server, in their order.
 */
static RemoteAnswer *
read_servers(ArrayType *servers, int *n)
{
	char	  **names = read_texts(servers, n);
	RemoteAnswer *answers = palloc0(*n * sizeof(RemoteAnswer));

	for (int i = 0; i < *n; i++)
		answers[i].server = names[i];
	return answers;
}

/*
 * Arguments 1 and 2 of ask_servers.
 */
static RemoteQuestion
read_question(FunctionCallInfo fcinfo)
{
	RemoteQuestion question = {0};

	question.statement = text_to_cstring(PG_GETARG_TEXT_PP(1));
	question.arguments = (const char *const *)
		read_texts(PG_GETARG_ARRAYTYPE_P(2), &question.narguments);
	return question;
}

/*
 * The elements of a text array, none of which may be NULL.
 */
static char **
read_texts(ArrayType *array, int *n)
{
	Datum	   *datums;
	bool	   *nulls;
	char	  **texts;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &datums,
					  &nulls, n);
	texts = palloc(*n * sizeof(char *));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("array must not contain nulls")));
		texts[i] = TextDatumGetCString(datums[i]);
	}
	return texts;
}

/*
 * Adds the row of one server.
 */
static void
put_answer(ReturnSetInfo *set, const RemoteAnswer *answer)
{
	Interval   *round_trip = palloc0(sizeof(Interval));
	bool		nulls[5] = {0};
	Datum		values[5] = {0};

	round_trip->time = (TimeOffset) (answer->milliseconds * 1000);
	nulls[1] = answer->server_version == NULL;
	nulls[2] = answer->error == NULL;
	nulls[3] = answer->nvalues == 0;
	values[0] = CStringGetTextDatum(answer->server);
	if (!nulls[1])
		values[1] = CStringGetTextDatum(answer->server_version);
	if (!nulls[2])
		values[2] = CStringGetTextDatum(answer->error);
	if (!nulls[3])
		values[3] = values_array(answer);
	values[4] = IntervalPGetDatum(round_trip);
	result_put(set, values, nulls);
}

/*
 * The values of an answer, at least one, as text[].
 */
static Datum
values_array(const RemoteAnswer *answer)
{
	int			n = answer->nvalues;
	Datum	   *datums = palloc0(n * sizeof(Datum));
	bool	   *nulls = palloc0(n * sizeof(bool));
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		nulls[i] = answer->values[i] == NULL;
		if (!nulls[i])
			datums[i] = CStringGetTextDatum(answer->values[i]);
	}
	return PointerGetDatum(construct_md_array(datums, nulls, 1, &n, &lower,
											  TEXTOID, -1, false,
											  TYPALIGN_INT));
}

/*
 * Adds the row of one server that was asked for all of its rows.
 */
static void
put_rows(ReturnSetInfo *set, const RemoteAnswer *answer)
{
	bool		nulls[3] = {0};
	Datum		values[3] = {0};

	nulls[1] = answer->error == NULL;
	nulls[2] = !nulls[1];
	values[0] = CStringGetTextDatum(answer->server);
	if (!nulls[1])
		values[1] = CStringGetTextDatum(answer->error);
	else
		values[2] = rows_array(answer->rows);
	result_put(set, values, nulls);
}

/*
 * The rows of an answer, perhaps none, as text[].
 */
static Datum
rows_array(List *rows)
{
	int			n = list_length(rows);
	Datum	   *datums = palloc(n * sizeof(Datum));
	ListCell   *cell;

	foreach(cell, rows)
		datums[foreach_current_index(cell)] =
			CStringGetTextDatum((char *) lfirst(cell));
	return PointerGetDatum(construct_array(datums, n, TEXTOID, -1, false,
										   TYPALIGN_INT));
}
