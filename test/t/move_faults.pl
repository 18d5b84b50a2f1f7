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
use List::Util qw(shuffle);
use Moves;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} // int(rand(1e6));
my $moves = $ENV{MOVES} // 5;
srand($seed);
diag "SEED=$seed";

new_move();
on('map', q{
	CREATE TABLE fault (phase text, event text, pids text);
	CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		pids text;
	BEGIN
		DELETE FROM public.fault AS f
		WHERE f.phase = NEW.phase AND f.event = NEW.event
		RETURNING f.pids INTO pids;
		IF FOUND THEN
			-- a death of this server takes back that it struck
			IF pids = split_part(pg_read_file('postmaster.pid'), E'\\n', 1) THEN
				pids := pids || ' ' || pg_backend_pid();
			END IF;
			EXECUTE format('COPY (SELECT 1) TO PROGRAM %L',
						   'kill -9 ' || pids || ' || true');
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER strike BEFORE INSERT ON shardring_internal.move_event
		FOR EACH ROW EXECUTE FUNCTION strike()});

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

sub postmaster
{
	my ($name) = @_;
	return (split /\n/, slurp_file($node{$name}->data_dir . '/postmaster.pid'))[0];
}

# A process that nobody has waited for yet does not live.
sub lives
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return 0;
	return <$file> !~ /\) Z/;
}

# Starts again what has died.
sub revive
{
	foreach my $name (keys %node)
	{
		next if $node{$name}->{_pid} && lives($node{$name}->{_pid});
		for (1 .. 100)
		{
			$node{$name}->{_pid} = undef;
			last if $node{$name}->start(fail_ok => 1);
			select undef, undef, undef, 0.1;
		}
	}
	return;
}

# Calls until it succeeds.
sub insist
{
	my ($call, $reached) = @_;
	my $said = '';
	for (1 .. 20)
	{
		my $output = '';
		my $psql = IPC::Run::start(
			[ 'psql', '-XAt', '-d', $node{map}->connstr('postgres'), '-c', $call ],
			'>', \$output, '2>&1');
		while ($psql->pumpable)
		{
			$psql->pump_nb;
			revive();
			select undef, undef, undef, 0.05;
		}
		$psql->finish;
		return 'done' if $output =~ /^NOTICE:  ring .*$reached/m;
		$said .= "$output\n";
		revive();
		# what the caller wanted has been noted, or has to be said again
	}
	return $said;
}

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
	my $pids = postmaster($victim);
	on('map', qq{INSERT INTO fault VALUES ('$phase', '$event', '$pids')});
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
	is(on('map', 'SELECT count(*) FROM fault'), '0', "$what: it did");
	check_rows(stop_writers(), $version, 1);
	nothing_left($what);
	on($_, 'DELETE FROM account') foreach qw(a b c);
}

$_->stop foreach values %node;
done_testing();
