
# Findings.pm
#	A cluster of five shards and a map, for tests of cluster_problems: a fault
#	is planted, found, and gone when its hint was run.

package Findings;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

our @EXPORT = qw(start_cluster stop_cluster on_map on_shard node problems
  plant found mended run_hint);

my %node;

# Five shards that are ready to move rows; held is guarded by its key.
sub start_cluster
{
	$node{map} = new_server('map');
	on_map('CREATE EXTENSION postgres_fdw');
	for my $name (qw(a b c d e))
	{
		my $shard = $node{$name} = new_server($name);
		$shard->append_conf('postgresql.conf', "wal_level = logical\n"
			. "max_wal_senders = 10\nmax_replication_slots = 10\n"
			. "max_prepared_transactions = 5\n");
		$shard->restart;
		on_shard($name, q{CREATE TABLE held (
			key text PRIMARY KEY, value text)});
		add_address($node{map}, $shard);
	}
	on_map(q{
		SELECT shardring.create_ring('orders');
		SELECT shardring.add_group('orders', 'g', '{a,b,c,d,e}', 10);
		SELECT shardring.activate('orders');
		SELECT shardring.guard_table('orders', 'public.held', 'key')});
	return;
}

sub stop_cluster
{
	$_->stop foreach (values %node);
	return;
}

sub add_node
{
	my ($server) = @_;
	$node{ $server->name } = $server;
	return;
}

sub node
{
	return $node{ $_[0] };
}

sub on_map
{
	return $node{map}->safe_psql('postgres', @_);
}

sub on_shard
{
	my ($name, @sql) = @_;
	return $node{$name}->safe_psql('postgres', @sql);
}

# All problems, in a line each; the hint comes last.
sub problems
{
	my ($before) = @_;
	return split /\n/, on_map(($before // '') . q{
		SELECT p.severity, p.shard, p.relation, p.problem, p.hint
		FROM shardring.cluster_problems('orders') AS p});
}

# Runs a hint where it says that it is to be run: SQL, or a line of the shell.
sub run_hint
{
	my ($hint) = @_;
	if ($hint =~ m{^/\* on (?:shard|router) (\S+) \*/ })
	{
		on_shard($1, $hint);
	}
	elsif ($hint =~ m{^/\* on all shards \*/ })
	{
		on_shard($_, $hint) foreach (qw(a b c d e));
	}
	elsif ($hint =~ /^(?:psql|pg_dump|diff) /)
	{
		# psql goes on where something is there already, and says so
		IPC::Run::run([ 'bash', '-c', $hint ], '>', \my $out, '2>', \my $error);
	}
	else
	{
		on_map($hint);
	}
	return;
}

# What is found are exactly these lines, without their hints.
sub found
{
	my ($what, @expected) = @_;
	my @lines = problems();
	my @bare = map { join '|', (split /\|/, $_, 5)[ 0 .. 3 ] } @lines;
	is_deeply(\@bare, \@expected, "$what: found")
	  or diag(join "\n", @lines);
	return @lines;
}

# A finding without its hint, and without the other shard that it names.
sub bare
{
	my ($line) = @_;
	return join('|', (split /\|/, $line, 5)[ 0 .. 3 ]) =~ s/ on shard "\w"$//r;
}

# The hint of each line makes the line go, and in the end all is well.
sub mended
{
	my ($what, @lines) = @_;
	my @left = @lines;
	for my $line (@lines)
	{
		my $hint = (split /\|/, $line, 5)[4];
		next unless grep { bare($_) eq bare($line) } @left;
		run_hint($hint);
		@left = problems();
		ok(!(grep { bare($_) eq bare($line) } @left), "$what: gone after $hint");
	}
	is_deeply(\@left, [], "$what: all is well");
	return;
}

# Plants a fault on a shard by SQL, finds it, and runs its hints.
sub plant
{
	my ($what, $shard, $sql, @expected) = @_;
	on_shard($shard, $sql);
	mended($what, found($what, @expected));
	return;
}

1;
