
# Deaths.pm
#	Kills a server of Moves.pm at an event of a move or a fence, and calls until
#	what was wanted is reached.

package Deaths;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use Moves;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(strike_at_events plan_death deaths_left kill_now insist);
my $planned;

# From here on, the map kills at an event whom plan_death has named.
sub strike_at_events
{
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
				IF pids = split_part(pg_read_file('postmaster.pid'), E'\\n', 1)
				THEN
					pids := pids || ' ' || pg_backend_pid();
				END IF;
				EXECUTE format('COPY (SELECT 1) TO PROGRAM %L',
							   'kill -9 ' || pids || ' || true');
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER strike BEFORE INSERT ON shardring_internal.move_event
			FOR EACH ROW EXECUTE FUNCTION strike()});
	return;
}

sub plan_death
{
	my ($victim, $phase, $event) = @_;
	$planned = postmaster($victim);
	on('map', qq{INSERT INTO fault VALUES ('$phase', '$event', '$planned')});
	return;
}

# How many have not struck yet.
sub deaths_left
{
	return on('map', 'SELECT count(*) FROM fault');
}

# Kills a server, and starts it again.
sub kill_now
{
	my ($victim) = @_;
	$planned = postmaster($victim);
	kill 'KILL', $planned;
	bury();
	return;
}

# A server that was struck dies a moment later.
sub bury
{
	select undef, undef, undef, 0.01 while $planned && lives($planned);
	$planned = undef;
	revive();
	return;
}

sub postmaster
{
	my ($name) = @_;
	return (split /\n/, slurp_file($node{$name}->data_dir . '/postmaster.pid'))[0];
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

# A process that nobody has waited for yet does not live.
sub lives
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return 0;
	return <$file> !~ /\) Z/;
}

# Calls until it succeeds; returns "done", or else all that was said.
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
		revive();
		if ($output =~ /^NOTICE:  ring .*$reached/m)
		{
			bury() if deaths_left() == 0;
			return 'done';
		}
		$said .= "$output\n";
	}
	return $said;
}

1;
