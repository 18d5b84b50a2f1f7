#!/bin/sh
#
# copy_ring.sh
#	Runs copy_rows.sh for every guarded table of every pair of shards between
#	which keys move.
#
#	copy_ring.sh COMMAND RING CONNECTION [OLD NEW]
#
#	COMMAND is one of copy_rows.sh, which lies beside this script; CONNECTION
#	is that of the map, by a role that may read all of it.  Without OLD and NEW
#	the versions are those of the last fence.
#
# Rules of this file:
#	- The pairs are those of move_plan, the tables those that are guarded, the
#	  addresses those of the foreign servers.  How to log in there stands in
#	  the environment or in a password file: user mappings are not read.
#	- It stops at the first that fails.  All may be repeated.

set -eu

usage()
{
	echo "usage: copy_ring.sh COMMAND RING CONNECTION [OLD NEW]" >&2
	exit 2
}

main()
{
	[ $# -eq 3 ] || [ $# -eq 5 ] || usage
	command=$1 ring=$2 map=$3 old=${4:-} new=${5:-}
	here=$(dirname "$0")
	tab=$(printf '\t')
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	list_copies >"$work/copies"
	if [ ! -s "$work/copies" ]; then
		echo "refused: no table is guarded, or no key moves" >&2
		exit 3
	fi
	while IFS=$tab read -r old new table source source_at target target_at
	do
		"$here/copy_rows.sh" "$command" "$ring" "$old" "$new" "$table" \
			"$source" "$source_at" "$target" "$target_at" </dev/null
	done <"$work/copies"
}

# One line for each: versions, table, both shards with their addresses.
list_copies()
{
	psql -XAtq -F "$tab" -v ON_ERROR_STOP=1 -v ring="$ring" -v old="$old" \
		-v new="$new" -d "$map" <<'EOF'
SET search_path = pg_catalog;
SELECT coalesce(nullif(:'old', ''), (
		SELECT m.from_version::text FROM shardring_internal.row_move AS m
		WHERE m.ring = :'ring' ORDER BY m.move DESC LIMIT 1), '0') AS old,
	coalesce(nullif(:'new', ''), (
		SELECT m.to_version::text FROM shardring_internal.row_move AS m
		WHERE m.ring = :'ring' ORDER BY m.move DESC LIMIT 1), '0') AS new \gset
SELECT p.old, p.new, t.relation,
	f.shard, shardring_internal.connect_string(coalesce(f.server, f.shard)),
	s.shard, shardring_internal.connect_string(coalesce(s.server, s.shard))
FROM (SELECT DISTINCT :'old'::integer AS old, :'new'::integer AS new,
		m.from_shard, m.to_shard
	  FROM shardring.move_plan(:'ring', :'old', :'new') AS m) AS p
	JOIN shardring.shard AS f ON f.ring = :'ring' AND f.shard = p.from_shard
	JOIN shardring.shard AS s ON s.ring = :'ring' AND s.shard = p.to_shard
	CROSS JOIN shardring.tables(:'ring') AS t
ORDER BY t.relation, p.from_shard, p.to_shard;
EOF
}

main "$@"
