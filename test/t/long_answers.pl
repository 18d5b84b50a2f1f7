# long_answers.pl
#	Shards that answer with more than was asked for: millions of rows, one
#	huge value, an endless error.  It is an error in the shard's row, and the
#	backend that asks stays small (VmHWM).

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

# The bounds, as the source has them.
my $source = slurp_file('extension/src/remote_meter.c');
my ($rows) = $source =~ /^#define MOST_ROWS\s+(\d+)/m
  or die 'MOST_ROWS not found';
my ($bytes) = $source =~ /^#define MOST_BYTES\s+\(\(Size\) (\d+) \* 1024\)/m
  or die 'MOST_BYTES not found';
$bytes *= 1024;
my $too_much = "answer exceeds $rows rows or $bytes bytes";

# Makes a certificate that is its own root, with more extensions.
sub make_certificate
{
	my ($name, $file, $key, $extensions) = @_;
	my $config = "$PostgreSQL::Test::Utils::tmp_check/certificate.cnf";
	unlink $config;
	append_to_file($config, "[req]\ndistinguished_name = name\n"
		. "x509_extensions = more\n[name]\n[more]\n$extensions");
	system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes',
		'-config', $config, '-subj', "/CN=$name", '-days', '9',
		'-keyout', $key, '-out', $file);
	chmod 0600, $key;
	return;
}

# The asking server is its own shards: databases a and b, by socket and by TCP.
my $node = PostgreSQL::Test::Cluster->new('long');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "$_\n")
  foreach ("listen_addresses = '127.0.0.1'", 'shared_buffers = 8MB',
	'autovacuum = off', 'jit = off');
my $certificate = $node->data_dir . '/server.crt';
make_certificate('server', $certificate, $node->data_dir . '/server.key', '');
$node->append_conf('postgresql.conf', 'ssl = on');
$node->start;
my ($dir, $port) = ($node->host, $node->port);
$node->safe_psql('postgres', q{
	CREATE EXTENSION shardring;
	CREATE FOREIGN DATA WRAPPER wrapper});
foreach my $shard ([ 'a', $dir ], [ 'b', '127.0.0.1' ])
{
	my ($name, $host) = @$shard;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, qq{
		CREATE EXTENSION shardring;
		ALTER DATABASE $name SET shardring.shard = '$name'});
	$node->safe_psql('postgres', qq{
		CREATE SERVER $name FOREIGN DATA WRAPPER wrapper
		OPTIONS (host '$host', port '$port', dbname '$name')});
}

my $session = open_session($node);
my $pid = step($session, 'SELECT pg_backend_pid()');
step($session, "SET shardring.remote_timeout = '2 min'");

# What both shards say to a statement.
sub ask
{
	my ($statement) = @_;
	return step($session, 'SELECT a.server, coalesce(a.error,'
		  . " left(a.answer[1], 20)) FROM shardring_internal.ask_servers("
		  . "'{a,b}', \$ask\$$statement\$ask\$, '{}') AS a");
}

sub both
{
	my ($answer) = @_;
	return "a|$answer\nb|$answer";
}

is(ask('SELECT 1'), both('1'), 'an answer');
my $before = status_kb($pid, 'VmHWM');

sub stays_small
{
	my ($what) = @_;
	my $grown = status_kb($pid, 'VmHWM') - $before;
	cmp_ok($grown, '<=', 16 * 1024, "$what: VmHWM has grown by $grown kB");
	return;
}

# ---------- up to the bounds ----------

my $half = $bytes / 2;
is(ask("SELECT i FROM generate_series(1, $rows) AS i"), both('1'),
	"$rows rows: the first");
is(ask("SELECT repeat('x', $half)"), both('x' x 20), "$half bytes");
stays_small('up to the bounds');

# ---------- beyond ----------

