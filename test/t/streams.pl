# streams.pl
#	The streams of a move, step by step on two servers: what is copied, what
#	follows, the way back from an exact position, and that nothing is left.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(sqlstate_of);
use Test::More;

my %node;
foreach my $name (qw(a b))
{
	$node{$name} = new_server($name);
	$node{$name}->append_conf('postgresql.conf',
		"wal_level = logical\nmax_wal_senders = 10\nshardring.shard = '$name'\n"
		. 'wal_retrieve_retry_interval = 200ms');
	$node{$name}->restart;
	$node{$name}->safe_psql('postgres', q{
		SELECT shardring.create_ring('orders');
		SELECT shardring.add_group('orders', 'g1', ARRAY['a'], 4);
		SELECT shardring.activate('orders');
		CREATE SCHEMA "S t";
		CREATE TABLE "S t"."T t" ("the Key" text PRIMARY KEY, v text);
		CREATE TABLE n (id bigint PRIMARY KEY, v int);
		SELECT shardring.draft_version('orders');
		SELECT shardring.add_group('orders', 'g2', ARRAY['b'], 4);
		SELECT shardring.seal('orders');
		SELECT shardring.add_guard('orders', '"S t"."T t"', 'the Key');
		SELECT shardring.add_guard('orders', 'n', 'id')});
}
my ($from, $to) = @node{qw(a b)};

sub on
{
	my ($server, $sql) = @_;
	return $server->safe_psql('postgres', $sql);
}

sub refused
{
	my ($server, $sql) = @_;
	return sqlstate_of($server, 'postgres', $sql);
}

my $name = on($from, q{SELECT shardring_internal.stream_prefix('orders')}) . '1_0_1';
my $back = $name . '_back';
is($name, on($from, q{SELECT 'shardring_' || left(md5('orders'), 8) || '_1_0_1'}),
	'the name tells the ring');

# All rows that both have, and those that the move is about.
my $rows = q{
	SELECT k || ' ' || v FROM (
		SELECT "the Key" AS k, v,
			shardring.moves('orders', 1, 2, "the Key") AS m FROM "S t"."T t"
		UNION ALL
		SELECT id::text, v::text, shardring.moves('orders', 1, 2, id) FROM n)
		AS u WHERE m ORDER BY 1};

sub equal_rows
{
	my ($what) = @_;
	my $expected = on($from, $rows);
	ok($to->poll_query_until('postgres',
			qq{SELECT coalesce(string_agg(r, E'\\n'), '') FROM ($rows) AS u (r)},
			$expected), $what);
	return;
}

on($from, q{
	INSERT INTO "S t"."T t"
	SELECT 'k' || i, repeat(md5(i::text), 100) FROM generate_series(1, 500) AS i;
	INSERT INTO n SELECT i, i FROM generate_series(1, 500) AS i});

# ---------- there ----------

my $publish = qq{SELECT shardring_internal.publish('%s', 'orders', 1, 2, 'a', 'b')};
my $address = sprintf "host='%s' port='%s' dbname='postgres'", $from->host, $from->port;
my $address_back = sprintf "host='%s' port='%s' dbname='postgres'", $to->host, $to->port;
on($from, sprintf $publish, $name) for 1 .. 2;
is(refused($from, "BEGIN; CREATE TABLE x (); "
		. "SELECT shardring_internal.make_slot('$name')"),
	'25001', 'no slot in a transaction that has written');
on($from, "SELECT shardring_internal.make_slot('$name')") for 1 .. 2;
on($to, qq{SELECT shardring_internal.subscribe('$name', \$\$$address\$\$, true)})
	for 1 .. 2;
equal_rows('copied: rows that move, and no other');
is(on($to, q{SELECT count(*) FROM n WHERE NOT shardring.moves('orders', 1, 2, id)}),
	'0', 'no other');
ok($to->poll_query_until('postgres', qq{
		SELECT s.enabled AND s.running AND s.tables = 2 AND s.tables_ready = 2
			AND s.errors = 0 AND s.bytes_copied = 0
		FROM shardring_internal.subscription_state('$name') AS s}),
	'the state of the subscription');
