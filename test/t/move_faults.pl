# move_faults.pl
#	Whatever is killed with -9 in a move, the same call again goes on, and no
#	acknowledged write is lost, doubled or misplaced.
#
# MOVES=n makes so many moves, each with a fault of its own, drawn by SEED;
# MOVES=all makes one with every fault there is.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Deaths;
use List::Util qw(shuffle);
use Moves;
use Test::More;

my $seed = $ENV{SEED} // int(rand(1e6));
my $moves = $ENV{MOVES} // 5;
srand($seed);
diag "SEED=$seed";

new_move();
strike_at_events();

my @phases = split /\n/, on('map', q{
	SELECT phase FROM shardring_internal.move_phases()
	WHERE program = 'move' AND next_phase IS NOT NULL
		AND state NOT IN ('cancelling', 'reopening')});
my @undo = split /\n/, on('map', q{
	SELECT phase FROM shardring_internal.move_phases()
	WHERE program = 'move' AND next_phase IS NOT NULL AND state = 'cancelling'});
my @faults;
foreach my $victim (qw(map a b c))
{
	foreach my $event (qw(begin done))
	{
		push @faults, [ $_, $event, $victim, 'finish' ] foreach @phases;
		push @faults, [ $_, $event, $victim, 'cancel' ] foreach @undo;
	}
}
@faults = shuffle(@faults);
splice @faults, $moves if $moves ne 'all';

my $version = 1;
foreach my $fault (@faults)
{
	my ($phase, $event, $victim, $way) = @$fault;
	my $what = "$victim dies at the $event of $phase";
	if ($version > 1)
	{
		on('map', qq{
			SELECT shardring.draft_version('orders');
			SELECT shardring.set_weight('orders', g, (1 + random())::numeric)
			FROM unnest('{ga,gb,gc}'::text[]) AS g});
	}
	start_writers(3, 300, int(rand(1e6)));
	on('map', q{SELECT shardring.start_move('orders')});
	plan_death($victim, $phase, $event);
	is(insist(q{CALL shardring.run_move('orders')}, 'ready'), 'done', "$what: ready");
	if ($way eq 'cancel')
	{
		is(insist(q{CALL shardring.cancel_move('orders')}, 'open again'), 'done', "$what: cancelled");
		on('map', q{SELECT shardring.drop_version('orders', max(version))
			FROM shardring.ring_version});
	}
	else
	{
		is(insist(q{CALL shardring.switch_move('orders')}, 'switched'), 'done', "$what: switched");
		is(insist(q{CALL shardring.finish_move('orders', grace => '0')}, 'switched'), 'done',
			"$what: finished");
		$version = on('map', q{SELECT shardring.active_version('orders')});
	}
	is(deaths_left(), '0', "$what: it did");
	check_rows(stop_writers(), $version, 1);
	nothing_left($what);
	on($_, 'DELETE FROM account') foreach qw(a b c);
}

$_->stop foreach values %node;
done_testing();
