# demo.pl
#	make demo KEEP=1 succeeds, fits into 80 columns, moves what was planned,
#	and leaves a cluster that the script it names ends.

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

my ($stdout, $stderr) = run_command([ 'make', '-s', 'demo', 'KEEP=1' ]);
is($? >> 8, 0, 'the demo succeeds') or diag($stderr);
my ($work) = $stdout =~ m{^    (/\S+)/end }m;

# Whatever happens below, nothing stays.
END
{
	my $status = $?;
	system("$work/end") if defined $work && -d $work;
	$? = $status;
}

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

# ---------- the cluster that stays ----------

# The processes that belong to it.
sub running
{
	return grep { (readlink($_) // '') =~ m{^\Q$work\E/} }
	  glob('/proc/[0-9]*/exe /proc/[0-9]*/cwd');
}

ok(defined $work && -d $work, 'the demo says how to end what it keeps')
  or BAIL_OUT('nobody knows what is still running');
my ($command) = $stdout =~ m{^    (\Q$work\E/psql -d db16) }m;
like($command && `$command -XAtc 'SELECT count(*) > 0 FROM package'`,
	qr/^t$/, 'one of its shards can be asked');
ok(-s "$work/demo/accounts.csv", 'the lists are there');
cmp_ok(scalar(running()), '>', 0, 'processes of it');
is(system("$work/end"), 0, 'it ends');
ok(!-e $work, 'no file stays');
is(scalar(running()), 0, 'no process stays');

done_testing();
