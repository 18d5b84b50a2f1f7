
# copy_rows.pl
#	The script that copies the rows of a pair of shards: columns in another
#	order, exchanged unique values, foreign keys; and every slip that once lost
#	rows is refused before anything is changed.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('copy_rows');
my $rows = 1000;

sub on
{
	my ($database, $sql) = @_;
	return $node->safe_psql($database, $sql);
}

# ---------- three shards, and version 2 that adds the third ----------

on('postgres', "CREATE DATABASE $_") for qw(map s0 s1 s2);
on($_, 'CREATE EXTENSION shardring') for qw(map s0 s1 s2);
on('map', q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', s, ARRAY[s])
	FROM unnest('{s0,s1}'::text[]) AS s;
	SELECT shardring.activate('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 's2', '{s2}');
	SELECT shardring.seal('orders')});
my %document = map {
	$_ => on('map', "SELECT shardring.export_version('orders', $_)") } 1, 2;

# Tables: one with the key as primary key, one with a primary key of its own
# and a unique value besides, and what refers to it.
foreach my $shard (qw(s0 s1 s2))
{
	on('postgres', "ALTER DATABASE $shard SET shardring.shard = '$shard'");
	on($shard, qq{SELECT shardring.import_version(\$d\$$document{$_}\$d\$)})
	  for $shard eq 's2' ? (2) : (1, 2);
	on($shard, q{SELECT shardring.activate('orders', 1)}) if $shard ne 's2';
	my $columns = 'a text, b text';
	$columns = 'b text, a text' if $shard eq 's2';
	on($shard, qq{
		CREATE TABLE held (key text PRIMARY KEY, $columns,
			joined text GENERATED ALWAYS AS (a || b) STORED);
		CREATE TABLE "My ""order" (id bigint GENERATED ALWAYS AS IDENTITY,
			"the key" bigint NOT NULL, code text UNIQUE DEFERRABLE,
			j json, PRIMARY KEY ("the key", id),
			parent bigint, FOREIGN KEY ("the key", parent)
				REFERENCES "My ""order" DEFERRABLE INITIALLY DEFERRED);
		CREATE TABLE item (id bigint, user_id bigint NOT NULL, n int,
			PRIMARY KEY (user_id, id, n),
			FOREIGN KEY (user_id, id) REFERENCES "My ""order"
				ON DELETE CASCADE);
		SELECT shardring.add_guard('orders', 'held', 'key');
		SELECT shardring.add_guard('orders', '"My ""order"', 'the key');
		SELECT shardring.add_guard('orders', 'item', 'user_id')});
}
foreach my $shard (qw(s0 s1))
{
	on($shard, qq{
		INSERT INTO held (key, a, b)
		SELECT 'k' || i, 'a' || i, 'b' || i FROM generate_series(1, $rows) AS i
		WHERE shardring.shard_for('orders', 'k' || i) = '$shard';
		INSERT INTO "My ""order" ("the key", code, j)
		SELECT i, 'c' || i, '{"x":  1}' FROM generate_series(1, $rows) AS i
		WHERE shardring.shard_for('orders', i) = '$shard';
		INSERT INTO "My ""order" ("the key", parent)
		SELECT o."the key", o.id FROM "My ""order" AS o;
		INSERT INTO item SELECT o.id, o."the key", n
		FROM "My ""order" AS o, generate_series(1, 2) AS n});
}

