#!/bin/bash
#
# majors.sh
#	Builds the extension and runs the tests with the other major versions of
#	PostgreSQL that are supported, each in a chroot made from Debian's packages:
#	majors.sh [MAJOR ...], by default 17 and 18.  Then, one cluster of shards on
#	all of them and on the version here: mixed.sh.
#
# Rules of this file:
#	- a warning of the compiler is an error;
#	- a chroot is made from the mirror that this machine itself uses, in a
#	  temporary directory, and is removed on every way out;
#	- the versions are made and tested side by side, each in a job of its own;
#	  what they say is shown one after the other;
#	- everything is mounted in name spaces of the job's own, so that nothing
#	  stays mounted when one is ended;
#	- only when a suite cannot be had after three tries, or without root, a
#	  version is skipped: it counts as skipped, never as passed.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

# Which suites have which major, the first that works is taken; a suite with
# updates for it follows a colon.
declare -A SUITES=([17]=trixie:trixie-security [18]="forky sid")
# All that the tests would install one by one.
PACKAGES=libssl-dev,libpq-dev,gcc,make,libc6-dev,libcmocka-dev
PACKAGES+=,libipc-run-perl,perl,python3,pgbouncer,librsvg2-bin
PACKAGES+=,postgresql-common-dev

# What is done in a chroot: before the packages, so that Debian makes no cluster
# of its own, and after them, so that FIPS is tested with OpenSSL's own provider
# where Debian has it.
# shellcheck disable=SC2016
NO_CLUSTER='mkdir -p "$1/etc/postgresql-common" &&
	echo create_main_cluster = false \
		>"$1/etc/postgresql-common/createcluster.conf"'
# shellcheck disable=SC2016
ADD_FIPS='if chroot "$1" apt-cache show openssl-provider-fips >/dev/null 2>&1
	then chroot "$1" apt-get -qq install --yes --no-install-recommends \
		openssl openssl-provider-fips
	fi'

# shellcheck source=/dev/null
OWN_SUITE=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

PASSED=0
FAILED=0
SKIPPED=0
declare -A JOBS=()

