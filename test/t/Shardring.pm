# Shardring.pm
#	What the TAP tests share: servers, rings, and looking into a backend.
#
# Rules of this file:
#	- every server is UTF8 with locale C, unless a test says otherwise;
#	- SQL is run as superuser, and a test dies where SQL fails that should not,
#	  so that none goes on with half of what it needs.

package Shardring;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  start_server add_ring group_calls next_version routes invariant
  sqlstate_of open_session step step_error status_kb
);

# Makes and starts a server; more arguments are lines of its postgresql.conf.
sub start_server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(
		allows_streaming => 'logical',
		extra => [ '--encoding=UTF8', '--locale=C' ]);
	$node->append_conf('postgresql.conf', "$_\n")
	  foreach ('max_prepared_transactions = 5', @settings);
	$node->start;
	return $node;
}

# Creates a ring of so many groups and activates it.
sub add_ring
{
	my ($node, $database, $ring, $groups) = @_;
	$node->safe_psql($database,
		"SELECT shardring.create_ring('$ring');"
		  . group_calls($ring, 0 .. $groups - 1)
		  . "SELECT shardring.activate('$ring')");
	return;
}

# SQL that adds these groups, of 4 slots on two shards, to the draft.
sub group_calls
{
	my ($ring, @numbers) = @_;
	return join '', map {
		"SELECT shardring.add_group('$ring', 'node-$_',"
		  . " '{db$_-0,db$_-1}', 4);"
	} @numbers;
}

# SQL that activates a version with these groups added.
sub next_version
{
	my ($ring, @numbers) = @_;
	return
	    "SELECT shardring.draft_version('$ring');"
	  . group_calls($ring, @numbers)
	  . "SELECT shardring.activate('$ring');";
}

# The active version, and a digest of where all of so many keys live.
sub routes
{
	my ($node, $database, $ring, $keys) = @_;
	return $node->safe_psql($database,
		    "SELECT shardring.active_version('$ring'), encode(sha256("
		  . "convert_to(string_agg(l::text, ' ' ORDER BY k), 'UTF8')), 'hex')"
		  . " FROM generate_series(1, $keys) k,"
		  . " shardring.locate('$ring', 'user:' || k) l");
}

# SQL that is true when routing agrees with what the snapshot says is active.
# The active version is asked for first and last, so that an answer that was
# kept for too long would show.
sub invariant
{
	my ($ring, $keys) = @_;
	my $active = "shardring.shard_for('$ring', 'user:' || k)";
	my $truth = "shardring.shard_for('$ring', 'user:' || k, (SELECT"
	  . " active_version FROM shardring.ring WHERE ring = '$ring'))";
	return "SELECT bool_and($active = $truth AND $truth = $active)"
	  . " FROM generate_series(1, $keys) k";
}

# Runs SQL that must fail, and returns the SQLSTATE it fails with.
sub sqlstate_of
{
	my ($node, $database, $sql) = @_;
	my ($status, $stdout, $stderr) =
	  $node->psql($database, "\\set VERBOSITY sqlstate\n$sql");
	return $stderr =~ /ERROR:  (\w{5})/ ? $1 : "none: $stdout$stderr";
}

# Opens a psql that takes SQL step by step.
sub open_session
{
	my ($node, $database) = @_;
	my $session =
	  $node->background_psql($database // 'postgres', on_error_stop => 0);
	$session->set_query_timer_restart;
	$session->query_safe('SET client_min_messages = error');
	return $session;
}

# Runs SQL in a session and returns what it prints.
sub step
{
	my ($session, $sql) = @_;
	return $session->query_safe($sql);
}

# Runs SQL in a session that must fail, and returns its SQLSTATE.
sub step_error
{
	my ($session, $sql) = @_;
	$session->query("\\set VERBOSITY sqlstate\n$sql");
	my $stderr = $session->{stderr};
	$session->{stderr} = '';
	return $stderr =~ /ERROR:  (\w{5})/ ? $1 : "none: $stderr";
}

# A line of /proc/PID/status, in kB.
sub status_kb
{
	my ($pid, $name) = @_;
	slurp_file("/proc/$pid/status") =~ /^\Q$name\E:\s+(\d+) kB/m
	  or die "process $pid has no $name";
	return $1;
}

1;
