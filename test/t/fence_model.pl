# fence_model.pl
#	fence, switch_fenced and unfence in all orders of events: the protocol never
#	has two owners of a key, and none of its rules can be left out.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my @model = ('/usr/bin/python3', '-B', "$FindBin::RealBin/fence_model.py");
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
