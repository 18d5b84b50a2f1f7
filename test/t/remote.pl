
# remote.pl
#	Asking and telling many shards at once: each way in which a server can
#	misbehave, and that nothing of it is left behind.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;
use Time::HiRes qw(time);

my $main = new_server('main');
my $other = new_server('other');
$other->append_conf('postgresql.conf', 'max_connections = 300');
$other->restart;

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

sub sqlstate
{
	my ($sql, @options) = @_;
	my ($status, $out, $error) = $main->psql('postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ], @options);
	return $error =~ /(?:ERROR|FATAL):\s+(\w{5})/ ? $1 : 'no error';
}

# Each shard is a database of the other server.
sub add_shard
{
	my ($name) = @_;
	$other->safe_psql('postgres', qq{CREATE DATABASE "$name"});
	$other->safe_psql($name, qq{
		CREATE EXTENSION shardring;
		ALTER DATABASE "$name" SET shardring.shard = '$name'});
	return;
}

my ($host, $port) = ($other->host, $other->port);
on_main('CREATE EXTENSION postgres_fdw');
add_shard($_) for qw(a b c);
on_main(qq{
	SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
				  'OPTIONS (host %L, port %L, dbname %L, fetch_size %L)',
				  s, '$host', '$port', s, '10')
	FROM unnest(ARRAY['a', 'b', 'c']) AS s \\gexec
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b', 'c'], 6);
	SELECT shardring.seal('orders')});

# What may be left behind: sockets and wait sets here, sessions there.
sub open_descriptors
{
	my ($psql_pid) = @_;
	opendir my $dir, "/proc/$psql_pid/fd" or die "cannot look at $psql_pid: $!";
	return scalar grep { (readlink("/proc/$psql_pid/fd/$_") // '') =~ /^socket|eventpoll/ }
	  readdir $dir;
}

sub no_session_left
{
	my ($what) = @_;
	ok( $other->poll_query_until('postgres', q{
			SELECT count(*) = 0 FROM pg_stat_activity AS a
			WHERE a.application_name = 'shardring'}),
		"$what: no session is left");
	return;
}

# ---------- pushing and asking ----------

my $status = q{
	SELECT s.shard, s.server, s.reachable, coalesce(s.error, '-'),
		s.server_version = current_setting('server_version') AS same,
		coalesce(s.active_version::text, '-'), s.in_sync,
		s.round_trip BETWEEN '0' AND '1 min' AS took
	FROM shardring.shard_details('orders') AS s};
my $push = q{
	SELECT p.shard, p.ok, coalesce(p.error, '-'),
		coalesce(p.active_version::text, '-'),
		p.fingerprint IS NOT DISTINCT FROM (
			SELECT left(v.fingerprint, 16) FROM shardring.ring_version AS v
			WHERE v.ring = 'orders' AND v.version = %s)
	FROM shardring.push_version('orders', %s) AS p};

is(on_main($status),
	join("\n", map { "$_|$_|t|-|t|-|t|t" } qw(a b c)),
	'nobody knows the ring, nothing is active: in sync');
is(on_main(sprintf $push, 1, 1),
	join("\n", map { "$_|t|-|-|t" } qw(a b c)),
	'push: imported, not active');
my $written = q{SELECT string_agg(v.xmin::text || r.xmin::text, ' ')
	FROM shardring.ring_version AS v JOIN shardring.ring AS r USING (ring)};
my $before = $other->safe_psql('a', $written);
is(on_main(sprintf $push, 1, 1),
	join("\n", map { "$_|t|-|-|t" } qw(a b c)),
	'push: twice');
is($other->safe_psql('a', $written), $before, 'push: twice changes nothing');
on_main(q{SELECT shardring.activate('orders')});
is(on_main($status),
	join("\n", map { "$_|$_|t|-|t|-|f|t" } qw(a b c)),
	'active here, not there: not in sync');
is(on_main(sprintf $push, 1, q{1, ARRAY['c', 'a'], true}),
	"a|t|-|1|t\nc|t|-|1|t", 'push: to some, and activate');
is(on_main(sprintf $push, 1, '1, activate => true'),
	join("\n", map { "$_|t|-|1|t" } qw(a b c)),
	'push: activate, twice on some');
is(on_main($status),
	join("\n", map { "$_|$_|t|-|t|1|t|t" } qw(a b c)),
	'all in sync');
is(sqlstate(sprintf $push, 1, q{1, ARRAY['a', 'nobody']}),
	'42704', 'push: to a shard that does not exist');
is(sqlstate(sprintf $push, 1, '7'), '42704',
	'push: a version that does not exist');
no_session_left('after pushing');

# ---------- one behind, one ahead, one altered ----------

on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'g', 2);
	SELECT shardring.activate('orders')});
