
# cluster.pl
#	The tables of a ring on all its shards, from the map: guarded everywhere or
#	nowhere, by roles with and without the right to, while shards are dead, have
#	another table, or none; and the servers that have its map without being shards.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

my $main = new_server('main');
my $other = new_server('other');
my ($host, $port) = ($other->host, $other->port);

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

# A shard is a database of the other server that does not say who it is.
sub add_shard
{
	my ($name) = @_;
	$other->safe_psql('postgres', qq{CREATE DATABASE "$name"});
	$other->safe_psql($name, q{
		CREATE EXTENSION shardring;
		CREATE TABLE held (key text PRIMARY KEY, other text NOT NULL)});
	on_main(qq{
		CREATE SERVER "$name" FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$port', dbname '$name')});
	return;
}

# What guard_table returns, or how it fails.
sub guard_table
{
	my ($arguments, $before) = @_;
	$before //= '';
	my ($status, $out, $error) = $main->psql('postgres', $before . qq{
		SELECT g.* FROM shardring.guard_table($arguments) AS g},
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $error =~ /ERROR:\s+(.*)/ ? $1 : $out;
}

sub tables
{
	return on_main(q{SELECT t.* FROM shardring.tables('orders') AS t});
}

# The name of a shard, its active version and the guards it has.
sub state_of
{
	my ($name) = @_;
	return $other->safe_psql($name, q{
		SELECT i.shard, r.active_version,
			(SELECT string_agg(t.tgname, ' ' ORDER BY t.tgname)
			 FROM pg_trigger AS t
			 WHERE t.tgrelid = 'held'::regclass AND NOT t.tgisinternal)
		FROM shardring.shard_identity() AS i
			LEFT JOIN shardring.ring AS r ON r.ring = 'orders'});
}

sub dead
{
	my ($name, $is_dead) = @_;
	my $there = $is_dead ? 1 : $port;
	on_main(qq{ALTER SERVER "$name" OPTIONS (SET port '$there')});
	return;
}

on_main('CREATE EXTENSION postgres_fdw');
add_shard($_) for qw(a b c d);
on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b', 'c'], 3)});
my @all = qw(a b c);
my $ok = join "\n", map { "$_|t|" } @all;
my $left = 'left as it was';

# ---------- refused before anything is asked ----------

is(guard_table(q{'orders', 'public.held', 'key'}),
	'55000: ring "orders" has no active version', 'nothing is active here');
on_main(q{SELECT shardring.activate('orders')});
for my $relation ('held', '', 'a.b.c', 'public.',
	'public.held; DROP TABLE held', 'x' x 100000)
{
	like(guard_table(qq{'orders', '$relation', 'key'}),
		qr/^(22023: relation must be a schema and a table|22023: string is not a valid identifier.*)$/,
		'not qualified: ' . substr $relation, 0, 30);
}
like(guard_table($_), qr/^22004: /, "NULL: $_")
  for q{NULL, 'a.b', 'key'}, q{'orders', NULL, 'key'}, q{'orders', 'a.b', NULL};
is(guard_table(q{'none', 'a.b', 'key'}), '42704: ring "none" does not exist',
	'no ring');

# ---------- on all or on none ----------

# one is dead
dead('b', 1);
like(guard_table(q{'orders', 'public.held', 'key'}),
	qr/^a\|f\|$left\nb\|f\|.*(?:No such|refused).*\nc\|f\|$left$/, 'one is dead');
is(state_of($_), '||', "nothing has reached $_") for @all;
dead('b', 0);

# the table is missing on one
$other->safe_psql('b', 'ALTER TABLE held RENAME TO gone');
is(guard_table(q{'orders', 'public.held', 'key'}),
	"a|f|$left\nb|f|table public.held does not exist\nc|f|$left",
	'one has no such table');
is(state_of($_), '||', "nothing has reached $_") for qw(a c);
$other->safe_psql('b', 'ALTER TABLE gone RENAME TO held');

# what add_guard refuses
$other->safe_psql('c', 'ALTER TABLE held ALTER other DROP NOT NULL');
is(guard_table(q{'orders', 'public.held', 'other'}),
	"a|f|$left\nb|f|$left\nc|f|column \"other\" of table public.held may be null",
	'one may be null');
is( $other->safe_psql('c', q{SELECT c.* FROM
		shardring.check_guard('orders', 'public.held', 'other') AS c}),
	'f|column "other" of table public.held may be null|'
	  . 'ALTER TABLE public.held ALTER other SET NOT NULL;',
	'and the shard says what helps');

# It fails only when it is made: the others give their guards back, but not
# one that was there before.
$other->safe_psql('c', q{
	CREATE FUNCTION no() RETURNS event_trigger LANGUAGE plpgsql
	AS 'BEGIN RAISE ''no triggers today''; END';
	CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('CREATE TRIGGER')
	EXECUTE FUNCTION no()});
is(guard_table(q{'orders', 'public.held', 'key'}),
	"a|f|taken back\nb|f|taken back\nc|f|no triggers today", 'taken back');
is(state_of('a'), 'a|1|', 'the name and the version stay');
is(state_of('b'), 'b|1|', 'there too');
is(state_of('c'), '|1|', 'the one that failed has no name');
$other->safe_psql('a', q{SELECT shardring.add_guard('orders', 'held', 'key')});
is(guard_table(q{'orders', 'public.held', 'key'}),
	"a|f|$left\nb|f|taken back\nc|f|no triggers today",
	'a guard that was there before is kept');
is(state_of('a'), 'a|1|zz_guard zz_guard_statement zz_guard_truncate', 'and is there');
$other->safe_psql('c', 'DROP EVENT TRIGGER no');
is(guard_table(q{'orders', 'public.held', 'key'}), $ok, 'on all');
is(state_of($_), "$_|1|zz_guard zz_guard_statement zz_guard_truncate", "guarded: $_") for @all;
is(guard_table(q{'orders', '"public".HELD', 'key'}), $ok, 'once more');
isnt($other->psql('a', q{
		INSERT INTO held SELECT i, i FROM generate_series(1, 99) AS i}),
	0, 'and they guard');
is(guard_table(q{'orders', 'public.held', 'other'}),
	join("\n", (map { "$_|f|table public.held already has another trigger \"zz_guard\"" } qw(a b)),
		'c|f|column "other" of table public.held may be null'),
	'but not by another column');

# ---------- which tables are there? ----------

$other->safe_psql($_, q{
	INSERT INTO held SELECT i, i FROM generate_series(1, 300) AS i
	WHERE shardring.shard_for('orders', i::text)
		= (SELECT s.shard FROM shardring.shard_identity() AS s)}) for @all;
is( on_main(q{SELECT t.relation, t.key_column, t.shards, t.rows, t.bytes > 0,
		t.problem FROM shardring.tables('orders') AS t}),
	'public.held|key|3||t|not analyzed on a, b, c', 'rows are not known');
$other->safe_psql($_, 'ANALYZE held') for @all;
my $bytes = 0;
$bytes += $other->safe_psql($_, q{SELECT pg_total_relation_size('held')}) for @all;
is(tables(), "public.held|key|3|300|$bytes|", 'rows and bytes are summed');
$other->safe_psql('a', 'ALTER TABLE held DISABLE TRIGGER zz_guard');
$other->safe_psql('b', q{SELECT shardring.drop_guard('held')});
$other->safe_psql('b', q{SELECT shardring.drop_guard('held')});
is( on_main(q{SELECT t.shards, t.problem FROM shardring.tables('orders') AS t}),
	'2|not on b; disabled on a', 'where they differ');
$other->safe_psql('b', q{SELECT shardring.add_guard('orders', 'held', 'other')});
is( on_main(q{SELECT t.key_column, t.problem FROM shardring.tables('orders') AS t}),
	'key|disabled on a; other key on b', 'and by which key');
$other->safe_psql('b', q{SELECT shardring.drop_guard('held')});
$other->safe_psql('c', 'ALTER TABLE held DISABLE TRIGGER zz_guard_statement');
is( on_main(q{SELECT t.problem FROM shardring.tables('orders') AS t}),
	'not on b; disabled on a; no statement guard on c', 'of both kinds');
is(guard_table(q{'orders', 'public.held', 'key'}), $ok, 'made good');
is(tables(), "public.held|key|3|300|$bytes|", 'and the same again');
dead('b', 1);
like(tables(), qr/^public\.held\|key\|2\|\d+\|\d+\|\n\|\|\|\|\|b: .*(?:No such|refused).*$/,
	'one that does not answer is a row');
dead('b', 0);
is(on_main(q{SELECT count(*) FROM shardring.create_ring('empty') AS e,
		shardring.tables('empty')}), 0, 'no shards, no tables');

# ---------- a shard that joins, and a switch under way ----------

on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'h', ARRAY['d'])});
is(guard_table(q{'orders', 'public.held', 'key'}), "$ok\nd|t|",
	'the shard of a draft too');
