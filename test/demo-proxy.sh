#!/bin/bash
#
# demo-proxy.sh
#	Five servers on this machine: a proxy with PL/Proxy, three shards, and a
#	fourth that joins while pgbench writes.  make demo-proxy
#
# Rules of this file:
#	- Everything is thrown away at the end, also on failure or Ctrl-C.
#	- Nothing is shown that was not just computed, and the demo fails when an
#	  acknowledged write is not on exactly one shard.
#	- Output fits into 80 columns.

# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

declare -A PORT

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
	check_writes
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
	sql "$1" "
		ALTER DATABASE postgres SET shardring.shard = '$1';
		CREATE TABLE held (key text PRIMARY KEY, value text);
		CREATE FUNCTION put(key text, value text) RETURNS text LANGUAGE sql
		AS 'INSERT INTO held VALUES (key, value)
			RETURNING current_setting(''shardring.shard'')';
		CREATE FUNCTION get(key text) RETURNS SETOF text LANGUAGE sql
		AS 'SELECT h.value FROM held AS h WHERE h.key = get.key';
		CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON held
			FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'key')"
	sql proxy "
		CREATE EXTENSION IF NOT EXISTS postgres_fdw;
		CREATE SERVER $1 FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$WORK', port '${PORT[$1]}', dbname 'postgres')"
}

# Runs SQL on a server without a word.
sql()
{
	psql -qAtX -v ON_ERROR_STOP=1 -p "${PORT[$1]}" -c "$2" >/dev/null
}

# Prints one value.
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

tell()
{
	echo
	printf -- '-- %s\n' "$@"
}

# ---------- the story ----------

make_proxy()
{
	tell 'The ring is drafted on the proxy, and pushed to all shards at once.'
	sql proxy "CREATE EXTENSION plproxy"
	sql proxy "SELECT shardring.create_ring('orders')"
	sql proxy "
		SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
		FROM generate_series(0, 2) AS i"
	sql proxy "SELECT shardring.activate('orders')"
	show "SELECT p.shard, p.ok, p.active_version
         FROM shardring.push_version('orders', 1, activate => true) AS p"
	tell 'Three shards, no power of two: a cluster of PL/Proxy by one call.'
	show "SELECT shardring.plproxy_sync('orders')"
	sql proxy "
		CREATE USER MAPPING FOR CURRENT_USER SERVER orders;
		CREATE FUNCTION put(key text, value text) RETURNS text
		LANGUAGE plproxy AS 'CLUSTER ''orders'';
			RUN ON shardring.plproxy_partition(''orders'', key);';
		CREATE FUNCTION get(key text) RETURNS SETOF text
		LANGUAGE plproxy AS 'CLUSTER ''orders'';
			RUN ON shardring.plproxy_partition(''orders'', key);';
		CREATE FUNCTION who(OUT shard text, OUT rows bigint)
		RETURNS SETOF record LANGUAGE plproxy AS 'CLUSTER ''orders''; RUN ON ALL;
			SELECT current_setting(''shardring.shard'') AS shard,
				count(*) AS rows FROM held;';
		CREATE SEQUENCE attempt;
		CREATE TABLE written (key text PRIMARY KEY);
		CREATE TABLE refused (state text);
		CREATE FUNCTION write_once() RETURNS void LANGUAGE plpgsql AS '
		DECLARE
			new_key text := ''live:'' || nextval(''attempt'');
		BEGIN
			PERFORM put(new_key, new_key);
			INSERT INTO written VALUES (new_key);
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO refused VALUES (SQLSTATE);
		END'"
}

