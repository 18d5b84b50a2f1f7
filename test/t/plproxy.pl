
# plproxy.pl
#	PL/Proxy reaches the shard that the ring says: single calls, arrays and
#	all servers; and nothing is lost, doubled or misplaced when a server joins
#	or leaves while others write.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;
use Time::HiRes qw(sleep time);

my $proxy = new_server('proxy');
my %shard = map { $_ => new_shard($_) } qw(s0 s1 s2);

sub on_proxy
{
	return $proxy->safe_psql('postgres', @_);
}

sub guard_table
{
	return on_proxy(q{
		SELECT g.* FROM shardring.guard_table('orders', 'public.held', 'key')
			AS g});
}

sub sqlstate
{
	my ($node, $sql) = @_;
	my ($status, $out, $error) =
	  $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $error =~ /ERROR:\s+(\w{5})/ ? $1 : 'no error';
}

on_proxy(q{
	CREATE EXTENSION plproxy;
	CREATE EXTENSION postgres_fdw});
add_address($proxy, $_) for @shard{ sort keys %shard };
on_proxy(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g' || i, ARRAY['s' || i])
	FROM generate_series(0, 2) AS i});
is(sqlstate($proxy, q{SELECT shardring.plproxy_sync('orders')}),
	'55000', 'no partitions before a version is active');
on_proxy(q{SELECT shardring.activate('orders')});

is(guard_table(), "s0|t|\ns1|t|\ns2|t|", 'all shards are guarded');

# ---------- the server of PL/Proxy ----------

is(on_proxy(q{SELECT shardring.plproxy_sync('orders')}),
	3, 'three partitions');
my $written_by =
  q{SELECT s.xmin FROM pg_foreign_server AS s WHERE s.srvname = 'orders'};
my $before = on_proxy($written_by);
is(on_proxy(q{SELECT shardring.plproxy_sync('orders')}),
	3, 'three partitions again');
is(on_proxy($written_by), $before, 'and nothing was written');

on_proxy(q{
	CREATE USER MAPPING FOR CURRENT_USER SERVER orders;
	CREATE FUNCTION put(key text, value text) RETURNS text
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		RUN ON shardring.plproxy_partition('orders', key);
	$body$;
	CREATE FUNCTION del(key text) RETURNS void
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		RUN ON shardring.plproxy_partition('orders', key);
	$body$;
	CREATE FUNCTION get(key text) RETURNS SETOF text
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		RUN ON shardring.plproxy_partition('orders', key);
	$body$;
	CREATE FUNCTION get_many(keys text[]) RETURNS SETOF text
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		SPLIT keys;
		RUN ON shardring.plproxy_partition('orders', keys);
	$body$;
	CREATE FUNCTION count_all() RETURNS SETOF bigint
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		RUN ON ALL;
	$body$;
	CREATE FUNCTION who() RETURNS SETOF text
	LANGUAGE plproxy AS $body$
		CLUSTER 'orders';
		RUN ON ALL;
		SELECT current_setting('shardring.shard');
	$body$});

# ---------- reads and writes ----------

is( on_proxy(q{
		SELECT count(*), bool_and(w.shard = shardring.shard_for('orders', w.key))
		FROM (SELECT 'user:' || i AS key, put('user:' || i, 'v' || i) AS shard
			  FROM generate_series(1, 10000) AS i) AS w}),
	'10000|t',
	'10,000 writes land where shard_for says');

sub check_places
{
	my ($what) = @_;
	for my $name (sort keys %shard)
	{
		is( list_keys($shard{$name}),
			on_proxy(qq{
				SELECT k.key FROM written AS k
				WHERE shardring.shard_for('orders', k.key) = '$name'
				ORDER BY k.key COLLATE "C"}),
			"$what: $name holds exactly its keys");
	}
	return;
}

# The writers of the demo, who also delete some of these keys.
on_proxy(slurp_file('test/demo/proxy/writer.sql') =~ s/'key:'/'user:'/r);
on_proxy(q{
	INSERT INTO written SELECT 'user:' || i FROM generate_series(1, 10000) AS i});
check_places('10,000 writes');
is( on_proxy(q{
		SELECT count(*) FROM generate_series(1, 10000, 10) AS i
			CROSS JOIN LATERAL get('user:' || i) AS v
		WHERE v = 'v' || i}),
	1000,
	'1,000 reads find them');
is( on_proxy(q{SELECT string_agg(w, ' ' ORDER BY w) FROM who() AS w}),
	's0 s1 s2', 'RUN ON ALL reaches each server once');
is(on_proxy('SELECT sum(c) FROM count_all() AS c'), 10000, 'and counts all');
is( on_proxy(q{
		SELECT count(*), count(DISTINCT v), bool_and(v = 'v' || substr(v, 2))
		FROM get_many(ARRAY(SELECT 'user:' || i
							FROM generate_series(1, 1000) AS i)) AS v}),
	'1000|1000|t',
	'SPLIT sends each key of an array to its server');

# ---------- a live expansion ----------