on_main(sprintf $push, 2, q{2, ARRAY['a', 'b'], true});
$other->safe_psql('b', q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.activate('orders')});
$other->safe_psql('a', q{
	SET session_replication_role = replica;
	UPDATE shardring.shard_map SET shard = 'z' WHERE shard = 'c'
		AND version = 2});
is(on_main($status), "a|a|t|-|t|2|f|t\nb|b|t|-|t|3|f|t\nc|c|t|-|t|1|f|t",
	'altered, ahead, behind: not in sync');
is( on_main(sprintf $push, 2, '2, activate => true'),
	"a|f|version 2 of ring \"orders\" was altered after it was sealed|-|f\n"
	  . "b|f|version 2 of ring \"orders\" is not newer than the active one|3|t\n"
	  . 'c|t|-|2|t',
	'altered, ahead, behind: pushed to');
$other->safe_psql('a', q{
	SET session_replication_role = replica;
	UPDATE shardring.shard_map SET shard = 'c' WHERE shard = 'z'
		AND version = 2});
$other->safe_psql('b', q{SELECT shardring.drop_ring('orders')});
on_main(sprintf $push, 2, '2, activate => true');
is(on_main($status),
	join("\n", map { "$_|$_|t|-|t|2|t|t" } qw(a b c)),
	'repaired, and one that was new: in sync');

# ---------- down, silent, dying ----------

my $timeout = 'SET shardring.remote_timeout = 1000;';
on_main(q{
	ALTER SERVER b OPTIONS (SET port '1');
	SELECT shardring.draft_version('orders');
	SELECT shardring.seal('orders')});
like(on_main($status), qr/^a\|a\|t\|-\|t\|2\|t\|t
b\|b\|f\|connection .* failed: .*\|\|-\|f\|t
c\|c\|t\|-\|t\|2\|t\|t$/, 'down: an error, and the others answer');
like(on_main(sprintf $push, 3, '3'),
	qr/^a\|t\|-\|2\|t\nb\|f\|connection .* failed: .*\|-\|f\nc\|t\|-\|2\|t$/,
	'down: the others are pushed to');

# A socket that takes connections and says nothing.
my $quiet_dir = PostgreSQL::Test::Utils::tempdir_short;
my $quiet = IO::Socket::UNIX->new(
	Local => "$quiet_dir/.s.PGSQL.5432", Listen => 300)
  or die "cannot listen: $!";
on_main(qq{
	ALTER SERVER b OPTIONS (SET host '$quiet_dir', SET port '5432')});
my $silent = qr/^a\|a\|t\|-\|t\|2\|t\|t
b\|b\|f\|no answer within 1000 ms\|\|-\|f\|t
c\|c\|t\|-\|t\|2\|t\|t$/;
like(on_main($timeout . $status), $silent, 'silent: it has its deadline');

# Two time-outs are no failure yet, three are; a success ends the row.
on_main("SET shardring.remote_timeout = 1500; SELECT shardring.probe('orders')")
  for 1 .. 2;
is(on_main(q{SELECT shardring.suspects('orders')}), '', 'no suspect yet');
is( on_main(q{
		SET shardring.remote_timeout = 1500;
		SELECT p.shard, p.failures, p.problem
		FROM shardring.probe('orders') AS p}),
	"a|0|\nb|3|no answer within 1500 ms\nc|0|",
	'probe counts failures in a row');
