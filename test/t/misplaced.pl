# misplaced.pl
#	Rows that are on another shard than their key: strays planted among a
#	million rows, random tables against what is counted by hand, tables of every
#	form, and shards that cannot be counted, which are errors and never zeros.

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

# Past the guards, as a mistake would be.
sub plant
{
	my ($shard, $sql) = @_;
	on($shard, "SET session_replication_role = replica; $sql");
	return;
}

sub misplaced
{
	my ($more) = @_;
	$more //= '';
	return on_main(qq{SELECT m.shard, m.relation, m.belongs_to, m.rows, m.error
		FROM shardring.misplaced('orders'$more) AS m});
}

sub misplaced_keys
{
	my ($more) = @_;
	return on_main(qq{SELECT m.* FROM shardring.misplaced_keys('orders',
		$more) AS m});
}

# A condition for keys of a shard.
sub home
{
	my ($key, $shard) = @_;
	return "shardring.shard_for('orders', $key) = '$shard'";
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
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b'], 4);
	SELECT shardring.add_group('orders', 'h', ARRAY['c'], 4)});

# ---------- a million rows ----------

is( sqlstate_of($main, 'postgres',
		q{SELECT * FROM shardring.misplaced('orders')}),
	'55000', 'nothing is active');
on_main(q{SELECT shardring.activate('orders')});
my $inactive = join "\n", map { "$_||||the map has version 1" } @shards;
is(misplaced(), $inactive, 'nothing is there');
is(misplaced_keys(q{'public.big'}), $inactive, 'nor are keys');
on_main(q{SELECT shardring.push_version('orders', 1)});
is(misplaced(), $inactive, 'not active there');
on_main(q{SELECT shardring.push_version('orders', 1, activate => true)});
is( misplaced(),
	join("\n", map { qq{$_||||no table has a guard for ring "orders"} }
		@shards),
	'nothing is guarded');

# columns in another order on each shard, and one that is no more
my %columns = (
	a => 'gone bigint, note text, id bigint PRIMARY KEY, at timestamptz',
	b => 'id bigint PRIMARY KEY, gone text, at timestamptz, note text',
	c => 'at timestamptz, gone uuid, note text, id bigint PRIMARY KEY');
