# move_ways.pl
#	From wherever a move is there is a way on, or its error says one: also when
#	servers come back with less than they had.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Moves;
use PostgreSQL::Test::Utils;
use Test::More;

new_move();
my $run = "CALL shardring.run_move('orders')";
my $switch = "CALL shardring.switch_move('orders', attempts => 1)";
my $finish = "CALL shardring.finish_move('orders', grace => '0')";
on('map', q{ALTER DATABASE postgres SET shardring.remote_timeout = '20 s'});

# A server on which a step is to fail, as when its driver dies there.
on('map', q{
	CREATE TABLE fault (phase text, event text);
	CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM public.fault AS f
				   WHERE f.phase = NEW.phase AND f.event = NEW.event) THEN
			RAISE 'struck';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER strike BEFORE INSERT ON shardring_internal.move_event
		FOR EACH ROW EXECUTE FUNCTION strike()});

sub strike
{
	my ($phase, $event, $call) = @_;
	on('map', "INSERT INTO fault VALUES ('$phase', '$event')");
	like(says($call), qr/^ERROR:  struck/, "the driver dies at $event of $phase");
	on('map', 'DELETE FROM fault');
	return;
}

sub state_is
{
	my ($state, $what) = @_;
	is(on('map', 'SELECT state FROM shardring_internal.row_move ORDER BY move DESC LIMIT 1'),
		$state, $what);
	return;
}

# What only a server that lost commits does.
sub forget
{
	my ($name, $set) = @_;
	on($name, qq{
		ALTER TABLE shardring.ring DISABLE TRIGGER ALL;
		UPDATE shardring.ring SET $set;
		ALTER TABLE shardring.activation DISABLE TRIGGER ALL;
		DELETE FROM shardring.activation WHERE version = 2;
		ALTER TABLE shardring.activation ENABLE TRIGGER ALL;
		ALTER TABLE shardring.ring ENABLE TRIGGER ALL;
		ALTER TABLE shardring.ring ENABLE ALWAYS TRIGGER ring_move});
	return;
}

sub fill
{
	on($_, qq{
		INSERT INTO account SELECT 'k' || i, 'v', 'n' FROM generate_series(1, 300) AS i
		WHERE shardring.shard_for('orders', 'k' || i, 1) = '$_'}) foreach qw(a b);
	return;
}
fill();
on('map', q{SELECT shardring.start_move('orders', 2)});
is(says($run) =~ /is ready to switch/, 1, 'ready');

# ---------- taken back when it is too late ----------

strike('activate_targets', 'done', $switch);
on('map', q{UPDATE shardring_internal.row_move SET state = 'closing', phase = 'settle'});
is(says("CALL shardring.cancel_move('orders')"), <<'END', 'forward, though it was to be taken back');
ERROR:  ring "orders" is switched, not cancelled
DETAIL:  Version 2 is active on a shard.
HINT:  To end it: CALL shardring.finish_move('orders');
To go back: CALL shardring.reverse_move('orders');
END
state_is('switched', 'and all the way');

# ---------- a shard is down ----------

$node{b}->stop;
like(says("SET statement_timeout = '1 min'; $run"),
	qr/^ERROR:  move of ring "orders" cannot go on\nDETAIL:  b: /,
	'a call ends while a shard is down');
$node{b}->start;

# ---------- a source comes back without the switch ----------

forget('a', q{active_version = 1, moving_from = NULL, moving_to = NULL,
	closed_until = NULL, back_lsn = NULL, fingerprint = (SELECT v.fingerprint FROM shardring.ring_version AS v
		WHERE v.version = 1)});
like(says($run), qr/^NOTICE:  ring "orders" is switched to version 2\n/, 'the move goes on');
is(on('a', 'SELECT active_version, moving_to FROM shardring.ring'), '2|2',
	'and the source is switched again');

# ---------- rows that came back here are compared before they are deleted ----------

