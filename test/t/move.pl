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
is(on('map', q{SELECT name, labels ->> 'state', labels ->> 'from_shard', labels ->> 'to_shard',
			value >= 0 FROM shardring.metrics() WHERE name ~ '_move_'}), <<'END' =~ s/\n\z//r, 'numbers for a monitor');
shardring_move_lag_bytes||a|b|t
shardring_move_lag_bytes||a|c|t
shardring_move_lag_bytes||b|c|t
shardring_move_retained_bytes||a|b|t
shardring_move_retained_bytes||a|c|t
shardring_move_retained_bytes||b|c|t
shardring_move_seconds|ready|||t
shardring_move_stuck||||t
END
my $goes = on('map', q{SELECT min('k' || i) FROM generate_series(1, 1000) AS i
	WHERE shardring.shard_for('orders', 'k' || i, 1) = 'a'
		AND shardring.shard_for('orders', 'k' || i, 2) = 'c'});
is(on('map', "SELECT r.* FROM shardring.moving_route('orders', '$goes') AS r"), 'a|c|ready',
	'where a key is, and where it goes');
like(says(q{SELECT shardring.drop_leftovers('orders')}), qr/^ERROR:  ring "orders" is moving from version 1 to version 2\n/,
	'what it has is no leftover');
my (undef, undef, $kept) = $node{a}->psql('postgres', q{SELECT shardring.forget_move('orders')});
like($kept, qr/publication "shardring_\w+" of the move of ring "orders" is still here/, 'nor forgotten');
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
is(says("CALL shardring.run_move('orders')"), $ready, 'ready once more');

# what changes meanwhile keeps it from being switched
my $switch = "CALL shardring.switch_move('orders', attempts => 1)";
sub not_switched
{
	my ($what, $reason) = @_;
	like(says($switch), qr/^ERROR:  ring "orders" was not switched to version 2\nDETAIL:  $reason\.\n/,
		"not switched: $what");
	is(on('map', q{SELECT DISTINCT state FROM shardring.move_status('orders')}),
		'ready', "$what: open and ready");
	return;
}
on('c', 'ALTER TABLE account ADD more int');
not_switched('another column', 'a and c: guarded tables have different columns');
on('c', 'ALTER TABLE account DROP more');
on('a', 'ALTER TABLE entry DISABLE TRIGGER zz_guard');
not_switched('a guard that is disabled', 'a: guards are not as they were when the move began');
on('a', 'ALTER TABLE entry ENABLE TRIGGER zz_guard');
on('b', q{CREATE TABLE late (id text PRIMARY KEY);
	SELECT shardring.add_guard('orders', 'late', 'id')});
not_switched('another table', 'a and b: guarded tables have different columns');
on('b', 'DROP TABLE late');
my $writer = $node{a}->background_psql('postgres');
$writer->query_safe(q{BEGIN; LOCK account IN ROW EXCLUSIVE MODE});
my $pid = $writer->query_safe('SELECT pg_backend_pid()');
on('map', q{UPDATE shardring_internal.row_move SET options = options || '{"gate": "1 s"}'});
not_switched('a transaction that goes on writing', "a: still writing: sessions $pid");
$writer->query_safe('ROLLBACK');
$writer->quit;
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
To go back: CALL shardring.reverse_move('orders');
END
is(says("CALL shardring.cancel_move('orders')"), <<'END', 'not taken back any more');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: switched.
HINT:  To end it: CALL shardring.finish_move('orders');
To go back: CALL shardring.reverse_move('orders');
END
is(says("CALL shardring.finish_move('orders', grace => '1 s')"),
	qq{NOTICE:  ring "orders" is switched to version 2\n}, 'finished');
$memory = stop_writers();
check_rows($memory, 2, 1);
nothing_left('finished');
note on('map', q{
	SELECT string_agg(phase || ' ' || round(1000 * extract(epoch FROM at - before)), ', ' ORDER BY number)
	FROM (SELECT *, lag(at) OVER (PARTITION BY move ORDER BY number) AS before
		  FROM shardring_internal.move_event) AS e
	WHERE event = 'done' AND state IN ('closing', 'decided')});


# ---------- what is left where a map is lost ----------

is(on('map', "SELECT r.* FROM shardring.moving_route('orders', '$goes') AS r"), 'c||', 'at its new place');
is(on('map', q{SELECT (shardring.moving_route('orders', 5::bigint)).state IS NULL,
		(shardring.moving_route('orders', gen_random_uuid())).shard IS NOT NULL,
		(shardring.moving_route('orders', NULL::text)).shard IS NULL}), 't|t|t', 'keys of other types');
is(on('map', q{SELECT * FROM shardring.drop_leftovers('orders')}), '', 'nothing to drop');
my $name = on('map', q{SELECT shardring_internal.stream_prefix('orders') || '9_0_1'});
on('a', "CREATE PUBLICATION $name; SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
on('b', "CREATE SUBSCRIPTION $name CONNECTION \$\$" . $node{a}->connstr('postgres')
	. "\$\$ PUBLICATION $name WITH (create_slot = false)");
my $left = "a|publication|$name|\na|slot|$name|\nb|subscription|$name|";
is(on('map', q{SELECT server, kind, name, error FROM shardring.move_leftovers('orders')
		ORDER BY kind}), $left, 'what is left is found');
sub as_moving
{
	my ($closed) = @_;
	on('a', qq{
		ALTER TABLE shardring.ring DISABLE TRIGGER ALL;
		UPDATE shardring.ring SET moving_from = 1, moving_to = 2, closed_until = $closed;
		ALTER TABLE shardring.ring ENABLE TRIGGER ALL;
		ALTER TABLE shardring.ring ENABLE ALWAYS TRIGGER ring_move});
	return;
}
as_moving('NULL');
like(on('map', q{SELECT * FROM shardring.drop_leftovers('orders') WHERE error IS NOT NULL LIMIT 1}),
	qr/^a\|subscription\|\|ring "orders" is moving from version 1 to version 2/, 'but not dropped under another map');
is(on('b', 'SELECT count(*) FROM pg_subscription'), '0', 'only what nobody drives');
(undef, undef, $kept) = $node{a}->psql('postgres', q{SELECT shardring.forget_move('orders')});
like($kept, qr/is still here/, 'nor is the move forgotten there');
on('a', "SELECT shardring_internal.drop_slot('$name'); DROP PUBLICATION $name");
as_moving("'infinity'");
(undef, undef, $kept) = $node{a}->psql('postgres', q{SELECT shardring.forget_move('orders')});
like($kept, qr/ring "orders" is closed here\nDETAIL:  Another shard may own/, 'not where writes are refused');
on('a', q{SELECT shardring.forget_move('orders', closed => true)});
as_moving('NULL');
on('a', q{SELECT shardring.forget_move('orders')});
on('a', q{SELECT shardring.forget_move('orders')});
nothing_left('forgotten');
on('a', "CREATE PUBLICATION $name; SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
on('b', "CREATE SUBSCRIPTION $name CONNECTION \$\$" . $node{a}->connstr('postgres')
	. "\$\$ PUBLICATION $name WITH (create_slot = false)");
is(on('map', q{SELECT server, kind, name, error FROM shardring.drop_leftovers('orders')
		ORDER BY kind}), $left, 'all is dropped');
nothing_left('dropped');

$_->stop foreach values %node;
done_testing();
