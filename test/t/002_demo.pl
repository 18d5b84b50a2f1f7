# 002_demo.pl
#	make demo succeeds, fits into 80 columns, and moves what was planned.

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

my ($stdout, $stderr) = run_command(['test/demo.sh']);
is($? >> 8, 0, 'the demo succeeds') or diag($stderr);

# Tabs as a terminal shows them, characters rather than bytes.
my @lines = map { utf8::decode($_); $_ } split /\n/, "$stdout\n$stderr";
1 while grep { s/^([^\t]*)\t/$1 . ' ' x (8 - length($1) % 8)/e } @lines;
is_deeply([ grep { length > 80 } @lines ], [], 'no line is too long');

foreach my $sentence (
	'The same, pair by pair and key by key.',
	'No row is lost, none is there twice, none is in the wrong place.')
{
	like($stdout, qr/^\Q$sentence\E$/m, $sentence);
}

# Of the rows as counted at the start, all are where they belong in the end.
my ($accounts, $packages) = $stdout =~ /^ +(\d+) \| +(\d+)$/m;
is($accounts, 1000000, 'accounts');
like($stdout, qr/^ account  \| +$accounts \| +$accounts \| +$accounts$/m,
	'every account is where it belongs');
like($stdout, qr/^ package  \| +$packages \| +$packages \| +$packages$/m,
	'every package is where it belongs');

# Planned, copied, the same: first accounts, then packages.
my $number = qr/ +(\d+) +/;
my @pairs =
  $stdout =~ /^ db\d\d +\| db1[67] +\|$number\| +\1 \| +\1 \|/mg;
is(@pairs, 16, 'accounts moved between all pairs of shards');

done_testing();
