# moving_keys.pl
#	Heavy work stays small and can be stopped: moving_keys() over a big table
#	takes no memory that grows with the table, and every long run is ended by
#	statement_timeout and leaves the session as it was.
#
#	SHARDRING_LONG=1 takes 10 million rows.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;
use Time::HiRes qw(time);

# Few buffers and no compiler (LLVM comes in from about 8 million rows on),
# since the pages a backend has touched count as its memory.
my $node = start_server('moving_keys', 'shared_buffers = 2MB', 'jit = off',
	'max_parallel_workers_per_gather = 0', 'autovacuum = off');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($node, 'postgres', 'r', 2);
$node->safe_psql('postgres', next_version('r', 2));

my $small = 100_000;
my $big = $ENV{SHARDRING_LONG} ? 10_000_000 : 2_000_000;
foreach my $table ([ small => $small ], [ big => $big ])
{
	$node->safe_psql('postgres',
		    "CREATE UNLOGGED TABLE $table->[0] AS"
		  . " SELECT id FROM generate_series(1, $table->[1]) AS id");
}

my $session = open_session($node);
my $pid = step($session, 'SELECT pg_backend_pid()');

sub count_moving
{
	my ($table) = @_;
	return step($session,
		    'SELECT count(*), count(*) FILTER (WHERE shardring.shard_at('
		  . "'r', key_position, 1) IS DISTINCT FROM from_shard OR"
		  . " shardring.shard_at('r', key_position) IS DISTINCT FROM"
		  . " to_shard) FROM shardring.moving_keys('r', 1, 2, '$table', 'id')"
	);
}

# ---------- memory ----------

my $temp_bytes = 'SELECT sum(temp_bytes) FROM pg_stat_database';
my ($few) = split /\|/, count_moving('small');
my $before = status_kb($pid, 'VmHWM');
my ($many, $wrong) = split /\|/, count_moving('big');
my $grown = status_kb($pid, 'VmHWM') - $before;
cmp_ok($grown, '<', 20 * 1024,
	"VmHWM grows by $grown kB from $small to $big rows");
cmp_ok($few, '>', $small / 5, "$few keys of $small move");
cmp_ok($many, '>', $big / 5, "$many keys of $big move");
is($wrong, 0, 'each of them from and to the right shard');
is( step(
		$session,
		"SELECT count(*) FROM big WHERE shardring.moves('r', 1, 2, id)"),
	$many,
	'as many as moves() says');
step($session, 'SELECT pg_stat_force_next_flush()');
$node->poll_query_until('postgres',
	"SELECT ($temp_bytes) > 64 * $many")
  or die 'nothing was spilled';
pass('results spill to temporary files');

# ---------- cancel ----------

# Stopped by statement_timeout, and the session goes on.
sub stopped
{
	my ($what, $timeout, $sql) = @_;
	step($session, "SET statement_timeout = '$timeout'");
	is(step_error($session, $sql), '57014', "$what is stopped");
	step($session, 'RESET statement_timeout');
	is( step(
			$session,
			'SELECT pg_backend_pid(), (SELECT count(*) FROM '
			  . "shardring.moving_keys('r', 1, 2, 'small', 'id'))"),
		"$pid|$few",
		"$what: the session goes on");
	return;
}

stopped('moving_keys over a table',
	'100ms', "SELECT * FROM shardring.moving_keys('r', 1, 2, 'big', 'id')");
stopped(
	'moving_keys over an array',
	'100ms',
	"SELECT count(*) FROM shardring.moving_keys('r', 1, 2, ARRAY("
	  . "SELECT i::text FROM generate_series(1, 2000000) AS i))");
stopped('a very long key', '300ms',
	"SELECT shardring.key_position(repeat('0123456789', 50000000))");

# pg_cancel_backend while it runs.
$session->query_until(qr/started/,
	"\\echo started\nSELECT count(*) FROM shardring.moving_keys("
	  . "'r', 1, 2, 'big', 'id') a, shardring.moving_keys('r', 1, 2, 'big', 'id') b;\n"
);
$node->poll_query_until('postgres',
	"SELECT query ~ 'moving_keys' AND state = 'active'"
	  . " FROM pg_stat_activity WHERE pid = $pid")
  or die 'the query does not run';
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('');
like($session->{stderr}, qr/57014/,
	'pg_cancel_backend stops it');
