# kept.pl
#	Connections that are kept while a procedure asks many times: when they are
#	used again, and that they end with the statement or with an abort.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(open_session);
use Test::More;

my $main = new_server('main');
my $other = new_server('other');
my ($host, $port) = ($other->host, $other->port);

$other->safe_psql('postgres', q{
	CREATE DATABASE a;
	CREATE DATABASE b;
	CREATE ROLE visitor LOGIN});
$main->safe_psql('postgres', qq{
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER a FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '$host', port '$port', dbname 'a');
	CREATE SERVER b FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '$host', port '$port', dbname 'b');
	CREATE ROLE second SUPERUSER;
	CREATE FUNCTION pids(servers text[]) RETURNS text[] LANGUAGE sql
	BEGIN ATOMIC
		SELECT array_agg(coalesce(a.answer[1], a.error) ORDER BY a.server)
		FROM shardring_internal.ask_servers(
			servers, 'SELECT pg_backend_pid()', '{}') AS a;
	END;
	CREATE TABLE said (n int GENERATED ALWAYS AS IDENTITY, what text)});
my $session = open_session($main, 'postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');

# Runs the statements of a DO block, and returns what it wrote into "said".
sub run
{
	my ($statements, $keep) = @_;
	$keep //= 'PERFORM shardring_internal.keep_connections();';
	$session->query_safe('TRUNCATE said RESTART IDENTITY');
	$session->query(qq{DO \$\$
		DECLARE
			one text[];
			two text[];
		BEGIN
			$keep
			one := pids('{a,b}');
			$statements
		END \$\$});
	$session->{stderr} = '';
	return $session->query_safe('SELECT what FROM said ORDER BY n');
}

sub sessions
{
	return $other->safe_psql('postgres', q{
		SELECT count(*) FROM pg_stat_activity
		WHERE application_name = 'shardring'});
}

sub descriptors
{
	opendir my $dir, "/proc/$pid/fd" or die "cannot look at $pid: $!";
	return scalar grep { (readlink("/proc/$pid/fd/$_") // '') =~ /^socket/ }
	  readdir $dir;
}

sub nothing_left
{
	my ($what) = @_;
	ok( $other->poll_query_until('postgres', q{
			SELECT count(*) = 0 FROM pg_stat_activity
			WHERE application_name = 'shardring'}),
		"$what: no session is left");
	return;
}

my $same = q{
	COMMIT;
	two := pids('{a,b}');
	INSERT INTO said (what) VALUES (one = two);
};
run('', '');
my $descriptors = descriptors();

is(run($same, ''), 'false', 'without asking for it, each question connects');
is(run($same), 'true', 'kept over a COMMIT');
nothing_left('after the statement');
is(descriptors(), $descriptors, 'no descriptor is left');
is(run("PERFORM shardring_internal.keep_connections(); $same"), 'true',
	'asked for twice');
is(run("ROLLBACK; two := pids('{a,b}');
	INSERT INTO said (what) VALUES (one = two), (two = pids('{a,b}'));"),
	"false\ntrue", 'a ROLLBACK closes them, and new ones are kept');
is(run($same, ''), 'false', 'the next statement keeps nothing');

# of two servers, the one asked again
is(run(q{
	COMMIT;
	INSERT INTO said (what) VALUES (pids('{b}') = one[2:2]),
		(pids('{a}') = one[1:1]);}), "true\ntrue", 'each by itself');

# an error in an answer ends that connection and no other
is(run(q{
	PERFORM shardring_internal.ask_servers('{a}', 'SELECT 1/0', '{}');
	two := pids('{a,b}');
	INSERT INTO said (what) VALUES (one[1] = two[1]), (one[2] = two[2]);}),
	"false\ntrue", 'after an error on one server');

# a connection that was lost meanwhile
is(run(q{
	PERFORM shardring_internal.ask_servers('{b}',
		'SELECT pg_terminate_backend($1::int, 10000)', ARRAY[one[1]]);
	two := pids('{a,b}');
	INSERT INTO said (what) VALUES (one[1] = two[1]),
		(two[1] ~ '^[0-9]+$'), (one[2] = two[2]);}),
	"false\ntrue\ntrue", 'what was lost is made again');

# other credentials, other address, other role
is(run(q{
	CREATE USER MAPPING FOR CURRENT_USER SERVER a OPTIONS (user 'visitor');
	COMMIT;
	INSERT INTO said (what)
	SELECT a.answer[1] FROM shardring_internal.ask_servers(
		'{a}', 'SELECT session_user::text', '{}') AS a;
	DROP USER MAPPING FOR CURRENT_USER SERVER a;}),
	'visitor', 'not for other credentials');
is(run(q{
	ALTER SERVER a OPTIONS (SET dbname 'b');
	COMMIT;
	INSERT INTO said (what)
	SELECT a.answer[1] FROM shardring_internal.ask_servers(
		'{a}', 'SELECT current_database()', '{}') AS a;
	ALTER SERVER a OPTIONS (SET dbname 'a');}),
	'b', 'not for another address');
is(run(q{
	SET LOCAL ROLE second;
	two := pids('{a,b}');
	RESET ROLE;
	INSERT INTO said (what) VALUES (one = two);}), 'false', 'not for another role');

# an error of the statement
run(q{RAISE division_by_zero;});
nothing_left('after an error');
is(descriptors(), $descriptors, 'after an error: no descriptor is left');

# what a subtransaction asked for stays when it fails
is(run(q{
	BEGIN
		two := pids('{a,b}');
		RAISE division_by_zero;
	EXCEPTION
		WHEN division_by_zero THEN NULL;
	END;
	INSERT INTO said (what) VALUES (two = one), (two = pids('{a,b}'));}),
	"true\ntrue", 'over an exception that was caught');

# fewer descriptors than are kept
$main->append_conf('postgresql.conf', 'max_files_per_process = 100');
$main->restart;
$session->quit;
$session = open_session($main, 'postgres');
$session->query_safe(qq{
	SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
		'OPTIONS (host %L, port %L, dbname %L, connect_timeout %L)', 's' || i,
		'$host', '$port', 'a', 60 + i)
	FROM generate_series(1, 40) AS i \\gexec});
is(run(q{
	FOR i IN 1 .. 40 LOOP
		two := pids(ARRAY['s' || i]);
		INSERT INTO said (what) SELECT two[1] WHERE two[1] !~ '^[0-9]+$';
	END LOOP;
	INSERT INTO said (what) VALUES ('asked');}), 'asked',
	'kept connections make room for others');
nothing_left('at the end');

$session->quit;
$main->stop;
$other->stop;
done_testing();
