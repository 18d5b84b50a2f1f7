#!/bin/bash
#
# fuzz.sh
#	Fuzzes the pure part, without PostgreSQL, under the sanitizers for
#	addresses and undefined behaviour: fuzz.sh [SECONDS [TARGET ...]].  Each
#	of the targets, test/fuzz/fuzz_*.c, takes so long, by default a minute.
#
# Every target is one test.  It begins with the saved corpus, test/fuzz/corpus.
# What a failed one left, the bytes included, is in test/output/fuzz; to see it
# again, give its file to the program of the same name there.  With FUZZ_KEEP,
# the smallest inputs that reach all that was reached replace the corpus.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

FUZZ=$TREE/test/fuzz
OUTPUT=$TREE/test/output/fuzz
CFLAGS=(-std=gnu11 -g -O1 -Wall -Wextra -fno-sanitize-recover=all
	"-fsanitize=fuzzer,address,undefined" -DTEST_MOST_SLOTS=96
	-I"$TREE/extension/src/ring" -I"$TREE/test/unit" -I"$FUZZ")
# These are in chance_of_bytes.c here.
RENAMED=(-Dtest_seed=unit_seed -Dtest_rounds=unit_rounds
	-Dtest_random=unit_random -Dtest_random32=unit_random32)

main()
{
	local seconds=${1:-60} passed=0 failed=0 target file
	shift || true
	if [ $# -eq 0 ]; then
		for file in "$FUZZ"/fuzz_*.c; do
			set -- "$@" "$(basename "$file" .c | sed 's/^fuzz_//')"
		done
	fi
	install_fuzzer
	make_work
	rm -rf "$OUTPUT"
	build_shared
	for target; do
		echo "== fuzz $target"
		if fuzz_target "$target" "$seconds"; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			mkdir -p "$OUTPUT"
			cp -r "$WORK/$target"* "$OUTPUT/"
			echo "fuzz $target failed: test/output/fuzz"
		fi
	done
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}

install_fuzzer()
{
	local missing=() major
	has_command clang || missing+=(clang)
	has_header openssl/evp.h || missing+=(libssl-dev)
	has_header cmocka.h || missing+=(libcmocka-dev)
	[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
	major=$(clang -dumpversion | cut -d . -f 1)
	[ -e "$(clang -print-file-name=libclang_rt.fuzzer-x86_64.a)" ] ||
		echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null ||
		install_packages "libclang-rt-$major-dev"
}

# Compiles what all targets have in common, on two processors.
build_shared()
{
	local file
	export WORK
	# shellcheck disable=SC2016	# that shell's own $1
	for file in "$TREE"/extension/src/ring/*.c \
		"$TREE"/test/unit/{chance,model,support}.c "$FUZZ/chance_of_bytes.c"
	do
		echo "$file"
	done | xargs -P 2 -I '{}' bash -c 'compile "$1"' compile '{}' ||
		fail "cannot compile"
}

compile()
{
	local flags
	read -ra flags <<<"$FLAGS"
	[ "$(basename "$1")" != support.c ] || read -ra flags <<<"$FLAGS $RENAMES"
	clang "${flags[@]}" -c -o "$WORK/$(basename "$1" .c).o" "$1"
}

# TARGET SECONDS.  The address sanitizer wants its usual place in memory, which
# some kernels give only without randomization.
fuzz_target()
{
	local program=$WORK/$1 corpus=$FUZZ/corpus/$1 plain=() status=0
	mkdir -p "$WORK/$1.corpus" "$corpus"
	clang "${CFLAGS[@]}" -o "$program" "$FUZZ/fuzz_$1.c" "$WORK"/*.o \
		-lcmocka -lcrypto || return 1
	! setarch -R true 2>/dev/null || plain=(setarch -R)
	"${plain[@]}" "$program" -max_total_time="$2" -timeout=20 -max_len=4096 \
		-rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$WORK/$1.found-" "$WORK/$1.corpus" "$corpus" \
		>"$WORK/$1.log" 2>&1 || status=$?
	grep -E '^INFO: Seed|number_of_executed' "$WORK/$1.log" || true
	[ $status -eq 0 ] || grep -vE '^(#|INFO|stat)' "$WORK/$1.log" | tail -n 30
	[ $status -eq 0 ] || return 1
	[ -z "${FUZZ_KEEP:-}" ] || keep_corpus "$1"
}

keep_corpus()
{
	rm -rf "$WORK/$1.kept"
	mkdir "$WORK/$1.kept"
	"${plain[@]}" "$program" -merge=1 -max_len=512 "$WORK/$1.kept" \
		"$WORK/$1.corpus" "$corpus" >/dev/null 2>&1
	rm -rf "$corpus"
	mkdir "$corpus"
	find "$WORK/$1.kept" -type f -printf '%s %p\n' | sort -n |
		sed -n '1,16s/^[0-9]* //p' | xargs -r cp -t "$corpus"
}

export -f compile
export FLAGS="${CFLAGS[*]}" RENAMES="${RENAMED[*]}"
main "$@"
