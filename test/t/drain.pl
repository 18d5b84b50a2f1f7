# drain.pl
#	wait_for_drain: whom it waits for, whom it does not, and how it ends.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('drain', 'autovacuum = off');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
$node->safe_psql('postgres', 'CREATE DATABASE other');
add_ring($node, 'postgres', 'r', 2);

my $operator = open_session($node);
my $version = 1;
my $groups = 2;

# Activates one more version, in a session of its own.
sub switch
{
	$node->safe_psql('postgres',
		"SET client_min_messages = error;" . next_version('r', $groups++));
	return ++$version;
}

sub pid
{
	my ($session) = @_;
	return step($session, 'SELECT pg_backend_pid()');
}

# How a wait of no time ends: with "drained", or with the DETAIL of 55P03.
sub verdict
{
	my ($who) = @_;
	my ($status, $stdout, $stderr) = ($who // $node)->psql('postgres',
		"\\set VERBOSITY verbose\n"
		  . "SELECT shardring.wait_for_drain('r', $version, '0')");
	return 'drained' if $status == 0;
	return "$stdout$stderr" if $stderr !~ /ERROR:  55P03/;
	return $stderr =~ /^DETAIL:  (.*)$/m ? $1 : "no detail: $stderr";
}

# Starts a wait in a session, and returns when it is asleep.
sub start_wait
{
	my ($session) = @_;
	my $pid = pid($session);
	$session->{stdin} .=
	  "SELECT shardring.wait_for_drain('r', $version, '3 min');\n";
	$session->{run}->pump_nb;
	$node->poll_query_until('postgres',
		    "SELECT wait_event_type = 'Extension' FROM pg_stat_activity"
		  . " WHERE pid = $pid AND query LIKE '%wait_for_drain%'")
	  or die 'the wait did not begin';
	return $pid;
}

# All that a wait in a session ends with, which is an error.
sub message_of
{
	my ($session) = @_;
	$session->query("\\set VERBOSITY default\n"
		  . "SELECT shardring.wait_for_drain('r', $version)");
	my $message = $session->{stderr};
	$session->{stderr} = '';
	return $message;
}

# Whether the process of a session is still in its wait.
sub waiting
{
	my ($pid) = @_;
	return $node->safe_psql('postgres',
		"SELECT state = 'active' FROM pg_stat_activity WHERE pid = $pid");
}

# ---------- nobody ----------

is(verdict(), 'drained', 'nothing is open');
is( step($operator,
		"BEGIN; SELECT shardring.shard_for('r', 'k');"
		  . " SELECT shardring.wait_for_drain('r', 1, '0'); COMMIT"),
	$node->safe_psql('postgres', "SELECT shardring.shard_for('r', 'k')")
	  . "\n", 'it does not wait for itself');

# ---------- readers ----------

foreach my $case (
	[ 'idle in READ COMMITTED', 'READ COMMITTED' ],
	[ 'REPEATABLE READ',        'REPEATABLE READ' ],
	[ 'SERIALIZABLE',           'SERIALIZABLE READ ONLY' ])
{
	my ($name, $level) = @$case;
	my $reader = open_session($node);
	my $waiter = open_session($node);
	my $pid = pid($reader);
	step($reader, "BEGIN ISOLATION LEVEL $level");
	step($reader, "SELECT shardring.shard_for('r', 'k')");
	switch();
	is( $node->safe_psql('postgres',
			    "SELECT backend_xid IS NULL FROM pg_stat_activity"
			  . " WHERE pid = $pid"),
		't', "$name: has no xid");
	is(verdict(), "Processes: $pid. Prepared transactions: none.",
		"$name: is waited for");
	my $waiter_pid = start_wait($waiter);
	step($reader, "SAVEPOINT s");
	is(waiting($waiter_pid), 't', "$name: is waited for as long as it runs");

	# Who comes later sees the new version, and need not end.
	my $late = open_session($node);
	step($late, 'BEGIN');
	is(step($late, "SELECT shardring.active_version('r')"),
		$version, "$name: a later transaction has the new version");
	step($reader, 'COMMIT');
	is(step($waiter, "SELECT 'back'"), "\nback", "$name: the wait ends");
	$late->quit;
	$waiter->quit;
	$reader->quit;
}

