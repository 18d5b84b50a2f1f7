#!/bin/sh
#
# copy_rows.sh
#	Copies the rows of one table that move from one shard to another, and
#	deletes them where they no longer belong.
#
#	copy_rows.sh COMMAND RING OLD NEW TABLE SOURCE CONNECTION TARGET CONNECTION
#
#	copy		makes the target's rows of this pair what the source's are;
#				may be repeated until NEW is active on the target
#	compare		shows whether they are the same
#	clean-source	deletes them on the source, once NEW is active on both and
#				if the target has them; fails if it keeps others
#	clean-source-all	deletes those as well: deleted on the target since
#	clean-target	deletes them on the target, if NEW was given up
#
#	OLD and NEW are the versions, SOURCE and TARGET the names of the shards,
#	each followed by its connection string.
#
# Rules of this file:
#	- A database is asked for its name before anything is done there, and only
#	  rows are cleaned away that live on the other shard of the pair by the
#	  version that is active.
#	- What cannot be done right is refused (55000) before anything is changed;
#	  each side is changed in one transaction.
#	- Columns go by name.  The key is that of the guard, which must be there.
#	- Foreign keys and triggers sleep meanwhile (session_replication_role), so a
#	  table is refused unless its foreign keys join the keys of guarded tables:
#	  then every table is copied and cleaned by itself.  Tables without a guard
#	  that it refers to must have the same rows on all shards.
#	- Names travel as variables of psql, SQL only as a shard has written it.

set -eu

usage()
{
	echo "usage: copy_rows.sh" \
		"copy|compare|clean-source|clean-source-all|clean-target" \
		"RING OLD NEW TABLE SOURCE CONNECTION TARGET CONNECTION" >&2
	exit 2
}

main()
{
	[ $# -eq 9 ] || usage
	command=$1 ring=$2 old=$3 new=$4 table=$5
	source=$6 source_at=$7 target=$8 target_at=$9
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	export PGCLIENTENCODING=UTF8
	case $command in
	copy)
		inspect
		on_source source_rows >"$work/rows"
		on_target target_copy <"$work/rows"
		;;
	compare)
		inspect
		on_source digest >"$work/there"
		on_target digest >"$work/here"
		echo "$source: $(cat "$work/there")"
		echo "$target: $(cat "$work/here")"
		cmp -s "$work/there" "$work/here"
		;;
	clean-source)
		inspect
		on_target target_keys >"$work/keys"
		on_source clean_source <"$work/keys"
		[ ! -s "$work/kept" ] || refuse "$(cat "$work/kept")"
		;;
	clean-source-all)
		inspect
		on_target require_active >/dev/null
		on_source clean_source_all
		;;
	clean-target)
		inspect
		on_source active_version >"$work/active"
		on_target clean_target
		;;
	*)
		usage
		;;
	esac
}

# Checks both sides, and learns the columns and the condition of the pair.
inspect()
{
	[ "$source" != "$target" ] || refuse 'source and target are the same shard'
	on_source shape >"$work/shape"
	on_target shape >"$work/shape.target"
	cmp -s "$work/shape" "$work/shape.target" ||
		refuse "columns, primary key or key of $table differ:" \
			"$(cat "$work/shape" "$work/shape.target")"
	for what in columns t_columns m_columns key_columns same_key; do
		on_source "$what" >"$work/$what"
	done
	on_source condition >"$work/condition"
	[ -s "$work/condition" ] || refuse 'nothing is known about this pair'
}

refuse()
{
	echo "refused: $*" >&2
	exit 3
}

on_source()
{
	run "$source" "$source_at" "$1"
}

on_target()
{
	run "$target" "$target_at" "$1"
}

# Runs what a function prints as SQL, after the checks, on a shard.  Errors say
# nothing of the files in between.
run()
{
	{
		checks
		"$3"
		leave_nothing
	} >"$work/$3.sql"
	status=0
	psql -XAtq -d "$2" --single-transaction -v ON_ERROR_STOP=1 \
		-v VERBOSITY=terse -v SHOW_CONTEXT=never -v here="$1" \
		-v ring="$ring" -v old="$old" -v new="$new" -v table="$table" \
		-v source="$source" -v target="$target" -v work="$work" \
		-f "$work/$3.sql" 2>"$work/errors" || status=$?
	sed 's,^psql:.*/[a-z_]*\.sql:[0-9]*: ,,' "$work/errors" >&2
	return $status
}

