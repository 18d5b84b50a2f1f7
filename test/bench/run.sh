#!/bin/bash
#
# run.sh
#	The benchmark: make bench, or make bench QUICK=1 with fewer keys: half of
#	them for routing, a tenth of the millions that are compared.
#
#	In a throw-away cluster, it measures the extension beside its peers and
#	writes the figures into extension/doc/performance.md and the chart beside
#	it.  QUICK=1 only prints them, unless SAVE=1 is given too.
#
# Rules of this file: those of harness.sh.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

main()
{
	local settings=()
	install_missing test
	install_peers
	make_root
	[ ! -e "$(citus_control)" ] ||
		settings+=("shared_preload_libraries = 'citus'")
	start_cluster main 'jit = off' 'shared_buffers = 2GB' \
		'max_wal_size = 8GB' 'checkpoint_timeout = 1h' 'autovacuum = off' \
		'max_parallel_workers_per_gather = 0' 'max_connections = 300' \
		'wal_level = minimal' 'max_wal_senders = 0' \
		'maintenance_work_mem = 512MB' "${settings[@]}"
	export POSTMASTER
	POSTMASTER=$(head -n 1 "$WORK/main/postmaster.pid")
	/usr/bin/python3 "$TREE/test/bench/bench.py"
}

# The peers that a plain machine does not have.
install_peers()
{
	local missing=()
	/usr/bin/python3 -c 'import uhashring' 2>/dev/null ||
		missing+=(python3-uhashring)
	[ -e "$("$PG_CONFIG" --sharedir)/extension/plproxy.control" ] ||
		missing+=("postgresql-$PG_MAJOR-plproxy")
	[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

# Citus is measured where somebody installed it.
citus_control()
{
	echo "$("$PG_CONFIG" --sharedir)/extension/citus.control"
}

main