main()
{
	local major
	[ $# -gt 0 ] || set -- 17 18
	if [ "$(id -u)" -ne 0 ]; then
		echo "making a chroot needs root: SKIPPED, $# majors are not tested"
		print_counts 0 0 $#
		exit 0
	fi
	has_command mmdebstrap || install_packages mmdebstrap
	make_work
	chmod 755 "$WORK"
	trap 'end_jobs; clean_up' EXIT
	for major; do
		start_major "$major"
	done
	for major; do
		count_major "$major"
	done
	test_mixed "$@"
	print_counts $PASSED $FAILED $SKIPPED
	[ $FAILED -eq 0 ]
}

# Begins a job that writes to $WORK/MAJOR.log; with job control, so that it is
# a process group that can be ended as a whole.
start_major()
{
	set -m
	: >"$WORK/$1.log"			# tail finds it, however late the job begins
	test_major "$1" </dev/null >"$WORK/$1.log" 2>&1 &
	JOBS[$1]=$!
	set +m
}

# Ends the jobs that still run, and keeps the status of what came before.
end_jobs()
{
	local status=$? pid
	set +e
	for pid in "${JOBS[@]}"; do
		kill -TERM -- "-$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	return $status
}

# Shows what a job says until it ends, and adds its counts; make may have
# complained after them.
count_major()
{
	local major=$1 log=$WORK/$1.log status=0
	echo "== PostgreSQL $major"
	tail -n +1 -s 0.2 -f --pid="${JOBS[$major]}" "$log" &
	wait "${JOBS[$major]}" || status=$?
	wait $!
	unset "JOBS[$major]"
	add_counts "PostgreSQL $major" "$log" $status
}

# WHAT LOG STATUS
add_counts()
{
	local passed failed skipped
	read -r passed failed skipped < <(read_counts <"$2") || true
	if [ -n "$passed" ]; then
		PASSED=$((PASSED + passed))
		FAILED=$((FAILED + failed))
		SKIPPED=$((SKIPPED + skipped))
		[ "$3" -eq 0 ] || [ "$failed" -gt 0 ] || FAILED=$((FAILED + 1))
	else
		echo "$1: ended without a count, with status $3"
		FAILED=$((FAILED + 1))
	fi
}

# The job of one version.
test_major()
{
	local major=$1
	if ! make_chroot "$major"; then
		echo "PostgreSQL $major: SKIPPED, no suite of Debian could be fetched"
		print_counts 0 0 1
		return 0
	fi
	mkdir "$WORK/$major/tree"
	flock "$TREE/Makefile" tar -C "$TREE" --exclude=./.git --exclude='*.o' \
		--exclude='*.so' --exclude='*.bc' --exclude=./test/build \
		--exclude=./test/output -cf - . |
		tar -C "$WORK/$major/tree" --no-same-owner -xf -
	in_chroot "$major" make --no-print-directory -C /tree test
}

# A server out of each chroot that there is, and the test that uses them all.
test_mixed()
{
	local major port servers=() log=$WORK/mixed.log status=0
	: >"$log"
	echo "== all versions in one cluster"
	for major; do
		[ -d "$WORK/$major/tree" ] || continue
		port=$(free_port)
		set -m
		in_chroot "$major" /tree/test/lanes/serve.sh "$port" \
			>"$WORK/$major.log" 2>&1 &
		JOBS[$major]=$!
		set +m
		servers+=("$major:$port")
	done
	for major in "${servers[@]%%:*}"; do
		wait_ready "$major" || { cat "$WORK/$major.log"; status=1; }
	done
	if [ ${#servers[@]} -eq 0 ]; then
		echo "no other version: SKIPPED"
		SKIPPED=$((SKIPPED + 1))
		return
	fi
	[ $status -ne 0 ] ||
		"$TREE/test/lanes/mixed.sh" "${servers[@]}" >"$log" 2>&1 || status=$?
	cat "$log"
	add_counts "mixed versions" "$log" $status
}

free_port()
{
	perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(
		Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# Until the server of a version is ready, or its job has ended.
wait_ready()
{
	until grep -qx ready "$WORK/$1.log"; do
		kill -0 "${JOBS[$1]}" 2>/dev/null || return
		sleep 0.2
	done
}

# Makes $WORK/MAJOR from one of the suites, in three tries each.
make_chroot()
{
	local names try
	for names in ${SUITES[$1]}; do
		for try in 1 2 3; do
			rm -rf --one-file-system "${WORK:?}/$1"
			fetch_suite "$1" "${names%%:*}" "${names#*:}" \
				</dev/null >"$WORK/$1.make.log" 2>&1 && return
			tail -n 3 "$WORK/$1.make.log"
			echo "making a chroot of ${names%%:*} failed, try $try of 3"
			sleep $((5 * try))
		done
	done
	return 1
}

# MAJOR SUITE UPDATES, the last two the same where there are no updates.
fetch_suite()
{
	local sources=("deb $(mirror_of "$OWN_SUITE") $2 main")
	[ "$2" = "$3" ] ||
		sources+=("deb $(mirror_of "$OWN_SUITE-security") $3 main")
	unshare --mount --propagation private \
		mmdebstrap --quiet --mode=root --variant=apt \
		--aptopt='Acquire::Retries "3"' \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt=force-confold \
		--essential-hook="$NO_CLUSTER" --customize-hook="$ADD_FIPS" \
		--include="postgresql-$1,postgresql-$1-plproxy,$PACKAGES" \
		--include="postgresql-server-dev-$1" \
		"$2" "$WORK/$1" "${sources[@]}"
}

# Runs a command there, with /proc and /dev that go when it ends.
in_chroot()
{
	local root=$WORK/$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --propagation private sh -c '
		root=$1; shift
		mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
		exec chroot "$root" /usr/bin/env -i COPT=-Werror HOME=/root \
			PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$root" "$@" </dev/null
}

# The mirror that apt uses here for a suite of Debian.
mirror_of()
{
	apt-get update --print-uris |
		sed -n "s,^'\(.*\)/dists/$1/.*,\1,p" | head -n 1 | grep .
}

main "$@"
