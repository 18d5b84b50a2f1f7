# ddl.pl
#	One statement of DDL on all shards or on none, whoever dies in between, and
#	what is left of one that was broken off.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(sqlstate_of);
use Test::More;

my $main = new_server('main');
my %node;
$main->safe_psql('postgres', 'CREATE EXTENSION postgres_fdw');
foreach my $name (qw(a b c))
{
	$node{$name} = new_server($name);
	$node{$name}->append_conf('postgresql.conf',
		"max_prepared_transactions = 5\nshardring.shard = '$name'\n");
	$node{$name}->restart;
	add_address($main, $node{$name}, 'postgres_fdw');
}

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

sub on
{
	my ($name, @more) = @_;
	return $node{$name}->safe_psql('postgres', @more);
}

sub ddl
{
	my ($statement, $more) = @_;
	$more //= 'dry_run => false';
	return on_main(qq{
		SET shardring.remote_timeout = '3 s';
		SELECT d.* FROM shardring.ddl_on_shards('orders', \$d\$$statement\$d\$, $more) AS d});
}

sub refused
{
	my ($statement, $more) = @_;
	$more //= 'dry_run => false';
	return sqlstate_of($main, 'postgres', qq{
		SELECT d.* FROM shardring.ddl_on_shards('orders', \$d\$$statement\$d\$, $more) AS d});
}

sub recover
{
	return on_main(q{SET shardring.remote_timeout = '3 s';
		SELECT r.* FROM shardring.recover_ddl('orders') AS r});
}

# Which shards have that relation, and what is prepared.
sub where_is
{
	my ($relation) = @_;
	return join '', grep { on($_, "SELECT to_regclass('$relation') IS NOT NULL") eq 't' }
	  sort keys %node;
}

sub prepared
{
	return join '', grep { on($_, 'SELECT count(*) FROM pg_prepared_xacts') ne '0' }
	  sort keys %node;
}

sub nothing_prepared
{
	my ($what) = @_;
	is(prepared(), '', "$what: nothing is prepared");
	return;
}

on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b', 'c'], 6);
	SELECT shardring.activate('orders');
	SELECT shardring.push_version('orders', 1, activate => true)});

# ---------- all or none ----------

is(on_main(q{SELECT d.* FROM shardring.ddl_on_shards('orders', 'CREATE TABLE public.t (id int)') AS d}),
	"a|t|would work\nb|t|would work\nc|t|would work", 'by default it is tried');
is(where_is('public.t'), '', 'and nothing is there');
is(ddl('CREATE TABLE public.t (id int)'), "a|t|done\nb|t|done\nc|t|done", 'done');
is(where_is('public.t'), 'abc', 'on all');
is(on('b', 'SELECT statement FROM shardring_internal.ddl_statement'),
	'CREATE TABLE public.t (id int)', 'and noted');
is(on($_, 'SELECT count(*) FROM shardring_internal.ddl_statement'), '1', "once on $_")
  foreach qw(a b c);
nothing_prepared('done');

on('b', 'CREATE TABLE public.u ()');
is(ddl('CREATE TABLE public.u ()'),
	qq{a|f|not done\nb|f|relation "u" already exists\nc|f|not done}, 'an error on one');
is(where_is('public.u'), 'b', 'is done on none');
nothing_prepared('an error on one');
is(ddl('CREATE TABLE public.u ()', 'dry_run => true'),
	qq{a|t|would work\nb|f|relation "u" already exists\nc|t|would work}, 'tried');

is(ddl('DROP TABLE public.t', q{dry_run => false, shards => '{c}'}), 'c|t|done', 'on one of them');
is(where_is('public.t'), 'ab', 'it is gone there');

like(ddl('COMMIT'), qr/^a\|f\|EXECUTE of transaction commands is not implemented/, 'no transaction command');
like(ddl('CREATE INDEX CONCURRENTLY ON public.t (id)'),
	qr/^a\|f\|CREATE INDEX CONCURRENTLY cannot run inside a transact/, 'nothing that needs its own transaction');
like(ddl('CREATE TABLE (x'), qr/^a\|f\|syntax error/, 'a syntax error');
like(ddl(''), qr/^a\|t\|done/, 'nothing is a statement, too');
nothing_prepared('what cannot be run');
is(refused('SELECT 1', q{shards => '{x}'}), '42704', 'no such shard');
is(sqlstate_of($main, 'postgres', $_), '22004', $_) foreach (
	q{SELECT * FROM shardring.ddl_on_shards(NULL, 'x')},
	q{SELECT * FROM shardring.ddl_on_shards('orders', NULL)},
	q{SELECT * FROM shardring.ddl_on_shards('orders', 'x', NULL)},
	q{SELECT * FROM shardring.ddl_on_shards('orders', 'x', atomic => NULL)},
	q{SELECT * FROM shardring.recover_ddl(NULL)});
is(sqlstate_of($main, 'postgres', $_), '42704', $_) foreach (
	q{SELECT * FROM shardring.ddl_on_shards('none', 'x')},
	q{SELECT * FROM shardring.recover_ddl('none')});
is(recover(), '', 'nothing to recover');