my $reader = open_session($node);
my $reader_pid = pid($reader);
step($reader, 'BEGIN');
is(verdict(), "Processes: $reader_pid. Prepared transactions: none.",
	'one that did nothing yet is waited for');
step($reader, 'ROLLBACK');
is(verdict(), 'drained', 'until it rolls back');

# ---------- prepared transactions ----------

my $before = $version;
step($reader, 'BEGIN');
step($reader, 'CREATE TABLE prepared ()');
step($reader, q(PREPARE TRANSACTION 'it''s "a" gid'));
my $quoted = q('it''s "a" gid');
is(verdict(), "Processes: none. Prepared transactions: $quoted.",
	'a prepared transaction is waited for');

# The session goes on, and is another transaction now.
step($reader, 'BEGIN');
is( verdict(),
	"Processes: $reader_pid. Prepared transactions: $quoted.",
	'it and what its session does now are two things');
step($reader, 'COMMIT');
$node->restart;
is(verdict(), "Processes: none. Prepared transactions: $quoted.",
	'it is waited for after a restart');
$node->safe_psql('postgres', "COMMIT PREPARED $quoted");
is(verdict(), 'drained', 'until it is committed');

$operator = open_session($node);
$reader = open_session($node);
my $waiter = open_session($node);
step($reader, 'BEGIN; CREATE TABLE prepared_later ()');
my $waiter_pid = start_wait($waiter);
step($reader, "PREPARE TRANSACTION 'later'");
is(verdict(),
	"Processes: $waiter_pid. Prepared transactions: 'later'.",
	'one that is prepared during the wait');
is(waiting($waiter_pid), 't', 'is waited for under its other name');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'later'");
is(step($waiter, "SELECT 'back'"), "\nback", 'until it is rolled back');

# ---------- not waited for ----------

