#!/bin/bash
#
# demo.sh
#	A sharded PostgreSQL gets a ninth shard group: ring, routes, plan, move list,
#	move, check, switch.  make demo, or make demo KEEP=1 to try things afterwards.
#
# Rules of this file:
#	- It runs in a throw-away cluster.  Database "demo" has the extension and all
#	  rows; each shard is a database of its own without the extension.
#	- What people read is in test/demo/*.sql: prose, and the SQL that is run.
#	  Here is what moves files and rows between databases.
#	- Nothing is shown that was not just computed, and the demo fails when the
#	  rows that moved are not those of the plan.
#	- Output fits into 80 columns.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

DEMO=$TREE/test/demo

main()
{
	echo "Installing what is missing ..."
	install_missing server
	echo "Building the extension ..."
	make_root
	echo "Starting a throw-away cluster ..."
	start_cluster main 'max_wal_size = 4GB' 'shared_buffers = 256MB'
	export PGDATABASE=demo PGOPTIONS='-c client_min_messages=warning'
	export PSQL_PAGER='' PGCLIENTENCODING=UTF8
	createdb demo
	mkdir "$WORK/demo"
	run_story
	end_story
}

# A job of its own: bash attends to a signal only when nothing runs in the
# foreground, and then what runs in $WORK is ended, by SIGQUIT.
run_story()
{
	set -m
	(cd "$WORK/demo"; trap 'exit 131' QUIT; tell_story) </dev/null &
	set +m
	wait $!
}

tell_story()
{
	load_keys
	story ring.sql
	make_shards
	story routes.sql
	story draft.sql
	story plan.sql
	story rehearse.sql
	story list.sql
	show_file accounts.csv
	copy_moving
	story verify.sql
	story activate.sql
	delete_moved
	collect_rows
	story final.sql
}

# Runs one file of the story: its prose, its SQL, the results.
story()
{
	psql -qX -v ON_ERROR_STOP=1 -f "$DEMO/$1"
}

# Runs SQL in a database without a word.
quietly()
{
	psql -qAtX -v ON_ERROR_STOP=1 -d "$@"
}

# ---------- two real key sets ----------

load_keys()
{
	story keys.sql
	echo "pgbench -i -s 10:"
	# The last line has the times of all steps and is too long.
	pgbench -i -s 10 2>&1 |
		grep --line-buffered -E '00% done|[05]00000 of|[Ee]rror|ERROR|FATAL' |
		sed -u 's/ of pgbench_accounts done/ done/'	# as 17 says it
	echo
	list_packages >packages.txt
	quietly demo -c 'CREATE TABLE package (name text PRIMARY KEY)' \
		-c '\copy package FROM packages.txt' -c 'VACUUM ANALYZE'
	story counts.sql
}

# Prints the names of all packages that APT knows, or else of those installed.
list_packages()
{
	if has_package_index; then
		echo "apt-cache pkgnames: the names in the package index" >&2
		apt-cache pkgnames | LC_ALL=C sort -u
	elif has_command dpkg-query; then
		echo "This machine has no package index (apt-get update would fetch" >&2
		echo "one), so the keys are the installed packages only." >&2
		dpkg-query --show --showformat '${Package}\n' | LC_ALL=C sort -u
	else
		fail "neither APT nor dpkg is here to tell names of packages"
	fi
}

has_package_index()
{
	local file
	has_command apt-get && has_command apt-cache || return 1
	# shellcheck disable=SC2016
	while read -r file; do
		[ ! -s "$file" ] || return 0
	done < <(apt-get indextargets --format '$(FILENAME)' \
		'Created-By: Packages' 2>/dev/null)
	return 1
}

# ---------- shards, one database each ----------

