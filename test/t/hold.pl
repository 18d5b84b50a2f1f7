# hold.pl
#	A shard while its ring moves: whom the step "settle" waits for and how it
#	ends, and what of a move comes from a dump or through a subscription.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $node = start_server('shard', 'autovacuum = off');
my $map = start_server('map');
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;

# Two versions of a ring, the newer one sealed.
foreach my $server ($node, $map)
{
	$server->safe_psql('postgres', <<'END');
CREATE EXTENSION shardring;
ALTER DATABASE postgres SET shardring.shard = 'a';
END
}
$map->safe_psql('postgres', <<'END');
SELECT shardring.create_ring('r');
SELECT shardring.add_group('r', 'g', '{a,b}', 2);
SELECT shardring.activate('r');
END
sub push_rings
{
	my ($version, $activate) = @_;
	my $document = $map->safe_psql('postgres',
		"SELECT shardring.export_version('r', $version)");
	$node->safe_psql('postgres', "SELECT shardring.receive_version("
		  . "'$document', $activate)");
	return;
}
push_rings(1, 'true');
$map->safe_psql('postgres', <<'END');
SELECT shardring.draft_version('r');
SELECT shardring.assign_slots('r', 'g', '{[0,2)}', 'b');
SELECT shardring.seal('r');
END
push_rings(2, 'false');
$node->safe_psql('postgres', <<'END');
CREATE TABLE held (key integer NOT NULL);
SELECT shardring.add_guard('r', 'held', 'key');
CREATE TABLE keys AS
	SELECT min(i) AS leaves FROM generate_series(1, 100) AS i
	WHERE shardring.shard_for('r', i, 1) = 'a';
END
my $leaves = $node->safe_psql('postgres', 'SELECT leaves FROM keys');