# Runs the script; returns its status, and what it printed.
sub script
{
	my ($command, $table, $from, $to, %at) = @_;
	my $output;
	IPC::Run::run([ 'extension/doc/examples/copy_rows.sh', $command, 'orders',
			$at{old} // 1, $at{new} // 2, $table,
			map { $_ => $node->connstr($at{$_} // $_) } $from, $to ],
		'>&', \$output);
	return ($? >> 8, $output);
}

# All rows of all shards, to see that nothing has changed.
sub everything
{
	return join "\n", map {
		on($_, q{SELECT string_agg(h::text, ' ' ORDER BY h.key) FROM held AS h;
			SELECT string_agg(o::text, ' ' ORDER BY o::text)
			FROM "My ""order" AS o;
			SELECT count(*) FROM item})
	} qw(s0 s1 s2);
}

sub works
{
	my ($name, @arguments) = @_;
	my ($status, $output) = script(@arguments);
	is($status, 0, $name) or diag($output);
	return $output;
}

sub refused
{
	my ($name, $reason, @arguments) = @_;
	my $before = everything();
	my ($status, $output) = script(@arguments);
	isnt($status, 0, "$name: refused");
	like($output, $reason, "$name: and says why");
	is(everything(), $before, "$name: nothing has changed");
	return;
}

# What of a table goes from s0 to s2; s2 has nothing else.
sub pair_rows
{
	my ($shard, $table, $columns, $key) = @_;
	my $pair = $shard eq 's2' ? 'true'
	  : "shardring.shard_for('orders', $key, 2) = 's2'";
	return on($shard, "SELECT $columns FROM $table WHERE $pair "
		  . "ORDER BY $columns");
}

my @tables = ('held', '"My ""order"', 'item');
my %columns = (held => [ 'key, a, b, joined', 'key' ],
	'"My ""order"' => [ 'id, code, j::text, parent, "the key"', '"the key"' ],
	item => [ 'id, user_id, n', 'user_id' ]);

sub same_rows
{
	my ($name) = @_;
	foreach my $table (@tables)
	{
		my $there = pair_rows('s0', $table, @{ $columns{$table} });
		is(pair_rows('s2', $table, @{ $columns{$table} }),
			$there, "$name: $table is the same on both");
		cmp_ok($there =~ tr/\n//, '>', 50, "$name: and not empty");
	}
	return;
}

# ---------- before the fence ----------

refused('source and target exchanged',
	qr/^ERROR:  refused: shard "s2" does not have version 1 .* perhaps source and/,
	'clean-source', 'held', 's2', 's0');
refused('connections exchanged', qr/is shard "s2" and not "s0"/,
	'copy', 'held', 's0', 's2', s0 => 's2', s2 => 's0');
refused('the neighbour as source', qr/is shard "s1" and not "s0"/,
	'copy', 'held', 's0', 's2', s0 => 's1');
refused('one shard twice', qr/the same shard/, 'copy', 'held', 's0', 's0');
refused('cleaned too early', qr/no version is active on shard "s2"/,
	'clean-source', 'held', 's0', 's2');

on('s2', qq{SELECT shardring.import_version(\$d\$$document{1}\$d\$)});
refused('exchanged, and both versions are there',
	qr/nothing moves from "s2" to "s0" .* perhaps source and target/,
	'copy', 'held', 's2', 's0');

works("$_ is copied", 'copy', $_, 's0', 's2') for @tables;
same_rows('copied');
like(works('compared', 'compare', 'held', 's0', 's2'),
	qr/^s0: (\d+ rows, digest \S+)\ns2: \1$/, 'compare shows both');

# Changes meanwhile: unique values are exchanged, a row goes, one comes.
my @keys = split /\n/, on('s0', q{
	SELECT "the key" FROM "My ""order" WHERE code IS NOT NULL
		AND shardring.shard_for('orders', "the key", 2) = 's2'
	ORDER BY id LIMIT 3});
on('s0', qq{
	BEGIN;
	SET CONSTRAINTS ALL DEFERRED;
	UPDATE "My ""order" SET code = CASE code WHEN 'c$keys[0]' THEN 'c$keys[1]'
		ELSE 'c$keys[0]' END
	WHERE code IN ('c$keys[0]', 'c$keys[1]');
	COMMIT;
	UPDATE held SET a = NULL WHERE shardring.shard_for('orders', key, 2) = 's2';
	DELETE FROM "My ""order" WHERE "the key" = $keys[2] AND parent IS NOT NULL;
	INSERT INTO item VALUES (
		(SELECT min(id) FROM "My ""order" WHERE "the key" = $keys[0]),
		$keys[0], 3)});
is((script('compare', 'held', 's0', 's2'))[0], 1, 'compare finds a difference');
works("$_ is copied again", 'copy', $_, 's0', 's2') for @tables;
same_rows('copied again');

# Values whose text depends on settings.
on($_, q{
	ALTER TABLE held ADD since timestamptz DEFAULT '2026-01-02 03:04:05Z',
		ADD raw bytea DEFAULT '\xc3a4'}) for qw(s0 s2);
on('postgres', q{
	ALTER DATABASE s2 SET timezone = 'Asia/Tokyo';
	ALTER DATABASE s2 SET bytea_output = escape});
works('copied with other settings', 'copy', 'held', 's0', 's2');
works('compared with other settings', 'compare', 'held', 's0', 's2');
on($_, 'ALTER TABLE held DROP since, DROP raw') for qw(s0 s2);

# A session that is used again, as a pooler does, has nothing left of it.
{
	my $dir = PostgreSQL::Test::Utils::tempdir;
	chomp(my $psql = `sh -c "command -v psql"`);
	append_to_file("$dir/psql", <<"SH");
#!/bin/sh
# All but --single-transaction and the file, which comes last.
for file in "\$@"; do :; done
{
	echo 'BEGIN;'
	cat "\$file"
	cat <<'SQL'
COMMIT;
DO \$\$
BEGIN
	IF current_setting('session_replication_role') <> 'origin'
		OR current_setting('search_path') = 'pg_catalog'
		OR current_setting('extra_float_digits') <> '2'
		OR EXISTS (SELECT FROM pg_class
			WHERE relnamespace = pg_my_temp_schema())
		OR EXISTS (SELECT FROM pg_proc
			WHERE pronamespace = pg_my_temp_schema())
	THEN
		RAISE 'something is left in the session';
	END IF;
END
\$\$;
SQL
} >"\$file.session"
for argument in "\$@"; do
	shift
	case \$argument in
	--single-transaction) ;;
	"\$file") set -- "\$@" "\$file.session" ;;
	*) set -- "\$@" "\$argument" ;;
	esac
done
exec $psql "\$@"
SH
	chmod 0755, "$dir/psql";
	local $ENV{PATH} = "$dir:$ENV{PATH}";
	local $ENV{PGOPTIONS} = '-c extra_float_digits=2';
	works("$_ leaves nothing in the session", $_, 'held', 's0', 's2')
	  for qw(copy compare clean-target copy);
}

# ---------- what cannot be done ----------

# Each: what is done to both shards, and undone.
foreach my $case (
	[ 'a column that is missing', qr/columns.*differ/,
		'SELECT', 'ALTER TABLE held ADD extra int',
		'ALTER TABLE held DROP IF EXISTS extra' ],
	[ 'a column of another type', qr/columns.*differ/,
		'ALTER TABLE held ADD extra int', 'ALTER TABLE held ADD extra text',
		'ALTER TABLE held DROP extra' ],
	[ 'no guard', qr/has no guard of ring/,
		'ALTER TABLE held DISABLE TRIGGER zz_guard', 'SELECT',
		'ALTER TABLE held ENABLE TRIGGER zz_guard' ],
	[ 'a child with a key of its own', qr/"child_fkey" .* does not join the keys/,
		('CREATE TABLE child (id text PRIMARY KEY, '
		  . 'parent text CONSTRAINT child_fkey REFERENCES held ON DELETE CASCADE);'
		  . q{SELECT shardring.add_guard('orders', 'child', 'id')}) x 2,
		'DROP TABLE child' ],
	[ 'a child without a guard', qr/child has no guard/,
		('CREATE TABLE child (id text PRIMARY KEY, '
		  . 'parent text REFERENCES held ON DELETE CASCADE)') x 2,
		'DROP TABLE child' ],
	[ 'a table that refers to itself', qr/"self" .* does not join the keys/,
		('ALTER TABLE held ADD up text CONSTRAINT self REFERENCES held '
		  . 'DEFERRABLE INITIALLY DEFERRED') x 2,
		'ALTER TABLE held DROP up' ],
	[ 'a value that another row has',
		qr/unique index public\.held_b_key.* from a sequence/,
		('ALTER TABLE held ADD UNIQUE (b)') x 2,
		'ALTER TABLE held DROP CONSTRAINT held_b_key' ],
	[ 'no primary key', qr/no primary key/,
		('ALTER TABLE held DROP CONSTRAINT held_pkey') x 2,
		'ALTER TABLE held ADD PRIMARY KEY (key)' ])
{
	my ($name, $reason, $on_source, $on_target, $undo) = @$case;
	on('s0', $on_source);
	on('s2', $on_target);
	if ($name =~ /another row has/)
	{
		on('s2', q{SET session_replication_role = replica;
			UPDATE held SET key = 'other'
			WHERE b = (SELECT min(h.b) FROM held AS h)});
	}
	refused($name, $reason, 'copy', 'held', 's0', 's2');
	on('s2', q{SET session_replication_role = replica;
		DELETE FROM held WHERE key = 'other'});
	on($_, $undo) for qw(s0 s2);
}
works('copied after all', 'copy', 'held', 's0', 's2');

# A subscription to a table, or to the root that it is a partition of.
on($_, q{
	CREATE TABLE root (key text PRIMARY KEY) PARTITION BY LIST (key);
	CREATE TABLE leaf PARTITION OF root DEFAULT;
	SELECT shardring.add_guard('orders', 'leaf', 'key')}) for qw(s0 s2);
works('a partition', 'copy', 'leaf', 's0', 's2');
on('s2', q{CREATE SUBSCRIPTION feed CONNECTION 'dbname=none' PUBLICATION feed
	WITH (connect = false, slot_name = NONE)});
foreach my $case ([ 'held', 'held' ], [ 'root', 'leaf' ])
{
	my ($subscribed, $copied) = @$case;
	on('s2', qq{INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate)
		SELECT s.oid, '$subscribed'::regclass, 'r' FROM pg_subscription AS s});
	refused("$subscribed has a subscription", qr/still has a subscription/,
		'copy', $copied, 's0', 's2');
	on('s2', 'DELETE FROM pg_subscription_rel');
}
on('s2', 'DROP SUBSCRIPTION feed');
on($_, 'DROP TABLE root') for qw(s0 s2);
works('copied once more', 'copy', 'held', 's0', 's2');
same_rows('copied after all');

