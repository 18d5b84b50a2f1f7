# move_faults.pl
#	Whatever is killed with -9 in a move, also one that goes back, the same call
#	again goes on, and no acknowledged write is lost, doubled or misplaced.
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

# Ways to go, and the phases on each of them in which somebody is to die: a
# move is finished, or cancelled, or goes back, or goes back and yet stays.
my %phases = (
	finish => q{state NOT IN ('cancelling', 'reopening', 'turning')
		AND phase <> 'turn_again'},
	cancel => q{state = 'cancelling' AND phase <> 'turn_lift'},
	reverse => q{state IN ('turning', 'following', 'arming', 'closing', 'decided',
		'switched', 'finishing') AND phase <> 'turn_again'},
	stay => q{phase IN ('turn_lift', 'turn_again')});
my @faults;
foreach my $way (sort keys %phases)
{
	foreach my $phase (split /\n/, on('map', qq{
			SELECT phase FROM shardring_internal.move_phases()
			WHERE program = 'move' AND next_phase IS NOT NULL AND $phases{$way}}))
	{
		foreach my $event (qw(begin done))
		{
			push @faults, [ $phase, $event, $_, $way ] foreach qw(map a b c);
		}
	}
}
@faults = shuffle(@faults);
@faults = grep { $_->[3] =~ /$ENV{WAY}/ } @faults if $ENV{WAY};
splice @faults, $moves if $moves ne 'all';

my $version = 1;
foreach my $fault (@faults)
{
	my ($phase, $event, $victim, $way) = @$fault;
	my $what = "$victim dies at the $event of $phase";
	if (on('map', q{SELECT max(version) FROM shardring.ring_version}) == $version)
	{
		on('map', qq{
			SELECT shardring.draft_version('orders');
			SELECT shardring.add_group('orders', 'gc', ARRAY['c'], force => true)
			WHERE NOT EXISTS (SELECT FROM shardring.shard_group
				WHERE version = shardring.active_version('orders') AND group_name = 'gc');
			SELECT shardring.set_weight('orders', g, (1 + random())::numeric)
			FROM unnest('{ga,gb,gc}'::text[]) AS g});
	}
	start_writers(3, 300, int(rand(1e6)));
	on('map', q{SELECT shardring.start_move('orders')});
	plan_death($victim, $phase, $event) if $way =~ /^(?:finish|cancel)$/;
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
		plan_death($victim, $phase, $event) if $way ne 'finish';
		go_back($way, $what) if $way ne 'finish';
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

# Back; or as far as it goes without being switched, and not back.
sub go_back
{
	my ($way, $what) = @_;
	if ($way eq 'reverse')
	{
		is(insist(q{CALL shardring.reverse_move('orders')}, 'switched'), 'done', "$what: back");
		return;
	}
	on('map', q{
		SELECT shardring_internal.want_reversed('orders',
			'{"max_hold": "2 s", "attempts": 5}');
		UPDATE shardring_internal.row_move SET wanted = 'ready'
		WHERE state = 'turning'});
	is(insist(q{CALL shardring.run_move('orders')}, 'ready'), 'done', "$what: turned");
	is(insist(q{CALL shardring.cancel_move('orders')}, 'switched'), 'done', "$what: it stays");
	on('map', q{SELECT shardring.drop_version('orders', max(version))
		FROM shardring.ring_version});
	return;
}