is(state_of('d'), 'd|1|zz_guard zz_guard_statement zz_guard_truncate', 'and it has what is active');
isnt($other->psql('d', q{INSERT INTO held VALUES ('1', '1')}), 0,
	'and lets nothing in');
on_main(q{
	SELECT shardring.seal('orders');
	SELECT shardring.push_version('orders', 2);
	SELECT shardring.push_version('orders', 2, ARRAY['a'], activate => true)});
is(guard_table(q{'orders', 'public.held', 'key'}),
	"a|f|the map has version 1\nb|f|$left\nc|f|$left\nd|f|$left",
	'not while a switch is under way');
on_main(q{
	SELECT shardring.push_version('orders', 2, ARRAY['b', 'c'],
								  activate => true);
	SELECT shardring.push_version('orders', 2, activate => true);
	SELECT shardring.activate('orders')});
is(guard_table(q{'orders', 'public.held', 'key'}), "$ok\nd|t|", 'but after it');

# several shards in one database cannot be guarded
on_main(q{UPDATE shardring.shard SET server = 'c' WHERE shard = 'd'});
is(guard_table(q{'orders', 'public.held', 'key'}),
	"a|f|$left\nb|f|$left\n"
	  . "c|f|several shards are on server \"c\"\n"
	  . 'd|f|several shards are on server "c"', 'two shards on one server');
