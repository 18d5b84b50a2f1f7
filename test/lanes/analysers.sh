#!/bin/bash
#
# analysers.sh
#	Every file of extension/src through gcc -fanalyzer, clang --analyze and
#	cppcheck.  What any of them says is a failure; nothing is suppressed.
#
# One test a file and analyser.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

PASSED=0
FAILED=0

main()
{
	local file includes
	install_missing server
	has_command clang || install_packages clang
	has_command cppcheck || install_packages cppcheck
	PG_CONFIG=$(command -v "$PG_CONFIG")
	make_work
	includes=(-I"$("$PG_CONFIG" --includedir-server)"
		-I"$("$PG_CONFIG" --includedir)" -I"$TREE/extension/src")
	for file in "$TREE"/extension/src/{,ring/}*.c; do
		analyse "$file" gcc -std=gnu11 -O1 -fanalyzer "${includes[@]}" \
			-c "$file" -o "$WORK/out.o"
		analyse "$file" clang --analyze -Xclang -analyzer-output=text \
			"${includes[@]}" "$file"
		analyse "$file" cppcheck --quiet --error-exitcode=1 \
			--enable=warning,performance,portability \
			-I"$TREE/extension/src" "$file"
	done
	echo "$PASSED passed, $FAILED failed"
	[ $FAILED -eq 0 ]
}

# FILE COMMAND: passes when it succeeds without a word.
analyse()
{
	local file=$1 status=0
	shift
	"$@" >"$WORK/said.log" 2>&1 || status=$?
	if [ $status -eq 0 ] && [ ! -s "$WORK/said.log" ]; then
		PASSED=$((PASSED + 1))
		return
	fi
	FAILED=$((FAILED + 1))
	echo "$1 of $(basename "$file"):"
	cat "$WORK/said.log"
}

main "$@"