# ---------- what every step checks first ----------

checks()
{
	cat <<'SQL'
SELECT :'table'::regclass::oid AS relation_oid,
	:'old'::integer AS old, :'new'::integer AS new \gset
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog;
SET LOCAL row_security = off;
SET LOCAL timezone = 'UTC';
SET LOCAL bytea_output = hex;
SET LOCAL lc_monetary = 'C';
SET LOCAL datestyle = ISO;
SET LOCAL intervalstyle = postgres;
SET LOCAL extra_float_digits = 1;
CREATE FUNCTION pg_temp.refuse(reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'refused: %', reason USING ERRCODE = '55000';
END
$$;

-- the right database
SELECT pg_temp.refuse(format('this database is shard "%s" and not "%s"',
	current_setting('shardring.shard', true), :'here'))
WHERE current_setting('shardring.shard', true) IS DISTINCT FROM :'here';

-- the guard, which knows the key
CREATE TEMP VIEW guard AS
SELECT t.tgrelid AS relation, a.attname AS key, a.attnum
FROM pg_trigger AS t
	CROSS JOIN LATERAL (SELECT position('\x00'::bytea IN t.tgargs)) AS p (i)
	JOIN pg_attribute AS a ON a.attrelid = t.tgrelid AND a.attname
		= convert_from(substring(t.tgargs, p.i + 1, length(t.tgargs) - p.i - 1),
					   getdatabaseencoding())
WHERE t.tgfoid = 'shardring.guard()'::regprocedure
	AND t.tgenabled IN ('O', 'A')
	AND convert_from(substring(t.tgargs, 1, p.i - 1), getdatabaseencoding())
		= :'ring';
SELECT pg_temp.refuse(format('table %s has no guard of ring "%s" on shard "%s"',
	:relation_oid::regclass, :'ring', :'here'))
WHERE NOT EXISTS (SELECT FROM pg_temp.guard WHERE relation = :relation_oid);
SELECT g.key FROM pg_temp.guard AS g WHERE g.relation = :relation_oid LIMIT 1
\gset
SELECT pg_temp.refuse(format('table %s has no primary key',
	:relation_oid::regclass))
WHERE NOT EXISTS (SELECT FROM pg_index
	WHERE indrelid = :relation_oid AND indisprimary);

-- foreign keys
SELECT pg_temp.refuse(CASE
	WHEN parent.relation IS NULL OR child.relation IS NULL THEN format(
		'table %s has no guard, but foreign key "%s" of table %s joins them',
		CASE WHEN child.relation IS NULL THEN c.conrelid ELSE c.confrelid
		END::regclass, c.conname, c.conrelid::regclass)
	ELSE format('foreign key "%s" of table %s does not join the keys of the '
		'tables: rows that it joins may live on different shards',
		c.conname, c.conrelid::regclass) END)
FROM pg_constraint AS c
	LEFT JOIN pg_temp.guard AS child ON child.relation = c.conrelid
	LEFT JOIN pg_temp.guard AS parent ON parent.relation = c.confrelid
WHERE c.contype = 'f' AND :relation_oid IN (c.conrelid, c.confrelid)
	AND NOT (c.conrelid = :relation_oid AND parent.relation IS NULL)
	AND NOT EXISTS (SELECT FROM unnest(c.conkey, c.confkey) AS k (child, parent)
		WHERE k.child = child.attnum AND k.parent = parent.attnum);

-- a subscription would take the deletes of one side to the other
SELECT pg_temp.refuse(format('table %s still has a subscription on shard "%s"',
	:relation_oid::regclass, :'here'))
WHERE EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = :relation_oid
	OR srrelid IN (SELECT relid FROM pg_partition_tree(:relation_oid))
	OR srrelid IN (SELECT pg_partition_ancestors(:relation_oid)));

-- the version that is active stays so until the end
SELECT r.active_version AS active FROM shardring.ring AS r
WHERE r.ring = :'ring' FOR SHARE \gset
\if :{?active}
\else
\set active 0
\endif
SELECT CASE :active WHEN 0 THEN 'no version' ELSE 'version ' || :active END
	AS active_version \gset
SQL
}

# A pooler may give the session to somebody else.  The semicolon ends the
# statement of the step.
leave_nothing()
{
	cat <<'SQL'
;
DROP VIEW pg_temp.guard;
DROP FUNCTION pg_temp.refuse(text);
SQL
}