$session->{stderr} = '';
is((split /\|/, count_moving('small'))[0], $few, 'and the session goes on');

# ---------- large rings: 1,000 groups of 160 points (B58) ----------

step($session, "SELECT shardring.create_ring('large', 1)");
my $add = "SELECT count(shardring.add_group('large', 'g' || i,"
  . " ARRAY['s' || i % 100])) FROM generate_series(1, 1000) AS i";
stopped('adding 1000 groups', '50ms', $add);
step($session, $add);
stopped('making 160000 points', '10ms',
	"SELECT shardring.set_vnodes('large', 160)");
step($session, "SELECT shardring.set_vnodes('large', 160)");
stopped('sealing 160000 points', '10ms', "SELECT shardring.seal('large')");
stopped('activating 160000 points',
	'10ms', "SELECT shardring.activate('large')");
step($session, "SELECT shardring.activate('large')");
step($session,
	"SELECT shardring.draft_version('large');"
	  . "SELECT shardring.add_group('large', 'g0', '{s0}')");

# In a fresh session nothing is compiled yet.
$session->quit;
$session = open_session($node);
$pid = step($session, 'SELECT pg_backend_pid()');
stopped('routing for the first time',
	'2ms', "SELECT shardring.shard_for('large', 'k')");
stopped('comparing for the first time',
	'2ms', "SELECT * FROM shardring.moved_ranges('large', 1, 2)");
stopped('a plan for the first time',
	'2ms', "SELECT * FROM shardring.move_plan('large', 1, 2)");
# The figures are from the model.
is( step(
		$session,
		'SELECT count(*), bool_and(to_group = \'g0\'),'
		  . ' sum(share * 4294967296)'
		  . " FROM shardring.moved_ranges('large', 1, 2)"),
	'142|t|4275078',
	'and then the comparison is right');
is(step($session, 'SELECT * FROM shardring.problems()'), '', 'no problems');

# ---------- long loops ----------

# The processor time that the session has taken, in ticks.
sub ticks
{
	my @fields = split ' ', slurp_file("/proc/$pid/stat");
	return $fields[13] + $fields[14];
}

# A long loop in C ends when it is told to, and not when it is done: of its
# work, which other processes do not change, a part is left.
sub stopped_early
{
	my ($what, $sql) = @_;
	my $began = time;
	my $before = ticks();
	step($session, $sql);
	my $whole = ticks() - $before;
	my $limit = int((time - $began) * 250);
	step($session, "SET statement_timeout = $limit");
	$before = ticks();
	is(step_error($session, $sql), '57014', "$what is stopped");
	my $part = ticks() - $before;
	step($session, 'RESET statement_timeout');
	cmp_ok($part, '<', $whole * 3 / 4,
		"$what: after $part of $whole ticks");
	return;
}

stopped_early('simulating many groups of one point',
	'SELECT scheme FROM shardring.simulate(1000000, 1, 1, 1)');
step($session, "SELECT shardring.create_ring('long', 1);"
	  . "SELECT shardring.add_group('long', 'g', '{s}')");
stopped_early('choosing points',
	'SELECT cardinality(points)'
	  . " FROM shardring_internal.resize_groups('long', 1, '{g}', '{2000000}')");
step($session, "SELECT shardring.set_vnodes('long', 2000000)");
stopped_early('checking points',
	"SELECT count(*) FROM shardring_internal.version_problems('long', 1)");

# two groups, so that there are about as many arcs, and nothing to compile
step($session, "SELECT shardring.create_ring('sealed', 1, 'murmur3');"
	  . "SELECT shardring.add_group('sealed', g, '{s}')"
	  . " FROM unnest('{a,b}'::text[]) AS g;"
	  . "SELECT shardring.set_vnodes('sealed', 2000000);"
	  . "SELECT shardring.activate('sealed')");
foreach my $look ('arcs', 'points')
{
	stopped_early($look, "SELECT count(*) FROM shardring.$look('sealed')");
}

$session->quit;
$node->stop;
done_testing();
