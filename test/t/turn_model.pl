# turn_model.pl
#	reverse_move and its cancel_move in all orders of events: the key never has
#	two owners, nothing is lost, and none of the rules can be left out.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my @model = ('/usr/bin/python3', '-B', "$FindBin::RealBin/turn_model.py");

# Its phases are ours.
my $node = start_server('turn_model');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
my ($phases) = run_command([ @model, '--phases' ]);
my %in_model = (target => 'activate_targets', others => 'activate_others',
	lease_settle => 'lease_settle', settle => 'settle');
foreach (split /\n/, $phases)
{
	my ($phase, undef, $step) = split / /;
	next if $phase =~ /^(?:activate|shut|catch)/;    # what a call does at its beginning
	my $name = $in_model{$phase} // $phase;
	my $expected = { lease => 'close', close => 'close' }->{$phase} // $step;
	is($node->safe_psql('postgres', qq{
			SELECT step FROM shardring_internal.move_phases()
			WHERE program = 'move' AND phase = '$name'}), $expected, "phase $name");
}
$node->stop;

my ($list) = run_command([ @model, '--list' ]);
my ($said, $errors) = run_command(\@model);
is($errors, '', 'the model runs');
foreach my $run (split /\n/, $list)
{
	my ($line) = $said =~ /^((?:NOT )?ok: \Q$run\E: .*)/m;
	like($line // '', qr/^ok: /, $line // $run);
}
unlike($said, qr/^NOT ok/m, 'all is as it must be') or diag($said);

done_testing();