# The script that the documentation uses for a pair of shards.
sub run_script
{
	my ($command, $old, $new, $from, $to) = @_;
	my $error;
	IPC::Run::run [ 'extension/doc/examples/copy_rows.sh', $command, 'orders',
		$old, $new, 'held', map { $_ => $shard{$_}->connstr('postgres') }
		  $from, $to ], '>', \my $out, '2>', \$error
	  or return $error;
	return '';
}

# Runs it for every pair; returns all errors.
sub run_pairs
{
	my ($command, $old, $new, $sources, $targets) = @_;
	my $errors = '';
	foreach my $to (@$targets)
	{
		$errors .= run_script($command, $old, $new, $_, $to)
		  for grep { $_ ne $to } @$sources;
	}
	return $errors;
}

sub copy_all
{
	my (@move) = @_;
	is(run_pairs('copy', @move), '', "version $move[1]: copied");
	return;
}

# The order of extension/doc/plproxy.md, for a sealed version.
sub switch_to
{
	my ($old, $new, $sources, $targets, $in_the_middle) = @_;
	is( on_proxy(qq{
			SELECT count(*) FROM shardring.push_version('orders', $new) AS p
			WHERE NOT p.ok}),
		0, "version $new: pushed to every shard");
	Shards::add_guard($_) for @shard{@$targets};
	on_proxy(q{SELECT shardring.plproxy_sync('orders')});
	copy_all($old, $new, $sources, $targets);
	$in_the_middle->() if $in_the_middle;
	on_proxy("CALL shardring.fence('orders', $new)");
	copy_all($old, $new, $sources, $targets);
	is(run_pairs('compare', $old, $new, $sources, $targets),
		'', "version $new: the same on both");
	on_proxy(q{CALL shardring.switch_fenced('orders')});
	on_proxy("SELECT shardring.wait_for_drain('orders', $new)");

	# Writers have deleted rows on the targets since: those are left.
	my $kept = run_pairs('clean-source', $old, $new, $sources, $targets);
	unlike($kept, qr/^(?!refused: \S+: \d+ rows kept on )./m,
		"version $new: cleaned, but for what the targets do not have");
	is(run_pairs('clean-source-all', $old, $new, $sources, $targets),
		'', "version $new: cleaned");
	return;
}

sub start_writers
{
	my $dir = PostgreSQL::Test::Utils::tempdir;
	append_to_file("$dir/write.sql", "SELECT write_once();\n");
	my $log = "$dir/log";
	my $writers = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-T', '120',
			'-f', "$dir/write.sql", $proxy->connstr('postgres') ],
		'>', $log, '2>', $log);
	wait_for_writes(200);
	return $writers;
}

sub wait_for_writes
{
	my ($n) = @_;
	my $wanted = $n + on_proxy('SELECT count(*) FROM written');
	ok( $proxy->poll_query_until('postgres',
			"SELECT count(*) >= $wanted FROM written"),
		'writers write');
	return;
}

sub stop_writers
{
	my ($writers) = @_;
	wait_for_writes(200);
	# A shell lets what it runs in the background ignore SIGINT.
	$writers->signal('TERM');
	$writers->finish;
	$proxy->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity AS a
		WHERE a.application_name = 'pgbench'});
	return;
}

# Every acknowledged write on exactly one shard, and on the right one.
sub check_live
{
	my ($what) = @_;
	my %found;
	$found{$_}++
	  for map { split /\n/, list_keys($_) } values %shard;
	is(scalar(grep { $_ > 1 } values %found), 0, "$what: nothing is there twice");
	my @written = split /\n/, on_proxy('SELECT key FROM written');
	is(scalar(grep { !$found{$_} } @written),
		0, "$what: every acknowledged write is there");
	is(scalar(grep { $found{$_} } split /\n/, on_proxy('SELECT key FROM gone')),
		0, "$what: what was deleted stays gone");
	for my $name (sort keys %shard)
	{
		is( $shard{$name}->safe_psql('postgres', qq{
				SELECT count(*) FROM held
				WHERE shardring.shard_for('orders', key) <> '$name'}),
			0, "$what: $name holds nothing that is not its own");
	}
	return;
}

