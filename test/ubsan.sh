#!/bin/bash
#
# ubsan.sh
#	The regression and isolation tests with the extension inside the server
#	built with checks for undefined behaviour: the first finding ends the
#	server, and so the tests.
#
# The build is made in a copy of the tree, so that nothing of it stays.

# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

install_missing test
make_work
chmod 755 "$WORK"
mkdir "$WORK/tree"
tar -C "$TREE" --exclude=./.git --exclude='*.o' --exclude='*.so' \
	--exclude=./test/build --exclude=./test/output -cf - . |
	tar -C "$WORK/tree" --no-same-owner -xf -
checks="-fsanitize=undefined -fno-sanitize-recover=all"
status=0
COPT="${COPT:-} $checks" "$WORK/tree/test/run.sh" regress \
	isolation </dev/null || status=$?
if [ $status -ne 0 ] && [ -d "$WORK/tree/test/output" ]; then
	rm -rf "$TREE/test/output"
	cp -R "$WORK/tree/test/output" "$TREE/test/output"
fi
exit $status
