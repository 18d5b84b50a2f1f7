# standby.pl
#	A physical standby routes as the primary did at the point it has replayed:
#	it follows an activation, also in a session that was open before, keeps
#	the version of a REPEATABLE READ transaction, and can be promoted.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use Shardring;
use Test::More;

my $primary = start_server('primary');
$primary->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($primary, 'postgres', 'r', 4);
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

my $keys = 10000;
my %by_version = (1 => routes($primary, 'postgres', 'r', $keys));
is(routes($standby, 'postgres', 'r', $keys),
	$by_version{1}, 'a standby routes as the primary does');

# Two sessions on the standby that stay open: one in a transaction.
my $session = open_session($standby);
my $transaction = open_session($standby);
my $invariant = invariant('r', 500);
my $version = "SELECT shardring.active_version('r'), ($invariant)";
is(step($session, $version), '1|t', 'a session on the standby');
step($session, "PREPARE p AS $version");
is(step($session, 'EXECUTE p'), '1|t', 'a prepared statement') for 1 .. 6;
step($transaction, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is(step($transaction, $version), '1|t', 'a transaction on the standby');

$primary->safe_psql('postgres', next_version('r', 4));
$by_version{2} = routes($primary, 'postgres', 'r', $keys);
isnt($by_version{2}, $by_version{1}, 'the primary switches');
$primary->wait_for_catchup($standby);
is(step($session, $version), '2|t', 'the open session follows');
is(step($session, 'EXECUTE p'), '2|t', 'its prepared statement too');
is(step($transaction, $version), '1|t', 'REPEATABLE READ stays');
step($transaction, 'COMMIT');
is(step($transaction, $version), '2|t', 'until its end');
is(routes($standby, 'postgres', 'r', $keys),
	$by_version{2}, 'a new session routes as the primary does');

# What is not committed on the primary is not seen.
my $writer = open_session($primary);
step($writer, 'BEGIN');
step($writer, next_version('r', 5));
$primary->safe_psql('postgres', 'CREATE TABLE marker ()');
$primary->wait_for_catchup($standby);
is(step($session, $version), '2|t', 'an open switch is not seen');
step($writer, 'ROLLBACK');
$primary->safe_psql('postgres', 'DROP TABLE marker');
$primary->wait_for_catchup($standby);
is(step($session, $version), '2|t', 'nor one that was rolled back');
$writer->quit;

# More than 64 open subtransactions make snapshots on a standby overflow.
$writer = open_session($primary);
step($writer, 'BEGIN');
step($writer, "SAVEPOINT s$_; CREATE TEMP TABLE t$_ ()") foreach (1 .. 70);
step($writer, next_version('r', 5));
is(step($session, $version), '2|t', 'with many subtransactions open');
step($writer, 'COMMIT');
$primary->wait_for_catchup($standby);
is(step($session, $version), '3|t', 'and after their commit');
$writer->quit;
$by_version{3} = routes($primary, 'postgres', 'r', $keys);

is( sqlstate_of(
		$standby, 'postgres', "SELECT shardring.draft_version('r')"),
	'25006',
	'a standby cannot be edited');
is($standby->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'problems() works on a standby');

# Promotion: the open session goes on, and the ring can be changed here.
$primary->stop;
$standby->promote;
is(step($session, $version), '3|t', 'the open session after promotion');
is(routes($standby, 'postgres', 'r', $keys),
	$by_version{3}, 'routes after promotion');
$standby->safe_psql('postgres', next_version('r', 6));
is(step($session, $version), '4|t', 'a switch after promotion');
is($standby->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'no problems after it');

$_->quit foreach ($session, $transaction);
$standby->stop;
done_testing();
