# fence_job.pl
#	The job by hand, where rows cannot follow by themselves: a fifth server
#	joins four while clients write.  Twelve commands, and nothing is lost.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use Moves;
use PostgreSQL::Test::Utils;
use Test::More;

my @four = qw(s0 s1 s2 s3);
new_servers('wal_level = replica', @four);
on('map', q{
	ALTER DATABASE postgres SET shardring.remote_timeout = '1 min'});
on('map', q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
	FROM generate_series(0, 3) AS i;
	SELECT shardring.activate('orders')});
on('map', "SELECT count(*) FROM shardring.guard_table('orders', 'public.$_->[0]', '$_->[1]')")
  foreach ([ 'account', 'id' ], [ 'entry', 'account' ]);
new_shard_server('s4', "wal_level = replica\n");
start_writers(4, 1200, $ENV{SEED} // int(rand(1e6)));

# ---------- what the operator types, and what is said ----------

my $typed = 0;

sub type_sql
{
	my ($sql) = @_;
	$typed++;
	my ($status, $out, $error) = $node{map}->psql('postgres', $sql);
	return "$out$error";
}

sub type_line
{
	my @line = @_;
	$typed++;
	my $output = '';
	IPC::Run::run(\@line, '>', \$output, '2>&1') or return "failed: $output";
	return $output;
}

my ($host, $port) = ($node{s4}->host, $node{s4}->port);
my $map = $node{map}->connstr('postgres');
is(type_sql("CREATE SERVER s4 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres')"),
	'', '1: its address');
is(type_sql(q{SELECT shardring.draft_version('orders')}), '2', '2: a draft');
is(type_sql(q{SELECT shardring.add_group('orders', 'g4', ARRAY['s4'])}), '', '3: with the server');
my $lacks = type_sql(q{SELECT hint FROM shardring.cluster_problems('orders') WHERE shard = 's4' AND severity = 'error'});
my ($dump) = $lacks =~ /^(pg_dump .*)$/m;
like($dump // $lacks, qr/^pg_dump .*--schema-only.* \| psql /, '4: what it lacks is a line to run');
is(type_line('sh', '-c', "($dump) >/dev/null"), '', '5: the line');
is(type_sql("SELECT bool_and(ok) FROM shardring.guard_table('orders', 'public.account', 'id')"), 't', '6: guarded');
is(type_sql("SELECT bool_and(ok) FROM shardring.guard_table('orders', 'public.entry', 'account')"), 't', '7: guarded');
like(type_sql(q{CALL shardring.fence('orders')}), qr/ring "orders" is fenced for version 2\nHINT:  When the rows are copied: CALL shardring.switch_fenced\('orders'\);/,
	'8: fenced');
my @script = 'extension/doc/examples/copy_ring.sh';
like(type_line(@script, 'copy', 'orders', $map), qr/\A(?:public\.(?:account|entry): \d+ rows from s\d to s4\n){8}\z/, '9: copied');
like(type_sql(q{CALL shardring.switch_fenced('orders')}), qr/ring "orders" is switched to version 2/, '10: switched');
like(type_line(@script, 'clean-source-all', 'orders', $map), qr/\A(?:public\.(?:account|entry): \d+ rows deleted on s\d\n){8}\z/,
	'11: deleted where they were');
is(type_sql(q{SELECT * FROM shardring.misplaced('orders')}), '', '12: nothing is misplaced');
is($typed, 12, 'twelve commands');

my $memory = stop_writers();
check_rows($memory, 2, 1);
cmp_ok(on('s4', 'SELECT count(*) FROM account'), '>', 100, 'the new server has its share');

# ---------- what the script refuses ----------

is(type_line(@script, 'copy') =~ s/.*failed: //sr, "usage: copy_ring.sh COMMAND RING CONNECTION [OLD NEW]\n", 'arguments are missing');
like(type_line(@script, 'copy', 'nope', $map), qr/^failed: refused: no table is guarded, or no key moves\n/, 'a ring that is not there');
like(type_line(@script, 'copy', 'orders', $map), qr/^failed: ERROR:  refused: version 2 is active on the target/, 'after the switch nothing is copied');
is(on('s4', 'SELECT count(*) > 100 FROM account'), 't', 'nor changed');

$_->stop foreach values %node;
done_testing();
