#!/bin/bash
#
# majors.sh
#	Builds the extension and runs the tests with the other major versions of
#	PostgreSQL that are supported, each in a chroot made from Debian's packages:
#	majors.sh [MAJOR ...], by default 17 and 18.
#
# Rules of this file:
#	- a warning of the compiler is an error;
#	- a chroot is made from the mirror that this machine itself uses, in a
#	  temporary directory, and is removed on every way out;
#	- only when a suite cannot be had after three tries, or without root, a
#	  version is skipped: it counts as skipped, never as passed.

# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

# Which suites have which major, the first that works is taken; a suite with
# updates for it follows a colon.
declare -A SUITES=([17]=trixie:trixie-security [18]="forky sid")
PACKAGES=libssl-dev,libpq-dev,gcc,make,libc6-dev,libcmocka-dev
PACKAGES+=,libipc-run-perl,perl,python3

# shellcheck disable=SC1091
OWN_SUITE=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

PASSED=0
FAILED=0
SKIPPED=0

main()
{
	local major
	[ $# -gt 0 ] || set -- 17 18
	if [ "$(id -u)" -ne 0 ]; then
		echo "making a chroot needs root: SKIPPED, $# majors are not tested"
		echo "0 passed, 0 failed, $# skipped"
		exit 0
	fi
	has_command mmdebstrap || install_packages mmdebstrap
	make_work
	chmod 755 "$WORK"
	for major; do
		test_major "$major"
	done
	echo "$PASSED passed, $FAILED failed$([ $SKIPPED -eq 0 ] ||
		echo ", $SKIPPED skipped")"
	[ $FAILED -eq 0 ]
}

# Adds to the counts what the tests say on their last line.
test_major()
{
	local major=$1 log=$WORK/$1.log status=0 last
	echo "== PostgreSQL $major"
	if ! make_chroot "$major"; then
		echo "PostgreSQL $major: SKIPPED, no suite of Debian could be fetched"
		SKIPPED=$((SKIPPED + 1))
		return 0
	fi
	mkdir "$WORK/$major/tree"
	flock "$TREE/Makefile" tar -C "$TREE" --exclude=./.git --exclude='*.o' \
		--exclude='*.so' --exclude=./test/build --exclude=./test/output -cf - . |
		tar -C "$WORK/$major/tree" --no-same-owner -xf -
	in_chroot "$major" make --no-print-directory -C /tree test | tee "$log" || status=$?
	last=$(tail -n 1 "$log")
	if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]
	then
		PASSED=$((PASSED + BASH_REMATCH[1]))
		FAILED=$((FAILED + BASH_REMATCH[2]))
		SKIPPED=$((SKIPPED + ${BASH_REMATCH[4]:-0}))
		[ $status -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] ||
			FAILED=$((FAILED + 1))
	else
		echo "PostgreSQL $major: ended without a count, with status $status"
		FAILED=$((FAILED + 1))
	fi
	rm -rf --one-file-system "${WORK:?}/$major"
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
	mmdebstrap --quiet --mode=root --variant=apt \
		--aptopt='Acquire::Retries "3"' \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--include="postgresql-$1,postgresql-server-dev-$1,$PACKAGES" \
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
