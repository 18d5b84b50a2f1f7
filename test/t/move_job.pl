# move_job.pl
#	The whole job: a fifth server joins four, while rows are written through a
#	router and through PL/Proxy.  Six calls, nothing else, and nothing is lost.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Moves;
use Shards;
use PostgreSQL::Test::Utils;
use Test::More;

my @four = qw(s0 s1 s2 s3);
new_servers('', @four, 's4');
$node{router} = new_server('router');
add_address($node{map}, $node{router}, 'postgres_fdw');

# ---------- four servers, a map and a router, both with PL/Proxy ----------

on('map', q{
	ALTER DATABASE postgres SET shardring.remote_timeout = '1 min'});
on('map', q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
	FROM generate_series(0, 3) AS i;
	SELECT shardring.activate('orders');
	SELECT shardring.add_router('orders', 'router')});
is(on('map', qq{SELECT string_agg(g.ok::text, ',')
		FROM shardring.guard_table('orders', 'public.$_->[0]', '$_->[1]') AS g}),
	'true,true,true,true', "$_->[0] is guarded")
  foreach ([ 'account', 'id' ], [ 'entry', 'account' ]);
on($_, q{
	CREATE FUNCTION write(key text, kind text, value text) RETURNS text
	LANGUAGE plpgsql AS $body$
	BEGIN
		PERFORM shardring.require_here('orders', key);
		IF kind = 'delete' THEN
			DELETE FROM public.account WHERE id = key;
		ELSE
			INSERT INTO public.account VALUES (key, value, value)
			ON CONFLICT (id) DO UPDATE SET value = excluded.value;
			INSERT INTO public.entry (account, amount) VALUES (key, 1);
		END IF;
		RETURN kind;
	END $body$}) foreach @four, 's4';
is(on('map', q{SELECT router, ok FROM shardring.push_version('orders', 1, activate => true)
		WHERE router IS NOT NULL}),
	'router|t', 'the router has the map');
on('router', 'CREATE EXTENSION postgres_fdw');
foreach my $proxy (qw(map router))
{
	if ($proxy eq 'router') { add_address($node{router}, $node{$_}, 'postgres_fdw') foreach @four; }
	on($proxy, q{
		CREATE EXTENSION plproxy;
		SELECT shardring.plproxy_sync('orders');
		CREATE USER MAPPING FOR CURRENT_USER SERVER orders;
		CREATE FUNCTION write(key text, kind text, value text) RETURNS text
		LANGUAGE plproxy AS $body$
			CLUSTER 'orders';
			RUN ON shardring.plproxy_partition('orders', key);
		$body$});
}
start_writers(6, 1200, $ENV{SEED} // int(rand(1e6)), 'router');

# ---------- the job ----------

# four streams end on s4, and one worker more has to copy
on($_, 'ALTER SYSTEM SET max_logical_replication_workers = 4') foreach 's4';
$node{s4}->restart;
on('map', q{SELECT shardring.draft_version('orders')});
on('map', q{SELECT shardring.add_group('orders', 'g4', ARRAY['s4'])});
like(says(q{SELECT shardring.start_move('orders')}),
	qr/^ERROR:  ring "orders" cannot be moved yet\nDETAIL:  .*; \d+ to mend in all\.\nHINT:  SELECT \* FROM shardring\.move_check\('orders'\);\n/,
	'the new server is not ready');
like(on('map', q{SELECT string_agg(hint, E'\n') FROM shardring.move_check('orders')
		WHERE severity = 'error'}), qr/guard_table/, 'and what it lacks is a command');
is(on('map', q{SELECT shard, problem, hint FROM shardring.move_check('orders')
		WHERE hint ~ 'ALTER SYSTEM'}),
	's4|max_logical_replication_workers leaves 4 for this move, which takes 5|'
	  . '/* shard s4 */ ALTER SYSTEM SET max_logical_replication_workers = 5; /* and restart it */',
	'also where it would wait for ever');
on('s4', 'ALTER SYSTEM SET max_logical_replication_workers = 5');
$node{s4}->restart;
is(on('map', qq{SELECT string_agg(g.ok::text, ',')
		FROM shardring.guard_table('orders', 'public.$_->[0]', '$_->[1]') AS g}),
	'true,true,true,true,true', "$_->[0] is guarded on it")
  foreach ([ 'account', 'id' ], [ 'entry', 'account' ]);
is(on('map', q{SELECT shardring.start_move('orders')}), '1', 'start_move');
like(says(q{CALL shardring.run_move('orders')}), qr/^NOTICE:  ring "orders" is ready to switch/, 'run_move');
like(says(q{CALL shardring.switch_move('orders', attempts => 1)}),
	qr/^ERROR:  ring "orders" was not switched to version 2\nDETAIL:  router: .*s4/,
	'not switched while a router does not know the new server');
add_address($node{router}, $node{s4}, 'postgres_fdw');
like(says(q{CALL shardring.switch_move('orders')}), qr/^NOTICE:  ring "orders" is switched/, 'switch_move');
like(says(q{CALL shardring.finish_move('orders', grace => '1 s')}), qr/^NOTICE:  ring "orders" is switched/, 'finish_move');
my $memory = stop_writers();
check_rows($memory, 2, 1);
nothing_left('finished');
is(on($_, q{SELECT shardring.active_version('orders')}), '2', "$_ routes by the new version")
  foreach qw(map router);
is(on($_, q{SELECT count(*) FROM unnest((SELECT srvoptions FROM pg_foreign_server
		WHERE srvname = 'orders')) AS o WHERE o ~ '^p[0-9]+='}), '5', "$_ has five partitions")
  foreach qw(map router);
cmp_ok(on('s4', 'SELECT count(*) FROM account'), '>', 100, 'the new server has its share');
is(on('map', q{SELECT count(*) FROM shardring.misplaced('orders')}), '0',
	'no row is where it does not belong');

$_->stop foreach values %node;
done_testing();
