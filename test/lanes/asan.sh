#!/bin/bash
#
# asan.sh
#	The regression and isolation tests with the extension inside the server
#	under the sanitizers for addresses and undefined behaviour.
#
# Rules of this file:
#	- the first finding ends the server, and so the test.  It is also written to
#	  a file, and a finding that no test noticed is a failure all the same;
#	- each allocation of the extension has bounds that are watched
#	  (test/asan/blocks.c);
#	- the build is made in a copy of the tree, so that nothing of it stays, and
#	  nothing but the server has the sanitizer in it.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

# PGXS says -fwrapv, which would make an overflow no finding.
FLAGS=(-O1 -g -fno-omit-frame-pointer -fno-wrapv
	-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all)
WRAPPED=(palloc palloc0 palloc_extended repalloc repalloc_huge
	MemoryContextAlloc MemoryContextAllocZero MemoryContextAllocHuge
	MemoryContextStrdup pstrdup pnstrdup)

main()
{
	local status=0
	install_missing test
	make_work
	chmod 755 "$WORK"
	copy_sources
	cp "$TREE"/test/asan/{blocks,report}.c "$WORK/tree/extension/src/"
	make_first
	mkdir -m 777 "$WORK/findings"
	run_tests | tee "$WORK/run.log" || status=$?
	report $status
}

make_first()
{
	gcc -Wall -shared -fPIC -Wl,-z,initfirst -o "$WORK/first.so" \
		"$TREE/test/asan/first.c"
}

# As the address sanitizer wants its usual place in memory, which some kernels
# give only without randomization, all runs without it.  What is freed is kept
# back for a while: so much of it that the processor's cache holds it, which
# takes half the time.
run_tests()
{
	local plain=() options=detect_leaks=0:abort_on_error=1
	! setarch -R true 2>/dev/null || plain=(setarch -R)
	export FINDINGS=$WORK/findings/found
	SERVER_PRELOAD="$(gcc -print-file-name=libasan.so) $WORK/first.so" \
		ASAN_OPTIONS=$options:quarantine_size_mb=4:log_path=$FINDINGS \
		COPT="${COPT:-} ${FLAGS[*]} ${WRAPPED[*]/#/-Wl,--wrap=}" \
		"${plain[@]}" "$WORK/tree/test/run.sh" regress isolation </dev/null 2>&1
}

# That there is no finding is one more test.
report()
{
	local status=$1 passed failed
	read -r passed failed _ < <(read_counts <"$WORK/run.log") || true
	passed=${passed:-0} failed=${failed:-0}
	[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
	if [ -z "$(ls "$WORK/findings")" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		cat "$WORK"/findings/*
	fi
	if [ "$failed" -ne 0 ] && keep_output; then
		mkdir -p "$TREE/test/output"
		cp -R "$WORK/findings" "$TREE/test/output/"
	fi
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
}

main "$@"