foreach my $name (@shards)
{
	on($name, qq{
		CREATE TABLE public.big ($columns{$name});
		ALTER TABLE public.big DROP COLUMN gone;
		SELECT shardring.add_guard('orders', 'public.big', 'id');
		INSERT INTO public.big (id, note, at)
		SELECT i, i || ' of one million', '2026-01-01'
		FROM generate_series(1, 1000000) AS i WHERE } . home('i', $name) . ';
		VACUUM ANALYZE public.big');
}
$other->safe_psql('postgres', q{ALTER DATABASE a SET timezone = 'Asia/Tokyo';
	ALTER DATABASE b SET datestyle = 'German'});
is(on_main(q{SELECT sum((s.row ->> 'count')::bigint) FROM shardring.on_shards(
		'orders', 'SELECT count(*) FROM public.big') AS s}),
	1_000_000, 'a million rows');
is(misplaced(), '', 'none is misplaced');
is(misplaced_keys(q{'public.big'}), '', 'so no key is');

# where it is, where it should be, how many
my @planted = ([ 'a', 'b', 17 ], [ 'a', 'c', 5 ], [ 'c', 'a', 1 ]);
my @keys;
foreach my $case (@planted)
{
	my ($on, $for, $rows) = @$case;
	my @these = split /\n/, on_main(qq{
		SELECT i FROM generate_series(1000001, 1001000) AS i
		WHERE } . home('i', $for) . " LIMIT $rows");
	plant($on, qq{INSERT INTO public.big (id, note, at)
		SELECT k, 'stray', '2026-01-02 00:00+00'
		FROM unnest('{@{[ join ',', @these ]}}'::bigint[]) AS k});
	push @keys, map { [ $on, $_, $for, 'none' ] } @these;
}
is( misplaced(),
	join("\n", map { "$_->[0]|public.big|$_->[1]|$_->[2]|" } @planted),
	'all that were planted, and nothing else');
is(misplaced(q{, 'public.big'}), misplaced(), 'of one table');

# at home, the first one is there too, and the second one is another
my ($same, $different) = map { $_->[1] } @keys[ 0, 1 ];
on('b', qq{INSERT INTO public.big (id, note, at) VALUES
	($same, 'stray', '2026-01-02 00:00+00'), ($different, 'other', NULL)});
@{$_}[3] = 'same row' foreach ($keys[0]);
@{$_}[3] = 'different row' foreach ($keys[1]);
my @lines = map { join('|', @$_) . '|' }
  sort { $a->[0] cmp $b->[0] || $a->[1] cmp $b->[1] } @keys;
is(misplaced_keys(q{'public.big'}), join("\n", @lines),
	'the keys, and what is at home');
is(misplaced_keys(q{'public.big', 3}), join("\n", @lines[ 0 .. 2 ]),
	'the first three');
is( misplaced(),
	join("\n", map { "$_->[0]|public.big|$_->[1]|$_->[2]|" } @planted),
	'nothing was deleted');

# ---------- tables of every form ----------

is( misplaced_keys(qq{'public.big', $_}) =~ /^\Q$lines[0]\E/ ? 'some' : '',
	'some', "max_keys = $_") foreach (1, 1000);
foreach my $call ('misplaced_keys(NULL, \'x\')',
	q{misplaced_keys('orders', NULL)},
	q{misplaced_keys('orders', 'public.big', NULL)}, 'misplaced(NULL)')
{
	is(sqlstate_of($main, 'postgres', "SELECT shardring.$call"),
		'22004', $call);
}
foreach my $most (0, -1, 1001, 2147483647)
{
	is( sqlstate_of($main, 'postgres', "SELECT shardring.misplaced_keys("
			  . "'orders', 'public.big', $most)"),
		'22023', "max_keys = $most");
}
is( sqlstate_of($main, 'postgres', q{SELECT shardring.misplaced('größe')}),
	'42704', 'no such ring');

my $odd = '"Odd ""schema"""."größe \' 1"';
foreach my $name (@shards)
{
	on($name, qq{
		CREATE SCHEMA "Odd ""schema""";
		CREATE TABLE $odd (value point, "Kéy ""1""" text NOT NULL);
		SELECT shardring.add_guard('orders', '} . $odd =~ s/'/''/gr . qq{',
			'Kéy "1"');
		INSERT INTO $odd ("Kéy ""1""") SELECT 'ü' || i || '''"'
		FROM generate_series(1, 100) AS i
		WHERE } . home(q{('ü' || i || '''"')}, $name));
}
plant('b', qq{INSERT INTO $odd SELECT NULL, k
	FROM unnest('{w,x,y,z}'::text[]) AS k WHERE NOT } . home('k', 'b'));
my $strays = on('b', qq{SELECT shardring.shard_for('orders', "Kéy ""1"""),
	count(*) FROM $odd WHERE NOT } . home('"Kéy ""1"""', 'b')
	. ' GROUP BY 1 ORDER BY 1');
isnt($strays, '', 'there are some');
my $literal = q{'} . $odd =~ s/'/''/gr . q{'};
is(misplaced(", $literal"), $strays =~ s/^(.*)$/b|$odd|$1|/mgr,
	'quoted names and keys that are not ASCII');
like(misplaced_keys($literal), qr/\Ab\|[w-z]\|[ac]\|none\|/, 'and its keys');
plant('b', "DELETE FROM $odd WHERE \"Kéy \"\"1\"\"\" <= 'z'");
is(misplaced(", $literal"), '', 'none again');

# keys that are NULL belong nowhere
on('a', 'CREATE TABLE public.hollow (k integer NOT NULL);'
	. q{SELECT shardring.add_guard('orders', 'public.hollow', 'k');
		ALTER TABLE public.hollow ALTER k DROP NOT NULL});
plant('a', 'INSERT INTO public.hollow VALUES (NULL), (NULL)');
is( misplaced(q{, 'public.hollow'}),
	'a|public.hollow||2|' . "\n" . join("\n",
		map { qq{$_||||relation "public.hollow" does not exist} } qw(b c)),
	'NULL belongs nowhere; a table that is missing elsewhere is an error');
like(misplaced_keys(q{'public.hollow'}), qr/\Aa\|\|\|\|\nb\|\|\|\|relation/,
	'and is nowhere else');
on('a', 'DROP TABLE public.hollow');

# a partition has the guard of its parent, and is counted once
on('a', q{
	CREATE TABLE public.parts (k bigint NOT NULL) PARTITION BY RANGE (k);
	CREATE TABLE public.part PARTITION OF public.parts DEFAULT;
	CREATE TRIGGER zz_guard BEFORE INSERT ON public.parts
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'k')});
plant('a', 'INSERT INTO public.parts SELECT i FROM generate_series(1, 9) AS i'
	  . ' WHERE ' . home('i', 'b'));
my $parts = on('a', 'SELECT count(*) FROM public.parts');
is( misplaced() =~ s/^.*\|public\.big\|.*\n//mgr =~ s/^c.*//mr,
	"a|public.parts|b|$parts|\n", 'a partitioned table');
on('a', 'DROP TABLE public.parts');

# what cannot be counted does not keep others from it
on('c', q{
	CREATE COLLATION public.loose (provider = icu, locale = 'und',
		deterministic = false);
	CREATE TABLE public.loose (k text COLLATE public.loose);
	CREATE TRIGGER zz_guard BEFORE INSERT ON public.loose
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'k')});
my $before = join "\n",
  map { "$_->[0]|public.big|$_->[1]|$_->[2]|" } @planted;
is( misplaced(), "$before\nc|public.loose|||"
	  . 'column "k" has a nondeterministic collation and cannot be a key',
	'a nondeterministic collation');
on('c', 'ALTER TABLE public.loose RENAME k TO renamed');
is( misplaced(q{, 'public.loose'}) =~ s/^[ab].*\n//mgr,
	'c|public.loose|||column "k" of relation "loose" does not exist',
	'a key column that was renamed');
on('c', 'DROP TABLE public.loose');

is(misplaced(q{, 'big'}),
	join("\n", map { qq{$_||||relation "big" does not exist} } @shards),
	'names need their schema');
is(misplaced(q{, 'pg_class'}),
	join("\n",
		map { qq{$_||||table pg_class has no guard for ring "orders"} }
		@shards),
	'a table that is not guarded');
on('a', 'ALTER TABLE public.big DISABLE TRIGGER zz_guard');
is(misplaced(), $before, 'a guard that is disabled says as much');
on('a', 'ALTER TABLE public.big ENABLE TRIGGER zz_guard');

# ---------- what a monitor reads ----------

sub metrics
{
	return on_main(q{SELECT name, labels, value FROM shardring.metrics()
		WHERE name !~ 'timestamp'});
}

my $versions = q(shardring_active_version|{"ring": "orders"}|1
shardring_draft_versions|{"ring": "orders"}|0);
my $counts = q(shardring_misplaced_errors|{"ring": "orders"}|0
shardring_misplaced_rows|{"ring": "orders"}|23);
my $rest = q(shardring_sealed_versions|{"ring": "orders"}|1
shardring_shards|{"ring": "orders"}|3);
misplaced();
is(metrics(), "$versions\n$counts\n$rest", 'what was found last');
is(on_main(q{SELECT count(*) FROM shardring.metrics()
	WHERE name ~ '^shardring_[a-z]+(_[a-z]+)*$' AND help ~ '^[A-Z].*\.$'
		AND value IS NOT NULL}), '9', 'names, and help, as Prometheus has them');
is(on_main(q{SELECT now() - to_timestamp(value) BETWEEN '-1 s' AND '1 min'
	FROM shardring.metrics()
	WHERE name = 'shardring_misplaced_rows_timestamp_seconds'}),
	't', 'and when');
foreach my $way ('BEGIN READ ONLY; ', 'BEGIN ISOLATION LEVEL REPEATABLE READ; ')
{
	on_main('DELETE FROM shardring.finding');
	is(on_main($way . 'SELECT count(*) FROM shardring.misplaced(\'orders\')'
		  . '; COMMIT'), '3', "it counts all the same: $way");
	is(metrics(), "$versions\n$rest", 'and keeps nothing');
}
misplaced(q{, 'public.big'});
is(metrics(), "$versions\n$rest", 'nor of a single table');
on_main(q{SELECT shardring.probe('orders');
	ALTER SERVER b OPTIONS (SET port '1');
	SELECT shardring.probe('orders');
	SELECT count(*) FROM shardring.misplaced('orders')});
is( metrics(), "$versions\n" . $counts =~ s/0$/1/mr
	  . q(
shardring_sealed_versions|{"ring": "orders"}|1
shardring_shard_failures|{"ring": "orders", "shard": "a"}|0
shardring_shard_failures|{"ring": "orders", "shard": "b"}|1
shardring_shard_failures|{"ring": "orders", "shard": "c"}|0
shardring_shards|{"ring": "orders"}|3
shardring_shards_in_sync|{"ring": "orders"}|2), 'a shard that is down');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});
on_main(q{SELECT shardring.create_ring('größe "1"')});
is( on_main(q{SELECT name, value FROM shardring.metrics()
		WHERE labels ->> 'ring' <> 'orders'}),
	"shardring_draft_versions|1\nshardring_sealed_versions|0\n"
	  . 'shardring_shards|0', 'a ring without an active version');
on_main(q{SELECT shardring.drop_ring('größe "1"')});
my $blocker = $main->background_psql('postgres');
$blocker->query_safe(q{BEGIN; SELECT count(*)
	FROM shardring.misplaced('orders')});
is(on_main(q{SET lock_timeout = '5 s'; SELECT count(*)
	FROM shardring.misplaced('orders')}), '3', 'nobody waits for another');
$blocker->query_safe('COMMIT');
$blocker->quit;

# ---------- random tables ----------

srand 20261201;
foreach my $type ('text', 'integer', 'uuid', 'character(40)', 'smallint')
{
	my $key = $type =~ /int/ ? 'i'
	  : $type eq 'uuid' ? 'md5(i::text)::uuid' : q{'k' || i};
	foreach my $name (@shards)
	{
		on($name, qq{
			DROP TABLE IF EXISTS public.small;
			CREATE TABLE public.small (v integer, k $type NOT NULL);
			SELECT shardring.add_guard('orders', 'public.small', 'k')});
		plant($name, join ';', map {
			sprintf 'INSERT INTO public.small SELECT %d, %s'
			  . ' FROM (SELECT %d AS i) AS s', rand 2, $key, 1 + rand 40
		} 1 .. 30);
	}
	my (%rows, %homes, @counts, @listed);
	foreach my $name (@shards)
	{
		my $cast = $type =~ /int/ ? 'bigint' : $type eq 'uuid' ? 'uuid' : 'text';
		foreach my $line (split /\n/, on($name, qq{SELECT k::$cast, v,
			shardring.shard_for('orders', k::$cast)
			FROM public.small ORDER BY k::$cast, v}))
		{
			my ($k, $v, $home) = split /\|/, $line;
			push @{ $rows{$name}{$k} }, $v;
			$homes{$k} = $home;
		}
	}
	foreach my $name (@shards)
	{
		my %count;
		foreach my $k (sort keys %{ $rows{$name} })
		{
			my $home = $homes{$k};
			next if $home eq $name;
			$count{$home} += @{ $rows{$name}{$k} };
			my $there = $rows{$home}{$k};
			push @listed, join '|', $name, $k, $home,
			  !$there ? 'none'
			  : "@$there" eq "@{ $rows{$name}{$k} }" ? 'same row'
			  : 'different row', '';
		}
		push @counts, map { "$name|public.small|$_|$count{$_}|" }
		  sort keys %count;
	}
	cmp_ok(@listed, '>', 20, "some are elsewhere, $type");
	is(misplaced(q{, 'public.small'}), join("\n", @counts),
		"as counted by hand, $type");
	is(misplaced_keys(q{'public.small'}), join("\n", @listed),
		"as listed by hand, $type");
}
on($_, 'DROP TABLE public.small') foreach @shards;

# ---------- shards that cannot be counted ----------

on_main(q{ALTER SERVER b OPTIONS (SET port '1')});
like(misplaced(), qr/\Aa.*\na.*\nb\|\|\|\|connection to .*\nc\|[^\n]*\z/,
	'a shard that is down is an error');
like((split /\n/, misplaced_keys(qq{'public.big'}))[0],
	qr/\Aa\|\d+\|[bc]\|(none\||\|connection to )/,
	'what home has is not known');
unlike(misplaced_keys(q{'public.big'}), qr/^a\|\d+\|b\|\w/m,
	'nor is it guessed');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});