my $elsewhere = open_session($node, 'other');
step($elsewhere, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('other',
	"BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'elsewhere'");
is(verdict(), 'drained', 'other databases are not waited for');
$node->safe_psql('other', "ROLLBACK PREPARED 'elsewhere'");
$elsewhere->quit;

my $walsender =
  $node->background_psql('postgres', replication => 'database');
$walsender->query_safe('BEGIN');
is( $node->safe_psql('postgres',
		    "SELECT count(*) FROM pg_stat_activity WHERE backend_type ="
		  . " 'walsender' AND state = 'idle in transaction'"),
	1,
	'a walsender has a transaction');
is(verdict(), 'drained', 'walsenders are not waited for');
$walsender->quit;

$node->safe_psql('postgres', q(
	CREATE TABLE slow WITH (autovacuum_vacuum_threshold = 1,
		autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)
		AS SELECT repeat('x', 1000) FROM generate_series(1, 5000);
	DELETE FROM slow;
	ALTER SYSTEM SET autovacuum = on;
	ALTER SYSTEM SET autovacuum_naptime = 1;
));
$node->reload;
$node->poll_query_until('postgres',
	    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = 'postgres'"
	  . " AND backend_type = 'autovacuum worker' AND xact_start IS NOT NULL"
	  . " AND query LIKE '%slow%'")
  or die 'autovacuum did not begin';
is(verdict(), 'drained', 'autovacuum is not waited for');
$node->safe_psql('postgres',
	'ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf();'
	  . ' DROP TABLE slow');

# ---------- the way out ----------

step($reader, 'BEGIN');
$waiter_pid = start_wait($waiter);
$node->safe_psql('postgres', "SELECT pg_cancel_backend($waiter_pid)");
$waiter->query('SELECT 1');
like($waiter->{stderr}, qr/canceling statement due to user request/,
	'the wait can be cancelled');
$waiter->{stderr} = '';
step($waiter, "SET statement_timeout = '50ms'");
is( step_error($waiter,
		"SELECT shardring.wait_for_drain('r', $version)"),
	'57014',
	'statement_timeout ends it');
$reader_pid = pid($reader);
my $before_the_wait = "older than $version; processes: ";
like(message_of($waiter), qr/^CONTEXT:  .*"r" $before_the_wait$reader_pid; prepared transactions: none$/m,
	'and it says whom it waited for');
step($reader, "CREATE TABLE prepared_now (); PREPARE TRANSACTION 'now'");
like(message_of($waiter), qr/^CONTEXT:  .*"r" ${before_the_wait}none; prepared transactions: 'now'$/m,
	'also when it is prepared');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'now'");
step($reader, 'BEGIN');
step($waiter, 'RESET statement_timeout');
is( step_error($waiter,
		"SELECT shardring.wait_for_drain('r', $version, '20ms')"),
	'55P03',
	'its own timeout ends it');
step($reader, 'COMMIT');

# ---------- which version ----------

is(sqlstate_of($node, 'postgres', "SELECT shardring.wait_for_drain('r', 1)"),
	'55000', 'a version that is active no more');
is( sqlstate_of($node, 'postgres',
		"SELECT shardring.wait_for_drain('r', " . ($version + 1) . ')'),
	'42704',
	'a version that is not there');
is( sqlstate_of($node, 'postgres',
		"SELECT shardring.wait_for_drain('nowhere', 1)"),
	'42704',
	'a ring that is not there');
$node->safe_psql('postgres', "SELECT shardring.create_ring('idle')");
is( sqlstate_of($node, 'postgres',
		"SELECT shardring.wait_for_drain('idle', 1)"),
	'55000',
	'nothing is active');

my $next = $version + 1;
step($operator, 'BEGIN; ' . next_version('r', $groups));
is(step($operator, "SELECT shardring.active_version('r')"),
	$next, 'a transaction has activated a version');
is(step_error($operator, "SELECT shardring.wait_for_drain('r', $next)"),
	'55000', 'which is not committed');
step($operator, 'ROLLBACK');

# The lock on the ring is an update of its row, which changes nothing.
step($operator, "BEGIN; SELECT shardring.draft_version('r')");
is( step($operator,
		"SELECT shardring.wait_for_drain('r', $version, '0') IS NULL"),
	'f',
	'a transaction that holds the ring');
step($operator, 'ROLLBACK');

# Under REPEATABLE READ the version may be newer than the snapshot.
step($operator, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
switch();
is( step($operator, "SELECT shardring.active_version('r')")
	  . step($operator,
		"SELECT shardring.wait_for_drain('r', $version, '0') IS NULL"),
	($version - 1) . 'f',
	'committed means committed, whatever the snapshot');
step($operator, 'COMMIT');

foreach my $call ("NULL, 1, '0'", "'r', NULL, '0'", "'r', $version, NULL")
{
	is( sqlstate_of(
			$node, 'postgres', "SELECT shardring.wait_for_drain($call)"),
		'22004',
		"wait_for_drain($call)");
}
is( sqlstate_of($node, 'postgres',
		"SELECT shardring.wait_for_drain('r', $version, '-1 s')"),
	'22023',
	'a negative timeout');
$node->safe_psql('postgres', 'CREATE ROLE anybody');
is( $node->safe_psql('postgres',
		    "SET ROLE anybody;"
		  . " SELECT shardring.wait_for_drain('r', $version, '0') IS NULL"),
	'f',
	'anybody may wait');

# ---------- a standby waits for its own transactions ----------

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $standby_reader = open_session($standby);
my $standby_pid = pid($standby_reader);
step($standby_reader, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $old = $version;
switch();
$node->wait_for_catchup($standby);
is(step($standby_reader, "SELECT shardring.active_version('r')"),
	$old, 'a transaction of the standby has the old version');
is(verdict(), 'drained', 'the primary knows nothing of it');
is( verdict($standby),
	"Processes: $standby_pid. Prepared transactions: none.",
	'the standby waits for it');
step($standby_reader, 'COMMIT');
is(verdict($standby), 'drained', 'until it ends');

$_->quit foreach ($operator, $reader, $waiter, $standby_reader);
$standby->stop;
$node->stop;
done_testing();