is( on_main(q{
		SELECT p.shard, p.failures, p.error, p.succeeded_at IS NULL,
			coalesce(p.succeeded_at, p.failed_at)
				= date_trunc('ms', coalesce(p.succeeded_at, p.failed_at))
		FROM shardring.shard_probe AS p ORDER BY p.shard}),
	"a|0||f|t\nb|3|no answer within 1500 ms|t|t\nc|0||f|t",
	'and writes down why, and when');
is(on_main(q{SELECT s.shard, s.failures, s.succeeded_at IS NULL, s.problem
		FROM shardring.suspects('orders') AS s}),
	'b|3|t|no answer within 1500 ms', 'a suspect after three');
is(on_main(q{SELECT s.shard FROM shardring.suspects('orders', 4) AS s}),
	'', 'none after four');

# A cancel, statement_timeout and pg_terminate_backend while waiting.
my $wait = q{SELECT shardring.shard_status('orders')};
is(sqlstate("SET statement_timeout = 300; $wait"),
	'57014', 'silent: statement_timeout ends the wait');
for my $how (qw(pg_cancel_backend pg_terminate_backend))
{
	my $waiting = $main->background_psql('postgres', on_error_stop => 0);
	my $pid = $waiting->query_safe('SELECT pg_backend_pid()');
	my $descriptors = open_descriptors($pid);
	$waiting->query_until(qr/asking/, "\\echo asking\n$wait;\n");
	$main->poll_query_until('postgres', qq{
		SELECT a.wait_event_type = 'Extension' FROM pg_stat_activity AS a
		WHERE a.pid = $pid});
	on_main("SELECT $how($pid)");
	if ($how eq 'pg_cancel_backend')
	{
		$waiting->query('SELECT 1');
		is(open_descriptors($pid), $descriptors, "$how: no descriptor is left");
		$waiting->quit;
	}
	else
	{
		ok( $main->poll_query_until('postgres', qq{
				SELECT count(*) = 0 FROM pg_stat_activity AS a
				WHERE a.pid = $pid}),
			"$how: the session ends");
		eval { $waiting->quit };
	}
	no_session_left($how);
}
$quiet->close;

# ---------- in the middle of a question ----------

# Messages of the protocol.
sub message
{
	my ($type, $body) = @_;
	return pack('a N', $type, 4 + length $body) . $body;
}

sub welcome
{
	my ($version) = @_;
	return message('R', pack('N', 0))
	  . message('S', "server_version\0$version\0")
	  . message('Z', 'I');
}

sub done
{
	my ($tag) = @_;
	return message('C', "$tag\0") . message('Z', 'T');
}

sub row
{
	my (@values) = @_;
	my $columns = join '',
	  map { pack 'Z* N n N n N n', 'column', 0, 0, 25, 0xffff, 0xffffffff, 0 }
	  @values;
	return message('1', '')
	  . message('2', '')
	  . message('T', pack('n', scalar @values) . $columns)
	  . message('D', pack('n (N/a*)*', scalar @values, @values))
	  . done('SELECT 1');
}

# Shard b becomes a server that says one of these to each thing that it hears,
# then hangs up.
sub say_and_hang_up
{
	my (@words) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short;
	my $listener = IO::Socket::UNIX->new(
		Local => "$dir/.s.PGSQL.5432", Listen => 1)
	  or die "cannot listen: $!";
	on_main("ALTER SERVER b OPTIONS (SET host '$dir', SET port '5432')");
	my $child = fork // die "cannot fork: $!";
	return $child if $child;
	my $client = $listener->accept;
	for my $word (@words)
	{
		$client->sysread(my $heard, 8192);
		$client->syswrite($word);
	}
	$client->close;
	POSIX::_exit(0);
}