is( on_main(q{SELECT t.shards, t.rows FROM shardring.tables('orders') AS t}),
	'4|300', 'whose rows are counted once');
on_main(q{UPDATE shardring.shard SET server = NULL WHERE shard = 'd'});

# ---------- routers ----------

$other->safe_psql('postgres', 'CREATE DATABASE r');
$other->safe_psql('r', 'CREATE EXTENSION shardring');
on_main(qq{CREATE SERVER r FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '$host', port '$port', dbname 'r')});

# What a call returns, or how it fails.
sub call
{
	my ($columns, $call) = @_;
	my ($status, $out, $error) = $main->psql('postgres',
		"SELECT $columns FROM shardring.$call AS c",
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $error =~ /ERROR:\s+(.*)/ ? $1 : $out;
}

my $pushed = 'c.shard, c.ok, c.error, c.active_version, c.router';
my $status = 'c.shard, c.in_sync, c.version, c.problem, c.router';
my $dropped = 'c.shard, c.ok, c.error, c.dropped, c.router';
is(call('*', $_->[0]), $_->[1], $_->[0])
  for ([ q{add_router(NULL, 'r')}, '22004: argument "ring" must not be null' ],
	[ q{add_router('orders', NULL)}, '22004: argument "server" must not be null' ],
	[ q{add_router('none', 'r')}, '42704: ring "none" does not exist' ],
	[ q{add_router('orders', '')}, '22023: server name must be 1 to 63 bytes long in UTF-8' ],
	[ q{add_router('orders', 'größe')}, '42704: server "größe" does not exist' ],
	[ q{add_router('orders', 'a')}, '55000: server "a" is that of shard "a"' ],
	[ q{remove_router('orders', 'r')}, '42704: ring "orders" has no router "r"' ],
	[ q{remove_router('orders', NULL)}, '22004: argument "server" must not be null' ],
	[ q{add_router('orders', 'r')}, '' ],
	[ q{add_router('orders', 'r')}, '' ]);
my $in_sync = join "\n", map { "$_|t|2||" } qw(a b c d);
is(call($status, q{shard_status('orders')}),
	"$in_sync\n|f||the map has version 2|r", 'a router has nothing at first');
is(call($pushed, q{push_version('orders', 2)}),
	join("\n", (map { "$_|t||2|" } qw(a b c d)), '|t|||r'), 'pushed to');
is(call($pushed, q{push_version('orders', 2, activate => true)}),
	join("\n", (map { "$_|t||2|" } qw(a b c d)), '|t||2|r'), 'and activated');
is(call($status, q{shard_status('orders')}), "$in_sync\n|t|2||r", 'in sync');
is(call('c.shard, c.server, c.in_sync', q{shard_details('orders')}),
	join("\n", (map { "$_|$_|t" } qw(a b c d)), '|r|t'), 'in full');
is(call('string_agg(c.shard, $$ $$)', q{probe('orders')}), 'a b c d',
	'probes are of shards');
is(guard_table(q{'orders', 'public.held', 'key'}), "$ok\nd|t|",
	'and guards are on shards');

# activated after all shards, and not when shards are named
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.seal('orders')});
is(call($pushed, q{push_version('orders', 3, ARRAY['a'], true)}), 'a|t||3|',
	'shards that are named');