$shard{s3} = new_shard('s3');
add_address($proxy, $shard{s3});
on_proxy(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g3', ARRAY['s3'])});
like(guard_table(), qr/^(?:s\d\|t\|\n)+s3\|t\|$/, 'the guard of s3');
on_proxy(q{SELECT shardring.seal('orders')});
my $writers = start_writers();
switch_to(1, 2, [qw(s0 s1 s2)], ['s3']);
stop_writers($writers);
check_live('s3 joins');
like(run_script('copy', 1, 2, 's0', 's3'),
	qr/nothing may be copied any more/, 's3 joins: no copy when it has joined');
is( on_proxy(q{SELECT count(*) FROM refused WHERE state <> 'SR001'}),
	0, 's3 joins: what was refused, was so with SR001');
cmp_ok($shard{s3}->safe_psql('postgres', 'SELECT count(*) FROM held'),
	'>', 1000, 's3 joins: it has its share');
is( on_proxy(q{SELECT string_agg(w, ' ' ORDER BY w) FROM who() AS w}),
	's0 s1 s2 s3', 'RUN ON ALL reaches four servers');

# ---------- the same, and a server dies in the middle ----------

sub kill_and_restart
{
	my ($node) = @_;
	my $pid = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	$node->kill9;
	for (1 .. 300)
	{
		last unless kill 0, $pid;
		sleep 0.1;
	}
	# orphaned backends may hold the shared memory a little longer
	for (1 .. 100)
	{
		last if $node->start(fail_ok => 1);
		sleep 0.2;
	}
	$node->poll_query_until('postgres', 'SELECT true');
	return;
}

$shard{s4} = new_shard('s4');
add_address($proxy, $shard{s4});
on_proxy(q{
	TRUNCATE refused;
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g4', ARRAY['s4'])});
like(guard_table(), qr/^(?:s\d\|t\|\n)+s4\|t\|$/, 'the guard of s4');
on_proxy(q{SELECT shardring.seal('orders')});
$writers = start_writers();
switch_to(2, 3, [qw(s0 s1 s2 s3)],
	['s4'], sub { kill_and_restart($shard{s1}) });
stop_writers($writers);
check_live('s4 joins while s1 dies');
is( on_proxy(q{
		SELECT DISTINCT state, message FROM refused
		WHERE state <> 'SR001' AND message !~ 'PL/Proxy|REMOTE FATAL'}),
	'', 's4 joins while s1 dies: all else came from the dead server');

# ---------- a server leaves ----------

on_proxy(q{
	TRUNCATE refused;
	SELECT shardring.draft_version('orders');
	SELECT shardring.remove_group('orders', 'g1');
	SELECT shardring.seal('orders')});
switch_to(3, 4, ['s1'], [qw(s0 s2 s3 s4)]);
is(on_proxy(q{SELECT shardring.plproxy_sync('orders')}),
	5, 's1 leaves: its number stays');
is($shard{s1}->safe_psql('postgres', 'SELECT count(*) FROM held'),
	0, 's1 leaves: it is empty');
$shard{s1}->stop;
delete $shard{s1};
check_live('s1 leaves');
is( on_proxy(q{SELECT string_agg(w, ' ' ORDER BY w) FROM who() AS w}),
	's0 s2 s3 s4', 'RUN ON ALL does without a retired server');
is( on_proxy(q{
		SELECT count(*) FROM (SELECT w.key FROM written AS w
							  ORDER BY md5(w.key) LIMIT 1000) AS w
			CROSS JOIN LATERAL get(w.key)}),
	1000, 's1 leaves: everything is found');

# ---------- going back behind the fence ----------

on_proxy(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'g0', 3);
	SELECT shardring.seal('orders');
	SELECT shardring.push_version('orders', 5)});
on_proxy(q{CALL shardring.fence('orders')});
my $moving = on_proxy(q{
	SELECT 'back:' || i FROM generate_series(1, 1000) AS i
	WHERE shardring.moves('orders', 4, 5, 'back:' || i) LIMIT 1});
is(sqlstate($proxy, "SELECT put('$moving', '')"), 'SR001', 'the fence stands');
my ($back) = slurp_file('extension/doc/plproxy.md') =~
  /### Going back.*?^```sql\n(.*?)^```$/ms;
is($back, "CALL shardring.unfence('orders');\n", 'the way back');
on_proxy($back);
is(on_proxy(q{SELECT count(*) FROM shardring.shard_status('orders') WHERE NOT in_sync}),
	0, 'all shards are as they were');
is(sqlstate($proxy, "SELECT put('$moving', '')"), 'no error', 'writes go on');
is(on_proxy(q{
		SELECT count(*) FROM shardring.drop_version_on_shards('orders', 5)
		WHERE NOT ok}), 0, 'and the version is dropped');

# ---------- errors, and never a wrong number ----------

on_proxy(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g5', ARRAY['s5'], weight => 50);
	SELECT shardring.activate('orders')});
is(sqlstate($proxy, q{SELECT count(put('k' || i, '')) FROM generate_series(1, 50) AS i}),
	'55000', 'a shard without a partition is an error');
is( sqlstate($proxy, q{SELECT shardring.plproxy_sync('orders')}),
	'42704', 'a shard without a server is an error');
is( sqlstate($proxy, q{SELECT shardring.plproxy_partition('none', 'k')}),
	'42704', 'a ring that does not exist is an error');
is( on_proxy(q{SELECT shardring.plproxy_partition('orders', NULL::text) IS NULL}),
	't', 'NULL has no number');
on_proxy(q{
	SET session_replication_role = replica;
	DELETE FROM shardring.shard WHERE shard = 's5'});
is(sqlstate($proxy, q{
		SELECT count(shardring.plproxy_partition('orders', 'k' || i))
		FROM generate_series(1, 50) AS i}),
	'XX001', 'a shard without a number is an error');

$_->stop for $proxy, values %shard;
done_testing();