my $no_text = qr/an answer is not valid in the encoding of this database\|/;
for my $case (
	[ 'hangs up', qr/server closed the connection unexpectedly[^|]*\|15/,
		welcome('15'), '' ],
	[ 'an error without a message', qr/ERROR:[^|]*\|15/, welcome('15'),
		message('E', "SERROR\0CXX000\0\0") ],
	[ 'a copy', qr/unexpected answer\|15/, welcome('15'),
		message('H', pack 'C n', 0, 0) ],
	[ 'a version that is no text', qr/${no_text}15\?\?\?/,
		welcome("15\xff\xfe\xc3") ],
	[ 'a value that is no text', qr/${no_text}15/, welcome('15'),
		done('BEGIN'), row('1', "\xff\xfe\xc3") ],
	[ 'a value with a zero byte', qr/${no_text}15/, welcome('15'),
		done('BEGIN'), row("1\0", '') ],
	[ 'too few values', qr/the answer is not that of a shard\|15/,
		welcome('15'), done('BEGIN'), row('b', '1'), done('COMMIT') ],
	(map { [ "values of another form: $_->[0]",
			qr/the answer is not that of a shard\|15/, welcome('15'),
			done('BEGIN'), row(@$_[1 .. 8]), done('COMMIT') ] }
		[ 'system', 'b', '9' x 19, '5', 'b', '2', '', '{}', '0' ],
		[ 'database', 'b', '1', '-5', 'b', '2', '', '{}', '0' ],
		[ 'versions', 'b', '1', '5', 'b', '2', '', '{1,NULL}', '0' ],
		[ 'guards', 'b', '1', '5', 'b', '2', '', '{}', '1e9' ]),
	[ 'a name that is long',
		qr/the server is shard "b{64}"\|15/, welcome('15'),
		done('BEGIN'), row('b' x 9999, '1', '5', 'b', '2', '', '{}', '0'),
		done('COMMIT') ],
	[ 'a name with line breaks',
		qr/the server is shard "b  x"\|15/, welcome('15'),
		done('BEGIN'), row("b\r\nx", '1', '5', 'b', '2', '', '{}', '0'),
		done('COMMIT') ],
	[ 'values that are text', qr/-\|15\.\xc3\xa4/, welcome("15.\xc3\xa4"),
		done('BEGIN'), row('b', '1', '5', 'b', '1e9', 'x', '{1,2}', '0'),
		done('COMMIT') ])
{
	my ($what, $error, @words) = @$case;
	my $child = say_and_hang_up(@words);
	like(on_main(q{
			SELECT s.shard, s.reachable, coalesce(s.error, '-'),
				s.server_version, s.in_sync
			FROM shardring.shard_details('orders') AS s}),
		qr/^a\|t\|-\|[^|]+\|t\nb\|t\|$error\|f\nc\|t\|-\|[^|]+\|t$/,
		"$what: its own answer, and the others'");
	waitpid $child, 0;
}

# One dies in the middle of a push: it waits for a lock, and is terminated.
on_main(qq{ALTER SERVER b OPTIONS (SET host '$host', SET port '$port')});
my $holder = $other->background_psql('b');
$holder->query_safe(q{BEGIN; LOCK TABLE shardring.ring_version});
my $pusher = $main->background_psql('postgres', on_error_stop => 0);
$pusher->query_until(qr/pushing/, "\\echo pushing\n"
	. sprintf($push, 3, '3') . ";\n");
my $stuck = q{
	FROM pg_stat_activity AS a
	WHERE a.datname = 'b' AND a.application_name = 'shardring'
		AND a.wait_event_type = 'Lock'};
$other->poll_query_until('postgres', "SELECT count(*) = 1 $stuck");
$other->safe_psql('postgres', "SELECT pg_terminate_backend(a.pid) $stuck");
like($pusher->query_safe('SELECT 1'),
	qr/a\|t\|-\|2\|t\nb\|f\|.*terminating connection.*\nc\|t\|-\|2\|t/,
	'dying in the middle of a push: an error, and the others are pushed to');
$pusher->quit;

