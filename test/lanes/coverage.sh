#!/bin/bash
#
# coverage.sh
#	Which lines of the extension the tests reach, by gcov, and whether that is
#	enough: all of the pure part, 95 % of the rest, and what is not reached is
#	marked in the source with the reason.  test/lanes/coverage.py judges.
#
# Rules of this file:
#	- the build is made in a copy of the tree, so that nothing of it stays;
#	- a test that fails here is a failure of this lane too;
#	- of the TAP tests only those run that reach what no other test does: the
#	  others take minutes and add no line.  PROVE_TESTS picks others.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

TAP=(memory no_digest drain hold remote names long_answers kept ddl fence move streams on_shards misplaced
	cluster partitions plproxy)

main()
{
	local status=0
	install_missing test
	make_work
	chmod 755 "$WORK"
	copy_sources
	# every process leaves its counts beside the object files, the server's too
	mkdir -p "$WORK/tree/test/build/pure"
	chmod a+rwx "$WORK"/tree/{extension/src{,/ring},test/build,test/build/pure}
	run_tests </dev/null || status=$?
	if [ $status -ne 0 ]; then
		keep_output
		exit $status
	fi
	echo "== lines"
	python3 "$TREE/test/lanes/coverage.py" "$WORK/tree"
}

# Without optimization, lest lines melt into each other; Debian's headers warn
# of that.
run_tests()
{
	COPT="-O0 --coverage -Wno-cpp" UNIT_CFLAGS=-g \
		PROVE_TESTS="${PROVE_TESTS:-$(printf 'test/t/%s.pl ' "${TAP[@]}")}" \
		"$WORK/tree/test/run.sh" unit regress isolation tap
}

main "$@"
