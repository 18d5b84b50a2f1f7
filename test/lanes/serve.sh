#!/bin/bash
#
# serve.sh
#	Runs a throw-away cluster that has the extension of this tree, on a port of
#	127.0.0.1, until it is ended: serve.sh PORT.  Says "ready" when it is.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

[ $# -eq 1 ] || fail "usage: test/lanes/serve.sh PORT"
install_missing server
make_root
start_cluster main "listen_addresses = '127.0.0.1'" "port = $1"
echo ready
sleep infinity &
wait