# ---------- given up, and done ----------

on('s0', q{SELECT shardring.drop_version('orders', 2)});
refused('the version dropped before', qr/draft the same change again/,
	'clean-target', 'held', 's0', 's2');
on('s0', qq{SELECT shardring.import_version(\$d\$$document{2}\$d\$)});
works("$_ is cleaned on the target", 'clean-target', $_, 's0', 's2')
  for @tables;
is(on('s2', q{SELECT count(*) FROM held}), 0, 'the target is empty');

# A transaction from before the fence commits a row behind it.
my $writer = open_session($node, 's0');
step($writer, q{BEGIN;
	INSERT INTO held (key, a) SELECT k, 'late'
	FROM (SELECT min('late' || i) FROM generate_series(1, 100) AS i
		WHERE shardring.shard_for('orders', 'late' || i, 1) = 's0'
			AND shardring.shard_for('orders', 'late' || i, 2) = 's2') AS l (k)});
on('s0', q{SELECT shardring.activate('orders', 2)});
my $copy = IPC::Run::start([ 'extension/doc/examples/copy_rows.sh', 'copy',
		'orders', 1, 2, 'held',
		map { $_ => $node->connstr($_) } 's0', 's2' ], '>', \my $copied);
foreach (1 .. 300)
{
	last if !$copy->pumpable || on('s0', q{
		SELECT count(*) FROM pg_stat_activity
		WHERE state = 'active' AND query ~ '^SELECT .*wait_for_drain'
			AND pid <> pg_backend_pid()});
	$copy->pump_nb;
	select(undef, undef, undef, 0.1);
}
step($writer, 'COMMIT');
$writer->quit;
ok($copy->finish, 'copied while a writer was still there');
is(on('s2', q{SELECT count(*) FROM held WHERE a = 'late'}),
	1, 'what it committed is copied');