# a table that is in use
my $user = $node{b}->background_psql('postgres');
$user->query_safe('BEGIN; LOCK public.t');
like(ddl('ALTER TABLE public.t ADD c int'),
	qr/^a\|f\|not done\nb\|f\|(canceling|no answer).*\nc\|f\|/, 'a lock that is not to be had');
$user->query_safe('ROLLBACK');
$user->quit;
ok($node{b}->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'shardring'}),
	'no session is left');
is(recover(), '', 'a lock: nothing is left');
nothing_prepared('a lock');

# ---------- broken off ----------

# What a call does before it dies, for each part of it.
sub break_off
{
	my ($table, $how) = @_;
	my $steps = qq{shardring_internal.run_ddl(
		shardring_internal.sound_answers('orders', NULL, false), 'orders',
		'CREATE TABLE public.$table ()', 'prepare')};
	on_main($how eq 'prepared' ? "SELECT $steps"
		: "SELECT shardring_internal.end_prepared(($steps)[:1], 'COMMIT', 'done')");
	return;
}

break_off('p', 'prepared');
is(prepared(), 'abc', 'prepared, and then nothing');
is(refused('CREATE TABLE public.q ()'), '55000', 'no other statement before it is decided');
is(recover(), "a|t|not done\nb|t|not done\nc|t|not done", 'taken back');
is(where_is('public.p'), '', 'on all');
nothing_prepared('taken back');
is(recover(), '', 'twice does nothing');

break_off('p', 'decided');
is(prepared(), 'bc', 'one has committed');
is(recover(), "b|t|done\nc|t|done", 'so all do');
is(where_is('public.p'), 'abc', 'all have it');
nothing_prepared('committed');

# who holds it, and who decides, killed with -9
foreach my $victim (qw(a c))
{
	foreach my $how (qw(prepared decided))
	{
		my $table = "k_${victim}_$how";
		break_off($table, $how);
		$node{$victim}->kill9;
		my $said = recover();
		if ($victim eq 'a' && $how eq 'prepared')
		{
			like($said, qr/^b\|f\|left: shard number 0 decides, and does not answer\nc\|f\|left/,
				'without the one that decides nothing is done');
			is(join('', grep { on($_, 'SELECT count(*) FROM pg_prepared_xacts') ne '0' } qw(b c)),
				'bc', 'and all of it is kept');
		}
		like($said, qr/^$victim\|f\|may have something left/m, "$table: who is missing is told");
		for (1 .. 100)
		{
			last if $node{$victim}->start(fail_ok => 1);
			$node{$victim}->{_pid} = undef;
			select undef, undef, undef, 0.1;
		}
		recover();
		is(where_is("public.$table"), $how eq 'prepared' ? '' : 'abc', "$table: all or none");
		nothing_prepared($table);
	}
}

# the map, killed while a shard is at work: others have prepared
on('b', q{
	CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql
	AS 'BEGIN PERFORM pg_advisory_lock(1); END';
	CREATE EVENT TRIGGER wait ON ddl_command_end EXECUTE FUNCTION wait()});
my $gate = $node{b}->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(1)');
my $call = $main->background_psql('postgres', on_error_stop => 0);
$call->query_until(qr/begun/, q{\echo begun
	SELECT * FROM shardring.ddl_on_shards('orders', 'CREATE TABLE public.m ()', dry_run => false);
});
ok($node{$_}->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_prepared_xacts'),
	"$_ has prepared") foreach qw(a c);
is(sqlstate_of($main, 'postgres', q{SELECT * FROM shardring.recover_ddl('orders')}), '55006',
	'not recovered while the call lives');
$main->kill9;
eval { $call->quit; };
for (1 .. 100)
{
	last if $main->start(fail_ok => 1);
	$main->{_pid} = undef;
	select undef, undef, undef, 0.1;
}
$gate->quit;
ok($node{b}->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'shardring'}),
	'the shard has noticed');
is(recover(), "a|t|not done\nc|t|not done", 'the map was killed: taken back');
is(where_is('public.m'), '', 'the map was killed: on none');
nothing_prepared('the map was killed');
on('b', 'DROP EVENT TRIGGER wait');

# ---------- without prepared transactions ----------

$node{c}->append_conf('postgresql.conf', 'max_prepared_transactions = 0');
$node{c}->restart;
is(refused('CREATE TABLE public.n ()'), '55000', 'not atomic, so refused');
is(on_main(q{SELECT d.* FROM shardring.ddl_on_shards('orders', 'CREATE TABLE public.n ()') AS d}),
	"a|t|would work\nb|t|would work\nc|t|would work", 'but tried');
is(ddl('CREATE TABLE public.n ()', 'dry_run => false, atomic => false'),
	"a|t|done\nb|t|done\nc|t|done", 'or done all the same');
is(where_is('public.n'), 'abc', 'on all');
is(ddl('CREATE TABLE public.u ()', 'dry_run => false, atomic => false'),
	qq{a|t|would work\nb|f|relation "u" already exists\nc|t|would work},
	'what fails on one when it is tried is done on none');
is(where_is('public.u'), 'b', 'on none');

$_->stop foreach $main, values %node;
done_testing();