# as if the target had lost what it had confirmed
my $lost = on('c', q{SELECT min(id) FROM account});
on('c', qq{ALTER PUBLICATION $_ SET (publish = 'insert')})
  foreach split /\n/, on('c', 'SELECT pubname FROM pg_publication');
on('c', qq{SET session_replication_role = replica; DELETE FROM account WHERE id = '$lost'});
on('c', qq{ALTER PUBLICATION $_ SET (publish = 'insert,update,delete')})
  foreach split /\n/, on('c', 'SELECT pubname FROM pg_publication');
my $rows = on('a', 'SELECT count(*) FROM account') + on('b', 'SELECT count(*) FROM account');
like(says($finish), qr/^ERROR:  ring "orders" is finishing, not finished
DETAIL:  1 keys? differs? between both sides\.
HINT:  To go on: CALL shardring\.run_move\('orders'\);
Without the way back: CALL shardring\.finish_move\('orders', unverified => true\);/,
	'not finished while a row is missing');
is(on('a', 'SELECT count(*) FROM account') + on('b', 'SELECT count(*) FROM account'),
	$rows, 'and nothing is deleted');
on('c', qq{INSERT INTO account VALUES ('$lost', 'v', 'n')});

# the way back is lost
foreach my $name (qw(a b))
{
	on($name, qq{ALTER SUBSCRIPTION $_ DISABLE; ALTER SUBSCRIPTION $_ SET (slot_name = NONE);
		DROP SUBSCRIPTION $_})
	  foreach split /\n/, on($name, q{SELECT subname FROM pg_subscription});
}
on('c', q{UPDATE account SET value = 'w'});
like(says($run), qr/^ERROR: /, 'not finished without the way back');
is(says("CALL shardring.finish_move('orders', grace => '0', unverified => true)"),
	qq{NOTICE:  ring "orders" is switched to version 2\n}, 'finished, not compared');
nothing_left('finished');
is(on('map', q{SELECT count(*) FROM shardring.misplaced('orders')}), '0',
	'no row is where it does not belong');
is(on('a', 'SELECT count(*) FROM account') + on('b', 'SELECT count(*) FROM account')
	+ on('c', 'SELECT count(*) FROM account'), '300', 'every row is there once');

# ---------- a target that was promoted ----------

on('map', q{SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'gc', 4);
	SELECT shardring.start_move('orders')});
like(says($run), qr/is ready to switch/, 'ready for another move');
$lost = on('c', q{SELECT min(id) FROM account
	WHERE shardring.shard_for('orders', id, 2) <> 'c'});
on('c', qq{SET session_replication_role = replica; DELETE FROM account WHERE id = '$lost'});
on('map', q{UPDATE shardring_internal.move_shard SET timeline = timeline - 1 WHERE shard = 'c'});
like(says($switch), qr/^ERROR:  ring "orders" was not switched to version 3
DETAIL:  1 key differs between both sides\./, 'not switched: a target lost a row');
on('c', qq{SET session_replication_role = replica; INSERT INTO account VALUES ('$lost', 'v', 'n')});

# ---------- a target that dies while sources are closed ----------

strike('settle', 'done', $switch);
is(on('a', 'SELECT closed_until FROM shardring.ring'), 'infinity', 'a source is closed');
$node{c}->stop;
like(says($run), qr/^ERROR: .*\nDETAIL:  c: /, 'a target is down');
is(on('a', 'SELECT closed_until IS NULL FROM shardring.ring'), 't', 'and the source is open again');
$node{c}->start;

# ---------- a standby has the hold before anybody owns its keys ----------

my $standby = PostgreSQL::Test::Cluster->new('standby');
$node{a}->backup('backup');
$standby->init_from_backup($node{a}, 'backup', has_streaming => 1);
$standby->start;
$node{a}->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication
	WHERE application_name !~ '^shardring' AND state = 'streaming'
		AND replay_lsn IS NOT NULL});
