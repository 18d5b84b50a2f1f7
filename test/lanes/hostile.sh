#!/bin/bash
#
# hostile.sh
#	Calls every function of the extension with values that nobody should pass,
#	in all combinations of up to three of them and all pairs otherwise
#	(test/hostile/calls.sql).  No call may end the server, keep memory, run on
#	for long, or fail without an SQLSTATE that says what is wrong.
#
# One test a function.  HOSTILE_TIMEOUT is how long a call may take: by default
# 10 s, so that a crowded machine is no failure; 1 s where nothing else runs.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

install_missing server
make_root
start_cluster main
HOSTILE=$TREE/test/hostile

psql -Xqat -v ON_ERROR_STOP=1 -f "$HOSTILE/things.sql" \
	-f "$HOSTILE/values.sql" -f "$HOSTILE/calls.sql" >"$WORK/made.log" 2>&1 ||
	{ tail "$WORK/made.log"; fail "no calls"; }
! grep '^not called' "$WORK/made.log" || fail "values.sql lacks a type"

status=0
psql -Xqat -v timeout="${HOSTILE_TIMEOUT:-10s}" -f "$HOSTILE/run.sql" \
	>"$WORK/calls.log" 2>&1 || status=$?
if grep -E 'PANIC|terminated by signal' "$WORK/main.log" || [ $status -ne 0 ]
then
	grep '^SELECT /' "$WORK/calls.log" | tail -n 1
	echo "0 passed, 1 failed"
	exit 1
fi
awk -f "$HOSTILE/judge.awk" "$WORK/calls.log"