is($other->safe_psql('r', q{SELECT max(version) FROM shardring.ring_version}),
	2, 'not to the router');
is(call($pushed, q{push_version('orders', 3, activate => true)}),
	join("\n", (map { "$_|t||3|" } qw(a b c d)), '|t||3|r'), 'then everywhere');
my %at = map { $_ => $other->safe_psql($_, q{
	SELECT a.activated_at AT TIME ZONE 'UTC' FROM shardring.activation AS a
	WHERE a.version = 3}) } qw(b c d r);
ok($at{r} gt $at{$_}, "after $_") for qw(b c d);
on_main(q{SELECT shardring.activate('orders')});

# dead, or a shard
dead('r', 1);
like(call($pushed, q{push_version('orders', 3, activate => true)}),
	qr/^(?:[abcd]\|t\|\|3\|\n){4}\|f\|.*(?:No such|refused).*\|\|r$/s,
	'a dead router is a row');
like(call($status, q{shard_status('orders')}),
	qr/^(?:[abcd]\|t\|3\|\|\n){4}\|f\|\|.*\|r$/, 'and no more');
dead('r', 0);
$other->safe_psql('postgres', q{ALTER DATABASE r SET shardring.shard = 'x'});
is(call($pushed, q{push_version('orders', 3)}),
	join("\n", (map { "$_|t||3|" } qw(a b c d)),
		'|f|the server is shard "x"||r'), 'one that says it is a shard');
$other->safe_psql('postgres', q{ALTER DATABASE r RESET shardring.shard});

# versions are dropped there too
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.seal('orders');
	SELECT shardring.push_version('orders', 4)});
$other->safe_psql('r', q{SELECT shardring.activate('orders', 4)});
is(call($dropped, q{drop_version_on_shards('orders', 4)}),
	join("\n", (map { "$_|t||{4}|" } qw(a b c d)),
		'|f|version 4 of ring "orders" is active|{}|r',
		'|f|version 4 of ring "orders" is active on router "r"|{}|'),
	'but not where it is active');
on_main(q{
	SELECT shardring.push_version('orders', 4, activate => true);
	SELECT shardring.activate('orders')});
is(call($dropped, q{prune_on_shards('orders', 0)}),
	join("\n", (map { "$_|t||{1,2,3}|" } qw(a b c)), 'd|t||{1,2,3}|',
		'|t||{2,3}|r', '|t||{1,2,3}|'), 'and pruned');
is(call('*', q{remove_router('orders', 'r')}), '', 'removed');
is(call($status, q{shard_status('orders')}), $in_sync =~ s/\|2\|/|4|/gr,
	'and not asked any more');
is(call('count(*)', q{create_ring('gone') AS g, shardring.add_router('gone', 'r')}),
	1, 'a ring without shards');
