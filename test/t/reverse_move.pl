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

# ---------- back ----------

is(says($reverse), <<'END', 'back');
NOTICE:  ring "orders" is switched to version 4
HINT:  To end it: CALL shardring.finish_move('orders');
To go back: CALL shardring.reverse_move('orders');
END
is(versions(), '4 4/2/4 4/2/4 4/2/4', 'on all shards');
is(on('map', q{SELECT count(*) FROM shardring.moved_ranges('orders', 1, 4)}), '0',
	'every key is where it was');
is(on('map', q{SELECT from_shard, to_shard, state, problem
		FROM shardring.move_status('orders')}),
	"b|a|switched|\nc|a|switched|\nc|b|switched|", 'the status');

# ---------- and there once more, and back, with nothing copied ----------

is(says($reverse) =~ /switched to version 5/, 1, 'there once more');
is(on('map', q{SELECT count(*) FROM shardring.moved_ranges('orders', 2, 5)}), '0',
	'every key is where it is to be');
is(says($reverse) =~ /switched to version 6/, 1, 'and back again');
is(says($finish), qq{NOTICE:  ring "orders" is switched to version 6\n}, 'finished');
my $memory = stop_writers();
check_rows($memory, 6, 1);
nothing_left('finished');
is(on('c', 'SELECT count(*) FROM account'), '0', 'the new shard is empty again');
is(on('map', q{SELECT * FROM shardring.move_leftovers('orders')}), '',
	'nothing is left over');

$_->stop foreach values %node;
done_testing();