# It waits for a lock too long: its own statement_timeout, or our deadline.
like(on_main($timeout . sprintf($push, 3, '3')),
	qr/^a\|t\|-\|2\|t\nb\|f\|(?:no answer|cancel).*\|-\|f\nc\|t\|-\|2\|t$/,
	'locked: it has its deadline');
no_session_left('locked');
$holder->query_safe('COMMIT');
$holder->quit;
is( $other->safe_psql('b', q{
		SELECT count(*) FROM shardring.ring_version WHERE version = 3}),
	0, 'nothing of a push that failed is there');
is(on_main(sprintf $push, 3, '3'),
	join("\n", map { "$_|t|-|2|t" } qw(a b c)), 'and then it is pushed');

# ---------- who may connect ----------

# No more and no less than this.
my @of_a_monitor = (
	(map { "EXECUTE ON FUNCTION $_" } qw(shardring.probe
		shardring.shard_status shardring.shard_details
		shardring_internal.shard_problem
		shardring_internal.ask_shards
		shardring_internal.ask_identities shardring_internal.ask_servers)),
	'INSERT ON shardring.shard_probe', 'UPDATE ON shardring.shard_probe');
on_main('CREATE ROLE monitor LOGIN');
is( on_main(q{SELECT string_agg(g, E'\n' ORDER BY g)
		FROM shardring.grants('monitor', '{probe,shard_status,shard_details}') AS g})
	  =~ s/\([^()]*\)//gr,
	'GRANT EXECUTE ON ROUTINE ' . join(', ', sort map { /FUNCTION (.*)/ } @of_a_monitor)
	  . " TO monitor;\nGRANT INSERT, UPDATE ON shardring.shard_probe TO monitor;",
	'what grants says');
on_main(q{SELECT shardring.grants('monitor', '{probe,shard_status,shard_details}') \gexec});
my $as_monitor = 'SET SESSION AUTHORIZATION monitor; ';
my $error_of_a = q{
	SELECT s.reachable, s.error FROM shardring.shard_details('orders') AS s
	WHERE s.shard = 'a'};
on_main('CREATE ROLE stranger LOGIN');
for my $call (q{shard_status('orders')}, q{shard_details('orders')},
	q{probe('orders')}, q{push_version('orders', 1)},
	q{drop_version_on_shards('orders', 1)}, q{prune_on_shards('orders', 1)},
	q{plproxy_sync('orders')}, q{receive_version('{}', false)},
	q{receive_drop('orders', '{1}')}, q{guard_table('orders', 'a.b', 'k')},
	q{tables('orders')}, q{check_guard('orders', 'a.b', 'k')},
	q{add_router('orders', 'a')}, q{remove_router('orders', 'a')},
	q{receive_guard('orders', 'a.b', 'k', true, '{}')}, q{drop_guard(0)})
{
	is(sqlstate("SET SESSION AUTHORIZATION stranger; SELECT shardring.$call"),
		'42501', "not for PUBLIC: $call");
}
for my $call (q{ask_servers('{}', 'SELECT 1', '{}')}, q{connect_string('a')})
{
	is( sqlstate(
			"SET SESSION AUTHORIZATION stranger; SELECT shardring_internal.$call"),
		'42501', "not for PUBLIC: $call");
}
is(on_main($as_monitor . $error_of_a),
	'f|permission denied for foreign server a', 'USAGE is needed');
on_main('GRANT USAGE ON FOREIGN SERVER a TO monitor');
is( on_main($as_monitor . $error_of_a),
	'f|the user mapping has no password, so only a superuser may connect',
	'a password is needed');
on_main(q{
	CREATE USER MAPPING FOR monitor SERVER a
	OPTIONS (user 'watcher', password 'geheim-7')});
$other->safe_psql('postgres', q{
	CREATE ROLE watcher LOGIN PASSWORD 'geheim-7'});
is( on_main($as_monitor . $error_of_a),
	'f|the server did not ask for the password, so only a superuser may connect',
	'the password must have been asked for');
