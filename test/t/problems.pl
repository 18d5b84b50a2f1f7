
# problems.pl
#	A cluster of five shards, seen from the map: shards that are silent, die, are
#	others than they should be, have other versions or other guards; what its
#	line says, who may ask, and that nothing is left behind.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Findings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

start_cluster();
my $map = node('map');
my @shards = qw(a b c d e);

sub hints
{
	return map { (split /\|/, $_, 5)[4] } @_;
}

sub status
{
	return on_map(q{SELECT s.* FROM shardring.cluster_status('orders') AS s});
}

sub sqlstate
{
	my ($sql) = @_;
	my ($status, $out, $error) = $map->psql('postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $error =~ /(?:ERROR|FATAL):\s+(\w{5})/ ? $1 : 'no error';
}

# ---------- healthy ----------

is_deeply([ problems() ], [], 'healthy');
is(status(), '1|||5 of 5|0 of 0|', 'in one line');
my $wide = on_map(q{SELECT * FROM shardring.cluster_status('orders')},
	extra_params => [ '-P', 'format=aligned', '-P', 'tuples_only=off' ]);
is(scalar(grep { length > 80 } split /\n/, $wide), 0, '80 columns');
is(sqlstate("SELECT shardring.$_"), '22004', $_)
  foreach ('cluster_problems(NULL)', 'cluster_status(NULL)', 'shard_facts(NULL)');
is(sqlstate("SELECT shardring.$_"), '42704', $_)
  foreach (q{cluster_problems('')}, q{cluster_status(repeat('x', 100000))},
	q{cluster_problems('größe')});
is( on_map(q{SELECT shardring.create_ring('Größe ''"%'); SELECT count(*)
		FROM shardring.cluster_problems('Größe ''"%')}), "1\n0", 'an empty ring');

# ---------- not reached ----------

my $other_port = node('d')->port;
node('e')->stop;
my @lines = problems();
is(scalar @lines, 1, 'down: one line');
like($lines[0], qr/^error\|e\|\|.*(?:No such|refused).*\|psql --dbname='host=.* dbname=postgres' --command='SELECT 1'$/,
	'down: says how to try');
is(status(), '1|||4 of 5|0 of 0|', 'down: counted');
node('e')->start;

# one hangs, its kernel still takes connections
my $postmaster = (split /\n/, slurp_file(node('e')->data_dir . '/postmaster.pid'))[0];
kill 'STOP', $postmaster;
@lines = problems('SET shardring.remote_timeout = 2000;');
kill 'CONT', $postmaster;
is(scalar @lines, 1, 'it hangs: one line');
like($lines[0], qr/^error\|e\|\|no answer within 2000 ms\|psql /, 'it hangs: says so');

# one dies in the middle, at each of the two questions, or waits for ever
my %lock = ('who are you' => 'shardring.ring_version',
	'what have you' => 'pg_catalog.pg_subscription_rel');
my $stuck = q{
	FROM pg_stat_activity AS a
	WHERE a.application_name = 'shardring' AND a.wait_event_type = 'Lock'};
for my $step (sort keys %lock)
{
	my $holder = node('e')->background_psql('postgres');
	$holder->query_safe("BEGIN; LOCK TABLE $lock{$step}");
	my $asker = $map->background_psql('postgres', on_error_stop => 0);
	my $pid = $asker->query_safe('SELECT pg_backend_pid()');
	my $descriptors = descriptors($pid);
	for my $how (qw(pg_terminate_backend pg_cancel_backend))
	{
		$asker->query_until(qr/asking/,
			"\\echo asking\nSELECT p.* FROM shardring.cluster_problems('orders') AS p;\n");
		ok(node('e')->poll_query_until('postgres', "SELECT count(*) = 1 $stuck"),
			"$step: it waits");
		if ($how eq 'pg_terminate_backend')
		{
			on_shard('e', "SELECT pg_terminate_backend(a.pid) $stuck");
			like($asker->query('SELECT 1'), qr/^error\|e\|\|.*terminating connection/,
				"$step: it dies");
		}
		else
		{
			on_map("SELECT pg_cancel_backend($pid)");
			$asker->query('SELECT 1');
			ok( node('e')->poll_query_until('postgres',
					q{SELECT count(*) = 0 FROM pg_stat_activity AS a
					WHERE a.application_name = 'shardring'}),
				"$step: cancelled, no session is left");
		}
		is(descriptors($pid), $descriptors, "$step: no descriptor is left");
	}
	like((problems('SET shardring.remote_timeout = 1000;'))[0],
		qr/^error\|e\|\|.*(?:no answer|timeout)/, "$step: it waits for ever");
	$asker->quit;
	$holder->query_safe('COMMIT');
	$holder->quit;
}
is_deeply([ problems() ], [], 'and then all is well');

# What may be left behind.
sub descriptors
{
	my ($pid) = @_;
	opendir my $dir, "/proc/$pid/fd" or die "cannot look at $pid: $!";
	return scalar grep { (readlink("/proc/$pid/fd/$_") // '') =~ /^socket|eventpoll/ }
	  readdir $dir;
}

# ---------- an answer that is none ----------

# whatever a shard says, it is that shard's problem
for my $answer (q{NULL}, q{''}, q('{"tables": ['), q{'null'}, q{'[]'}, q{'{"tables": [], "versions": [], "settings": {}}'},
	q{jsonb_set(f, '{tables}', '7')}, q{jsonb_set(f, '{tables,0,name}', 'null')},
	q{jsonb_set(f, '{tables,0,sequences}', '[{"start": "x"}]')},
	q{jsonb_set(f, '{tables,0,guards,triggers}', '[]')},
	q{jsonb_set(f, '{versions,0,version}', '1e10')},
	q{jsonb_set(f, '{settings,max_wal_senders}', '"x"')}, q{f || '{"in_recovery": "perhaps"}'},
	q{jsonb_set(f, '{collations}', '[[]]')}, q{f || '{"system_identifier": "7"}'},
	q{jsonb_set(f, '{tables}', (SELECT jsonb_agg(repeat('x', 1000)) FROM generate_series(1, 2000)))})
{
	on_shard('c', qq{
		ALTER FUNCTION shardring.shard_facts(text) RENAME TO real_facts;
		CREATE FUNCTION shardring.shard_facts(ring text) RETURNS text
		LANGUAGE sql AS \$\$ SELECT ($answer)::text FROM shardring.real_facts(ring) AS f \$\$});
	@lines = problems();
	like($lines[0], qr/^error\|c\|\|(?:the answer is not that of a shard|answer exceeds .*)\|/,
		"not an answer: $answer");
	is(scalar @lines, 1, 'and no other line') or diag(join "\n", @lines);
	on_shard('c', q{
		DROP FUNCTION shardring.shard_facts(text);
		ALTER FUNCTION shardring.real_facts(text) RENAME TO shard_facts});
}
on_shard('c', q{ALTER FUNCTION shardring.shard_facts(text) RENAME TO old_facts});
like((problems())[0], qr/^error\|c\|\|.*shard_facts.* does not exist\|\/\* on shard c \*\/ ALTER EXTENSION shardring UPDATE;$/,
	'an older extension');
on_shard('c', q{ALTER FUNCTION shardring.old_facts(text) RENAME TO shard_facts});

# ---------- who are they? ----------

plant('no name', 'b', 'ALTER DATABASE postgres RESET shardring.shard',
	'error|b||shardring.shard is not set');
on_shard('b', q{ALTER DATABASE postgres SET shardring.shard = 'x'});
like((found('another name', 'error|b||the server is shard "x"'))[0],
	qr/\|ALTER SERVER b OPTIONS \(SET host '\.\.\.', SET dbname '\.\.\.'\);$/, 'another name: what to do');
on_shard('b', q{ALTER DATABASE postgres SET shardring.shard = 'b'});
my $port = node('e')->port;
on_map("ALTER SERVER e OPTIONS (SET port '$other_port')");
found('two entries that are one database',
	'error|d||same database as server "e"', 'error|e||same database as server "d"');
on_map("ALTER SERVER e OPTIONS (SET port '$port')");
on_map(q{UPDATE shardring.shard SET server = 'd' WHERE shard = 'e'});
mended('two shards on one server', found('two shards on one server',
		'error|e||same server as shard "d"'));
on_shard('a', q{CREATE DATABASE "leer 'x"});
on_map(q{ALTER SERVER e OPTIONS (SET dbname 'leer ''x')});
on_map(sprintf q{ALTER SERVER e OPTIONS (SET port '%s')}, node('a')->port);
@lines = problems();
like($lines[0], qr/^error\|e\|\|.*shardring.* does not exist\|\/\* on shard e \*\/ CREATE EXTENSION shardring;$/,
	'no extension');
on_shard('a', 'CREATE DATABASE latin ENCODING LATIN1 LOCALE "C" TEMPLATE template0');
node('a')->safe_psql('latin', q{CREATE EXTENSION shardring;
	ALTER DATABASE latin SET shardring.shard = 'e'});
on_map(q{ALTER SERVER e OPTIONS (SET dbname 'latin')});
@lines = found('a database that is new, and another encoding',
	'error|e||encoding is LATIN1, elsewhere UTF8',
	'error|e||no version is active, the map has 1',
	'error|e|public.held|the table is missing',
	'warning|e||default collation is c C C, elsewhere c C.UTF-8 C.UTF-8');
on_map("ALTER SERVER e OPTIONS (SET port '$port', SET dbname 'postgres')");
on_map('ALTER SERVER e RENAME TO gone');
like((problems())[0], qr/^error\|e\|\|server "e" does not exist\|CREATE SERVER e FOREIGN DATA WRAPPER /,
	'no server');
on_map('ALTER SERVER gone RENAME TO e');
is_deeply([ problems() ], [], 'all are who they should be');

# ---------- versions ----------

plant('behind', 'e', q{SELECT shardring.drop_ring('orders')},
	'error|e||guards refuse every row: no version is active');
on_map(q{SELECT shardring.draft_version('orders')});
is(status(), '1||2|5 of 5|0 of 0|', 'a draft');
on_map(q{SELECT shardring.seal('orders'); SELECT shardring.push_version('orders', 2)});
is(status(), '1|2||5 of 5|0 of 0|', 'a sealed version');
is_deeply([ problems() ], [], 'which is no problem');
on_map(q{SELECT shardring.push_version('orders', 2, '{a,c}', true)});
is(status(), '1|2||3 of 5|0 of 0|switch to 2: 2 of 5', 'a switch under way');
@lines = found('ahead', map { "error|$_||version 2 is active, the map has 1" } qw(a c));
run_hint((hints(@lines))[0]);
@lines = found('all are ahead', map { "error|$_||version 2 is active, the map has 1" } @shards);
run_hint((hints(@lines))[0]);
is_deeply([ problems() ], [], 'ahead: the hints end the switch');
on_map(q{SELECT shardring.draft_version('orders'); SELECT shardring.activate('orders')});
mended('all behind', found('all behind', map { "error|$_||version 2 is active, the map has 3" } @shards));
plant('a version that the map does not have', 'd', q{
	SELECT shardring.draft_version('orders'); SELECT shardring.seal('orders')},
	'warning|d||not on the map: version 4');
on_shard('d', q{SELECT shardring.draft_version('orders'); SELECT shardring.activate('orders', 5)});
@lines = found('ahead of all', 'error|d||version 5 is active, the map has 3');
run_hint((hints(@lines))[0]);
run_hint((hints(problems()))[0]);
run_hint((hints(problems()))[0]);
is_deeply([ problems() ], [], 'ahead of all: imported, pushed, activated');
on_map(q{SELECT shardring.prune('orders', 0)});
mended('old versions',
	found('old versions', map { "info|$_||not on the map: version 1, 2, 3" } @shards));
on_shard('a', q{SET session_replication_role = replica;
	UPDATE shardring.shard_map SET shard = 'z' WHERE shard = 'c'});
my @altered = found('altered', 'error|a||version 5 was altered');
run_hint(hints(@altered));
mended('altered', found('altered, and dropped',
		'error|a||guards refuse every row: no version is active'));
on_map(q{SELECT shardring.draft_version('orders'); SELECT shardring.seal('orders')});
plant('another version with the same number', 'b', q{
	SELECT shardring.draft_version('orders'); SELECT shardring.set_weight('orders', 'g', 2);
	SELECT shardring.seal('orders')}, 'error|b||version 6 differs from that of the map');
on_map(q{SELECT shardring.drop_version('orders', 6);
	SET session_replication_role = replica;
	UPDATE shardring.ring SET last_version = 4});
like((problems())[0], qr/^error\|\|\|on the map: last_version is 4, but there is a version 5\|SELECT \* FROM shardring\.problems\('orders'\);$/,
	'what the map itself has');
on_map(q{SET session_replication_role = replica; UPDATE shardring.ring SET last_version = 6});

# a router
on_shard('a', 'CREATE DATABASE r');
node('a')->safe_psql('r', 'CREATE EXTENSION shardring');
my ($host, $a_port) = (node('a')->host, node('a')->port);
on_map(qq{CREATE SERVER r FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$a_port', dbname 'r');
	SELECT shardring.add_router('orders', 'r')});
is(status(), '5|||5 of 5|0 of 1|', 'a router');
mended('a router', found('a router', 'error|||router "r": no version is active, the map has 5'));
node('a')->safe_psql('r', q{SELECT shardring.draft_version('orders'); SELECT shardring.seal('orders')});
like((problems())[0], qr{^warning\|\|\|router "r": not on the map: version 6\|/\* on router r \*/ SELECT shardring.drop_version\('orders', 6\);$},
	'what is left on it');
node('a')->safe_psql('r', q{SELECT shardring.drop_version('orders', 6)});
on_map(q{ALTER SERVER r OPTIONS (SET port '1')});
like((problems())[0], qr/^error\|\|\|router "r": .*\|psql /, 'it is down');
on_map(q{SELECT shardring.remove_router('orders', 'r')});

# ---------- guards ----------

on_shard($_, 'CREATE TABLE pair (one text NOT NULL, two text NOT NULL, PRIMARY KEY (one, two))')
  foreach (@shards);
on_map(q{SELECT shardring.guard_table('orders', 'public.pair', 'one')});
plant('not guarded', 'b', q{SELECT shardring.drop_guard('held')}, 'error|b|public.held|not guarded');
plant('disabled', 'b', q{ALTER TABLE held DISABLE TRIGGER zz_guard},
	'error|b|public.held|trigger zz_guard is disabled');
plant('only for replicas', 'b', q{ALTER TABLE held ENABLE REPLICA TRIGGER zz_guard_statement},
	'error|b|public.held|trigger zz_guard_statement is disabled');
plant('half a guard', 'b', q{DROP TRIGGER zz_guard_statement ON held},
	'error|b|public.held|trigger zz_guard_statement is missing');
plant('another key', 'd', q{SELECT shardring.drop_guard('pair');
	SELECT shardring.add_guard('orders', 'pair', 'two')},
	'error|d|public.pair|the guard looks at column two, elsewhere at one');
plant('a guard with a condition', 'd', q{DROP TRIGGER zz_guard ON held;
	CREATE TRIGGER zz_guard BEFORE INSERT ON held FOR EACH ROW WHEN (NEW.value IS NULL)
	EXECUTE FUNCTION shardring.guard('orders', 'key')},
	'error|d|public.held|trigger zz_guard is not as add_guard makes it');
plant('a later trigger', 'd', q{
	CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.key := ''x''; RETURN NEW; END';
	CREATE TRIGGER "zz_später %" BEFORE UPDATE ON held FOR EACH ROW EXECUTE FUNCTION change()},
	'error|d|public.held|trigger "zz_später %" fires after the guard');
on_shard('d', q{CREATE TRIGGER other BEFORE INSERT ON held FOR EACH ROW
	EXECUTE FUNCTION shardring.guard('another ring', 'key')});
found('two rings', 'error|d|public.held|also guarded for ring "another ring"');
on_shard('d', q{DROP TRIGGER other ON held; ALTER TRIGGER zz_guard ON held RENAME TO mine});
is_deeply([ problems() ], [], 'under another name a guard is as good');
on_shard('d', q{ALTER TRIGGER mine ON held RENAME TO zz_guard});

# ---------- a shard that joins ----------

my $new = new_server('f');
Findings::add_node($new);
$new->append_conf('postgresql.conf', "wal_level = logical\nmax_wal_senders = 5\nmax_replication_slots = 5");
$new->restart;
add_address($map, $new);
on_map(q{SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'h', '{f}')});
@lines = found('a new shard', 'error|f||shardring.shard is not set',
	'error|f|public.held|the table is missing', 'error|f|public.pair|the table is missing');
run_hint((hints(@lines))[1]);
@lines = found('it has the tables', 'error|f||guards refuse every row: no version is active',
	'error|f||shardring.shard is not set');
run_hint((hints(@lines))[0]);
is_deeply([ problems() ], [], 'it is ready after three commands');
is(status(), '5||7|5 of 5|0 of 0|', 'and not yet counted');

# ---------- who may ask ----------

# What doc/keeping-the-map.md grants; on the shards nothing.
for my $shard (@shards, 'f')
{
	on_shard($shard, q{SET password_encryption = 'scram-sha-256';
		CREATE ROLE watcher LOGIN PASSWORD 'geheim-7'});
	my $dir = node($shard)->data_dir;
	append_to_file("$dir/hba.new", "local all watcher scram-sha-256\n"
		. "host all watcher all scram-sha-256\n" . slurp_file("$dir/pg_hba.conf"));
	rename "$dir/hba.new", "$dir/pg_hba.conf";
	node($shard)->reload;
	on_map(qq{CREATE ROLE monitor LOGIN}) if $shard eq 'a';
	on_map(qq{GRANT USAGE ON FOREIGN SERVER $shard TO monitor;
		CREATE USER MAPPING FOR monitor SERVER $shard OPTIONS (user 'watcher', password 'geheim-7')});
}
my $as_monitor = 'SET SESSION AUTHORIZATION monitor; ';
is(sqlstate("$as_monitor SELECT shardring.$_('orders')"), '42501', "not for PUBLIC: $_")
  foreach (qw(cluster_problems cluster_status));
on_map(q{SELECT shardring.grants('monitor', '{cluster_problems,cluster_status,shard_details}') \gexec});
is_deeply([ problems($as_monitor) ], [], 'a monitor may ask');
is(on_map(q{SELECT name, value FROM shardring.metrics()
		WHERE name ~ '_cluster_' AND name !~ 'timestamp' AND labels ->> 'ring' = 'orders'}),
	"shardring_cluster_errors|0\nshardring_cluster_warnings|0", 'how many there are is kept');
is(on_map($as_monitor . q{SELECT s.* FROM shardring.cluster_status('orders') AS s}),
	'5||7|5 of 5|0 of 0|', 'in one line too');
on_map(q{ALTER USER MAPPING FOR monitor SERVER c OPTIONS (SET password 'verraten-8')});
@lines = problems($as_monitor);
is(scalar @lines, 1, 'a wrong password: one line');
is(on_map(q{SELECT name, value FROM shardring.metrics()
		WHERE name ~ '_cluster_' AND name !~ 'timestamp' AND labels ->> 'ring' = 'orders'}),
	"shardring_cluster_errors|1\nshardring_cluster_warnings|0", 'for metrics');
like($lines[0], qr/^error\|c\|\|password authentication failed for user "watcher"\|psql /, 'and why');
unlike("@lines", qr/geheim-7|verraten-8/, 'without the password');

stop_cluster();
done_testing();