# Makes a database for every shard of version 1 and puts its rows there.
make_shards()
{
	story shards.sql
	createdb shard
	pg_dump --schema-only -t pgbench_accounts -t package demo |
		quietly shard -f - >/dev/null
	local shard n=0 shards
	mapfile -t shards < <(list_shards)
	spread_rows pgbench_accounts aid
	spread_rows package name
	for shard in "${shards[@]}"; do
		createdb -T shard "$shard"
		quietly "$shard" -c "\\copy pgbench_accounts FROM $shard.pgbench_accounts" \
			-c "\\copy package FROM $shard.package"
		progress $((n += 1)) ${#shards[@]} "loaded $shard"
	done
	rm ./*.pgbench_accounts ./*.package
	echo
}

# All shards that a sealed version has named.
list_shards()
{
	quietly demo -c "SELECT shard FROM shardring.shard ORDER BY 1"
}

# Writes the rows of a table into one file a shard.
spread_rows()
{
	echo "asking shard_for for each row of $1"
	quietly demo -c "COPY (SELECT shardring.shard_for('demo', $2), t.*
		FROM $1 AS t) TO STDOUT" |
		awk -F '\t' -v table="$1" \
			'{ print substr($0, length($1) + 2) > ($1 "." table) }'
}

# Says how far a long step is: progress N OF TEXT.  On a terminal it is one line
# that changes, else a line at each quarter.
progress()
{
	if [ -t 1 ]; then
		printf '\r\033[K%s' "$3, $1 of $2"
		[ "$1" -lt "$2" ] || printf '\n'
	elif [ $(($1 * 4 / $2)) -gt $((($1 - 1) * 4 / $2)) ]; then
		echo "$3, $1 of $2"
	fi
}

# ---------- the move ----------

# Shows the head of a file for people who would read it with a script.
show_file()
{
	echo "head -n 4 $1"
	head -n 4 "$1"
	echo
}

# Copies what moves from database to database, pair by pair of the plan, and
# keeps on record what went through.
copy_moving()
{
	local from to
	story copy.sql
	for to in db16 db17; do
		createdb -T shard "$to"
	done
	printf '%-10s %-10s %8s %8s\n' from_shard to_shard accounts packages
	while IFS='|' read -r from to; do
		printf '%-10s %-10s' "$from" "$to"
		copy_rows "$from" "$to" account pgbench_accounts aid bigint
		copy_rows "$from" "$to" package package name text
		echo
	done < <(pairs)
	echo
}

# Prints the pairs of shards between which something moves.
pairs()
{
	quietly demo -c "SELECT DISTINCT from_shard, to_shard
		FROM shardring.move_plan('demo', 1, 2) ORDER BY 1, 2"
}

# Copies the moving rows of one table between two databases; prints how many.
copy_rows()
{
	local from=$1 to=$2 what=$3 table=$4 key=$5 type=$6
	local pair=$1-$2.$3
	quietly demo -c "SELECT shardring.move_predicate('demo', 1, 2, '$from', '$to',
		'$key', key_type => '$type')" >"$pair.where"
	quietly "$from" -c "COPY (SELECT * FROM $table WHERE $(<"$pair.where"))
		TO STDOUT" >"$pair.rows"
	quietly "$to" -c "\\copy $table FROM '$pair.rows'"
	awk -F '\t' -v OFS='\t' -v what="$what" -v from="$from" -v to="$to" \
		'{ print what, from, to, $1 }' "$pair.rows" >>copied.tsv
	printf ' %8d' "$(wc -l <"$pair.rows")"
	rm "$pair.rows"
}

# Deletes on the sources by the conditions that selected the copies.
delete_moved()
{
	local pair from to n=0 all
	mapfile -t all < <(pairs)
	for pair in "${all[@]}"; do
		from=${pair%|*} to=${pair#*|}
		quietly "$from" \
			-c "DELETE FROM pgbench_accounts WHERE $(<"$from-$to.account.where")" \
			-c "DELETE FROM package WHERE $(<"$from-$to.package.where")"
		progress $((n += 1)) ${#all[@]} "deleted in $from what moved to $to"
	done
	echo
}

# Lists the keys that each database really holds.
collect_rows()
{
	local shard n=0 shards
	mapfile -t shards < <(list_shards)
	for shard in "${shards[@]}"; do
		quietly "$shard" \
			-c "COPY (SELECT 'account', '$shard', aid FROM pgbench_accounts)
				TO STDOUT" \
			-c "COPY (SELECT 'package', '$shard', name FROM package) TO STDOUT" \
			>>held.tsv
		progress $((n += 1)) ${#shards[@]} "read all keys in $shard"
	done
	echo
}

# ---------- the end ----------

end_story()
{
	if [ -z "${KEEP:-}" ]; then
		echo "The cluster is dropped now.  To keep it for trying things:"
		echo
		echo "    make demo KEEP=1"
		return
	fi
	keep_clusters
	echo "    $WORK/psql -d db16    connects to one of the shards"
	echo "    $WORK/demo    has the keys, conditions, picture"
}

main
