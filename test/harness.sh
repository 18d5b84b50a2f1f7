# shellcheck shell=bash
#
# harness.sh
#	Throw-away PostgreSQL clusters with the extension of this tree.  To be
#	sourced by a bash script; everything that needs a server goes through it.
#
# Rules of this file:
#	- The system's installation and clusters are never touched.  PostgreSQL
#	  finds its files relative to its own binary, so a copy of it in a temporary
#	  directory, with the extension installed into the copy, is an installation
#	  of its own.  Any number of runs can go side by side.
#	- Everything is below one directory, $WORK, in $SHARDRING_TMP or else /tmp,
#	  and everything that is started has its binary or its current directory
#	  there.  So cleaning up is: end what
#	  still runs in $WORK, remove $WORK.  It happens on every way out.
#	- Servers listen on a unix socket in $WORK and nowhere else.
#	- PostgreSQL refuses to run as root: for root, servers and tests run as
#	  $SERVER_USER, to whom $WORK belongs.
#	- Packages are installed only when something is missing, and only that.
#
# A script usually does:
#	. test/harness.sh
#	install_missing server
#	make_root
#	start_cluster main
# and then has PGHOST, PGPORT, PGUSER, PGDATABASE and PATH set for it.

set -euo pipefail

TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PG_CONFIG=${PG_CONFIG:-pg_config}
PG_MAJOR=${PG_MAJOR:-15}	# what is installed when there is none
WORK=
SERVER_USER=$(id -un)
CLUSTERS=0

# The caller's settings for some other server must not get into ours.
for name in ${!PG@}; do
	case $name in
		PG_CONFIG | PG_MAJOR | PG_TEST_*) ;;
		*) unset "$name" ;;
	esac
done
unset LANGUAGE name
# The TAP modules take LC_ALL away; what is left decides the encoding of servers.
export LC_ALL=C.UTF-8 LANG=C.UTF-8

# A make that called us passes its variables on, but not its job slots.
case ${MAKEFLAGS:-} in
	*"-- "*) export MAKEFLAGS="-- ${MAKEFLAGS#*-- }" ;;
	*) unset MAKEFLAGS ;;
esac

