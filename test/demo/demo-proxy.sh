#!/bin/bash
#
# demo-proxy.sh
#	Five servers on this machine: a proxy with PL/Proxy, three shards, and a
#	fourth that joins while pgbench writes.  One is killed meanwhile, and
#	leaves in the end.  make demo-proxy
#
# Rules of this file:
#	- Everything is thrown away at the end, also on failure or Ctrl-C.
#	- Nothing is shown that was not just computed.  The demo fails when an
#	  acknowledged write is not on exactly one shard, the right one, when a
#	  deleted key is back, and when a write was refused with anything but SR001
#	  that is not the killed server's doing.
#	- Functions and tables are in test/demo/proxy/*.sql, the story is here.
#	- Output fits into 80 columns.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

declare -A PORT
WRITERS=

# What PL/Proxy says of a connection that ended or was not to be had.  Errors
# of a server that is up come as REMOTE ERROR.
DEAD="r.message ~ '^PL/Proxy function [^:]+: \\[postgres\\] '
	OR r.message ~ '^[^:]+: \\[postgres\\] REMOTE FATAL: '"

main()
{
	echo "Installing what is missing ..."
	install_missing proxy
	echo "Building the extension ..."
	make_root
	export PGOPTIONS='-c client_min_messages=warning' PSQL_PAGER=''
	start_server proxy
	for name in s0 s1 s2; do
		start_shard $name
	done
	make_proxy
	write_and_read
	use_pooler
	expand
	leave
	echo
	echo "Everything is dropped now.  extension/doc/plproxy.md has the steps."
}

# ---------- servers ----------

start_server()
{
	echo "Starting server $1 ..."
	start_cluster "$1" 'shared_buffers = 16MB'
	PORT[$1]=$PGPORT
	sql "$1" 'CREATE EXTENSION shardring'
}

start_shard()
{
	start_server "$1"
	sql "$1" "ALTER DATABASE postgres SET shardring.shard = '$1'"
	run_file "$1" shard.sql
	sql proxy "
		CREATE EXTENSION IF NOT EXISTS postgres_fdw;
		CREATE SERVER $1 FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$WORK', port '${PORT[$1]}', dbname 'postgres')"
}

guard_shards()
{
	expect proxy "SELECT bool_and(g.ok)
		FROM shardring.guard_table('orders', 'public.held', 'key') AS g" t
}

# Runs SQL on a server without a word.
sql()
{
	psql -qAtX -v ON_ERROR_STOP=1 -p "${PORT[$1]}" -c "$2" >/dev/null
}

# Runs a file of SQL on a server without a word.
run_file()
{
	psql -qAtX -v ON_ERROR_STOP=1 -p "${PORT[$1]}" \
		-f "$TREE/test/demo/proxy/$2" >/dev/null
}

# Prints what SQL on a server answers.
value()
{
	psql -qAtX -v ON_ERROR_STOP=1 -p "${PORT[$1]}" -c "$2"
}

# Shows a statement on the proxy and what it answers.
show()
{
	echo
	echo "proxy=# $1"
	psql -qX -v ON_ERROR_STOP=1 -p "${PORT[proxy]}" -P footer=off -c "$1"
}

# Fails unless SQL on a server answers this.
expect()
{
	local got
	got=$(value "$1" "$2")
	[ "$got" = "$3" ] || fail "on $1: $2: $got instead of $3"
}

tell()
{
	echo
	printf -- '-- %s\n' "$@"
}

# ---------- the story ----------

make_proxy()
{
	tell 'The ring is drafted on the proxy.'
	sql proxy "CREATE EXTENSION plproxy"
	sql proxy "SELECT shardring.create_ring('orders')"
	sql proxy "
		SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
		FROM generate_series(0, 2) AS i"
	sql proxy "SELECT shardring.activate('orders')"
	tell 'One call pushes it to all shards, and guards the table there.'
	show "SELECT g.*
         FROM shardring.guard_table('orders', 'public.held', 'key') AS g"
	show "SELECT s.version, s.shards, s.under_way
         FROM shardring.cluster_status('orders') AS s"
	tell 'Three shards, no power of two: a cluster of PL/Proxy by one call.'
	show "SELECT shardring.plproxy_sync('orders')"
	run_file proxy proxy.sql
	run_file proxy writer.sql
}