isnt($main->psql('postgres', 'TRUNCATE shardring.router'), 0,
	'not to be truncated');
on_main(q{SELECT shardring.drop_ring('gone')});
is(on_main('SELECT count(*) FROM shardring.router'), 0,
	'and leaves none behind');

# ---------- names of all kinds ----------

$other->safe_psql($_, q{
	CREATE SCHEMA "Größe ""x"" %";
	CREATE TABLE "Größe ""x"" %"."T'ür.\ %" ("Schlüssel '; --" bigint NOT NULL)})
  for qw(a b c d);
is( guard_table(q{'orders', '"Größe ""x"" %"."T''ür.\ %"',
		'Schlüssel ''; --'}), "$ok\nd|t|", 'names of all kinds');
is( on_main(q{SELECT t.relation, t.key_column, t.shards
		FROM shardring.tables('orders') AS t LIMIT 1}),
	q{"Größe ""x"" %"."T'ür.\ %"|Schlüssel '; --|4}, 'and are read back');

# ---------- who may ----------

# What the reference asks for.  The map's role has a password that its mapping
# knows; the shards' role owns the tables and, where the name is missing, the
# database, with SET on the parameter.
on_main(q{
	CREATE ROLE operator LOGIN;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardring, shardring_internal
		TO operator;
	GRANT USAGE ON FOREIGN SERVER a, b, c, d TO operator});
on_main(qq{CREATE USER MAPPING FOR operator SERVER $_
	OPTIONS (user 'keeper', password 'geheim-8')}) for qw(a b c d);
$other->safe_psql('postgres', q{
	SET password_encryption = 'scram-sha-256';
	CREATE ROLE keeper LOGIN PASSWORD 'geheim-8'});
append_to_file($other->data_dir . '/hba.new',
	"local all keeper scram-sha-256\nhost all keeper all scram-sha-256\n"
	  . slurp_file($other->data_dir . '/pg_hba.conf'));
rename $other->data_dir . '/hba.new', $other->data_dir . '/pg_hba.conf';
$other->reload;
my $as_operator = 'SET SESSION AUTHORIZATION operator; ';
$other->safe_psql($_, q{
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardring, shardring_internal
		TO keeper}) for qw(a b c d);
is( guard_table(q{'orders', 'public.held', 'key'}, $as_operator),
	join("\n", map { "$_|f|must be owner of table public.held" } qw(a b c d)),
	'not the owner of the table');
$other->safe_psql($_, 'ALTER TABLE held OWNER TO keeper') for qw(a b c d);
is(guard_table(q{'orders', 'public.held', 'key'}, $as_operator), "$ok\nd|t|",
	'the owner may');
$other->safe_psql('d', q{
	SELECT shardring.drop_guard('held');
	ALTER DATABASE d RESET shardring.shard});
my $no_name = "a|f|$left\nb|f|$left\nc|f|$left\n"
  . 'd|f|setting shardring.shard needs superuser or owner + SET';
is(guard_table(q{'orders', 'public.held', 'key'}, $as_operator), $no_name,
	'but not set the name');
$other->safe_psql('postgres', 'ALTER DATABASE d OWNER TO keeper');
is(guard_table(q{'orders', 'public.held', 'key'}, $as_operator), $no_name,
	'the owner of the database neither');
$other->safe_psql('postgres', 'GRANT SET ON PARAMETER shardring.shard TO keeper');
is(guard_table(q{'orders', 'public.held', 'key'}, $as_operator), "$ok\nd|t|",
	'who was granted SET besides may');
is(state_of('d'), 'd|4|zz_guard zz_guard_statement zz_guard_truncate', 'and did');

# ---------- as a terminal shows it ----------

my $wide = on_main(q{SELECT * FROM shardring.guard_table('orders',
	'public.held', 'nothing')},
	extra_params => [ '-P', 'format=aligned', '-P', 'tuples_only=off' ]);
is(scalar(grep { length > 80 } split /\n/, $wide), 0, '80 columns');

$_->stop for $main, $other;
done_testing();