# Ends the script with a message.
fail()
{
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# ---------- counts ----------

# PASSED FAILED SKIPPED: the last lines of whatever runs tests.
print_counts()
{
	[ "$3" -eq 0 ] || echo "$3 skipped"
	echo "$1 passed, $2 failed"
}

# Prints the last of these counts in a log, or nothing.
read_counts()
{
	awk '/^[0-9]+ skipped$/ { skipped = $1; line = NR }
		/^[0-9]+ passed, [0-9]+ failed$/ {
			counts = $1 " " $3 " " (line > 0 && line == NR - 1 ? skipped : 0)
		}
		END { print counts }'
}

# ---------- packages ----------

# Installs what is missing of: "server" (build and run the extension),
# "proxy" (that, PL/Proxy and pgbouncer) or "test" (all that the tests use).
install_missing()
{
	local missing
	# Twice, because what one package lacks may be in another.
	for _ in 1 2; do
		mapfile -t missing < <(list_missing "$1")
		[ ${#missing[@]} -gt 0 ] || return 0
		echo "installing ${missing[*]}" | fold -s -w 79
		install_packages "${missing[@]}"
	done
	mapfile -t missing < <(list_missing "$1")
	[ ${#missing[@]} -eq 0 ] || fail "still missing: ${missing[*]}"
}

# Prints the Debian packages whose content is not there.
list_missing()
{
	local major=$PG_MAJOR version
	if version=$("$PG_CONFIG" --version 2>/dev/null) && has_pgxs; then
		major=$(expr "$version" : '[^0-9]*\([0-9]*\)')
	fi
	has_command gcc || echo gcc
	has_header stdlib.h || echo libc6-dev
	has_command make || echo make
	has_pgxs || echo "postgresql-server-dev-$major"
	has_server || echo "postgresql-$major"
	has_header openssl/evp.h || echo libssl-dev
	has_header libpq-fe.h || echo libpq-dev
	[ "$1" != server ] || return 0
	has_plproxy || echo "postgresql-$major-plproxy"
	[ -x /usr/sbin/pgbouncer ] || echo pgbouncer
	[ "$1" = test ] || return 0
	has_header cmocka.h || echo libcmocka-dev
	has_command prove || echo perl
	perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
	[ -x /usr/bin/python3 ] || echo python3
	has_command rsvg-convert || echo librsvg2-bin
	has_command pg_buildext || buildext_package
}

# Newer releases of postgresql-common have it in a package of its own.
buildext_package()
{
	if [ -d /usr/share/postgresql-common ]; then
		echo postgresql-common-dev
	else
		echo postgresql-common
	fi
}

has_command()
{
	command -v "$1" >/dev/null
}

# Debian's package of the client has pg_config and the makefiles, no headers.
has_pgxs()
{
	[ -e "$("$PG_CONFIG" --pgxs 2>/dev/null)" ] &&
		[ -e "$("$PG_CONFIG" --includedir-server)/postgres.h" ]
}

has_server()
{
	[ -x "$("$PG_CONFIG" --bindir 2>/dev/null)/postgres" ]
}

has_plproxy()
{
	[ -e "$("$PG_CONFIG" --pkglibdir 2>/dev/null)/plproxy.so" ]
}

has_header()
{
	echo "#include <$1>" | gcc -E -x c \
		-I "$("$PG_CONFIG" --includedir 2>/dev/null || echo .)" - \
		>/dev/null 2>&1
}

install_packages()
{
	local sudo=() apt
	has_command apt-get || fail "please install what Debian calls: $*"
	if [ "$(id -u)" -ne 0 ]; then
		has_command sudo || fail "please run as root: apt-get install $*"
		sudo=(sudo)
	fi
	apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive
		apt-get -qq -o Acquire::Retries=3)
	retry "${apt[@]}" update
	apt+=(install --yes --no-install-recommends)
	if [ -e /etc/postgresql-common/createcluster.conf ]; then
		retry "${apt[@]}" "$@"
	else
		retry "${apt[@]}" postgresql-common
		create_main_cluster true false
		retry "${apt[@]}" "$@"
		create_main_cluster false true
	fi
	hash -r
}

# Debian makes and starts a cluster of the system's own with the first server
# package, unless told not to.  Nobody asked for one here.
create_main_cluster()
{
	"${sudo[@]}" sed -i "s/^#\?\(create_main_cluster =\) $1/\1 $2/" \
		/etc/postgresql-common/createcluster.conf
}

# A mirror may be busy, or another apt-get hold the lock.
retry()
{
	local pause
	for pause in 5 20 0; do
		"$@" </dev/null >/dev/null && return
		sleep $pause
	done
	return 1
}

# ---------- a private installation ----------

# Builds the extension and makes $WORK with a copy of PostgreSQL that has it.
make_root()
{
	local dir
	# From here on, PATH leads to the copy's own pg_config.
	PG_CONFIG=$(command -v "$PG_CONFIG")
	export PG_CONFIG
	make_work
	build_extension
	for dir in bindir pkglibdir sharedir; do
		copy_directory "$("$PG_CONFIG" --$dir)"
	done
	locked_make DESTDIR="$WORK/root" install >"$WORK/install.log" 2>&1 ||
		{ cat "$WORK/install.log" >&2; fail "cannot install the extension"; }

	BINDIR=$WORK/root$("$PG_CONFIG" --bindir)
	# shellcheck disable=SC2034
	PGXS_TEST=$WORK/root$("$PG_CONFIG" --pkglibdir)/pgxs/src/test
	export PATH=$BINDIR:$PATH
	[ -z "${SERVER_PRELOAD:-}" ] || preload_server
}

# Lets every server, and nothing else, begin with the libraries that
# $SERVER_PRELOAD names.  A server finds its files by what it was called.
preload_server()
{
	mv "$BINDIR/postgres" "$BINDIR/postgres.bin"
	cat >"$BINDIR/postgres" <<-END
		#!/bin/bash
		export LD_PRELOAD="$SERVER_PRELOAD"
		exec -a "\$0" "$BINDIR/postgres.bin" "\$@"
	END
	chmod 755 "$BINDIR/postgres"
}

make_work()
{
	# Short, because the path of a socket may have 107 bytes.
	WORK=$(mktemp -d "${SHARDRING_TMP:-/tmp}/shardring.XXXXXX")
	trap clean_up EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	export TMPDIR=$WORK
	if [ "$(id -u)" -eq 0 ]; then
		SERVER_USER=postgres
		id "$SERVER_USER" >/dev/null 2>&1 || SERVER_USER=nobody
		chown "$SERVER_USER:" "$WORK"
	fi
}

build_extension()
{
	locked_make all >"$WORK/build.log" 2>&1 ||
		{ cat "$WORK/build.log" >&2; fail "cannot build the extension"; }
	grep -E 'warning:' "$WORK/build.log" >&2 || true
}

# make in the tree, one at a time.
locked_make()
{
	flock "$TREE/Makefile" make -C "$TREE" -j2 --no-print-directory \
		PG_CONFIG="$PG_CONFIG" "$@"
}

# Copies what a build of its own needs to $WORK/tree, so that nothing of the
# build stays.
copy_sources()
{
	mkdir "$WORK/tree"
	tar -C "$TREE" --exclude=./.git --exclude='*.o' --exclude='*.so' \
		--exclude='*.bc' --exclude=./test/build --exclude=./test/output -cf - . |
		tar -C "$WORK/tree" --no-same-owner -xf -
}

# Copies what failed tests left there to where it is looked for.
keep_output()
{
	[ -d "$WORK/tree/test/output" ] || return 0
	rm -rf "$TREE/test/output"
	cp -R "$WORK/tree/test/output" "$TREE/test/output"
}

# Copies a directory of PostgreSQL to the same place below $WORK/root; without
# the bitcode for JIT, which is half of it, unless ours is built too.
copy_directory()
{
	local leave=(--exclude=./bitcode)
	[ "${with_llvm:-no}" = no ] || leave=()
	mkdir -p "$WORK/root$1"
	tar -C "$1" "${leave[@]}" -cf - . | tar -C "$WORK/root$1" -xf -
}

# ---------- clusters ----------

# Runs a command as the user who may run a server, in $WORK.
as_server()
{
	local as=() path=$PATH
	if [ "$(id -u)" -eq 0 ]; then
		as=(setpriv --reuid="$SERVER_USER" --regid="$(id -g "$SERVER_USER")"
			--init-groups)
		# Root's own may lead to what others cannot read.
		path=$BINDIR:/usr/local/bin:/usr/bin:/bin
	fi
	"${as[@]}" env -C "$WORK" HOME="$WORK" PATH="$path" "$@"
}

# Makes and starts the cluster $WORK/NAME and points the environment at it.
# More arguments are lines for its postgresql.conf.
start_cluster()
{
	local name=$1
	shift
	CLUSTERS=$((CLUSTERS + 1))
	as_server initdb -D "$WORK/$name" -U postgres -A trust -E UTF8 \
		--locale=C.UTF-8 --no-sync --no-instructions >"$WORK/initdb.log" 2>&1 ||
		{ cat "$WORK/initdb.log" >&2; fail "initdb failed"; }
	cat >>"$WORK/$name/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$WORK'
		port = $((54320 + CLUSTERS))
		fsync = off
		full_page_writes = off
		wal_level = logical
		max_prepared_transactions = 10
		lc_messages = 'C'
		timezone = 'UTC'
	END
	[ $# -eq 0 ] || printf '%s\n' "$@" >>"$WORK/$name/postgresql.conf"
	export PGHOST=$WORK PGPORT=$((54320 + CLUSTERS))
	export PGUSER=postgres PGDATABASE=postgres
	restart_cluster "$name"
}

# Starts a cluster that was stopped.
restart_cluster()
{
	as_server pg_ctl -D "$WORK/$1" -l "$WORK/$1.log" -w -s start </dev/null ||
		{ tail -n 20 "$WORK/$1.log" >&2; fail "cluster \"$1\" did not start"; }
}

# Stops a cluster; the second argument is the mode, by default fast.
stop_cluster()
{
	as_server pg_ctl -D "$WORK/$1" -m "${2:-fast}" -w -s stop
}

# ---------- the way out ----------

# Leaves the clusters running when the script ends, and says how to use and how
# to end them.
keep_clusters()
{
	trap - EXIT HUP INT TERM
	write_helper psql "export PGHOST='$PGHOST' PGPORT=\${PGPORT:-$PGPORT}" \
		"export PGUSER='$PGUSER' PGDATABASE='$PGDATABASE'" \
		"exec '$BINDIR/psql' \"\$@\""
	write_helper end 'cd /' \
		"kill -INT \$(head -qn 1 '$WORK'/*/postmaster.pid)" \
		"while ls '$WORK'/*/postmaster.pid; do sleep 0.2; done >/dev/null 2>&1" \
		"exec rm -rf '$WORK'"
	cat <<-END
		The cluster goes on in $WORK, on a unix socket only.
		    $WORK/psql    connects to it
		    $WORK/end     stops it and removes everything
	END
}

# Writes a shell script of these lines.
write_helper()
{
	local file=$WORK/$1
	shift
	printf '%s\n' '#!/bin/sh' "$@" >"$file"
	chmod +x "$file"
}

# Ends everything that runs in $WORK and removes it.
clean_up()
{
	local status=$? pids i
	trap '' HUP INT TERM
	trap - EXIT
	for i in {1..50}; do
		pids=$(running_pids)
		[ -n "$pids" ] || break
		# QUIT makes a postmaster and its children stop without a checkpoint.
		# shellcheck disable=SC2086
		kill "-$([ "$i" -le 40 ] && echo QUIT || echo KILL)" $pids 2>/dev/null ||
			true
		sleep 0.1
	done
	rm -rf "$WORK"
	exit $status
}

# Prints the processes whose binary or current directory is below $WORK.  That
# others end meanwhile is no error.
running_pids()
{
	{ find /proc/[0-9]*/{exe,cwd} -maxdepth 0 -lname "$WORK/*" || true; } \
		2>/dev/null | cut -d / -f 3 | sort -u
}
