/*
 * fail.c
 *		Errors of PL/pgSQL functions, as people should see them.
 *
 * RAISE shows where it stands and every function that led there, two or three
 * lines of CONTEXT that tell whoever calls add_group nothing.  An error is
 * raised here instead, with the part of the stack that is not ours: of a
 * function of theirs that calls add_group, the lines stay.
 *
 * Taking frames off error_context_stack is safe because an error does not come
 * back: whoever catches it, by PG_TRY as PL/pgSQL does or in the main loop,
 * sets the stack to what it was there.
 */
#include "shardring.h"

#include <ctype.h>

#include "utils/builtins.h"

typedef void (*FrameCallback) (void *arg);

static int	read_sqlstate(const char *sqlstate);
static char *argument(FunctionCallInfo fcinfo, int n);
static bool is_our_frame(const ErrorContextCallback *frame);
static bool starts_name(const char *text, const char *name);

PG_FUNCTION_INFO_V1(shardring_fail);

/*
 * fail(sqlstate, message, detail, hint): raises this error.
 */
Datum
shardring_fail(PG_FUNCTION_ARGS)
{
	char	   *sqlstate = argument(fcinfo, 0);
	char	   *message = argument(fcinfo, 1);
	char	   *detail = argument(fcinfo, 2);
	char	   *hint = argument(fcinfo, 3);
	int			code = read_sqlstate(sqlstate);

	error_context_stack = fail_outer_frames();
	ereport(ERROR,
			(errcode(code),
			 errmsg_internal("%s", message == NULL ? "" : message),
			 detail == NULL ? 0 : errdetail_internal("%s", detail),
			 hint == NULL ? 0 : errhint("%s", hint)));
}

/*
 * Five digits or capital letters as a code; 22023 for anything else, and for
 * the class of success.
 */
static int
read_sqlstate(const char *sqlstate)
{
	if (sqlstate == NULL || strlen(sqlstate) != 5 ||
		strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
		strncmp(sqlstate, "00", 2) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid SQLSTATE code")));
	return MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3],
						 sqlstate[4]);
}

/*
 * An argument of type text as a string; NULL for NULL.
 */
static char *
argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/*
 * The frames of the stack beyond the outermost function of ours that led here
 * through no function of others.
 *
 * PERFORM runs a statement, so the innermost frame is one of a statement, and
 * those of its kind between two functions go with the inner one.  Were it
 * another, no function would be found to be ours and the whole stack stay.
 */
ErrorContextCallback *
fail_outer_frames(void)
{
	ErrorContextCallback *frame = error_context_stack;
	ErrorContextCallback *outer = frame;
	FrameCallback statement = frame == NULL ? NULL : frame->callback;

	for (; frame != NULL; frame = frame->previous)
	{
		if (frame->callback == statement)
			continue;
		if (!is_our_frame(frame))
			break;
		outer = frame->previous;
	}
	return outer;
}

/*
 * Whether what a frame would say, in whatever language, names a function in a
 * schema of ours.
 */
static bool
is_our_frame(const ErrorContextCallback *frame)
{
	ErrorContextCallback *stack = error_context_stack;
	ErrorContextCallback alone = *frame;
	char	   *text;

	alone.previous = NULL;
	error_context_stack = &alone;
	text = GetErrorContextStack();
	error_context_stack = stack;
	return text != NULL && (starts_name(text, "shardring.") ||
							starts_name(text, "shardring_internal."));
}

/*
 * Whether a text has a name that is not part of a longer one, nor the type of
 * an argument.
 */
static bool
starts_name(const char *text, const char *name)
{
	const char *found = strstr(text, name);

	return found != NULL &&
		(found == text || strchr("(,.\"$_", found[-1]) == NULL) &&
		!(found > text && isalnum((unsigned char) found[-1]));
}
