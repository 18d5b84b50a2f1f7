# fence.pl
#	A switch for which rows are copied by hand: no shard takes a key while
#	another one still does, whatever dies, and who is in the way is told.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(sqlstate_of);
use Test::More;

my $main = new_server('main');
my $other = new_server('other');
my ($host, $port) = ($other->host, $other->port);
my @shards = qw(a b c);

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

sub on
{
	return $other->safe_psql(@_);
}

# What a call says: notices and errors, with detail and hint.
sub says
{
	my ($sql) = @_;
	my ($status, $out, $error) = $main->psql('postgres', $sql);
	$error =~ s/^psql:<stdin>:\d+: //mg;
	$error =~ s/^CONTEXT: .*\n(?:(?:PL|SQL).*\n)*//mg;
	return "$error\n";
}

on_main('CREATE EXTENSION postgres_fdw');
foreach my $name (@shards)
{
	on('postgres', "CREATE DATABASE $name");
	on($name, q{
		CREATE EXTENSION shardring;
		CREATE TABLE held (key bigint PRIMARY KEY)});
	on_main(qq{
		CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$port', dbname '$name')});
}
# A changed weight: b gives keys to c and takes some of a.
on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g' || s, ARRAY[s])
	FROM unnest('{a,b}'::text[]) AS s;
	SELECT shardring.activate('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'gc', ARRAY['c']);
	SELECT shardring.set_weight('orders', 'gb', 1.5)});
is(on_main(q{SELECT string_agg(g.ok::text, ',')
	FROM shardring.guard_table('orders', 'public.held', 'key') AS g}),
	'true,true,true', 'guarded');
is(on_main(q{SELECT string_agg(DISTINCT from_shard || to_shard, ' ' ORDER BY from_shard || to_shard)
	FROM shardring.move_plan('orders', 1, 2)}), 'ab ac bc', 'a chain');


# The keys of a sample that each shard accepts for writing, "key shard".
on($_, q{
	CREATE FUNCTION accepted() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
	BEGIN
		FOR k IN 1 .. 200 LOOP
			BEGIN
				INSERT INTO held VALUES (-k);
				RAISE division_by_zero;
			EXCEPTION
				WHEN division_by_zero THEN
					RETURN NEXT -k;
				WHEN SQLSTATE 'SR001' OR SQLSTATE 'SR003'
					OR SQLSTATE '55000' THEN
					NULL;
			END;
		END LOOP;
	END $$}) foreach @shards;

sub owners
{
	my %owner;
	foreach my $shard (@shards)
	{
		push @{ $owner{$_} }, $shard
		  foreach split /\n/, on($shard, 'SELECT accepted()');
	}
	return \%owner;
}

sub two_owners
{
	my $owner = owners();
	return scalar grep { @{ $owner->{$_} } > 1 } keys %$owner;
}

sub state
{
	return on_main(q{SELECT coalesce((
		SELECT m.state || ' ' || m.phase
		FROM shardring_internal.row_move AS m
		WHERE m.ring = 'orders' ORDER BY m.move DESC LIMIT 1), 'none')});
}

sub active
{
	return join ' ', on_main(q{SELECT shardring.active_version('orders')}),
		map { on($_, q{SELECT shardring.active_version('orders')}) } @shards;
}

sub columns
{
	return join ' ', map { on($_, q{
		SELECT coalesce(moving_to, 0) || coalesce(closed_until::text, '-')
		FROM shardring.ring}) } @shards;
}

# The model in fence_model.py is of this program.
my ($phases) = run_command(
	[ '/usr/bin/python3', '-B', "$FindBin::RealBin/fence_model.py", '--phases' ]);
is(on_main(q{SELECT concat_ws(' ', phase, step, who)
	FROM shardring_internal.move_phases()
	WHERE program = 'fence' AND step IS NOT NULL}), $phases, 'phases are those of the model');

my $moving = on_main(q{SELECT count(*) FROM generate_series(-200::bigint, -1) AS k
	WHERE shardring.moves('orders', 1, 2, k)});
is(scalar keys %{ owners() }, 200, 'before: every key has an owner');

# ---------- there and back ----------

is(says("CALL shardring.switch_fenced('orders')"), <<'END', 'not fenced');
ERROR:  ring "orders" is not fenced
HINT:  CALL shardring.fence('orders');
END
is(says("CALL shardring.unfence('orders')"), <<'END', 'not fenced, so not opened');
ERROR:  ring "orders" is not fenced
HINT:  CALL shardring.fence('orders');
END
is(says("CALL shardring.fence('none')"),
	<<'END', 'no such ring');
ERROR:  ring "none" does not exist
HINT:  There is ring "orders".
END
foreach my $case (
	[ '22004', 'fence(NULL)', 'switch_fenced(NULL)', 'unfence(NULL)',
		q{fence('orders', timeout => NULL)} ],
	[ '42704', map { ("fence($_)", "switch_fenced($_)", "unfence($_)") }
		q{''}, q{'größe'}, q{repeat('x', 1000000)} ],
	[ '42704', q{fence('orders', 99)} ],
	[ '22023', q{fence('orders', timeout => '-1 s')},
		q{fence('orders', timeout => '61 min')} ],
	[ '2D000', q{fence('orders'); ROLLBACK} ])
{
	my ($code, @calls) = @$case;
	foreach my $call (@calls)
	{
		my $begin = $code eq '2D000' ? 'BEGIN; ' : '';
		is(sqlstate_of($main, 'postgres', "${begin}CALL shardring.$call"), $code,
			$code . ': ' . substr($call, 0, 40));
	}
}
is(state(), 'none', 'nothing has begun');
my $fenced = <<'END';
NOTICE:  ring "orders" is fenced for version 2
HINT:  When the rows are copied: CALL shardring.switch_fenced('orders');
To go back: CALL shardring.unfence('orders');
END
is(says("CALL shardring.fence('orders')"), $fenced, 'fenced');
is(columns(), '2infinity 2infinity 2-', 'sources are closed for good');
is(active(), '1 1 1 1', 'and nothing is active');
is(scalar keys %{ owners() }, 200 - $moving, 'keys that move have no owner');
is(two_owners(), 0, 'no key has two');
is(says("CALL shardring.fence('orders', 2)"), $fenced, 'fenced twice');
is(says("CALL shardring.fence('orders', 1)"), <<'END', 'for another version');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: closed.
HINT:  When the rows are copied: CALL shardring.switch_fenced('orders');
To go back: CALL shardring.unfence('orders');
END

# older tools meanwhile
foreach my $sql (q{SELECT shardring.activate('orders', 2)},
	q{SELECT shardring.drop_ring('orders')},
	q{SELECT shardring.drop_version('orders', 2)},
	q{UPDATE shardring.ring SET active_version = 2, fingerprint = (
		SELECT fingerprint FROM shardring.ring_version WHERE version = 2)})
{
	is(sqlstate_of($_ eq 'map' ? $main : $other, $_ eq 'map' ? 'postgres' : $_, $sql),
		'55000', "$_: $sql") foreach ('map', @shards);
}
is(sqlstate_of($main, 'postgres', $_), '55000', $_) foreach (
	q{SELECT shardring.push_version('orders', 2, ARRAY['a'], activate => true)},
	q{SELECT shardring.push_version('orders', 2, activate => true)},
	q{SELECT shardring.drop_version_on_shards('orders', 2)});
is(active(), '1 1 1 1', 'older tools change nothing');

is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'unfenced');
is(columns(), '0- 0- 0-', 'as before');
is(scalar keys %{ owners() }, 200, 'every key has its owner again');

