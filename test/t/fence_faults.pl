# fence_faults.pl
#	A switch with rows copied by hand, while clients write all the time and a
#	shard is source and target at once: whatever is killed with -9, the same call
#	again goes on, and no acknowledged write is lost, doubled or misplaced.
#
# FENCES=n makes so many fences, each with a death of its own, drawn by SEED;
# FENCES=all makes one with every death there is.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Deaths;
use IPC::Run;
use List::Util qw(shuffle);
use Moves;
use Test::More;

my $seed = $ENV{SEED} // int(rand(1e6));
my $fences = $ENV{FENCES} // 4;
srand($seed);
diag "SEED=$seed";

new_move();
strike_at_events();

# Deaths: phase, event, victim, and what follows the fence.
my @deaths;
foreach my $victim (qw(map a b c))
{
	push @deaths, [ 'closed', 'reached', $victim, $_ ] for qw(switch unfence);
	foreach my $line (split /\n/, on('map', q{
			SELECT phase || ' ' || state FROM shardring_internal.move_phases()
			WHERE program = 'fence' AND next_phase IS NOT NULL}))
	{
		my ($phase, $state) = split / /, $line;
		my $way = $state eq 'cancelling' ? 'unfence' : 'switch';
		push @deaths, [ $phase, $_, $victim, $way ] for qw(begin done);
	}
}
@deaths = shuffle(@deaths);
# whatever is drawn, one of each way
@deaths = ((grep { $_->[3] eq 'unfence' } @deaths)[0],
	(grep { $_->[3] eq 'switch' } @deaths)[0 .. $fences - 2])
  if $fences ne 'all';

# Runs the script of the documentation for all tables and pairs.
sub copy_rows
{
	my ($command, $old, $new) = @_;
	foreach my $pair (split /\n/, on('map', qq{
			SELECT DISTINCT from_shard || ' ' || to_shard
			FROM shardring.move_plan('orders', $old, $new)}))
	{
		foreach my $table (qw(account entry))
		{
			my $ran = IPC::Run::run(
				[ 'extension/doc/examples/copy_rows.sh', $command, 'orders',
					$old, $new, $table,
					map { $_ => $node{$_}->connstr('postgres') } split / /, $pair ],
				'>&', \my $output);
			ok($ran, "$command: $table, $pair") or diag($output);
		}
	}
	return;
}

# Rows that are copied and left, before writers change them again.
sub switch
{
	my ($old, $new, $what) = @_;
	copy_rows('copy', $old, $new);
	copy_rows('compare', $old, $new);
	is(insist(q{CALL shardring.switch_fenced('orders')}, 'switched'), 'done',
		"$what: switched");
	copy_rows('clean-source-all', $old, $new);
	return $new;
}

sub unfence
{
	my ($old, $new, $what) = @_;
	copy_rows('copy', $old, $new);
	is(insist(q{CALL shardring.unfence('orders')}, 'open again'), 'done',
		"$what: open again");
	copy_rows('clean-target', $old, $new);
	is(on('map', qq{
			SELECT count(*) FROM shardring.drop_version_on_shards('orders', $new)
			WHERE NOT ok}), '0', "$what: version $new is dropped");
	return $old;
}

# Other weights, so that most shards give keys and take some.
sub draft
{
	on('map', q{
		SELECT shardring.draft_version('orders');
		SELECT shardring.add_group('orders', 'gc', ARRAY['c'])
		WHERE NOT EXISTS (
			SELECT FROM shardring.shard_map AS m
			WHERE m.shard = 'c' AND m.version = shardring.active_version('orders'));
		SELECT shardring.set_weight('orders', g, (1 + random())::numeric)
		FROM unnest('{ga,gb,gc}'::text[]) AS g});
	return;
}

my $version = 1;
my $drafted = 1;
foreach my $death (@deaths)
{
	my ($phase, $event, $victim, $way) = @$death;
	my $what = "$victim dies, $phase $event";
	draft() unless $drafted;
	$drafted = 0;
	my $new = on('map', q{SELECT max(version) FROM shardring.ring_version});
	start_writers(3, 300, int(rand(1e6)));
	plan_death($victim, $phase, $event) if $phase ne 'closed';
	is(insist(q{CALL shardring.fence('orders')}, 'fenced'), 'done',
		"$what: fenced");
	kill_now($victim) if $phase eq 'closed';
	$version = $way eq 'switch' ? switch($version, $new, $what)
	  : unfence($version, $new, $what);
	is(deaths_left(), '0', "$what: it did");
	check_rows(stop_writers(), $version, 1);
	nothing_left($what);
	on($_, 'DELETE FROM account') foreach qw(a b c);
}

$_->stop foreach values %node;
done_testing();