write_and_read()
{
	tell 'Functions RUN ON shardring.plproxy_partition('"'orders'"', key).'
	show "SELECT put('user:1', 'one'), put('user:2', 'two'),
             put('user:3', 'three')"
	show "SELECT k AS key, shardring.shard_for('orders', k), get(k)
         FROM unnest(ARRAY['user:1', 'user:2', 'user:3']) AS k"
	sql proxy "SELECT count(put('key:' || i, '')) FROM generate_series(1, 2000) AS i"
	show "SELECT * FROM who() ORDER BY shard   -- RUN ON ALL"
	tell 'A shard refuses what is not its own, and says where to go.'
	local key
	key=$(value proxy "SELECT min('k' || i) FROM generate_series(1, 50) AS i
		WHERE shardring.shard_for('orders', 'k' || i) = 's2'")
	echo
	echo "s0=# INSERT INTO held VALUES ('$key', '')"
	{
		psql -qX -v VERBOSITY=verbose -p "${PORT[s0]}" \
			-c "INSERT INTO held VALUES ('$key', '')" 2>&1 || true
	} | grep -E 'ERROR|DETAIL'
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

expand()
{
	tell 'A fourth shard joins while pgbench writes through the proxy.'
	start_shard s3
	sql proxy "SELECT shardring.draft_version('orders', note => 's3 joins')"
	sql proxy "SELECT shardring.add_group('orders', 'g3', ARRAY['s3'])"
	sql proxy "SELECT shardring.seal('orders')"
	show "SELECT m.from_shard, m.to_shard, round(m.share::numeric, 4) AS share
         FROM shardring.move_plan('orders', 1, 2) AS m"
	echo 'SELECT write_once();' >"$WORK/write.sql"
	(cd "$WORK" && exec pgbench -n -c 2 -T 600 -f write.sql \
		-p "${PORT[proxy]}") >"$WORK/pgbench.log" 2>&1 &
	local writers=$!
	step 'push the version everywhere, inactive' \
		"shardring.push_version('orders', 2)"
	step 'a partition for s3, used by nobody yet' \
		"shardring.plproxy_sync('orders')"
	step_copy 'copy what moves'
	step_activate 'fence: the sources refuse what moves' s0 s1 s2
	step_copy 'copy what came in meanwhile'
	step_activate 'the target takes it' s3
	step_activate 'the proxy sends it there' proxy
	step_clean 'the sources delete what is not theirs'
	sleep 1
	kill -TERM $writers 2>/dev/null || true
	wait $writers || true
	# what they still have under way
	until [ "$(value proxy "SELECT count(*) FROM pg_stat_activity AS a
		WHERE a.application_name = 'pgbench'")" -eq 0 ]; do
		sleep 0.1
	done
}

step()
{
	say "$1"
	sql proxy "SELECT $2"
}

say()
{
	printf '%7s writes so far: %s\n' \
		"$(value proxy 'SELECT count(*) FROM written')" "$1"
}

step_copy()
{
	local from condition
	say "$1"
	for from in s0 s1 s2; do
		condition=$(value proxy "SELECT shardring.move_predicate(
			'orders', 1, 2, '$from', 's3', 'key')")
		psql -qAtX -p "${PORT[$from]}" \
			-c "COPY (SELECT * FROM held WHERE $condition) TO STDOUT" |
			psql -qAtX -v ON_ERROR_STOP=1 -p "${PORT[s3]}" \
				-c 'SET session_replication_role = replica' \
				-c 'CREATE TEMP TABLE moved (LIKE held)' \
				-c 'COPY moved FROM STDIN' \
				-c 'INSERT INTO held SELECT * FROM moved ON CONFLICT (key)
					DO UPDATE SET value = EXCLUDED.value'
	done
}

step_activate()
{
	local name
	say "$1"
	shift
	for name; do
		sql "$name" "SELECT shardring.activate('orders', 2)"
		sql "$name" "SELECT shardring.wait_for_drain('orders', 2)"
	done
}

step_clean()
{
	local name
	say "$1"
	for name in s0 s1 s2; do
		sql "$name" "
			SET session_replication_role = replica;
			DELETE FROM held
			WHERE shardring.shard_for('orders', key) <> '$name'"
	done
}

check_writes()
{
	local name lost doubled
	for name in s0 s1 s2 s3; do
		value $name 'SELECT key FROM held'
	done | sort >"$WORK/found"
	value proxy 'SELECT key FROM written' | sort >"$WORK/written"
	doubled=$(uniq -d "$WORK/found" | wc -l)
	lost=$(comm -13 "$WORK/found" "$WORK/written" | wc -l)
	show "SELECT * FROM who() ORDER BY shard"
	show "SELECT (SELECT count(*) FROM written) AS acknowledged,
                $lost AS lost, $doubled AS doubled,
                (SELECT count(*) FROM refused) AS refused,
                (SELECT string_agg(DISTINCT state, ' ') FROM refused) AS with"
	show "SELECT s.shard, s.reachable, s.active_version, s.in_sync
         FROM shardring.shard_status('orders') AS s"
	[ "$((lost + doubled))" -eq 0 ] ||
		fail 'the ring and the shards do not agree'
}

main