# ---------- an older tool was there before ----------

# c only gets keys, so that nothing keeps it from being the first
on('c', q{SELECT shardring.activate('orders', 2)});
is(says("CALL shardring.fence('orders')"), <<'END', 'not fenced then');
ERROR:  ring "orders" is new, not closed
DETAIL:  c: version 2 is active there.
HINT:  To go on: CALL shardring.fence('orders');
To go back: CALL shardring.unfence('orders');
END
is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'but the ring is let go');
on('c', q{
	SET session_replication_role = replica;
	UPDATE shardring.ring SET active_version = 1, fingerprint = (
		SELECT fingerprint FROM shardring.ring_version WHERE version = 1);
	DELETE FROM shardring.activation WHERE version = 2});

# ---------- writers in the way ----------

my $key = on_main(q{SELECT k FROM generate_series(1, 1000::bigint) AS k
	WHERE shardring.shard_for('orders', k, 1) = 'a'
		AND shardring.shard_for('orders', k, 2) = 'b' LIMIT 1});
my $writer = $other->background_psql('a');
$writer->query_safe("BEGIN; INSERT INTO held VALUES ($key)");
my $pid = $writer->query_safe('SELECT pg_backend_pid()');
is(says("CALL shardring.fence('orders', timeout => '300 ms')"), <<"END", 'a writer is told');
ERROR:  ring "orders" is closing, not closed
DETAIL:  a: still writing: sessions $pid.
HINT:  To go on: CALL shardring.fence('orders');
To go back: CALL shardring.unfence('orders');
END
is(state(), 'closing settle', 'and waited for');
is(says("CALL shardring.switch_fenced('orders')"), <<"END", 'not switched before');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: closing.  Last error: a: still writing: sessions $pid.
HINT:  To go on: CALL shardring.fence('orders');
To go back: CALL shardring.unfence('orders');
END
$writer->query_safe('COMMIT');
$writer->quit;
is(says("CALL shardring.fence('orders')"), $fenced, 'when it has ended');

