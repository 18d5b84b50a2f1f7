# faults.pl
#	What ends a backend or its statement half-way: a time limit while a ring is
#	loaded for the first time, kill -9, no memory.  Afterwards no version is
#	lost or there by half, and routing is right.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;
use Time::HiRes qw(usleep);

my $seed = $ENV{SEED} // time;
srand $seed;
note "SEED=$seed";

# 80,000 points, so that loading and sealing take some time.
my $node = start_server('faults', 'restart_after_crash = on',
	'fsync = on', 'synchronous_commit = on');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
$node->safe_psql('postgres',
	    "SET client_min_messages = error;"
	  . "SELECT shardring.create_ring('r', 20000);"
	  . group_calls('r', 0 .. 3)
	  . "SELECT shardring.activate('r')");
my $routes = routes($node, 'postgres', 'r', 1000);

sub sound
{
	my ($what, @allowed) = @_;
	is($node->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
		'', "$what: no problems");
	is($node->safe_psql('postgres', invariant('r', 1000)),
		't', "$what: routes by the active version");
	$routes = routes($node, 'postgres', 'r', 1000);
	ok(scalar(grep { $_ eq $routes } @allowed),
		"$what: the version before or the one after");
	return;
}

# The routes that there will be when SQL is committed; it is not.
sub routes_after
{
	my ($sql) = @_;
	my $query =
	    "SELECT shardring.active_version('r'), encode(sha256("
	  . "convert_to(string_agg(l::text, ' ' ORDER BY k), 'UTF8')), 'hex')"
	  . " FROM generate_series(1, 1000) k,"
	  . " shardring.locate('r', 'user:' || k) l";
	my $result = $node->safe_psql('postgres',
		"SET client_min_messages = error; BEGIN; $sql; $query; ROLLBACK");
	return (split /\n/, $result)[-1];
}

# statement_timeout of 1 to 50 ms in 200 backends that load the ring.
my $key = "shardring.shard_for('r', 'user:1')";
my $expected = $node->safe_psql('postgres', "SELECT $key");
my $script = "\\set VERBOSITY sqlstate\n";
foreach my $run (0 .. 199)
{
	my $limit = 1 + $run % 50;
	# The SET that lifts the limit is under it too, and may be ended.
	$script .= "\\c\nSET statement_timeout = $limit;\nSELECT $key;\n"
	  . "\\echo load :SQLSTATE\n"
	  . "SET statement_timeout = 0;\n" x 5
	  . "SELECT 'then ' || $key;\n";
}
my ($status, $stdout, $stderr) =
  $node->psql('postgres', $script, on_error_stop => 0);
my @right = $stdout =~ /^\Q$expected\E\nload 00000$/mg;
my @ended = $stdout =~ /^load 57014$/mg;
my @then = $stdout =~ /^then \Q$expected\E$/mg;
note scalar(@ended) . ' of 200 first loads were ended';
is(@right + @ended, 200, 'a first load is right or ended');
is(scalar(@then), 200, 'the same backend routes right afterwards');
sound('time limit', $routes);

# kill -9 of a backend, at any moment of what it does.
sub kill_during
{
	my ($what, $prepare, $sql, @after) = @_;
	$node->safe_psql('postgres',
		"SET client_min_messages = error; $prepare");
	my @allowed = ($routes, map { routes_after($_) } @after);
	my $session = open_session($node);
	my $pid = step($session, 'SELECT pg_backend_pid()');
	$session->query_until(qr/now/, "\\echo now\n$sql;\n");
	usleep(int rand 60_000);
	my $logged = -s $node->logfile;
	ok(kill('KILL', $pid), "$what: a backend was killed");
	eval { $session->quit };
	# Asking the server instead, a psql may be refused before it has read its
	# standard input, which ends the test.
	$node->wait_for_log(qr/ready to accept connections/, $logged);
	sound($what, @allowed);
	return;
}

foreach my $round (1, 2)
{
	my $group = 10 + $round;
	kill_during('first load', '', "SELECT $key, pg_sleep(100)");
	kill_during('seal',
		"SELECT shardring.draft_version('r');"
		  . group_calls('r', $group),
		"SELECT shardring.seal('r'); SELECT pg_sleep(100)");
	kill_during('activate', '',
		"SELECT shardring.activate('r')",
		"SELECT shardring.activate('r')");
	$node->safe_psql('postgres',
		"SET client_min_messages = error;"
		  . "SELECT shardring.activate('r', v.version)"
		  . " FROM shardring.ring_version v, shardring.ring r"
		  . " WHERE v.version > r.active_version");
	sound('what was begun can be done', routes($node, 'postgres', 'r', 1000));
}

# No memory: what a backend may still have is limited, from next to nothing.
SKIP:
{
	skip 'no prlimit', 1 if system('prlimit --version >/dev/null 2>&1') != 0;
	my $failures = 0;
	foreach my $extra (64, 512, 1024, 2048, 4096, 8192, 16384, 65536)
	{
		my $session = open_session($node);
		my $pid = step($session, 'SELECT pg_backend_pid()');
		# Libraries that cannot be loaded are another matter.
		step($session, "LOAD 'plpgsql'; SELECT shardring.active_version('r')");
		my $group = 100 + $extra;
		my $limit = (status_kb($pid, 'VmSize') + $extra) * 1024;
		my $sql = next_version('r', $group);
		my @allowed = ($routes, routes_after($sql));
		system_or_bail('prlimit', '--pid', $pid, "--as=$limit:");
		my $state = step_error($session, "BEGIN; $sql COMMIT");
		# PostgreSQL may not even have the memory for this.
		step_error($session, 'ROLLBACK');
		system_or_bail('prlimit', '--pid', $pid, '--as=unlimited:');
		step($session, 'ROLLBACK');
		$failures++ if $state eq '53200';
		like($state, qr/^(53200|none: )/,
			"$extra kB: done, or out of memory");
		is(step($session, invariant('r', 100)),
			't', "$extra kB: the backend goes on");
		$session->quit;
		sound("$extra kB", @allowed);
	}
	cmp_ok($failures, '>', 0, 'some had not enough memory');
}

$node->stop;
done_testing();