is(misplaced(), $before, 'it is back');
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'a')});
is( misplaced(), qq{a||||same database as server "b"\n}
	  . qq{b||||same database as server "a"\nc|public.big|a|1|},
	'a database is not counted for another');
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'b')});
on_main(q{UPDATE shardring.shard SET server = 'a' WHERE shard = 'b'});
is( misplaced(), "a|public.big|c|5|\nc|public.big|a|1|",
	'what belongs to another shard of the same server is there');
is( misplaced_keys(q{'public.big'}) =~ s/\|\d+\|/||/gr,
	"a||c|none|\n" x 5 . 'c||a|none|', 'so are keys');
on_main(q{UPDATE shardring.shard SET server = NULL});

# ---------- who may ----------

my @grants = ('EXECUTE ON FUNCTION shardring.misplaced',
	'EXECUTE ON FUNCTION shardring.misplaced_keys',
	map { "EXECUTE ON FUNCTION shardring_internal.$_" } qw(ask_identities
	  ask_rows ask_servers ask_shards clean_texts expected_names
	  expected_shards keep_connections keep_finding parse_rows push_targets query_shards require_active
	  shard_problem sound_answers sound_servers stray_keys));
on_main(q{CREATE ROLE reader LOGIN});
is( on_main(q{SELECT string_agg(g, E'\n' ORDER BY g)
		FROM shardring.grants('reader', '{misplaced,misplaced_keys}') AS g}) =~ s/\([^()]*\)//gr,
	'GRANT EXECUTE ON ROUTINE ' . join(', ', sort map { /FUNCTION (.*)/ } @grants)
	  . " TO reader;\nGRANT INSERT, UPDATE ON shardring.finding TO reader;",
	'what grants says');
