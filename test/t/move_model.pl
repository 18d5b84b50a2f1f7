# move_model.pl
#	Moves that are switched, finished, cancelled and reversed in all orders of
#	events: a key never has two owners, no acknowledged write is missing, and
#	none of the rules can be left out.  move_model.py --full goes further.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my @model = ('/usr/bin/python3', '-B', "$FindBin::RealBin/move_model.py");
my ($list) = run_command([ @model, '--list' ]);
my ($said, $errors) = run_command(\@model);
is($errors, '', 'the model runs');
foreach my $run (split /\n/, $list)
{
	my ($line) = $said =~ /^((?:NOT )?ok: \Q$run\E: .*)/m;
	like($line // '', qr/^ok: /, $line // $run);
}
unlike($said, qr/^NOT OK/m, 'all is as it must be') or diag($said);

done_testing();
