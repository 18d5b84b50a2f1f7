# move.pl
#	Rows follow their keys while they are written: a whole move, taken back
#	before its switch, and then carried through.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Moves;
use PostgreSQL::Test::Utils;
use Test::More;

new_move();
start_writers(4, 400, $ENV{SEED} // int(rand(1e6)));

# ---------- there, and taken back ----------

is(says("CALL shardring.run_move('orders')"), <<'END', 'nothing moves');
ERROR:  ring "orders" does not move
HINT:  SELECT shardring.start_move('orders');
END
is(on('map', q{SELECT * FROM shardring.move_check('orders')}), '',
	'nothing has to be mended');
is(on('map', q{SELECT shardring.start_move('orders')}), '1', 'a move is planned');
my $ready = <<'END';
NOTICE:  ring "orders" is ready to switch to version 2
HINT:  To switch: CALL shardring.switch_move('orders');
To go back: CALL shardring.cancel_move('orders');
END
is(says("CALL shardring.run_move('orders')"), $ready, 'ready');
is(says("CALL shardring.run_move('orders')"), $ready, 'ready, and stays so');
is(on('map', q{SELECT from_shard, to_shard, state, tables, problem
		FROM shardring.move_status('orders')}),
	"a|b|ready|2/2|\na|c|ready|2/2|\nb|c|ready|2/2|", 'the status');
is(on('map', q{SELECT under_way FROM shardring.cluster_status('orders')}),
	'move to 2: ready', 'and that of the cluster');
is(says("CALL shardring.cancel_move('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'taken back');
nothing_left('taken back');
is(on('map', q{SELECT * FROM shardring.move_leftovers('orders')}), '', 'nothing is left over');
my $memory = stop_writers();
check_rows($memory, 1, 1);
on($_, 'DELETE FROM account') foreach qw(a b);

# ---------- there ----------

start_writers(4, 400, $ENV{SEED} // int(rand(1e6)));
is(on('map', q{SELECT shardring.start_move('orders', 2)}), '2', 'planned again');
is(says("CALL shardring.run_move('orders')"), $ready, 'ready again');
is(says("CALL shardring.finish_move('orders')"), <<'END', 'not finished before');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: ready.
HINT:  To switch: CALL shardring.switch_move('orders');
To go back: CALL shardring.cancel_move('orders');
END
is(says("CALL shardring.switch_move('orders')"), <<'END', 'switched');
NOTICE:  ring "orders" is switched to version 2
HINT:  To end it: CALL shardring.finish_move('orders');
END
is(says("CALL shardring.cancel_move('orders')"), <<'END', 'not taken back any more');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: switched.
HINT:  To end it: CALL shardring.finish_move('orders');
END
is(says("CALL shardring.finish_move('orders', grace => '1 s')"),
	qq{NOTICE:  ring "orders" is switched to version 2\n}, 'finished');
$memory = stop_writers();
check_rows($memory, 2, 1);
nothing_left('finished');
note on('map', q{
	SELECT string_agg(phase || ' ' || round(1000 * extract(epoch FROM at - before)), ', ' ORDER BY number)
	FROM (SELECT *, lag(at) OVER (ORDER BY number) AS before
		  FROM shardring_internal.move_event) AS e
	WHERE event = 'done' AND state IN ('closing', 'decided')});

$_->stop foreach values %node;
done_testing();
