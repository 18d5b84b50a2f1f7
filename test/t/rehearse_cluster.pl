# rehearse_cluster.pl
#	What a move means for the rows of real shards: against what rehearse says of
#	the same rows in one table, for sealed versions and drafts that no shard
#	has; shards that cannot be counted mark the sums that lack them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(sqlstate_of);
use Test::More;

my @shards = qw(a b c);
my $main = new_server('main');
my $other = new_server('other');
my ($host, $port) = ($other->host, $other->port);

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

sub on
{
	my ($shard, $sql) = @_;
	return $other->safe_psql($shard, $sql);
}

sub rehearse
{
	my ($versions, $more) = @_;
	return on_main("SELECT r.* FROM shardring.rehearse_cluster('orders', "
		  . "$versions@{[ $more // '' ]}) AS r");
}

on_main('CREATE EXTENSION postgres_fdw');
foreach my $name (@shards)
{
	$other->safe_psql('postgres', qq{
		CREATE DATABASE $name ENCODING 'UTF8' TEMPLATE template0});
	on($name, qq{
		CREATE EXTENSION shardring;
		ALTER DATABASE $name SET shardring.shard = '$name'});
	on_main(qq{
		CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$port', dbname '$name')});
}
on_main(q{
	SELECT shardring.create_ring('orders', hash_tags => true);
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b'], 4);
	SELECT shardring.add_group('orders', 'größe', ARRAY['c'], 3);
	SELECT shardring.activate('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'new', ARRAY['fresh'], 2);
	SELECT shardring.assign_slots('orders', 'g', '{[1,2)}', 'b')});

# ---------- what is refused ----------

foreach my $case (
	[ q{NULL, 1, 2}, '22004' ], [ q{'orders', NULL, 2}, '22004' ],
	[ q{'orders', 1, NULL}, '22004' ], [ q{'größe', 1, 2}, '42704' ],
	[ q{'', 1, 2}, '42704' ], [ q{'orders', 1, 7}, '42704' ],
	[ q{'orders', 7, 1}, '42704' ])
{
	is( sqlstate_of($main, 'postgres',
			"SELECT shardring.rehearse_cluster($case->[0])"),
		$case->[1], $case->[0]);
}

# ---------- nothing is guarded ----------

my $none = rehearse('1, 2');
like($none, qr/^a\|\|\|\|\|ring "orders" does not exist$/m, 'no ring there');
like($none, qr/^a\|\|\|\|\|ring "orders" does not exist$/m, 'no ring there');

# ---------- all tables, by hand ----------

my $odd = '"Odd ""schema"""."größe \' 1"';
my $literal = q{'} . $odd =~ s/'/''/gr . q{'};
on_main("CREATE SCHEMA \"Odd \"\"schema\"\"\";
	CREATE TABLE public.big (id bigint, note text, \"Lo\"\"ad\" integer);
	CREATE TABLE $odd (key text, value point)");
on_main(q{INSERT INTO public.big
	SELECT i, repeat('x', i % 90), CASE WHEN i % 9 > 0 THEN i % 7 END
	FROM generate_series(1, 20000) AS i});
on_main("INSERT INTO $odd
	SELECT 'ü' || i || '{' || i % 50 || '}' FROM generate_series(1, 500) AS i");
my %columns = ('public.big' => 'id', $odd => 'key');
foreach my $name (@shards)
{
	on_main("COPY (SELECT * FROM $_ WHERE
		shardring.shard_for('orders', $columns{$_}, 1) = '$name')
		TO '" . $main->basedir . "/$name." . ($_ eq $odd ? 'odd' : 'big')
		  . q{'}) foreach sort keys %columns;
	# their ring knows nothing of these versions, and is another one
	on($name, qq{
		SELECT shardring.create_ring('orders', hash => 'fnv1a');
		SELECT shardring.add_group('orders', 'x', ARRAY['$name']);
		SELECT shardring.activate('orders');
		CREATE SCHEMA "Odd ""schema""";
		CREATE TABLE public.big (id bigint NOT NULL, note text,
			"Lo""ad" integer);
		CREATE TABLE $odd (key text NOT NULL, value point);
		SELECT shardring.add_guard('orders', 'public.big', 'id');
		SELECT shardring.add_guard('orders', $literal, 'key');
		COPY public.big FROM '@{[ $main->basedir ]}/$name.big';
		COPY $odd FROM '@{[ $main->basedir ]}/$name.odd'});
}

# Pairs and sums of the same rows on the map.
sub by_hand
{
	my ($from, $to, $load) = @_;
	my $all = join ' UNION ALL ', map {
		my $bytes = $_ eq $odd
		  ? 'pg_column_size(key) + coalesce(pg_column_size(value), 0)'
		  : 'pg_column_size(id) + pg_column_size(note)'
		  . ' + coalesce(pg_column_size("Lo""ad"), 0)';
		"SELECT shardring.shard_for('orders', $columns{$_}, $from) AS f,
			shardring.shard_for('orders', $columns{$_}, $to) AS t,
			$bytes AS bytes, "
		  . ($load && $_ ne $odd ? '"Lo""ad"' : 'NULL::int') . " AS load FROM $_"
	} ($odd, 'public.big');
	return on_main(qq{
		SELECT r.f, r.t, r.rows, r.bytes, r.load, NULL
		FROM (SELECT grouping(k.f, k.t) AS kind, k.f, k.t, count(*) AS rows,
				sum(k.bytes) AS bytes, sum(k.load) AS load
			  FROM ($all) AS k GROUP BY GROUPING SETS ((k.f, k.t), (k.f), (k.t)))
			AS r
		ORDER BY r.kind, r.f COLLATE "C", r.t COLLATE "C"});
}

is(rehearse('1, 2'), by_hand(1, 2), 'a draft that no shard has');
is(rehearse('1, 2', q{, 'Lo"ad'}), by_hand(1, 2, 1), 'with a load');
is(rehearse('1, 2', ", '$_'"), by_hand(1, 2), "no such column: $_")
  foreach ('', 'größe', 'ctid', 'x' x 60);
is(rehearse('1, 1'), by_hand(1, 1), 'nothing moves');
on_main(q{SELECT shardring.seal('orders', 2)});
is(rehearse('1, 2'), by_hand(1, 2), 'a sealed version');
is( on_main(q{SELECT max(length(l)) <= 80 FROM (
		SELECT concat_ws(' | ', r.from_shard, r.to_shard, r.rows, r.bytes,
			r.load, r.problem) AS l
		FROM shardring.rehearse_cluster('orders', 1, 2) AS r) AS x}),
	't', 'a line has 80 columns');

# ---------- rows and shards that cannot be counted ----------

on('a', q{SET session_replication_role = replica;
	INSERT INTO public.big } . on_main(q{
		SELECT format('VALUES (%s)', min(i)) FROM generate_series(1, 99) AS i
		WHERE shardring.shard_for('orders', i, 1) = 'c'}));
my $strays = rehearse('1, 2');
like($strays, qr/^a\|\|\|\|\|1 misplaced row of "c" in public\.big$/m,
	'a stray is told');
like($strays, qr/^a\|a\|\d+\|\d+\|\|without a$/m, 'and marks the sums of its shard');
like($strays, qr/^b\|b\|\d+\|\d+\|\|$/m, 'not those of others');
like($strays, qr/^\|fresh\|\d+\|\d+\|\|without a$/m, 'but where it may go');
on('a', q{ALTER TABLE public.big ALTER id DROP NOT NULL;
	SET session_replication_role = replica;
	UPDATE public.big SET id = NULL WHERE note IS NULL});
like(rehearse('1, 2'), qr/^a\|\|\|\|\|1 NULL key in public\.big$/m, 'a NULL key');
on('a', q{SET session_replication_role = replica;
	DELETE FROM public.big WHERE id IS NULL});
is(rehearse('1, 2'), by_hand(1, 2), 'it is gone');

on_main(q{ALTER SERVER b OPTIONS (SET port '1')});
my $down = rehearse('1, 2');
like($down, qr/^b\|b\|\|\|\|without b$/m, 'a shard that is down has no rows');
like($down, qr/^b\|\|\|\|\|\S.*$/m, 'but a reason');
unlike($down, qr/^b\|\w*\|0\|/m, 'never a zero');
like($down, qr/^\|a\|\d+\|\d+\|\|$/m, 'sums without it are whole');
like($down, qr/^\|fresh\|\d+\|\d+\|\|without b$/m, 'others are marked');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});

on('c', 'DROP TABLE public.big');
like(rehearse('1, 2'),
	qr/^c\|\|\|\|\|relation "public.big" does not exist$/m,
	'a table that is missing');
on('c', q{CREATE OR REPLACE FUNCTION shardring.rehearse_here(ring text,
		relation text, load_column name, places jsonb,
		expected_shards jsonb DEFAULT NULL)
	RETURNS TABLE (from_shard text, to_shard text, rows bigint, bytes bigint,
		load numeric, error text)
	LANGUAGE sql AS $$ SELECT 'c', 'c', -1, 1, 'NaN'::numeric, NULL $$});
like(rehearse('1, 2'), qr/^c\|\|\|\|\|the answer is not that of a shard$/m,
	'an answer that is none');

# ---------- what a shard is sent ----------

my $names = q{SELECT format('%s/%s', system_identifier, database_oid)
	FROM shardring.shard_identity()};
is( sqlstate_of($other, 'a', "SELECT shardring.rehearse_here('orders',
		'public.big', NULL, $_)"),
	'22004', "places: $_") foreach ('NULL', q{'{}'}, q{'[]'}, q{'{"before": {}}'});
is( sqlstate_of($other, 'a', q{SELECT shardring.rehearse_here('orders',
		'public.big', NULL, '{"before": {}, "after": {}}', '{}')}),
	'55000', 'a shard that is not meant');
like( $other->psql('a', q{SELECT shardring.rehearse_here('orders',
		'public.big', NULL, '{"before": {"hash": "md5''); DROP TABLE x; --",
			"hash_tags": false, "starts": [0], "groups": [1], "slots": [1],
			"runs": [2147483648], "shards": ["a"]}, "after": {}}')}),
	qr/^3$/, 'what is no hash is refused');

$main->stop;
$other->stop;
done_testing();