my $more = $rows + 1;
foreach my $case (
	[ "$more rows", "SELECT i FROM generate_series(1, $more) AS i" ],
	[ 'millions of rows', 'SELECT i FROM generate_series(1, 5000000) AS i' ],
	[ 'more bytes', "SELECT repeat('x', $bytes + 1)" ],
	[ 'more bytes in rows', "SELECT repeat('x', $bytes / 4)"
		  . ' FROM generate_series(1, 5)' ],
	[ 'more bytes in columns', 'SELECT '
		  . join(',', map { "repeat('x', $bytes / 4)" } 1 .. 5) ],
	[ 'a huge value', "SELECT repeat('x', 500000000)" ],
	[ 'a huge error', q{DO $$ BEGIN RAISE EXCEPTION USING MESSAGE =
		repeat('x', 500000000); END $$} ],
	[ 'no end of notices', q{DO $$ BEGIN FOR i IN 1 .. 10000 LOOP
		RAISE NOTICE '%', repeat('x', 10000); END LOOP; END $$} ])
{
	my ($what, $statement) = @$case;
	is(ask($statement), both($too_much), $what);
	stays_small($what);
}
is(ask('SELECT 1'), both('1'), 'and then an answer again');

# ---------- all rows ----------

# What both shards say to a query of which all rows are asked for.
sub ask_all
{
	my ($query) = @_;
	return step($session, 'SELECT a.server, coalesce(a.error,'
		  . " cardinality(a.rows)::text) FROM shardring_internal.ask_rows("
		  . "'{a,b}', \$ask\$$query\$ask\$, '{}') AS a");
}

is(ask_all("SELECT i FROM generate_series(1, $rows) AS i"), both($rows),
	"all of $rows rows");
foreach my $case (
	[ 'more of all rows', "SELECT i FROM generate_series(1, $more) AS i" ],
	[ 'millions of all rows',
		'SELECT i FROM generate_series(1, 5000000) AS i' ],
	[ 'a huge value of a row', "SELECT repeat('x', 500000000)" ],
	[ 'bytes that are more as JSON',
		"SELECT repeat(chr(1), $bytes / 2)" ],
	[ 'names that are more as JSON', 'SELECT '
		  . join(',', map { sprintf q{NULL AS "%04d%s"}, $_, "\001" x 50 }
			1 .. 1000) . ' FROM generate_series(1, 1000)' ])
{
	my ($what, $query) = @$case;
	is(ask_all($query), both($too_much), $what);
	stays_small($what);
}

# ---------- before it can be asked ----------

sub message
{
	my ($type, $body) = @_;
	return pack('a N', $type, 4 + length $body) . $body;
}

# Starts a server that says this to whoever connects, then the last part again
# and again until it has said so much, and waits for the other side to hang up.
sub start_talker
{
	my ($name, $first, $again, $most) = @_;
	my $at = PostgreSQL::Test::Utils::tempdir_short;
	my $listener = IO::Socket::UNIX->new(
		Local => "$at/.s.PGSQL.5432", Listen => 1)
	  or die "cannot listen: $!";
	$node->safe_psql('postgres', qq{
		CREATE SERVER $name FOREIGN DATA WRAPPER wrapper
		OPTIONS (host '$at', port '5432')});
	my $talker = fork // die "cannot fork: $!";
	return $talker if $talker;
	local $SIG{PIPE} = 'IGNORE';
	my $client = $listener->accept;
	$client->sysread(my $heard, 8192);
	$client->syswrite(message('R', pack('N', 0)) . $first);
	for (my $said = 0; $said < $most; $said += length $again)
	{
		$client->syswrite($again) or last;
	}
	$client->sysread($heard, 8192) if $most > 0;
	POSIX::_exit(0);
}