# a shard that has lost its hold, as by a failover
on('a', q{SELECT shardring.move_step('orders', 'lift', move_token,
	'{"from_version": 1, "to_version": 2}') FROM shardring.ring});
is(says("CALL shardring.switch_fenced('orders')"), <<'END', 'a lost hold is noticed');
ERROR:  ring "orders" is closing, not finished
DETAIL:  a: was opened since; copy its rows again when it is closed.
HINT:  To go on: CALL shardring.fence('orders');
To go back: CALL shardring.unfence('orders');
END
is(active(), '1 1 1 1', 'and nothing was activated');
is(says("CALL shardring.fence('orders')"), $fenced, 'closed again');

on('a', q{SELECT shardring.move_step('orders', 'lift', move_token,
	'{"from_version": 1, "to_version": 2}') FROM shardring.ring});
is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'a lost hold does not keep a ring from being opened');

# ---------- what is wanted while a phase is committed ----------

is(says("CALL shardring.fence('orders')"), $fenced, 'fenced again');
my $driver = $main->background_psql('postgres');
$driver->query_safe(q{
	BEGIN;
	UPDATE shardring_internal.row_move SET state = 'closing', phase = 'close'
	WHERE state = 'closed'});
my $caller = IPC::Run::start(
	[ 'psql', '-XAt', '-d', $main->connstr('postgres'),
		'-c', q{CALL shardring.switch_fenced('orders')} ],
	'>', \my $called, '2>&1');
ok($main->poll_query_until('postgres', q{
	SELECT count(*) > 0 FROM pg_stat_activity
	WHERE query ~ '^CALL shardring' AND wait_event_type = 'Lock'}),
	'a call waits for a commit');
$driver->query_safe('COMMIT');
$driver->quit;
$caller->finish;
like($called, qr/^ERROR:  ring "orders" is moving.*\nDETAIL:  State: closing\./,
	'and sees what is true then');
is(active(), '1 1 1 1', 'nothing was activated');
is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'and opened');

# ---------- guards that are not there ----------

# What fence says, with the detail that is expected.
sub refuses_fence
{
	my ($state, $wanted, $detail, $name) = @_;
	my $call = $wanted eq 'closed' ? 'fence' : 'switch_fenced';
	is(says("CALL shardring.$call('orders')"), <<"END", $name);
ERROR:  ring "orders" is $state, not $wanted
DETAIL:  $detail.
HINT:  To go on: CALL shardring.fence('orders');
To go back: CALL shardring.unfence('orders');
END
	return;
}

on($_, 'CREATE TABLE more (key bigint PRIMARY KEY, other bigint NOT NULL)')
  foreach @shards;
on('a', q{SELECT shardring.add_guard('orders', 'more', 'key')});
refuses_fence('new', 'closed',
	'b: table public.more is not guarded there as it is on a', 'a table without a guard');
is(columns(), '0- 0- 0-', 'nothing is closed');
on('b', q{SELECT shardring.add_guard('orders', 'more', 'key')});
on('c', q{SELECT shardring.add_guard('orders', 'more', 'other')});
refuses_fence('new', 'closed',
	'c: table public.more is guarded by another column than on a', 'another key');
on('c', 'DROP TABLE more');
on('c', 'CREATE TABLE more (key bigint PRIMARY KEY)');
on('c', q{SELECT shardring.add_guard('orders', 'more', 'key')});
on('b', 'ALTER TABLE more DISABLE TRIGGER zz_guard_statement');
refuses_fence('new', 'closed',
	'b: a guard of table public.more is missing or disabled', 'a disabled guard');
on('b', 'ALTER TABLE more ENABLE TRIGGER zz_guard_statement');
is(says("CALL shardring.fence('orders')"), $fenced, 'all guards are there');
on('a', 'ALTER TABLE more DISABLE TRIGGER zz_guard');
refuses_fence('closing', 'finished', 'a: a guard of table public.more is missing or '
	. 'disabled; when that is mended, copy the rows again', 'disabled behind the fence');
