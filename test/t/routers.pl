
# routers.pl
#	Without a proxy: pgbouncer's databases are the shards, and an application
#	that keeps the ring as a document learns from SR001 and SR002 that it is
#	old.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

my $main = new_server('main');
my %shard = map { $_ => new_shard($_) } qw(s0 s1 s2);
my $user = $main->safe_psql('postgres', 'SELECT current_user');

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

on_main('CREATE EXTENSION postgres_fdw');
add_address($main, $_) for @shard{ sort keys %shard };
on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
	FROM generate_series(0, 1) AS i;
	SELECT shardring.activate('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g2', ARRAY['s2']);
	SELECT shardring.seal('orders');
	SELECT shardring.push_version('orders', 1, activate => true)});
Shards::add_guard($_) for values %shard;

# ---------- pgbouncer ----------

my $dir = PostgreSQL::Test::Utils::tempdir_short;
my $pool = "host='$dir' port=6432 user='$user'";

# As doc/pgbouncer.md says: to another file, rename, reload, compare.
sub write_databases
{
	append_to_file("$dir/databases.new",
		on_main(q{SELECT shardring.pgbouncer_databases('orders')}) . "\n");
	rename "$dir/databases.new", "$dir/databases.ini" or die "cannot rename";
	return;
}

sub pooler
{
	my ($command) = @_;
	my ($out, $error);
	IPC::Run::run([ 'psql', '-XAtq', '-d', "$pool dbname=pgbouncer", '-c',
			$command ], '>', \$out, '2>', \$error);
	return $out;
}

sub pool_names
{
	return join ' ',
	  sort grep { $_ ne 'pgbouncer' }
	  map { (split /\|/)[0] } split /\n/, pooler('SHOW DATABASES') // '';
}

sub through_pool
{
	my ($database, $sql) = @_;
	my $out;
	IPC::Run::run([ 'psql', '-XAtq', '-d', "$pool dbname='$database'", '-c',
			$sql ], '>', \$out);
	chomp $out;
	return $out;
}

append_to_file("$dir/users", qq{"$user" ""\n});
append_to_file("$dir/pgbouncer.ini", <<"END");
[databases]
%include $dir/databases.ini
[pgbouncer]
listen_port = 6432
unix_socket_dir = $dir
auth_type = trust
auth_file = $dir/users
admin_users = $user
pool_mode = transaction
logfile = $dir/log
pidfile = $dir/pid
END
write_databases();
my $pgbouncer =
  IPC::Run::start([ '/usr/sbin/pgbouncer', '-q', "$dir/pgbouncer.ini" ]);
for (1 .. 100)
{
	last if -S "$dir/.s.PGSQL.6432";
	select undef, undef, undef, 0.1;
}
is(pool_names(), 's0 s1 s2', 'pgbouncer has every shard');
is(through_pool($_, q{SHOW shardring.shard}), $_, "connect by name: $_")
  for sort keys %shard;

# choose the shard in SQL, and connect
my $chosen = on_main(q{SELECT shardring.shard_for('orders', 'user:7')});
through_pool($chosen, q{INSERT INTO held VALUES ('user:7', 'x')});
is(through_pool($chosen, q{SELECT h.value FROM held AS h}),
	'x', 'choose in SQL, connect, write');
$shard{$chosen}->safe_psql('postgres', 'DELETE FROM held');

# a name that pgbouncer cannot have
on_main(q{
	SELECT shardring.create_ring('odd');
	SELECT shardring.add_group('odd', 'g', ARRAY['a b']);
	SELECT shardring.activate('odd');
	UPDATE shardring.shard SET server = 's0' WHERE ring = 'odd'});
my ($failed, $nothing, $refused) = $main->psql('postgres',
	q{SELECT shardring.pgbouncer_databases('odd')});
like($refused, qr/shard name "a b" cannot be a database name in pgbouncer/,
	'a name with a space is refused');

# ---------- a router that keeps the document ----------

my ($in, $out) = ('', '');
my $router = IPC::Run::start(
	[ '/usr/bin/python3', 'extension/doc/examples/router.py', 'orders',
		$main->connstr('postgres'), $pool ],
	'<', \$in, '>', \$out, IPC::Run::timeout(180));

sub route
{
	my (@keys) = @_;
	$out = '';
	$in .= join '', map { "$_\n" } @keys;
	$router->pump until $out =~ tr/\n// == @keys;
	return map { [ split / / ] } split /\n/, $out;
}

my @first = route(map { "first:$_" } 1 .. 30);
is(join(' ', map { "$_->[2]$_->[3]" } @first),
	join(' ', ('10') x 30), 'all by version 1, never refreshed');

# Everywhere but in the router: version 2.
on_main(q{
	SELECT shardring.push_version('orders', 2, ARRAY['s0', 's1'], true);
	SELECT shardring.push_version('orders', 2, ARRAY['s2'], true);
	SELECT shardring.activate('orders')});
write_databases();
pooler('RELOAD');
my @second = route(map { "second:$_" } 1 .. 60);
is(join(' ', map { "$_->[2]$_->[3]" } @second),
	join(' ', ('21') x 60), 'all by version 2, refreshed once');
for my $row (@first, @second)
{
	my ($key, $shard, $version) = @$row;
	my $right =
	  on_main("SELECT shardring.shard_for('orders', '$key', $version)");
	die "$key went to $shard, not to $right" if $shard ne $right;
}
is( join(' ', map { list_keys($shard{$_}) =~ tr/\n// + 1 } sort keys %shard),
	join(' ', map {
		my $name = $_;
		scalar grep { $_->[1] eq $name } @first, @second } sort keys %shard),
	'each key was written once, where the router says');
ok((grep { $_->[1] eq 's2' } @second) > 5, 'the new shard too');

# What the router saw: both errors, in a form that it can read.
my ($status, $stdout, $error) = $shard{s0}->psql('postgres', q{
	SELECT shardring.require_version('orders', 1)},
	extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($error, qr/ERROR:  SR002: .*\nDETAIL:  The active version is 2\.\n/,
	'SR002 says which version is active');
my $elsewhere = on_main(q{
	SELECT min(i) FROM generate_series(1, 100) AS i
	WHERE shardring.shard_for('orders', i) = 's2'});
($status, $stdout, $error) = $shard{s0}->psql('postgres',
	"INSERT INTO held VALUES ('$elsewhere')",
	extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($error,
	qr/ERROR:  SR001: .*\nDETAIL:  version=2 group="g2" slot=0 shard="s2"\n/,
	'SR001 says where the key lives');

$router->finish;
$pgbouncer->signal('TERM');
$pgbouncer->finish;
$_->stop for $main, values %shard;
done_testing();
