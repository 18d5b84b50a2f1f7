#!/bin/bash
#
# run.sh
#	Runs the tests and counts them: run.sh [unit] [regress] [isolation] [tap]
#
# Rules of this file:
#	- A test is a cmocka test, a pg_regress file, an isolation spec, or one
#	  "ok" line of a TAP script.  The numbers are read from what each program
#	  printed.
#	- A program that failed without counting a failure (a crash, a plan that was
#	  not kept) is one failure; so is one that counted nothing.
#	- The last line is "N passed, N failed"; when some were skipped, the line
#	  before says how many.  The status is 0 when something ran and nothing failed.
#	- TAP scripts are named after what they are about and run in the order of
#	  their names; none needs another to have run.
#	- Tests see a copy of the tree.  What they leave is in test/output when
#	  something failed, regression.diffs and results included.
#
# REGRESS, ISOLATION and PROVE_TESTS pick tests; without them all of a kind run,
# and a kind without tests is passed over.  SETTINGS are more lines for the
# postgresql.conf of regress and isolation.

# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

PASSED=0
FAILED=0
SKIPPED=0
OUTPUT=$TREE/test/output

main()
{
	local kind
	rm -rf "$OUTPUT"
	install_missing test
	make_root
	copy_tree
	for kind; do
		"run_$kind"
	done
	report
}

# The server's user may not be able to read the tree, let alone to write there.
copy_tree()
{
	mkdir "$WORK/tree" "$WORK/output"
	tar -C "$TREE" --exclude=./.git --exclude='*.o' --exclude=./test/build \
		-cf - . | tar -C "$WORK/tree" --no-same-owner -xf -
	expect_output sql expected sql
	expect_output test/specs test/expected spec
	[ "$(id -u)" -ne 0 ] || chown -R "$SERVER_USER:" "$WORK/tree" "$WORK/output"
}