# ---------- what is learnt ----------

column_list()
{
	echo "SELECT string_agg(format($1, a.attname), $2 ORDER BY a.attnum)"
	cat <<'SQL'
FROM pg_attribute AS a
WHERE a.attrelid = :relation_oid AND a.attnum > 0 AND NOT a.attisdropped
	AND a.attgenerated = ''
SQL
}

shape()
{
	cat <<'SQL'
SELECT string_agg(format('%I %s', a.attname,
		format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attname)
	|| format('; key %I; primary key ', :'key')
	|| (SELECT string_agg(quote_ident(k.attname), ', ' ORDER BY k.attname)
		FROM pg_index AS i JOIN pg_attribute AS k
			ON k.attrelid = i.indrelid AND k.attnum = ANY (i.indkey)
		WHERE i.indrelid = :relation_oid AND i.indisprimary)
FROM pg_attribute AS a
WHERE a.attrelid = :relation_oid AND a.attnum > 0 AND NOT a.attisdropped
	AND a.attgenerated = '';
SQL
}

columns()
{
	column_list "'%I'" "', '"
}

t_columns()
{
	column_list "'t.%I'" "', '"
}

m_columns()
{
	column_list "'m.%I'" "', '"
}

same_key()
{
	column_list "'t.%1\$I OPERATOR(pg_catalog.=) m.%1\$I'" "' AND '"
	only_primary_key
}

key_columns()
{
	column_list "'%I'" "', '"
	only_primary_key
}

only_primary_key()
{
	cat <<'SQL'
	AND a.attnum = ANY (SELECT unnest(i.indkey) FROM pg_index AS i
		WHERE i.indrelid = :relation_oid AND i.indisprimary)
SQL
}

condition()
{
	cat <<'SQL'
SELECT pg_temp.refuse(format('shard "%s" does not have version %s of ring "%s"; '
	|| CASE v.version WHEN :old THEN 'perhaps source and target are swapped'
		ELSE 'if it was dropped before clean-target, draft the same change again, '
			'push it, and name that version instead' END,
	:'here', v.version, :'ring'))
FROM (VALUES (:old), (:new)) AS v (version)
WHERE NOT EXISTS (SELECT FROM shardring.ring_version AS r
	WHERE r.ring = :'ring' AND r.version = v.version);
SELECT pg_temp.refuse(format('nothing moves from "%s" to "%s" between versions '
	'%s and %s; perhaps source and target are swapped',
	:'source', :'target', :old, :new))
WHERE NOT EXISTS (SELECT FROM shardring.move_plan(:'ring', :old, :new) AS p
	WHERE p.from_shard = :'source' AND p.to_shard = :'target');
SELECT shardring.move_predicate(:'ring', :old, :new, :'source', :'target',
	NULL, position_expression => format('shardring.key_position(%I, %L, %L)',
		:'key', r.hash, r.hash_tags))
FROM shardring.ring AS r WHERE r.ring = :'ring';
SQL
}

# Reads back what was learnt.
variables()
{
	cat <<'SQL'
SELECT :relation_oid::regclass AS relation \gset
\set columns `cat :'work'/columns`
\set t_columns `cat :'work'/t_columns`
\set m_columns `cat :'work'/m_columns`
\set key_columns `cat :'work'/key_columns`
\set same_key `cat :'work'/same_key`
\set condition `cat :'work'/condition`
SQL
}

# ---------- the steps ----------

source_rows()
{
	variables
	cat <<'SQL'
SELECT pg_temp.refuse(format('%s is active on the source, neither %s nor %s',
	:'active_version', :old, :new)) WHERE :active NOT IN (:old, :new);
SELECT CASE WHEN :active = :new THEN shardring.wait_for_drain(:'ring', :new)
	END AS drained \gset
COPY (SELECT :columns FROM :relation WHERE :condition) TO STDOUT;
SQL
}

# Rows that differ are deleted before others come, so that they may have
# exchanged unique values.
target_copy()
{
	variables
	cat <<'SQL'
SELECT pg_temp.refuse(format('version %s is active on the target, nothing may '
	'be copied any more', :active)) WHERE :active >= :new;
SELECT pg_temp.refuse(format('version %s is active on the target, not %s',
	:active, :old)) WHERE :active NOT IN (0, :old);
SET LOCAL session_replication_role = replica;
CREATE TEMP TABLE moved ON COMMIT DROP AS
SELECT :columns FROM :relation WITH NO DATA;
\copy moved FROM pstdin
ANALYZE pg_temp.moved;
DELETE FROM :relation AS t WHERE (:condition) AND NOT EXISTS (
	SELECT FROM pg_temp.moved AS m WHERE :same_key
		AND record_image_eq(ROW(:m_columns), ROW(:t_columns)));
-- what another row of the target has
SELECT format('SELECT pg_temp.refuse(%L) WHERE EXISTS (SELECT FROM %s AS t '
	'JOIN pg_temp.moved AS m USING (%s) WHERE NOT (%s))',
	format('another row of the target has a value of unique index %s; if it '
		'left that row, copy the pair of that row first; if it is from a '
		'sequence, each shard needs numbers of its own', i.indexrelid::regclass),
	:'relation', string_agg(quote_ident(a.attname), ', '),
	format('record_image_eq(ROW(%s), ROW(%s))', :'m_columns', :'t_columns'))
FROM pg_index AS i JOIN pg_attribute AS a
	ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = :relation_oid AND i.indisunique AND i.indexprs IS NULL
	AND i.indpred IS NULL
GROUP BY i.indexrelid \gexec
INSERT INTO :relation (:columns) OVERRIDING SYSTEM VALUE
SELECT :m_columns FROM pg_temp.moved AS m
WHERE NOT EXISTS (SELECT FROM :relation AS t WHERE :same_key);
SELECT format('%s: %s rows from %s to %s', :'relation', count(*), :'source',
	:'target') FROM pg_temp.moved;
SQL
}

digest()
{
	variables
	cat <<'SQL'
SELECT format('%s rows, digest %s', count(*),
	coalesce(sum(hashtextextended(ROW(:t_columns)::text, 0)::numeric), 0))
FROM :relation AS t WHERE :condition;
SQL
}

require_active()
{
	cat <<'SQL'
SELECT pg_temp.refuse(format('%s is active on shard "%s", not %s',
	:'active_version', :'here', :new)) WHERE :active <> :new;
SQL
}

target_keys()
{
	require_active
	variables
	echo 'COPY (SELECT :key_columns FROM :relation WHERE :condition) TO STDOUT;'
}

# Nobody can tell a row that was never copied from one that was deleted since.
clean_source()
{
	require_active
	variables
	cat <<'SQL'
CREATE TEMP TABLE there ON COMMIT DROP AS
SELECT :key_columns FROM :relation WITH NO DATA;
\copy there FROM pstdin
ANALYZE pg_temp.there;
\set home :target
\set only 'EXISTS (SELECT FROM pg_temp.there AS m WHERE ' :same_key ')'
SQL
	delete_strangers
	cat <<'SQL'
\o :work/kept
SELECT format('%s: %s rows kept on %s, which %s does not have', :'relation',
	count(*), :'here', :'target')
FROM :relation AS t WHERE :condition HAVING count(*) > 0;
\o
SQL
}

clean_source_all()
{
	require_active
	variables
	echo '\set home :target'
	echo '\set only true'
	delete_strangers
}

active_version()
{
	echo 'SELECT :active;'
}

clean_target()
{
	variables
	cat <<'SQL'
SELECT pg_temp.refuse(format('version %s is active on the target: it has the '
	'newer rows', :new)) WHERE :active = :new;
\set source_active `cat :'work'/active`
SELECT pg_temp.refuse(format('version %s is active on the source, and %s on '
	'the target', :source_active, :active))
WHERE :source_active <> CASE WHEN :active = 0 THEN :old ELSE :active END;
SQL
	echo '\set home :source'
	echo '\set only true'
	delete_strangers
}

# The rows of the pair that live on its other shard.
delete_strangers()
{
	cat <<'SQL'
SET LOCAL session_replication_role = replica;
WITH deleted AS (
	DELETE FROM :relation AS t WHERE (:condition) AND :only
		AND CASE WHEN :active = 0 THEN true
			ELSE shardring.shard_for(:'ring', t.:"key") = :'home' END
	RETURNING 1)
SELECT format('%s: %s rows deleted on %s', :'relation', count(*), :'here')
FROM deleted;
SQL
}

main "$@"