works("$_ is copied behind the fence", 'copy', $_, 's0', 's2') for @tables;
same_rows('behind the fence');
refused('cleaned between', qr/no version is active on shard "s2"/,
	'clean-source', 'held', 's0', 's2');
on('s2', q{SELECT shardring.activate('orders', 2)});
refused('copied after the switch', qr/nothing may be copied any more/,
	'copy', 'held', 's0', 's2');
refused('the target cleaned after the switch', qr/it has the newer rows/,
	'clean-target', 'held', 's0', 's2');
refused('the neighbour cleaned', qr/is shard "s1" and not "s0"/,
	'clean-source', 'held', 's0', 's2', s0 => 's1');
refused('the neighbour cleaned, by its name', qr/version 1 is active on shard "s1"/,
	'clean-source', 'held', 's1', 's2');
refused('the new owner cleaned', qr/is shard "s2" and not "s0"/,
	'clean-source', 'held', 's0', 's2', s0 => 's2', s2 => 's0');

my $own = on('s0', q{SELECT count(*) FROM held
	WHERE shardring.shard_for('orders', key) = 's0'});
my $all = on('s2', 'SELECT count(*) FROM item');

# The target lacks a row of each, by one of the columns of its key.
on('s2', q{
	SET session_replication_role = replica;
	CREATE TABLE away AS SELECT * FROM held ORDER BY key LIMIT 1;
	DELETE FROM held AS h USING away WHERE h.key = away.key;
	DELETE FROM item WHERE (user_id, n) = (SELECT user_id, n FROM item
		WHERE n = 3)});