# pg_regress gives up at a test without expected output; with an empty one, it
# shows what a new test printed and goes on.
expect_output()
{
	local test
	for test in $(names "$WORK/tree/$1"/*."$3"); do
		[ -e "$WORK/tree/$2/$test.out" ] || : >"$WORK/tree/$2/$test.out"
	done
}

# The base names of those files that exist.
names()
{
	local file
	for file; do
		[ ! -e "$file" ] || basename "${file%.*}"
	done
}

report()
{
	if [ "$FAILED" -gt 0 ] && cp -R "$WORK/output" "$OUTPUT"; then
		echo "what the failed tests left is in test/output"
	fi
	print_counts $PASSED $FAILED $SKIPPED
	[ $FAILED -eq 0 ] && [ $PASSED -gt 0 ]
}

# Adds to the counts what a program of this name and status did: the third
# argument is how many tests passed, failed and were skipped.
count()
{
	local name=$1 status=$2 passed failed skipped
	read -r passed failed skipped <<<"$3"
	if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
		echo "$name: ended with status $status"
		failed=1
	elif [ $((passed + failed + skipped)) -eq 0 ]; then
		echo "$name: counted no test"
		failed=1
	fi
	echo "$name: $(summary "$passed" "$failed" "$skipped")"
	PASSED=$((PASSED + passed))
	FAILED=$((FAILED + failed))
	SKIPPED=$((SKIPPED + skipped))
}

summary()
{
	echo "$1 passed, $2 failed$([ "$3" -eq 0 ] || echo ", $3 skipped")"
}

# Runs a command as the server's user with its output in LOG; with -f as the
# first argument, also shown while it grows.
#
# It is a job of its own in the background, because bash attends to a signal
# only when the command in the foreground has ended, and because other
# background commands would ignore SIGINT.
run_logged()
{
	local follow=false child status=0
	[ "$1" != -f ] || { follow=true; shift; }
	local log=$1
	shift
	: >"$log"					# tail finds it
	set -m
	as_server "$@" >"$log" 2>&1 </dev/null &
	child=$!
	set +m
	! $follow || tail -n +1 -s 0.1 -f --pid=$child "$log" &
	wait $child || status=$?
	wait
	return $status
}

# ---------- unit ----------

run_unit()
{
	local name log status
	[ -n "$(names "$TREE"/test/unit/test_*.c)" ] || return 0
	echo "== unit"
	if ! locked_make -s unit-programs; then
		count "building the unit tests" 1 "0 0 0"
		return 0
	fi
	for name in $(names "$TREE"/test/unit/test_*.c); do
		cp "$TREE/test/build/$name" "$WORK/tree/"
		log=$WORK/output/$name.log
		status=0
		run_logged "$log" "$WORK/tree/$name" || status=$?
		[ $status -eq 0 ] || cat "$log"
		count "$name" $status "$(count_cmocka "$log")"
	done
}

count_cmocka()
{
	awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
		/^\[  FAILED  \] [0-9]+ test\(s\)/ { failed += $4 }
		/^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped += $4 }
		END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# ---------- regress and isolation ----------

run_regress()
{
	run_pg_regress regress "$PGXS_TEST/regress/pg_regress" \
		"$WORK/tree" contrib_regression \
		"${REGRESS:-$(names "$TREE"/sql/*.sql)}"
}

run_isolation()
{
	run_pg_regress isolation "$PGXS_TEST/isolation/pg_isolation_regress" \
		"$WORK/tree/test" isolation_regression \
		"${ISOLATION:-$(names "$TREE"/test/specs/*.spec)}"
}

run_pg_regress()
{
	local kind=$1 program=$2 input=$3 database=$4 tests=$5
	local output=$WORK/output/$kind log=$WORK/output/$kind.log status=0
	[ -n "$tests" ] || return 0
	echo "== $kind"
	start_cluster "$kind" ${SETTINGS:+"$SETTINGS"}
	as_server mkdir "$output"
	# shellcheck disable=SC2086
	run_logged -f "$log" "$program" --bindir="$BINDIR" --inputdir="$input" \
		--outputdir="$output" --dbname="$database" $tests || status=$?
	[ ! -s "$output/regression.diffs" ] || cat "$output/regression.diffs"
	count "$kind" $status "$(count_pg_regress "$log")"
	cp "$WORK/$kind.log" "$WORK/output/$kind-server.log"
	stop_cluster "$kind" immediate || true
}

# Up to 15: "test name ... ok 20 ms", or FAILED.  From 16 on: TAP.
count_pg_regress()
{
	awk '/ \.\.\. ok / || /^ok [0-9]+ / { passed++ }
		/ \.\.\. FAILED / || /^not ok [0-9]+ / { failed++ }
		END { print passed + 0, failed + 0, 0 }' "$1"
}

# ---------- TAP ----------

run_tap()
{
	local file name log status dir
	[ -n "$(names "$TREE"/test/t/*.pl)" ] || return 0
	echo "== tap"
	cd "$TREE"
	for file in ${PROVE_TESTS:-test/t/*.pl}; do
		name=$(basename "$file" .pl)
		log=$WORK/output/$name.log
		dir=$WORK/tap/$name
		status=0
		as_server mkdir -p "$dir"
		run_logged "$log" env TESTDIR="$dir" TESTDATADIR="$dir/tmp_check" \
			TESTLOGDIR="$dir/tmp_check/log" PG_TEST_PORT_DIR="$WORK/ports" \
			PG_REGRESS="$PGXS_TEST/regress/pg_regress" \
			sh -c "cd tree && exec prove --verbose --merge --nocolor \
				-I '$PGXS_TEST/perl' -I test/t '$file'" || status=$?
		if [ $status -ne 0 ]; then
			grep -v '^ok ' "$log" || true
			[ ! -d "$dir/tmp_check/log" ] ||
				cp -R "$dir/tmp_check/log" "$WORK/output/$name-servers"
		fi
		rm -rf "$dir"			# logs of servers fill a file system in memory
		count "$name" $status "$(count_tap "$log")"
		sed -n 's/^ok .* # skip /skipped: /p' "$log" | sort -u
	done
}

# A test that is skipped or not expected to work proves nothing.
count_tap()
{
	awk '/^(not )?ok [0-9]+.* # (skip|SKIP|TODO)/ || / \.\. skipped: / {
			skipped++
			next
		}
		/^ok [0-9]+/ { passed++ }
		/^not ok [0-9]+/ { failed++ }
		END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

main "$@"