my $much = 900_000_000;
my $huge = pack 'a N', 'N', $much;
foreach my $case (
	[ 'settings', '', message('S', "name\0" . 'x' x 10_000 . "\0"), $much ],
	[ 'notices', '', message('N', 'M' . 'x' x 10_000 . "\0\0"), $much ],
	[ 'huge_notice', $huge, 'x' x 65_536, $much ],
	[ 'declared_notice', $huge, 'x', 1 ])
{
	my ($what, @words) = @$case;
	my $talker = start_talker($what, @words);
	is( step($session, 'SELECT a.error FROM shardring_internal.ask_servers('
			  . "'{$what}', 'SELECT 1', '{}') AS a"),
		$too_much, "while connecting: $what");
	waitpid $talker, 0;
	stays_small($what);
}

my $long = start_talker('long_notice',
	message('N', 'M' . 'x' x $half . "\0\0"), '', 0);
like(step($session, 'SELECT a.error FROM shardring_internal.ask_servers('
		  . "'{long_notice}', 'SELECT 1', '{}') AS a"),
	qr/server closed the connection unexpectedly/,
	"while connecting: a notice of $half bytes is none too many");
waitpid $long, 0;

# ---------- what we ask ourselves ----------

step($session, q{
	SELECT shardring.create_ring('r');
	SELECT shardring.add_group('r', 'g', ARRAY['a', 'b']);
	SELECT shardring.activate('r')});
my $push = 'SELECT p.shard, p.ok, p.error'
  . " FROM shardring.push_version('r', 1) AS p";
is(step($session, $push), "a|t|\nb|t|", 'a version is pushed');
$node->safe_psql('a', q{
	DROP EXTENSION shardring;
	CREATE SCHEMA shardring;
	CREATE FUNCTION shardring.guard() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RETURN NULL; END $$;
	CREATE FUNCTION shardring.shard_identity(OUT shard text,
		OUT system_identifier bigint, OUT database_oid oid, OUT database name)
	LANGUAGE sql AS $$ SELECT 'a', 1, 2, 'a' $$;
	CREATE FUNCTION shardring.receive_version(jsonb, boolean, int, jsonb)
	RETURNS TABLE (active_version int, fingerprint text, error text)
	LANGUAGE sql AS
	$$ SELECT i, 'x', NULL FROM generate_series(1, 5000000) AS i $$;
	CREATE FUNCTION shardring.version_fingerprint(text, int) RETURNS text
	LANGUAGE sql AS $$ SELECT repeat('x', 500000000) $$;
	CREATE VIEW shardring.ring AS SELECT 'r' AS ring, 1 AS active_version;
	CREATE VIEW shardring.ring_version AS
		SELECT 'r' AS ring, 1 AS version, now() AS sealed_at});
is(step($session, $push), "a|f|$too_much\nb|t|",
	'a push to a shard that is another thing now');
stays_small('a push');
is( step($session, 'SELECT s.shard, s.error, s.active_version'
		  . " FROM shardring.shard_details('r') AS s"),
	"a|$too_much|\nb||", 'asking it');
stays_small('a status');

# ---------- what is no answer ----------

# Root certificates that take more memory than an answer may.
my $roots = "$PostgreSQL::Test::Utils::tmp_check/roots.crt";
make_certificate('roots', $roots,
	"$PostgreSQL::Test::Utils::tmp_check/roots.key",
	join '', map { "1.2.3.$_ = DER:" . '00' x 60_000 . "\n" } (1 .. 100));
append_to_file($roots, slurp_file($certificate));
$node->safe_psql('postgres', qq{
	CREATE SERVER tls FOREIGN DATA WRAPPER wrapper
	OPTIONS (host '127.0.0.1', port '$port', dbname 'b', sslmode 'verify-ca',
		sslrootcert '$roots')});
is( step($session, 'SELECT a.error, a.answer[1] FROM'
		  . " shardring_internal.ask_servers('{tls}', 'SELECT s.ssl FROM"
		  . " pg_stat_ssl AS s WHERE s.pid = pg_backend_pid()', '{}') AS a"),
	'|t', 'large root certificates');
ok( $node->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name = 'shardring'}),
	'no session is left');

$session->quit;
$node->stop;
done_testing();