my $hba = slurp_file($other->data_dir . '/pg_hba.conf');
unlink $other->data_dir . '/pg_hba.conf';
append_to_file($other->data_dir . '/pg_hba.conf',
	"local all watcher scram-sha-256\n$hba");
$other->reload;
is( on_main($as_monitor . q{
		SELECT s.reachable, coalesce(s.error, '-'), s.in_sync
		FROM shardring.shard_details('orders') AS s WHERE s.shard = 'a'}),
	't|-|t', 'with a password that is asked for, all is well');
is( on_main($as_monitor . q{
		SELECT p.failures FROM shardring.probe('orders') AS p
		WHERE p.shard = 'a'}),
	'0', 'a monitor needs no more than that');
for my $grant (@of_a_monitor)
{
	is( sqlstate("BEGIN; REVOKE $grant FROM monitor; $as_monitor"
			  . q{SELECT shardring.probe('orders');
				SELECT shardring.shard_status('orders')}),
		'42501', "and no less: $grant");
}
on_main(q{ALTER USER MAPPING FOR monitor SERVER a
	OPTIONS (SET password 'verraten-8')});
like(on_main($as_monitor . $error_of_a),
	qr/^f\|.*password authentication failed/, 'a wrong password');
for my $node ($main, $other)
{
	my $log = slurp_file($node->logfile);
	$log =~ s/^.*statement: .*\n(?:\t.*\n)*//mg;
	unlike($log, qr/geheim-7|verraten-8/,
		'no password in the log of ' . $node->name);
}

# ---------- two hundred shards ----------

on_main(qq{
	SELECT shardring.create_ring('wide');
	SELECT shardring.add_group('wide', 'g',
		ARRAY(SELECT 'w' || i FROM generate_series(1, 200) AS i));
	SELECT shardring.seal('wide');
	SELECT format('CREATE SERVER w%s FOREIGN DATA WRAPPER postgres_fdw '
				  'OPTIONS (host %L, port %L, dbname %L)', i, '$host', '$port',
				  CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END)
	FROM generate_series(1, 200) AS i \\gexec});
my $many = $main->background_psql('postgres');
my $pid = $many->query_safe('SELECT pg_backend_pid()');
my $ask_all = q{
	SELECT count(*), bool_and(s.reachable), bool_and(s.error ~ '^same database as server "w')
	FROM shardring.shard_details('wide') AS s};
my $all = '200|t|t';    # these are three databases
$many->query_safe(q{SET shardring.remote_timeout = '2 min'});
is($many->query_safe($ask_all), $all, '200 shards answer');
my $descriptors = open_descriptors($pid);
is($many->query_safe($ask_all), $all, '200 shards answer again');
is(open_descriptors($pid), $descriptors, '200 shards: no descriptor is left');
$many->quit;
no_session_left('200 shards');

# with fewer descriptors than shards, in turns
$main->append_conf('postgresql.conf', 'max_files_per_process = 200');
$main->restart;
is(on_main("SET shardring.remote_timeout = '2 min'; $ask_all"),
	$all, '200 shards, fewer descriptors');

# a pgbouncer section, and what it cannot hold
is( on_main(q{
		SELECT l FROM shardring.pgbouncer_databases('orders') AS l
		ORDER BY l LIMIT 1}),
	qq{a = dbname='a' host='$host' port='$port'},
	'a line for pgbouncer');
on_main(q{ALTER SERVER a OPTIONS (SET dbname E'x\ny')});
is(sqlstate(q{SELECT shardring.pgbouncer_databases('orders')}),
	'22023', 'a line break is refused');

# without a postmaster
$main->stop;
IPC::Run::run([ 'postgres', '--single', '-D', $main->data_dir, 'postgres' ],
	'<', \($ask_all =~ s/\n/ /gr), '>', \my $said, '2>', \my $errors);
like($said, qr/count = "200".*bool_and = "t".*bool_and = "t"/s, 'postgres --single');
$other->stop;
done_testing();
