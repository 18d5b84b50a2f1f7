/*
 * statement.c
 *		What kind of statement a text is, before other servers run it.
 *
 * The text is parsed by the grammar of this server and not analysed: the
 * tables are elsewhere.  Errors are shown as fail.c shows them.
 */
#include "shardring.h"

#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"

static List *parse(const char *statement);
static void move_position(void *arg);
static bool is_query(const Node *statement);

PG_FUNCTION_INFO_V1(shardring_require_query);

/*
 * require_query(statement): 42601 unless it is one statement, 22023 unless
 * that returns rows and is nothing but a query.
 */
Datum
shardring_require_query(PG_FUNCTION_ARGS)
{
	ErrorContextCallback *stack = error_context_stack;
	List	   *statements;

	error_context_stack = fail_outer_frames();
	statements = parse(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("exactly one statement is needed, not %d",
						list_length(statements))));
	if (!is_query(linitial_node(RawStmt, statements)->stmt))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the statement is not a query"),
				 errhint("Queries are SELECT, VALUES, TABLE, WITH, EXPLAIN, "
						 "and SHOW.")));
	error_context_stack = stack;
	PG_RETURN_VOID();
}

/*
 * The statements of a text.
 */
static List *
parse(const char *statement)
{
	ErrorContextCallback callback = {
		.previous = error_context_stack, .callback = move_position,
		.arg = unconstify(char *, statement)
	};
	List	   *statements;

	error_context_stack = &callback;
	statements = raw_parser(statement, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return statements;
}

/*
 * A position in the text is none in the statement that has it as an argument.
 */
static void
move_position(void *arg)
{
	int			position = geterrposition();

	if (position <= 0)
		return;					/* LCOV_EXCL_LINE: the parser has a position */
	errposition(0);
	internalerrposition(position);
	internalerrquery(arg);
}

/*
 * Whether a statement only returns rows.  What it calls may write, which its
 * transaction forbids; but it cannot end that transaction.
 */
static bool
is_query(const Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_SelectStmt:
		case T_ExplainStmt:
		case T_VariableShowStmt:
			return true;
		default:
			return false;
	}
}