$node{standby} = $standby;
my $receiver = on('standby', q{SELECT pid FROM pg_stat_wal_receiver});
kill 'STOP', $receiver;
like(says("CALL shardring.switch_move('orders', attempts => 1, max_hold => '500 ms')"), qr/^ERROR:  ring "orders" was not switched to version 3
DETAIL:  a: what was written is not on the other side yet\./, 'not switched without the standby');
kill 'CONT', $receiver;
on($_, q{
	CREATE TABLE commits (how text);
	CREATE FUNCTION commits() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.commits VALUES (current_setting('synchronous_commit'));
		RETURN NEW;
	END $$;
	ALTER SYSTEM SET synchronous_commit = off;
	SELECT pg_reload_conf()}) foreach qw(map a);
on('map', q{CREATE TRIGGER commits BEFORE INSERT ON shardring_internal.move_event
	FOR EACH ROW EXECUTE FUNCTION commits()});
on('a', q{CREATE TRIGGER commits BEFORE UPDATE ON shardring.ring
	FOR EACH ROW EXECUTE FUNCTION commits()});
like(says($switch), qr/^NOTICE:  ring "orders" is switched to version 3\n/, 'switched with it');
is(on($_, 'SELECT DISTINCT how FROM commits'), 'on', "what $_ commits stays") foreach qw(map a);

# ---------- what is deleted ----------

on('map', q{
	CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		UPDATE shardring_internal.row_move SET options = options
			|| '{"positions": {"a": {"table": 9}, "b": {"table": 9}}}';
		RETURN NEW;
	END $$;
	CREATE TRIGGER skip BEFORE INSERT ON shardring_internal.move_event
		FOR EACH ROW WHEN (NEW.phase = 'back_unpublish' AND NEW.event = 'done')
		EXECUTE FUNCTION skip()});
on('b', q{CREATE RULE stay AS ON DELETE TO account DO INSTEAD NOTHING;
	ALTER TABLE account ENABLE ALWAYS RULE stay});
like(says($finish), qr/^ERROR:  ring "orders" is finishing, not finished
DETAIL:  b: rows of public\.account were not deleted; look for triggers /, 'rows that stay');
on('b', 'DROP RULE stay ON account');
is(says($finish), qq{NOTICE:  ring "orders" is switched to version 3\n}, 'finished');
is(on('map', q{SELECT count(*) FROM shardring.misplaced('orders')}), '0',
	'also rows that the walk has missed are deleted');
on('map', 'DROP TRIGGER skip ON shardring_internal.move_event');
on('map', q{SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'ga', 3)});
on('map', q{SELECT shardring.start_move('orders')});
my $stray = on('map', q{SELECT 'k' || i FROM generate_series(1, 300) AS i
	WHERE shardring.moves('orders', 3, 4, 'k' || i)
		AND shardring.shard_for('orders', 'k' || i, 4) = 'a' LIMIT 1});
on('a', qq{SET session_replication_role = replica; INSERT INTO account VALUES ('$stray', 'old', 'n')});
like(says($run), qr/^ERROR:  ring "orders" is new, not ready
DETAIL:  a: public\.account has rows already that are to come there\.
/, 'not where rows are already');
is(says("CALL shardring.cancel_move('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 3\n}, 'taken back');
is(on('a', qq{SET session_replication_role = replica;
		DELETE FROM account WHERE id = '$stray' AND value = 'old' RETURNING 'is there'}),
	'is there', 'and they are still there');

# ---------- a target that has forgotten that it is one ----------

on('map', q{SELECT shardring.start_move('orders')});
strike('publish', 'begin', $run);
forget('a', 'moving_from = NULL, moving_to = NULL');
is(says("CALL shardring.cancel_move('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 3\n}, 'taken back');
nothing_left('taken back');

$_->stop foreach values %node;
done_testing();
