
# routers.pl
#	Without a proxy: pgbouncer's databases are the shards, and an application
#	that keeps the ring as a document learns from SR001 that it is old; through
#	a whole switch, no key that stays is refused.

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

# PATIENCE, if it is not to be the default.
sub start_router
{
	my %router = (in => '', out => '');
	$router{harness} = IPC::Run::start(
		[ '/usr/bin/python3', 'extension/doc/examples/router.py', 'orders',
			$main->connstr('postgres'), $pool, @_ ],
		'<', \$router{in}, '>', \$router{out}, IPC::Run::timeout(180));
	return \%router;
}

# Gives a router keys to write and read.
sub send_keys
{
	my ($router, @keys) = @_;
	$router->{sent} += @keys;
	$router->{in} .= join '', map { "$_\n" } @keys;
	$router->{harness}->pump_nb;
	return;
}

# Waits until it is through with all, and returns a row a key: key, shard,
# version of its map, how often it has read the map, how often it was refused.
sub answers
{
	my ($router) = @_;
	$router->{harness}->pump
	  until $router->{out} =~ tr/\n// == $router->{sent};
	my @rows = map { [ split / / ] } split /\n/, $router->{out};
	$router->{out} = '';
	$router->{sent} = 0;
	return @rows;
}

my $router = start_router();

sub route
{
	send_keys($router, @_);
	return answers($router);
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
like(join(' ', map { "$_->[2]$_->[3]" } @second),
	qr/^(10 )*21( 21)*$/, 'refreshed once, when the first key had moved');
is($second[-1][4], 1, 'which was the only refusal');
for my $row (@first, @second)
{
	my ($key, $shard) = @$row;
	my $version = $key =~ /first/ ? 1 : 2;
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

# Before a server starts that would inherit the end of its pipe.
$router->{harness}->finish;

# ---------- a whole switch, with routers that go on ----------

# The order of doc/plproxy.md, without a proxy: the map is the server with the
# ring.  One router writes and reads keys that stay, the other keys that move.
$shard{s3} = new_shard('s3');
add_address($main, $shard{s3});
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g3', ARRAY['s3']);
	SELECT shardring.seal('orders')});
write_databases();
pooler('RELOAD');
my @sources = qw(s0 s1 s2);

# The rows of the first part that version 2 had left on s0 and s1.
$shard{$_}->safe_psql('postgres', 'TRUNCATE held') for @sources;
my (%keys, %router);
for my $kind (qw(stay move))
{
	my $not = $kind eq 'stay' ? 'NOT' : '';
	$keys{$kind} = [ split /\n/, on_main(qq{
		SELECT 'key:' || i FROM generate_series(1, 4000) AS i
		WHERE $not shardring.moves('orders', 2, 3, 'key:' || i) LIMIT 400}) ];
	$router{$kind} = start_router(600);
}

sub go_on
{
	my ($kind) = @_;
	send_keys($router{$kind}, splice @{ $keys{$kind} }, 0, 15);
	return;
}

sub pairs
{
	my ($command) = @_;
	for my $from (@sources)
	{
		my $output;
		IPC::Run::run([ 'extension/doc/examples/copy_rows.sh', $command,
				'orders', 2, 3, 'held',
				map { $_ => $shard{$_}->connstr('postgres') } $from, 's3' ],
			'>&', \$output)
		  or die "$command $from: $output";
	}
	return;
}

sub drain
{
	$_->safe_psql('postgres', q{SELECT shardring.wait_for_drain('orders', 3)})
	  for @_;
	return;
}

# A hold that ends by itself, as in a move whose rows flow.
sub lease
{
	my $document = on_main(q{
		SELECT jsonb_build_object(
			'from_version', 2, 'to_version', 3, 'lease', '2 s',
			'from_fingerprint', min(fingerprint) FILTER (WHERE version = 2),
			'to_fingerprint', min(fingerprint) FILTER (WHERE version = 3))
		FROM shardring.ring_version WHERE ring = 'orders'});
	for my $step (qw(set close))
	{
		$shard{$_}->safe_psql('postgres', qq{
			SELECT shardring.move_step('orders', '$step', 1, '$document')})
		  for @sources;
	}
	my $key = $keys{move}[0];
	my $source =
	  on_main(qq{SELECT shardring.shard_for('orders', '$key', 2)});
	($status, $stdout, $error) = $shard{$source}->psql('postgres',
		"INSERT INTO held VALUES ('$key')",
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	like($error,
		qr/ERROR:  SR003: .*\nDETAIL:  version=3 group="g3" slot=0 shard="s3"\n/,
		'SR003 says where the key goes');
	return;
}

my (@stay, @moved);
my @steps = (
	[ 'push', sub {
		on_main(q{
			SELECT shardring.push_version('orders', 2, '{s3}', activate => true);
			SELECT shardring.push_version('orders', 3)});
		Shards::add_guard($shard{s3}) } ],
	[ 'copy', sub { pairs('copy') } ],
	[ 'lease', \&lease ],
	[ 'fence', sub { on_main(q{CALL shardring.fence('orders', 3)}) } ],
	[ 'copy again', sub { pairs('copy'); pairs('compare') } ],
	[ 'switch', sub {
		on_main(q{CALL shardring.switch_fenced('orders')}); drain($main) } ],
	[ 'clean', sub { pairs('clean-source') } ]);
for my $step (@steps)
{
	my ($name, $do) = @$step;
	go_on($_) for qw(stay move);
	$do->();
	go_on($_) for qw(stay move);
	push @stay, answers($router{stay});
	push @moved, answers($router{move})
	  if $name !~ /^(fence|copy again)$/;
}
is(scalar @stay, 14 * 15, 'all keys that stay were written and read');
is($stay[-1][4], 0, 'and none of them was refused');
is(scalar @moved, 14 * 15, 'all keys that move were written and read');
cmp_ok($moved[-1][4], '>', 0, 'and were refused behind the fence');

my %held;
for my $name (sort keys %shard)
{
	$held{$_} .= $name for split /\n/, list_keys($shard{$name});
}
my $sent = join ',', map { $_->[0] } @stay, @moved;
my %wanted = map { split /\|/ } split /\n/, on_main(qq{
	SELECT k, shardring.shard_for('orders', k)
	FROM unnest('{$sent}'::text[]) AS k});
is_deeply(\%held, \%wanted, 'nothing is lost, doubled or misplaced');

# The last one first: it has inherited the end of the other's pipe.
$_->{harness}->finish for @router{qw(move stay)};
$pgbouncer->signal('TERM');
$pgbouncer->finish;
$_->stop for $main, values %shard;
done_testing();
