# judge.awk
#	Reads what run.sql printed.  A function passes when it was called and none
#	of its calls failed in a way it should not; so does the memory.
#
# An SQLSTATE is right when it is one of those that the documentation names for
# wrong arguments and wrong states, or PostgreSQL's own for a wrong table or
# column.  What only says that something inside went wrong is not: XX000, a
# statement that PostgreSQL could not parse, a function that does not exist, an
# error without an SQLSTATE of its own (P0001), out of memory.

BEGIN {
	split("0A000 22000 22003 22004 22007 22008 22012 22023 2202E 22P02 23502 " \
		"23505 23514 40001 42501 42602 42704 42703 42710 42804 42809 42846 42P01 " \
		"54000 55000 55006 SR001 SR002 XX001", list)
	for (i in list)
		right[list[i]] = 1
}

/^SELECT \/\* / {
	function_name = $3
	call = $0
	calls[function_name]++
	total++
}

/(ERROR|FATAL|PANIC): / {
	state = $NF
	states[state]++
	# the one that is there to be ended
	if (state == "57014" && call ~ /simulate.*2147483647/)
	{
		ended = 1
		next
	}
	# the one whose argument is a statement
	if (state == "42601" && function_name ~ /\.(on_shards|require_query|receive_ddl)\(/)
		next
	if (state in right)
		next
	bad[function_name]++
	if (bad[function_name] <= 3)
		print state ": " substr(call, 1, 400)
}

/^memory / {
	first = $2
	second = $3
}

END {
	for (state in states)
		summary = summary " " states[state] " of " state
	print total " calls, errors:" summary
	for (name in calls)
	{
		if (bad[name])
		{
			print name ": " bad[name] " of " calls[name] " calls went wrong"
			failed++
		}
		else
			passed++
	}
	if (!ended)
		print "a long simulation was not ended by statement_timeout"
	ended ? passed++ : failed++
	print "memory: " first " bytes, and then " second
	(first > 0 && second - first < 1048576) ? passed++ : failed++
	print passed + 0, "passed,", failed + 0, "failed"
	exit failed > 0
}