write_and_read()
{
	tell 'Functions RUN ON shardring.plproxy_partition('"'orders'"', key).'
	show "SELECT put('user:1', 'one'), put('user:2', 'two'),
             put('user:3', 'three')"
	show "SELECT k AS key, shardring.shard_for('orders', k), get(k)
         FROM unnest(ARRAY['user:1', 'user:2', 'user:3']) AS k"
	show "WITH new AS (INSERT INTO written SELECT 'key:' || i
                     FROM generate_series(1, 10000) AS i RETURNING key)
         SELECT p.shard, count(*),
             bool_and(p.shard = shardring.shard_for('orders', n.key)) AS right
         FROM new AS n CROSS JOIN LATERAL put(n.key, 'first') AS p (shard)
         GROUP BY p.shard ORDER BY p.shard"
	tell 'SPLIT keys: an array is taken apart, each server gets its own keys.'
	local split="SELECT count(DISTINCT m.key) AS found,
             count(DISTINCT m.shard) AS shards,
             bool_and(m.shard = shardring.shard_for('orders', m.key)) AS right
         FROM get_many(ARRAY(SELECT w.key FROM written AS w)) AS m"
	show "$split"
	expect proxy "$split" '10000|3|t'
	tell 'RUN ON ALL: every server, once.'
	show_servers 's0 s1 s2'
	refuse_here
}

# Shows what each server holds, and fails unless it is these that answer, once.
show_servers()
{
	show "SELECT a.shard, count(*) FROM get_all() AS a GROUP BY 1 ORDER BY 1"
	expect proxy "SELECT string_agg(DISTINCT a.shard, ' ' ORDER BY a.shard),
			count(*) = count(DISTINCT a.key)
		FROM get_all() AS a" "$1|t"
}

refuse_here()
{
	tell 'A shard refuses what is not its own, and says where to go.'
	local key
	key=$(value proxy "SELECT min('k' || i) FROM generate_series(1, 50) AS i
		WHERE shardring.shard_for('orders', 'k' || i) = 's2'")
	echo
	echo "s0=# INSERT INTO held VALUES ('$key', '')"
	{
		psql -qX -v VERBOSITY=verbose -p "${PORT[s0]}" \
			-c "INSERT INTO held VALUES ('$key', '')" 2>&1 || true
	} | grep -E 'ERROR:  SR001|DETAIL'
}

use_pooler()
{
	tell 'A pooler whose databases are the shards, for who chooses himself.'
	show "SELECT regexp_replace(l, 'host=''[^'']*''', 'host=...') AS line
         FROM shardring.pgbouncer_databases('orders') AS l"
	as_server mkdir "$WORK/pool"
	value proxy "SELECT shardring.pgbouncer_databases('orders')" \
		>"$WORK/pool/databases.ini"
	echo '"postgres" ""' >"$WORK/pool/users"
	cat >"$WORK/pool/pgbouncer.ini" <<-END
		[databases]
		%include $WORK/pool/databases.ini
		[pgbouncer]
		listen_port = 6432
		unix_socket_dir = $WORK/pool
		auth_type = trust
		auth_file = $WORK/pool/users
		logfile = $WORK/pool/log
	END
	as_server /usr/sbin/pgbouncer -q "$WORK/pool/pgbouncer.ini" </dev/null \
		>/dev/null 2>&1 &
	for _ in {1..100}; do
		[ ! -S "$WORK/pool/.s.PGSQL.6432" ] || break
		sleep 0.1
	done
	local shard
	shard=$(value proxy "SELECT shardring.shard_for('orders', 'user:1')")
	echo "\$ psql -h ... -p 6432 -d $shard -c \"... WHERE key = 'user:1'\""
	PGOPTIONS='' psql -qX -h "$WORK/pool" -p 6432 -d "$shard" -P footer=off \
		-c "SELECT h.key, h.value FROM held AS h WHERE h.key = 'user:1'"
}

# ---------- what writes meanwhile ----------

start_writers()
{
	sql proxy 'TRUNCATE refused'
	echo 'SELECT write_once();' >"$WORK/write.sql"
	(cd "$WORK" && exec pgbench -n -c 2 -T 600 -f write.sql \
		-p "${PORT[proxy]}") >"$WORK/pgbench.log" 2>&1 &
	WRITERS=$!
	wait_for_writes
}

# Ends the writers by SIGTERM, since a shell lets what it runs in the
# background ignore SIGINT, and waits for what they still have under way.
stop_writers()
{
	wait_for_writes
	kill -TERM $WRITERS
	wait $WRITERS || true
	until [ "$(value proxy "SELECT count(*) FROM pg_stat_activity AS a
		WHERE a.application_name = 'pgbench'")" -eq 0 ]; do
		sleep 0.1
	done
	! grep -i abort "$WORK/pgbench.log" || fail 'a writer gave up'
}

count_writes()
{
	value proxy "SELECT count(*) FROM written AS w WHERE w.key LIKE 'live:%'"
}

# Lets the writers do a few hundred more.
wait_for_writes()
{
	local wanted
	wanted=$(($(count_writes) + 300))
	until [ "$(count_writes)" -ge $wanted ]; do
		kill -0 $WRITERS 2>/dev/null ||
			{ cat "$WORK/pgbench.log" >&2; fail 'the writers ended'; }
		sleep 0.1
	done
}

# Shows how the writers fared, and fails unless all is well.  The argument is
# a condition: what else than SR001 they may have been refused with.
check_writes()
{
	local fate="WITH found AS (
             SELECT a.key, count(*) AS copies, bool_and(
                 a.shard = shardring.shard_for('orders', a.key)) AS as_ring
             FROM get_all() AS a GROUP BY a.key)
         SELECT count(w.key) AS acknowledged,
             count(*) FILTER (WHERE f.key IS NULL) AS lost,
             count(*) FILTER (WHERE f.copies > 1) AS doubled,
             count(*) FILTER (WHERE NOT f.as_ring) AS misplaced,
             (SELECT count(*) FROM gone) AS deleted,
             (SELECT count(*) FROM gone JOIN found USING (key)) AS back
         FROM written AS w FULL JOIN found AS f USING (key)"
	show "$fate"
	show "SELECT r.state AS refused_with, count(*)
         FROM refused AS r GROUP BY 1 ORDER BY 1"
	expect proxy "SELECT f.lost, f.doubled, f.misplaced, f.back
		FROM ($fate) AS f" '0|0|0|0'
	expect proxy "SELECT DISTINCT r.state, r.message FROM refused AS r
		WHERE r.state <> 'SR001' AND NOT (${1:-false})" ''
}