foreach my $table (qw(held item))
{
	my ($status, $output) = script('clean-source', $table, 's0', 's2');
	is($status, 3, "$table: not all is on the target");
	like($output,
		qr/rows deleted on s0\n.*$table: 1 rows kept on s0, which s2 does not/,
		"$table: and one is kept");
}
my $kept = on('s2', 'SELECT key FROM away');
is(on('s0', qq{SELECT count(*), count(*) FILTER (WHERE key = '$kept')
		FROM held WHERE shardring.shard_for('orders', key) <> 's0'}),
	'1|1', 'which the target does not have');
on('s2', q{
	SET session_replication_role = replica;
	INSERT INTO held (key, a, b) SELECT key, a, b FROM away});
refused('all cleaned on a neighbour', qr/is shard "s1" and not "s0"/,
	'clean-source-all', 'item', 's0', 's2', s0 => 's1');
works('deleted on the target since', 'clean-source-all', 'item', 's0', 's2');
$all--;
works("$_ is cleaned on the source", 'clean-source', $_, 's0', 's2')
  for @tables;
is(on('s0', q{SELECT count(*), count(*) FILTER (
		WHERE shardring.shard_for('orders', key) = 's0') FROM held}),
	"$own|$own", 'the source has its own rows, and no others');
is(on('s0', q{SELECT count(*) FROM item AS i WHERE NOT EXISTS (
		SELECT FROM "My ""order" AS o WHERE o.id = i.id)}),
	0, 'no child without its parent');
is(on('s2', 'SELECT count(*) FROM item'), $all, 'the target has all it had');

# ---------- with versions that are no longer the last ----------

# Version 3 takes keys from both to s1; it is active on s0 only, at first.
on('map', q{
	SELECT shardring.activate('orders', 2);
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'more', '{s1}');
	SELECT shardring.seal('orders')});
$document{3} = on('map', q{SELECT shardring.export_version('orders', 3)});
on($_, qq{SELECT shardring.import_version(\$d\$$document{3}\$d\$)})
  for qw(s0 s2);
on('s0', q{SELECT shardring.activate('orders', 3)});
refused('copied from a version before the last',
	qr/version 2 is active on the target, not 1/,
	'copy', 'held', 's0', 's2', new => 3);
refused('cleaned between two versions',
	qr/version 3 is active on the source, and 2 on the target/,
	'clean-target', 'held', 's0', 's2', new => 3);

# By version 3, some rows of the pair live on s1, which does not have them.
on('s2', q{SELECT shardring.activate('orders', 3)});
my $before = everything();
like(works('cleaned with an old pair', 'clean-target', 'held', 's0', 's2'),
	qr/: 0 rows deleted/, 'and deletes nothing');
is(everything(), $before, 'nor is anything lost');

# The way back: version 4 is version 1 again.
on('map', q{
	SELECT shardring.activate('orders', 3);
	SELECT shardring.draft_version('orders', 1);
	SELECT shardring.activate('orders', 4)});
$document{4} = on('map', q{SELECT shardring.export_version('orders', 4)});
on($_, qq{SELECT shardring.import_version(\$d\$$document{4}\$d\$);
	SELECT shardring.activate('orders', 4)}) for qw(s0 s2);
works('cleaned on the way back', 'clean-target', 'held', 's0', 's2');
is(on('s2', 'SELECT count(*) FROM held'), 0, 'the target is empty again');

is(system('extension/doc/examples/copy_rows.sh copy 2>/dev/null') >> 8,
	2, 'usage');
foreach my $example ('client.py', 'router.py')
{
	my $output;
	IPC::Run::run([ '/usr/bin/python3', "extension/doc/examples/$example" ],
		'<', \undef, '>&', \$output);
	like($output, qr/\Ausage: $example [^\n]*\n\z/, "usage of $example");
}

done_testing();