is(active(), '1 1 1 1', 'and nothing was activated');
refuses_fence('closing', 'closed', 'a: a guard of table public.more is missing or '
	. 'disabled', 'not fenced before it is mended');
is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'but opened');
on($_, 'DROP TABLE more') foreach @shards;
is(says("CALL shardring.fence('orders')"), $fenced, 'fenced again');

# ---------- who dies is followed ----------

on_main(q{
	CREATE TABLE death (phase text, event text);
	CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM public.death AS d
				   WHERE d.phase = NEW.phase AND d.event = NEW.event) THEN
			RAISE 'died';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER die BEFORE INSERT ON shardring_internal.move_event
		FOR EACH ROW EXECUTE FUNCTION die()});

# Calls until it is done, dying once before or after each phase is asked for.
sub die_in
{
	my ($call, @phases) = @_;
	foreach my $phase (@phases)
	{
		foreach my $event (qw(begin done))
		{
			on_main("INSERT INTO death VALUES ('$phase', '$event')");
			like(says($call), qr/ERROR:  died/, "$phase: dies at $event");
			is(two_owners(), 0, "$phase, $event: no key has two owners");
			on_main('DELETE FROM death');
		}
	}
	return;
}

die_in("CALL shardring.unfence('orders')", qw(lift unset));
is(says("CALL shardring.unfence('orders')"),
	qq{NOTICE:  ring "orders" is open again, and stays with version 1\n},
	'unfenced after all');
is(scalar keys %{ owners() }, 200, 'every key has its owner');
die_in("CALL shardring.fence('orders')", qw(push set close settle));
is(says("CALL shardring.fence('orders')"), $fenced, 'fenced after all');
die_in("CALL shardring.switch_fenced('orders')",
	qw(activate_targets));
is(says("CALL shardring.unfence('orders')"), <<'END', 'the way is forward');
ERROR:  ring "orders" is moving from version 1 to version 2
DETAIL:  State: decided.
HINT:  To go on: CALL shardring.switch_fenced('orders');
END
die_in("CALL shardring.switch_fenced('orders')",
	qw(activate_here activate_routers activate_others));
is(sqlstate_of($_ eq 'map' ? $main : $other, $_ eq 'map' ? 'postgres' : $_,
	q{SELECT shardring.prune('orders', keep => 0)}), '55000', "$_: prune")
  foreach ('map', @shards);
die_in("CALL shardring.switch_fenced('orders')", 'clear');
is(says("CALL shardring.switch_fenced('orders')"),
	qq{NOTICE:  ring "orders" is switched to version 2\n}, 'switched after all');
is(active(), '2 2 2 2', 'active everywhere');
is(columns(), '0- 0- 0-', 'nothing moves any more');
is(scalar keys %{ owners() }, 200, 'every key has one owner');
is(two_owners(), 0, 'and not two');

# ---------- a map that has lost how the fence ended ----------

on_main(q{
	SET session_replication_role = replica;
	UPDATE shardring_internal.row_move
	SET state = 'closed', phase = 'closed', wanted = 'closed'
	WHERE move = (SELECT max(move) FROM shardring_internal.row_move);
	UPDATE shardring.ring SET active_version = 1, fingerprint = (
		SELECT fingerprint FROM shardring.ring_version WHERE version = 1);
	DELETE FROM shardring.activation WHERE version = 2});
is(active(), '1 2 2 2', 'the map is back');
is(says("CALL shardring.unfence('orders')"), <<'END', 'no way back');
ERROR:  ring "orders" is decided, not cancelled
DETAIL:  Version 2 is active on a shard.
HINT:  To go on: CALL shardring.switch_fenced('orders');
END
is(says("CALL shardring.switch_fenced('orders')"),
	qq{NOTICE:  ring "orders" is switched to version 2\n}, 'the shards are believed');
is(active(), '2 2 2 2', 'the map routes by what they have');

# ---------- without a fence ----------

# b would be source and target; the way that push_version refuses, by hand
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'ga', 0.5);
	SELECT shardring.set_weight('orders', 'gc', 3);
	SELECT shardring.seal('orders')});
is(on_main(q{SELECT count(*) FROM shardring.push_version('orders', 3) WHERE NOT ok}),
	0, 'version 3 is everywhere');
on('b', q{SELECT shardring.activate('orders', 3)});
cmp_ok(two_owners(), '>', 0,
	'activated on a source that is a target: keys have two owners');

$_->stop for ($main, $other);
done_testing();
