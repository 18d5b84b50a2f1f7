#!/bin/bash
#
# jit.sh
#	The regression test of hashing with the extension built --with-llvm and
#	every expression compiled by the server, which then takes over what the
#	bitcode says of our functions.  That it does is a test of its own, test/jit:
#	the other would pass without it too.
#
# Every statement is compiled, those inside our functions too, which takes a
# tenth of a second each: all the other tests would take most of an hour.
# JIT_REGRESS names others.  The build is made in a copy of the tree, so that
# nothing of it stays, and with a module_pathname that a packager who wants the
# inlining has to choose: ours finds the library in any folder of
# dynamic_library_path instead.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

install_missing test
# Before 18, llvmjit is part of Debian's package of the server.
[ -e "$("$PG_CONFIG" --pkglibdir)/llvmjit.so" ] ||
	install_packages "postgresql-$("$PG_CONFIG" --version |
		sed 's/[^0-9]*\([0-9]*\).*/\1/')-jit"
make_work
chmod 755 "$WORK"
copy_sources
# PostgreSQL takes functions over from libraries named in $libdir only.
sed -i "s,'shardring'\$,'\$libdir/shardring'," \
	"$WORK/tree/extension/shardring.control"
settings=$(printf '%s\n' 'jit = on' 'jit_above_cost = 0' \
	'jit_inline_above_cost = 0' 'jit_optimize_above_cost = 0')
status=0
with_llvm=yes SETTINGS=$settings REGRESS=${JIT_REGRESS:-hash} \
	PROVE_TESTS=test/jit/taken_over.pl \
	"$WORK/tree/test/run.sh" regress tap </dev/null || status=$?
[ $status -eq 0 ] || keep_output
exit $status