on_main(q{SELECT shardring.grants('reader', '{misplaced,misplaced_keys}') \gexec});
on_main(qq{
	GRANT USAGE ON FOREIGN SERVER $_ TO reader;
	CREATE USER MAPPING FOR reader SERVER $_
	OPTIONS (user 'reader', password 'x')}) foreach @shards;
$other->safe_psql('postgres', q{CREATE ROLE reader LOGIN PASSWORD 'x'});
on($_, "GRANT USAGE ON SCHEMA \"Odd \"\"schema\"\"\" TO reader;
	GRANT SELECT ON public.big, $odd TO reader") foreach @shards;
my $hba = slurp_file($other->data_dir . '/pg_hba.conf');
unlink $other->data_dir . '/pg_hba.conf';
append_to_file($other->data_dir . '/pg_hba.conf',
	"local all reader scram-sha-256\n$hba");
$other->reload;
my $as_reader = 'SET SESSION AUTHORIZATION reader; ';
my $count = q{SELECT m.shard, m.relation, m.belongs_to, m.rows, m.error
	FROM shardring.misplaced('orders') AS m};
my $list = q{SELECT m.* FROM shardring.misplaced_keys('orders', 'public.big')
	AS m};
is(on_main($as_reader . $count), $before, 'a reader counts');
is(on_main($as_reader . $list), misplaced_keys(q{'public.big'}),
	'a reader lists');
foreach my $grant (@grants)
{
	my $both = $grant =~ /misplaced$/ ? $count : $list;
	$both = $count if $grant =~ /clean_texts|keep_finding/;
	is( sqlstate_of($main, 'postgres',
			"BEGIN; REVOKE $grant FROM reader; $as_reader$both"),
		'42501', "needed: $grant");
}
on('a', "REVOKE SELECT ON $odd FROM reader");
like(on_main($as_reader . $count) =~ s/^(?!a\|"Odd).*\n?//mgr,
	qr/\Aa\|\Q$odd\E\|\|\|permission denied for table/,
	'a table that may not be read is an error');
on('a', "GRANT SELECT ON $odd TO reader;
	ALTER TABLE public.big ENABLE ROW LEVEL SECURITY");
like(on_main($as_reader . $count),
	qr/^a\|public.big\|\|\|query would be affected by row-level security/m,
	'rows that are hidden are an error');
on('a', 'ALTER TABLE public.big DISABLE ROW LEVEL SECURITY');

# ---------- other versions, other answers ----------

on('c', q{
	CREATE OR REPLACE FUNCTION shardring.misplaced_here(ring text,
		version integer, only_relation text DEFAULT NULL,
		expected_shards jsonb DEFAULT NULL)
	RETURNS TABLE (relation text, belongs_to text, rows bigint,
		moving bigint, error text)
	LANGUAGE sql AS $$ SELECT E'x\ny', 'a', -1, 0, NULL $$;
	CREATE OR REPLACE FUNCTION shardring.misplaced_keys_here(ring text,
		version integer, relation text, max_keys integer,
		expected_shards jsonb DEFAULT NULL)
	RETURNS TABLE (key text, belongs_to text)
	LANGUAGE sql AS $$ SELECT 'x', 'nobody' $$});
like(misplaced(), qr/\nc\|x y\|a\|\|the answer is not that of a shard\z/,
	'a count that is none');
like(misplaced_keys(q{'public.big'}),
	qr/\nc\|x\|nobody\|\|the answer is not that of a shard\z/,
	'a shard that is none');
on('b', q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'h', 2);
	SELECT shardring.activate('orders')});
is( misplaced() =~ s/^[ac].*\n?//mgr, "b||||the map has version 1\n",
	'a shard with another version is an error');
ok( $other->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name = 'shardring'}),
	'no session is left');

$main->stop;
$other->stop;
done_testing();