on($from, q{
	UPDATE n SET v = -v WHERE id % 2 = 0;
	DELETE FROM n WHERE id % 7 = 0;
	UPDATE "S t"."T t" SET v = v WHERE "the Key" LIKE '%1';
	INSERT INTO n SELECT i, i FROM generate_series(1001, 1100) AS i});
equal_rows('followed');
is(on($from, qq{SELECT s.present, s.lost, s.active, s.retained_bytes >= s.lag_bytes
		FROM shardring_internal.slot_state('$name') AS s}),
	't|f|t|t', 'the state of the slot');
is(on($from, q{SELECT s FROM shardring_internal.slot_state('none') AS s}),
	'(f,,,,,)', 'no slot');
is(on($from, q{SELECT s FROM shardring_internal.subscription_state('none') AS s}),
	'(,,,,,,,)', 'no subscription');

# ---------- and back ----------

on($to, sprintf $publish, $back);
on($to, "SELECT shardring_internal.make_slot('$back')");
on($from, qq{SELECT shardring_internal.subscribe('$back', \$\$$address_back\$\$, false)});
is(on($from, qq{SELECT s.enabled, s.running, s.tables, s.tables_ready
		FROM shardring_internal.subscription_state('$back') AS s}),
	'f|f|2|2', 'the way back waits');
on($from, q{INSERT INTO n SELECT i, i FROM generate_series(2001, 2100) AS i});
my $written = on($from, 'SELECT pg_current_wal_insert_lsn()');
ok($from->poll_query_until('postgres', qq{
		SELECT confirmed >= '$written' FROM shardring_internal.slot_state('$name')}),
	'all is there');
on($to, qq{ALTER SUBSCRIPTION "$name" DISABLE});
my $position = on($to, 'SELECT pg_current_wal_insert_lsn()');
on($_, q{SELECT shardring.activate('orders', 2)}) for ($from, $to);
on($to, q{
	UPDATE n SET v = v + 1 WHERE id < 100;
	UPDATE "S t"."T t" SET v = 'short' WHERE "the Key" LIKE '%2'});
