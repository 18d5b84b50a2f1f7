#!/bin/bash
#
# with-cluster.sh
#	Runs a command beside a throw-away cluster that has the extension of this
#	tree, and returns its status:
#
#		test/with-cluster.sh psql -c 'CREATE EXTENSION shardring'
#
# The command finds the server through PGHOST, PGPORT, PGUSER (a superuser) and
# PGDATABASE, and its programs through PATH.

# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

[ $# -gt 0 ] || fail "usage: test/with-cluster.sh COMMAND [ARGUMENT ...]"
install_missing server
make_root
start_cluster main

# In the foreground, since it may be a psql that wants the terminal; what
# Ctrl-C means is then its own affair.
trap : INT
"$@"