# ---------- a server joins, and one leaves ----------

expand()
{
	tell 'A fourth shard joins while pgbench writes and deletes, and s1 dies.'
	start_shard s3
	sql proxy "SELECT shardring.draft_version('orders', note => 's3 joins')"
	sql proxy "SELECT shardring.add_group('orders', 'g3', ARRAY['s3'])"
	sql proxy "SELECT shardring.seal('orders')"
	show_plan 1 2
	start_writers
	move 1 2 's0 s1 s2' s3 'kill_shard s1'
	stop_writers
	check_writes "$DEAD"
	show_servers 's0 s1 s2 s3'
}

leave()
{
	tell 'The shard that died leaves, and is switched off under the writers.'
	sql proxy "SELECT shardring.draft_version('orders', note => 's1 leaves')"
	sql proxy "SELECT shardring.remove_group('orders', 'g1')"
	sql proxy "SELECT shardring.seal('orders')"
	show_plan 2 3
	start_writers
	move 2 3 s1 's0 s2 s3'
	step 'partitions again: RUN ON ALL without s1' "shardring.plproxy_sync('orders')"
	expect s1 'SELECT count(*) FROM held' 0
	say 's1 is empty: switch it off'
	stop_cluster s1
	stop_writers
	check_writes
	show_servers 's0 s2 s3'
	show "SELECT * FROM shardring.shard_status('orders')"
}

show_plan()
{
	show "SELECT m.from_shard, m.to_shard, round(m.share::numeric, 4) AS share
         FROM shardring.move_plan('orders', $1, $2) AS m"
}

# The order of extension/doc/plproxy.md: move OLD NEW SOURCES TARGETS, and what
# may happen in the middle.
move()
{
	say 'push the version everywhere, inactive'
	expect proxy "SELECT bool_and(p.ok)
		FROM shardring.push_version('orders', $2) AS p" t
	guard_shards
	step 'partitions for all of its shards' "shardring.plproxy_sync('orders')"
	say 'copy what moves'
	copy_ring copy "$1" "$2"
	say 'fence: the sources refuse what moves'
	sql proxy "CALL shardring.fence('orders', $2)"
	${5:-}
	say 'copy what came in meanwhile, delete what went'
	copy_ring copy "$1" "$2"
	copy_ring compare "$1" "$2"
	say 'switch: the targets take it, then the proxy'
	sql proxy "CALL shardring.switch_fenced('orders')"
	sql proxy "SELECT shardring.wait_for_drain('orders', $2)"
	say 'the sources delete what is not theirs'
	# also what the writers have deleted on the targets since
	copy_ring clean-source-all "$1" "$2"
}

step()
{
	say "$1"
	sql proxy "SELECT $2"
}

say()
{
	printf '%7s writes so far: %s\n' "$(count_writes)" "$1"
}

# Runs the script of the documentation for every pair: copy_ring COMMAND OLD NEW.
copy_ring()
{
	"$TREE/extension/doc/examples/copy_ring.sh" "$1" orders \
		"dbname=postgres port=${PORT[proxy]}" "$2" "$3" >/dev/null
}

# Kills a postmaster and starts it again, as soon as the backends it leaves
# behind let it.
kill_shard()
{
	local pid
	pid=$(head -n 1 "$WORK/$1/postmaster.pid")
	say "kill -9 of $1, and a new start"
	kill -KILL "$pid"
	for _ in {1..100}; do
		if ! kill -0 "$pid" 2>/dev/null &&
			(restart_cluster "$1") >/dev/null 2>&1; then
			return
		fi
		sleep 0.1
	done
	fail "$1 does not start again"
}

main