# SQL of a step, without and with more in its document.
sub move_step
{
	my ($step, $token, $more) = @_;
	return "shardring.move_step('r', '$step', $token, ("
	  . "SELECT jsonb_build_object('from_version', 1, 'to_version', 2,"
	  . " 'from_fingerprint', min(fingerprint) FILTER (WHERE version = 1),"
	  . " 'to_fingerprint', min(fingerprint) FILTER (WHERE version = 2))"
	  . " FROM shardring.ring_version) || '"
	  . ($more // '{}') . "')";
}

# The columns of a move.
sub columns
{
	my ($server, $database) = @_;
	return $server->safe_psql($database // 'postgres',
		    'SELECT active_version, moving_from, moving_to, closed_until,'
		  . ' move_token FROM shardring.ring');
}

$node->safe_psql('postgres', 'SELECT ' . move_step('set', 1));
$node->safe_psql('postgres',
	'SELECT ' . move_step('close', 1, '{"for_good": true}'));
is(columns($node), '1|1|2|infinity|1', 'the shard is closed');
is( sqlstate_of($node, 'postgres', "INSERT INTO held VALUES ($leaves)"),
	'SR001', 'and refuses the key');
$node->safe_psql('postgres', 'SELECT ' . move_step('lift', 1));

# ---------- whom settle waits for ----------

# What it answers when it has no time.
sub settled
{
	my ($wait) = @_;
	$wait //= '0';
	return $node->safe_psql('postgres',
		    "SELECT a -> 'settled', a -> 'pids', a -> 'prepared' FROM "
		  . move_step('settle', 1, qq({"timeout": "$wait"})) . ' AS a');
}

sub pid
{
	my ($session) = @_;
	return step($session, 'SELECT pg_backend_pid()');
}

is(settled(), 'true|[]|[]', 'nobody is there');
my $writer = open_session($node);
my $pid = pid($writer);
step($writer, "BEGIN; INSERT INTO held VALUES ($leaves)");
is(settled(), "false|[$pid]|[]", 'who is idle in a transaction is in the way');
step($writer, "PREPARE TRANSACTION 'it''s mine'");
is(settled(), qq(false|[]|["it's mine"]), 'so is who is prepared');
$writer->quit;
$node->stop('immediate');
$node->start;
is(settled(), qq(false|[]|["it's mine"]), 'also after a crash');
$node->safe_psql('postgres', "COMMIT PREPARED 'it''s mine'");
is(settled(), 'true|[]|[]', 'until he commits');

# It begins to wait, and returns its process when it is asleep.
sub start_settle
{
	my ($session, $token, $timeout) = @_;
	my $process = pid($session);
	$session->{stdin} .=
	  'SELECT a -> \'settled\' AS settled, a -> \'prepared\' AS prepared FROM '
	  . move_step('settle', $token, qq({"timeout": "$timeout"}))
	  . " AS a;\n";
	$session->{run}->pump_nb;
	$node->poll_query_until('postgres',
		    "SELECT wait_event_type = 'Extension' FROM pg_stat_activity"
		  . " WHERE pid = $process AND query LIKE '%settle%'")
	  or die 'it does not wait';
	return $process;
}

$writer = open_session($node);
my $waiter = open_session($node);
step($writer, "BEGIN; INSERT INTO held VALUES ($leaves)");
start_settle($waiter, 1, '3 min');
is(columns($node), '1|1|2||1', 'a wait locks nothing');
step($writer, "PREPARE TRANSACTION 'meanwhile'");
is(settled(), 'false|[]|["meanwhile"]', 'one that is prepared meanwhile ...');
$node->safe_psql('postgres', "COMMIT PREPARED 'meanwhile'");
is(step($waiter, "SELECT 'back'"), "true|[]\nback", '... is waited for');

# COPY, in the middle of it.
my $copy = open_session($node);
$pid = pid($copy);
$node->safe_psql('postgres', 'SELECT ' . move_step('lift', 1));
$copy->{stdin} .= "COPY held FROM PROGRAM 'echo $leaves; while [ ! -e $dir/go ];"
  . " do sleep 0.01; done';\n";
$copy->{run}->pump_nb;
$node->poll_query_until('postgres',
	"SELECT count(*) > 0 FROM pg_locks WHERE relation = 'held'::regclass"
	  . " AND mode = 'RowExclusiveLock' AND granted")
  or die 'COPY does not run';
is(settled(), "false|[$pid]|[]", 'COPY is in the way');
append_to_file("$dir/go", '');
is(settled('1 min'), 'true|[]|[]', 'until it has ended');
is(step($copy, "SELECT 'there'"), 'there', 'and is there');
$copy->quit;

# VACUUM, CREATE INDEX CONCURRENTLY and a dump, held up by an old snapshot or
# by a lock of their own.
$node->safe_psql('postgres', 'VACUUM held; VACUUM FULL held; REINDEX TABLE held');
my $old = open_session($node);
step($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM held');
my $index = open_session($node);
$pid = pid($index);
$index->{stdin} .= "CREATE INDEX CONCURRENTLY ON held (key);\n";
$index->{run}->pump_nb;
$node->poll_query_until('postgres',
	    "SELECT count(*) > 0 FROM pg_stat_progress_create_index"
	  . " WHERE phase LIKE 'waiting for old snapshots'")
  or die 'CREATE INDEX does not wait';
is(settled(), 'true|[]|[]',
	'CREATE INDEX CONCURRENTLY and who reads are not in the way');
step($old, 'COMMIT');
is(step($index, "SELECT 'made'"), 'made', 'the index is made');
$_->quit for ($old, $index);

# ---------- how it ends ----------

step($writer, "BEGIN; INSERT INTO held VALUES ($leaves)");
$pid = pid($writer);
my (undef, undef, $error) = $node->psql('postgres',
	"SET statement_timeout = '3 s'; SELECT "
	  . move_step('settle', 1, '{"timeout": "3 min"}'));
like($error, qr/canceling statement due to statement timeout/, 'a time limit');
like($error,
	qr/waiting for writers of guarded tables; processes: $pid; prepared transactions: none/,
	'and who was in the way');
my $process = start_settle($waiter, 1, '3 min');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($process)");
$waiter->query('SELECT 1');
like($waiter->{stderr}, qr/canceling statement due to user request/,
	'a cancel');
$waiter->{stderr} = '';
$process = start_settle($waiter, 1, '3 min');
$node->safe_psql('postgres', 'SELECT ' . move_step('take', 2));
step($writer, 'ROLLBACK');
$waiter->query('SELECT 1');
like($waiter->{stderr}, qr/a later call has ring "r"/,
	'a later call takes the shard while it waits');
$_->quit for ($writer, $waiter);

# ---------- what comes from elsewhere ----------

$node->safe_psql('postgres', 'SELECT ' . move_step('close', 2,
		'{"for_good": true}'));
is(columns($node), '1|1|2|infinity|2', 'closed again');

# Dumps, as a whole and as data into an extension that is there.
$node->safe_psql('postgres', 'CREATE DATABASE whole; CREATE DATABASE data');
$node->command_ok([ 'pg_dump', '-f', "$dir/whole.sql", 'postgres' ], 'dumped');
$node->command_ok(
	[ 'psql', '-qXAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/whole.sql", 'whole' ],
	'restored');
is(columns($node, 'whole'), '1||||', 'a dump brings no move');
$node->safe_psql('data', 'CREATE EXTENSION shardring');
$node->command_ok(
	[ 'pg_dump', '--data-only', '-t', 'shardring.*', '-f', "$dir/data.sql",
		'postgres' ], 'its data alone');
$node->command_ok(
	[ 'psql', '-qXAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", 'data' ],
	'restored');
is(columns($node, 'data'), '1||||', 'brings none either');
is(columns($node), '1|1|2|infinity|2', 'the shard has its own still');

# A subscription to the map: its first copy, and what changes there.
$map->safe_psql('postgres',
	'CREATE PUBLICATION rings FOR TABLE shardring.ring');
$node->safe_psql('postgres', "CREATE SUBSCRIPTION rings CONNECTION '"
	  . $map->connstr . " dbname=postgres' PUBLICATION rings"
	  . ' WITH (copy_data = false)');
$map->safe_psql('postgres', "SELECT shardring.activate('r', 2)");
$map->safe_psql('postgres',
	"UPDATE shardring.ring SET rejoin_cooldown = '1 hour'");
$map->wait_for_catchup('rings');
is($node->safe_psql('postgres', 'SELECT rejoin_cooldown FROM shardring.ring'),
	'01:00:00', 'an UPDATE was applied');
is(columns($node), '1|1|2|infinity|2', 'but to nothing that a move needs');
is( sqlstate_of($node, 'postgres', "INSERT INTO held VALUES ($leaves)"),
	'SR001', 'so the key is still refused');
my $document = $map->safe_psql('postgres',
	"SELECT shardring.export_version('r', 2)");
is( $node->safe_psql('postgres', 'SELECT v.active_version, v.error'
		  . " FROM shardring.receive_version('$document', true) AS v"),
	'1|ring "r" is moving from version 1 to version 2',
	'and a push does not activate');
$node->safe_psql('postgres', 'SELECT ' . move_step('activate', 2));
$node->safe_psql('postgres', 'SELECT ' . move_step('clear', 2));
$map->safe_psql('postgres', 'UPDATE shardring.ring SET rejoin_cooldown = \'0\'');
$map->wait_for_catchup('rings');
is(columns($node), '2||||2', 'and it goes on when the move is over');
$node->safe_psql('postgres', 'DROP SUBSCRIPTION rings');

# The first copy of a subscription is a restore, too: of a map that moves.
$map->safe_psql('postgres', <<'END');
SELECT shardring.draft_version('r');
SELECT shardring.assign_slots('r', 'g', '{[0,1)}', 'a');
SELECT shardring.seal('r');
SELECT shardring.move_step('r', 'set', 9,
	(SELECT jsonb_build_object('from_version', 2, 'to_version', 3,
		'from_fingerprint', min(fingerprint) FILTER (WHERE version = 2),
		'to_fingerprint', min(fingerprint) FILTER (WHERE version = 3))
	 FROM shardring.ring_version));
END
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->safe_psql('copy', 'CREATE EXTENSION shardring; '
	  . "CREATE SUBSCRIPTION copy CONNECTION '"
	  . $map->connstr . " dbname=postgres' PUBLICATION rings");
$node->wait_for_subscription_sync($map, 'copy', 'copy');
is(columns($map), '2|2|3||9', 'the map moves');
is(columns($node, 'copy'), '2||||', 'a copy of it does not');
$node->safe_psql('copy', 'DROP SUBSCRIPTION copy');

$_->stop for ($node, $map);
done_testing();
