# reverse_move.pl
#	A move that is switched goes back along its streams, with all that was
#	written since; or it stays, and nothing is lost either way.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Moves;
use PostgreSQL::Test::Utils;
use Test::More;

new_move();
my $reverse = "CALL shardring.reverse_move('orders', attempts => 1)";
my $finish = "CALL shardring.finish_move('orders', grace => '0')";
my $switched = <<'END';
NOTICE:  ring "orders" is switched to version 2
HINT:  To end it: CALL shardring.finish_move('orders');
To go back: CALL shardring.reverse_move('orders');
END

sub ledger
{
	return on('map', q{SELECT from_version, to_version, state, wanted
		FROM shardring_internal.row_move ORDER BY move DESC LIMIT 1});
}

sub versions
{
	return join ' ', map {
		on($_, q{SELECT concat_ws('/', active_version, moving_from, moving_to, closed_until)
			FROM shardring.ring})
	} qw(map a b c);
}

# As on a standby that was promoted without the last commits.
sub lose_switch
{
	my ($name) = @_;
	on($name, q{
		ALTER TABLE shardring.ring DISABLE TRIGGER ALL;
		UPDATE shardring.ring SET active_version = 1, moving_from = 1, moving_to = 2,
			closed_until = NULL, back_lsn = NULL, fingerprint = (
				SELECT v.fingerprint FROM shardring.ring_version AS v WHERE v.version = 1);
		ALTER TABLE shardring.activation DISABLE TRIGGER ALL;
		DELETE FROM shardring.activation WHERE version = 2;
		ALTER TABLE shardring.activation ENABLE TRIGGER ALL;
		ALTER TABLE shardring.ring ENABLE TRIGGER ALL;
		ALTER TABLE shardring.ring ENABLE ALWAYS TRIGGER ring_move});
	return;
}

# The model in move_model.py is of this program.
my ($phases) = run_command(
	[ '/usr/bin/python3', '-B', "$FindBin::RealBin/move_model.py", '--phases' ]);
is(on('map', q{SELECT concat_ws(' ', state, phase, coalesce(next_phase, '-'),
		coalesce(step, '-'), coalesce(who, '-'), coalesce(streams, '-'))
	FROM shardring_internal.move_phases() WHERE program = 'move'}),
	$phases, 'phases are those of the model');

