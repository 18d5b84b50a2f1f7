#!/bin/bash
#
# instructions.sh
#	Counts the instructions of the pure part and compares them with those in
#	instructions.txt: a slow-down shows, whatever else the machine does.
#
#		instructions.sh			compares; the last line is "N passed, N failed"
#		instructions.sh save	writes instructions.txt
#
# Rules of this file:
#	- Counts depend on the compiler and on libcrypto.  With those that
#	  instructions.txt was made with, a count may be 10 % higher.  With others,
#	  it is compared in units of one hash, and may be half as high again.
#	- A count that is 10 % lower fails too, with the same tools: it is good news
#	  that belongs into the file, or the next slow-down hides behind it.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

BENCH=$TREE/test/bench
COUNTS=$BENCH/instructions.txt
KINDS=(hash lookup build check canon diff plan)

main()
{
	install_missing server
	has_command valgrind || install_packages valgrind
	make_work
	build_program
	measure >"$WORK/counts"
	if [ "${1:-}" = save ]; then
		cp "$WORK/counts" "$COUNTS"
	else
		compare
	fi
}

build_program()
{
	local sources
	sources=("$BENCH/instructions.c" "$TREE"/extension/src/ring/*.c)
	gcc -std=gnu11 -O2 -fwrapv -I "$TREE/extension/src/ring" \
		-o "$WORK/instructions" "${sources[@]}" -lcrypto
}

# Prints the tools, and each kind of work with its count.
measure()
{
	local kind none
	echo "tools $(tools)"
	none=$(count none)
	for kind in "${KINDS[@]}"; do
		echo "$kind $(($(count "$kind") - none))"
	done
}

tools()
{
	echo "$(uname -m) gcc-$(gcc -dumpversion | cut -d . -f 1)" \
		"libcrypto-$(openssl_version)"
}

openssl_version()
{
	printf '%s\n' '#include <openssl/opensslv.h>' OPENSSL_VERSION_TEXT |
		gcc -E -P - | sed -n 's/^"OpenSSL \([0-9]*\.[0-9]*\).*/\1/p'
}

# Callgrind simulates no more than AVX2, so the count is the same everywhere.
count()
{
	valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$WORK/instructions" "$1" 2>&1 | sed -n 's/.*Collected : //p'
}

compare()
{
	if [ "$(head -n 1 "$WORK/counts")" = "$(head -n 1 "$COUNTS")" ]; then
		echo "instructions, same tools as before"
		judge 1 1 0.9 1.1
	else
		echo "instructions in hashes, because the tools are others"
		judge "$(of hash "$WORK/counts")" "$(of hash "$COUNTS")" 0 1.5
	fi
}

of()
{
	sed -n "s/^$1 //p" "$2"
}

# Compares counts in the given units with those of the file.
judge()
{
	awk -v unit="$1" -v old_unit="$2" -v low="$3" -v high="$4" '
		FNR == 1 { next }
		NR == FNR { old[$1] = $2 / old_unit; next }
		{
			ratio = old[$1] > 0 ? $2 / unit / old[$1] : 0
			ok = ratio >= low && ratio <= high && ratio > 0
			printf "%s %-8s %12d  %.2f of the count kept\n",
				ok ? "ok    " : "not ok", $1, $2, ratio
			ok ? passed++ : failed++
		}
		END {
			printf "%d passed, %d failed\n", passed, failed
			exit failed > 0 || passed == 0
		}' "$COUNTS" "$WORK/counts"
}

main "$@"