on($to, "SELECT shardring_internal.unsubscribe('$name')") for 1 .. 2;
on($from, "SELECT shardring_internal.drop_slot('$name'),
	shardring_internal.unpublish('$name')") for 1 .. 2;
on($from, "SELECT shardring_internal.start_stream('$back', '$position')") for 1 .. 2;
my $expected = on($to, $rows);
ok($from->poll_query_until('postgres',
		qq{SELECT coalesce(string_agg(r, E'\\n'), '') FROM ($rows) AS u (r)},
		$expected), 'what was written there comes back');
is(on($from, qq{SELECT s.errors, s.enabled
		FROM shardring_internal.subscription_state('$back') AS s}),
	'0|t', 'and nothing else');
# once more does nothing, also when it was stopped meanwhile
on($from, qq{ALTER SUBSCRIPTION "$back" DISABLE});
on($from, "SELECT shardring_internal.start_stream('$back', '$position')");
is(on($from, qq{SELECT s.enabled
		FROM shardring_internal.subscription_state('$back') AS s}),
	'f', 'a position is not set twice');

# ---------- what is left ----------

my $left = q{SELECT l.kind, l.name, l.retained_bytes >= 0
	FROM shardring_internal.stream_leftovers('orders') AS l};
is(on($from, $left), "subscription|$back|", 'left where the rows were');
is(on($to, $left), "slot|$back|t\npublication|$back|", 'left where they are');
is(on($to, q{SELECT count(*) FROM shardring_internal.stream_leftovers('other')}),
	'0', 'not for other rings');

# a reader that holds on is cut off
on($from, qq{ALTER SUBSCRIPTION "$back" ENABLE});
ok($to->poll_query_until('postgres', qq{
		SELECT active FROM shardring_internal.slot_state('$back')}), 'read again');
on($to, "SELECT shardring_internal.drop_slot('$back')");
on($from, "SELECT shardring_internal.unsubscribe('$back')");
on($to, "SELECT shardring_internal.unpublish('$back')");
is(on($_, $left), '', 'nothing is left') for ($from, $to);

# ---------- a copy that was broken off ----------

on($to, q{DELETE FROM n; DELETE FROM "S t"."T t"});
on($to, q{SELECT shardring_internal.unpublish('x')});
on($from, sprintf $publish, $name);
on($from, "SELECT shardring_internal.make_slot('$name')");
# a row that is there already ends the copy
on($to, q{SET session_replication_role = replica;
	INSERT INTO n SELECT id, 0 FROM generate_series(1, 500) AS id
	WHERE shardring.moves('orders', 1, 2, id)});
on($to, qq{SELECT shardring_internal.subscribe('$name', \$\$$address\$\$, true)});
ok($to->poll_query_until('postgres', qq{
		SELECT NOT enabled AND errors > 0 AND tables_ready < tables
		FROM shardring_internal.subscription_state('$name')}),
	'an error ends it');
isnt(on($from, q{SELECT count(*) FROM pg_replication_slots
		WHERE slot_name LIKE 'pg%sync%'}), '0', 'a slot of the copy is left');
my $oid = on($to, qq{SELECT subscription
	FROM shardring_internal.subscription_state('$name')});
my $system = on($to, 'SELECT system_identifier FROM pg_control_system()');
# its publisher is not to be had while it is dropped
on($to, qq{ALTER SUBSCRIPTION "$name" CONNECTION 'host=/nowhere'});
on($to, "SELECT shardring_internal.unsubscribe('$name')");
on($from, "SELECT shardring_internal.drop_slot('$name')");

# Another database of the server may have a slot of that name.
on($from, 'CREATE DATABASE other');
$from->safe_psql('other', "SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
is(on($from, "SELECT present FROM shardring_internal.slot_state('$name')"), 'f',
	'the slot of another database is not ours');
is(refused($from, "SELECT shardring_internal.make_slot('$name')"), '42710', 'nor taken for ours');
on($from, "SELECT shardring_internal.drop_slot('$name')");
is(on($from, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '$name'"), '1',
	'nor dropped');
$from->safe_psql('other', "SELECT pg_drop_replication_slot('$name')");
on($from, 'DROP DATABASE other');
on($from, "SELECT shardring_internal.drop_sync_slots($oid, $system)");
is(on($from, 'SELECT count(*) FROM pg_replication_slots'), '0',
	'slots of the copies are dropped');

# ---------- waiting for writers, and how a shard logs in ----------

my $writer = $from->background_psql('postgres');
$writer->query_safe('BEGIN; SELECT pg_current_xact_id()');
my $writer_pid = $writer->query_safe('SELECT pg_backend_pid()');
my ($status, $out, $error) = $from->psql('postgres',
	"SET statement_timeout = '300ms'; SELECT shardring_internal.make_slot('$name')");
like($error, qr/ERROR:  slot "$name" waits for transactions that have written\nDETAIL:  Sessions: $writer_pid\./,
	'who is in the way');
$writer->query_safe('ROLLBACK');
$writer->quit;
is(on($from, 'SELECT count(*) FROM pg_replication_slots'), '0', 'no half of a slot');

on($to, q{ALTER DATABASE postgres SET shardring.subscriber = 'user=x passfile=/none'});
is(on($to, 'SHOW shardring.subscriber'), 'user=x passfile=/none', 'the setting');
my $load = 'SELECT shardring_internal.subscriber();';
foreach my $bad ('password=x', 'host=x', 'user=x dbname=y', 'sslpassword=z',
	'port=1', 'hostaddr=::1', 'nonsense=1', 'a b')
{
	is(refused($to, "$load SET shardring.subscriber = '$bad'"), '22023', "refused: $bad");
}
is(refused($to, "$load CREATE ROLE r; SET ROLE r; SET shardring.subscriber = 'user=y'"),
	'42501', 'a superuser says how');
isnt(refused($to, qq{SELECT shardring_internal.subscribe('$name', \$\$$address\$\$, true)}),
	'no error', 'it is used');

$_->stop for ($from, $to);
done_testing();