start_writers(4, 400, $ENV{SEED} // int(rand(1e6)));
is(says($reverse), <<'END', 'nothing to go back from');
ERROR:  ring "orders" does not move
HINT:  SELECT shardring.start_move('orders');
END
on('map', q{SELECT shardring.start_move('orders')});
like(says($reverse), qr/^ERROR:  ring "orders" is moving from version 1 to version 2\nDETAIL:  State: new\./,
	'not before the switch');
on('map', q{CALL shardring.run_move('orders')});
is(says(q{CALL shardring.switch_move('orders')}), $switched, 'switched');

# ---------- back, but it cannot be switched, and so it stays ----------

my $writer = $node{c}->background_psql('postgres');
$writer->query_safe(q{BEGIN; LOCK account IN ROW EXCLUSIVE MODE});
on('map', q{UPDATE shardring_internal.row_move SET options = options || '{"gate": "1 s"}'});
like(says($reverse), qr/^ERROR:  ring "orders" was not switched to version 3\nDETAIL:  c: still writing: sessions \d+\.\nHINT:  To switch: CALL shardring.switch_move\('orders'\);\nTo stay with version 2: CALL shardring.cancel_move\('orders'\);\n/,
	'the gate does not open');
$writer->query_safe('ROLLBACK');
$writer->quit;
is(ledger(), '2|3|ready|ready', 'the move was turned');
is(versions(), '2 2/2/3 2/2/3 2/2/3', 'on all shards, which are open');
like(says($finish), qr/^ERROR:  ring "orders" is moving from version 2 to version 3\n/,
	'there is no end to it before');
is(says(q{CALL shardring.cancel_move('orders')}), $switched, 'it stays');
is(ledger(), '1|2|switched|switched', 'and is the move that it was');
is(versions(), '2 2/1/2 2/1/2 2/1/2', 'on all shards');
is(on('map', q{SELECT from_shard, to_shard, state, problem
		FROM shardring.move_status('orders')}),
	"a|b|switched|\na|c|switched|\nb|c|switched|", 'the status');

# ---------- nobody turns it under a call ----------

my $driver = $node{map}->background_psql('postgres');
$driver->query_safe(q{BEGIN;
	SELECT shardring_internal.hold_move('orders', NULL)});
like(says($reverse), qr/^ERROR:  another call is moving ring "orders"\nHINT:  Wait for it, or end it and call again\.\n/,
	'not while a call moves it');
is(ledger(), '1|2|switched|switched', 'and nothing is turned');
$driver->query_safe('ROLLBACK');
$driver->quit;
my $token = on('map', q{SELECT token FROM shardring_internal.row_move ORDER BY move DESC LIMIT 1});

# ---------- not even turned on any shard ----------

sub turn
{
	on('map', q{
		SELECT shardring_internal.want_reversed('orders',
			'{"max_hold": "2 s", "attempts": 1}');
		UPDATE shardring_internal.row_move SET wanted = 'ready'
		WHERE state = 'turning'});
	return;
}
turn();
is(ledger(), '2|4|turning|ready', 'turned on the map only');
is(on('map', qq{SELECT token > $token FROM shardring_internal.row_move ORDER BY move DESC LIMIT 1}), 't',
	'and a call that was on its way ends');
is(says(q{CALL shardring.cancel_move('orders')}), $switched, 'and not at all');
is(versions(), '2 2/1/2 2/1/2 2/1/2', 'on no shard');

# ---------- a shard loses the switch while the move is turned ----------

turn();
is(says(q{CALL shardring.run_move('orders')}), <<'END', 'ready to go back');
NOTICE:  ring "orders" is ready to switch to version 5
HINT:  To switch: CALL shardring.switch_move('orders');
To stay with version 2: CALL shardring.cancel_move('orders');
END
my $memory = stop_writers();
lose_switch('a');
my $stray = on('map', q{SELECT 'stray' || i FROM generate_series(1, 100) AS i
	WHERE shardring.shard_for('orders', 'stray' || i, 1) = 'a'
		AND shardring.shard_for('orders', 'stray' || i, 2) = 'c' LIMIT 1});
on('a', "INSERT INTO account VALUES ('$stray', 'v', 'n')");
like(says(q{CALL shardring.run_move('orders')}),
	qr/^ERROR:  move of ring "orders" cannot go on\nDETAIL:  1 key differs between both sides\.\n/,
	'what it accepted meanwhile is found');
is(versions(), '2 2/1/2 2/1/2 2/1/2', 'it is switched again, and owns nothing');
is(ledger(), '1|2|switched|switched', 'the move is the one before it was turned');
on('a', "SET session_replication_role = replica; DELETE FROM account WHERE id = '$stray'");
is(says(q{CALL shardring.run_move('orders')}), $switched, 'and goes on');
check_rows($memory, 2);
start_writers(4, 400, $ENV{SEED} // int(rand(1e6)));

# ---------- back ----------

is(says($reverse), <<'END', 'back');
NOTICE:  ring "orders" is switched to version 6
HINT:  To end it: CALL shardring.finish_move('orders');
To go back: CALL shardring.reverse_move('orders');
END
is(versions(), '6 6/2/6 6/2/6 6/2/6', 'on all shards');
is(on('map', q{SELECT count(*) FROM shardring.moved_ranges('orders', 1, 6)}), '0',
	'every key is where it was');
is(on('map', q{SELECT from_shard, to_shard, state, problem
		FROM shardring.move_status('orders')}),
	"b|a|switched|\nc|a|switched|\nc|b|switched|", 'the status');

# ---------- and there once more, and back, with nothing copied ----------

is(says($reverse) =~ /switched to version 7/, 1, 'there once more');
is(on('map', q{SELECT count(*) FROM shardring.moved_ranges('orders', 2, 7)}), '0',
	'every key is where it is to be');
is(says($reverse) =~ /switched to version 8/, 1, 'and back again');
is(says($finish), qq{NOTICE:  ring "orders" is switched to version 8\n}, 'finished');
$memory = stop_writers();
check_rows($memory, 8, 1);
nothing_left('finished');
is(on('c', 'SELECT count(*) FROM account'), '0', 'the new shard is empty again');
is(on('map', q{SELECT * FROM shardring.move_leftovers('orders')}), '',
	'nothing is left over');


# ---------- a map that has lost how it ended ----------

on('map', q{UPDATE shardring_internal.row_move SET state = 'switched', phase = 'switched',
	wanted = 'finished' WHERE state = 'finished'});
is(says(q{CALL shardring.run_move('orders')}), qq{NOTICE:  ring "orders" is switched to version 8\n},
	'is told so by the shards');
is(ledger(), '7|8|finished|finished', 'and it is over');

$_->stop foreach values %node;
done_testing();
