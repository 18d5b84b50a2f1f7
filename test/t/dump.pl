# dump.pl
#	Dumped and restored in every way, rings are the same: all rows, the
#	fingerprints, the routes of 10,000 keys, and problems() stays empty.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $node = start_server('dump');
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;

# ---------- what is dumped (B39) ----------

$node->safe_psql('postgres',
	'CREATE ROLE owner LOGIN; CREATE DATABASE origin OWNER owner');
$node->safe_psql('origin', 'CREATE EXTENSION shardring');
my @rings = ('r', 'plain', 'näme', 'tags');
$node->safe_psql('origin', <<'END');
SET client_min_messages = error;
SET search_path = shardring;
SELECT create_ring('plain');
SELECT add_group('plain', g, ARRAY[g])
	FROM unnest('{node-a,node-b,node-c}'::text[]) AS g;
SELECT activate('plain');
SELECT create_ring('näme', vnodes => 20, hash => 'murmur3');
SELECT add_group('näme', 'Zürich', '{züri-1,züri-2}', 5, zone => 'ost');
SELECT add_group('näme', '日本', '{東京}', 3, 2.5);
SELECT add_group('näme', E'tab\t, "quote"\\ ''s', '{x}');
SELECT pin_key('näme', 'user:42', 'Zürich');
SELECT activate('näme');
SELECT create_ring('tags', vnodes => 1, hash => 'crc16', hash_tags => true);
SELECT add_group('tags', 'all', '{redis-0,redis-1,redis-2}', 16384);
SELECT activate('tags');
SELECT create_ring('unused');
INSERT INTO router VALUES ('tags', 'proxy');
END
add_ring($node, 'origin', 'r', 8);
$node->safe_psql('origin',
	    next_version('r', 8)
	  . "SELECT shardring.draft_version('r', note => 'gone');"
	  . "SELECT shardring.drop_version('r', 3);"
	  . next_version('r', 9)
	  . "SELECT shardring.draft_version('r', note => 'a draft');"
	  . "SELECT shardring.assign_slots('r', 'node-3', '{[1,2)}', 'db99');"
	  . "SELECT shardring.pin('r', 17, 'node-3')");

# A table of a user that depends on the extension (B41).
$node->safe_psql('origin', <<'END');
CREATE SCHEMA bar AUTHORIZATION owner;
SET ROLE owner;
CREATE TABLE bar.orders (id int PRIMARY KEY, key text, shard text,
	at bigint GENERATED ALWAYS AS (shardring.key_position(key)) STORED);
CREATE INDEX orders_at ON bar.orders (shardring.key_position(key));
CREATE FUNCTION bar.route() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.shard := shardring.shard_for('r', NEW.key);
	RETURN NEW;
END $$;
CREATE TRIGGER route BEFORE INSERT OR UPDATE ON bar.orders
	FOR EACH ROW EXECUTE FUNCTION bar.route();
INSERT INTO bar.orders (id, key)
	SELECT i, 'user:' || i FROM generate_series(1, 500) AS i;
END

# Everything in our tables and all routes, as one string.
sub contents
{
	my ($database) = @_;
	my @tables = split "\n", $node->safe_psql($database,
		    "SELECT c.oid::regclass FROM pg_extension e,"
		  . " unnest(e.extconfig) AS c (oid) WHERE extname = 'shardring'"
		  . " ORDER BY 1");
	my $sql = join '',
	  map { "SELECT '$_', t.* FROM $_ AS t ORDER BY t::text COLLATE \"C\";" }
	  @tables;
	return
	    $node->safe_psql($database, $sql) . "\n"
	  . join("\n", map { routes($node, $database, $_, 10000) } @rings);
}

my $origin = contents('origin');
my $rows = () = $origin =~ /^shardring\.\w+\|/mg;
foreach my $table (
	qw(ring ring_version shard_group shard_map shard_pin shard activation
	router))
{
	ok(scalar($origin =~ /^shardring\.$table\|/m),
		"what is dumped has rows in table $table");
}
is(scalar(() = $origin =~ /^[14]\|[0-9a-f]{64}$/mg),
	4, 'what is dumped has active versions');

# The restored database is like the original.
sub restored
{
	my ($database, $how) = @_;
	ok(contents($database) eq $origin, "$how: rows and routes are the same");
	is($node->safe_psql($database, 'SELECT * FROM shardring.problems()'),
		'', "$how: no problems");
	is( $node->safe_psql(
			$database,
			"SELECT encode(sha256(convert_to(string_agg(key_position || ':' ||"
			  . " group_name, E'\\n' ORDER BY key_position), 'UTF8')), 'hex')"
			  . " FROM shardring.points('plain')"),
		'7c21ddb8cdcb4fadfa782dcd5a6ea9dc53d19c8c448ea0806a786bd95192f5da',
		"$how: points");
	is( sqlstate_of(
			$node, $database,
			"INSERT INTO shardring.shard_pin VALUES ('r', 1, 1, 'node-1')"),
		'55000',
		"$how: a sealed version takes no more rows");
	return;
}

# The user's objects work.
sub restored_user
{
	my ($database, $how) = @_;
	is( $node->safe_psql(
			$database,
			"SET search_path = '';"
			  . "INSERT INTO bar.orders (id, key) VALUES (501, 'user:501');"
			  . "SELECT count(*), count(DISTINCT shard), "
			  . "bool_and(shard = shardring.shard_for('r', key)"
			  . " AND at = shardring.key_position(key)) FROM bar.orders"),
		'501|20|t',
		"$how: index, generated column and trigger of a user");
	return;
}

# ---------- in every way ----------

system_or_bail('pg_dump', '-f', "$dir/plain.sql", 'origin');
$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'plain', '-o',
		"$dir/out", '-f', "$dir/plain.sql" ],
	'plain dump is restored');
restored('plain', 'plain');
restored_user('plain', 'plain');

system_or_bail('pg_dump', '--clean', '--if-exists', '-f', "$dir/clean.sql",
	'origin');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'plain', '-o',
		"$dir/out", '-f', "$dir/clean.sql" ],
	'--clean over a database that has it');
restored('plain', 'clean');

system_or_bail('pg_dump', '-Fc', '-f', "$dir/custom", 'origin');
foreach my $jobs (1, 4)
{
	$node->safe_psql('postgres', "CREATE DATABASE custom$jobs");
	$node->command_ok(
		[ 'pg_restore', '--exit-on-error', '-j', $jobs, '-d',
			"custom$jobs", "$dir/custom" ],
		"-Fc is restored with -j$jobs");
	restored("custom$jobs", "-Fc -j$jobs");
	restored_user("custom$jobs", "-Fc -j$jobs");
}

# Into a database that has the extension already: only the rows.
$node->safe_psql('postgres', 'CREATE DATABASE data');
$node->safe_psql('data', 'CREATE EXTENSION shardring');
system_or_bail('pg_dump', '--data-only', '-N', 'bar', '-f',
	"$dir/data.sql", 'origin');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-1', '-d', 'data', '-o',
		"$dir/out", '-f', "$dir/data.sql" ],
	'data only');
restored('data', 'data only');

# The owner of the database, who is no superuser, can dump it.
$node->command_ok(
	[ 'pg_dump', '-U', 'owner', '-f', "$dir/owner.sql", 'origin' ],
	'the owner of the database can dump it');
my ($by_owner, $by_superuser) =
  map { slurp_file("$dir/$_.sql") =~ s/^\\(un)?restrict .*//mgr }
  qw(owner plain);
ok($by_owner eq $by_superuser, 'and gets the same dump');

# Nothing is in the dump right after CREATE EXTENSION (B40).
$node->safe_psql('postgres', 'CREATE DATABASE empty; CREATE DATABASE again');
$node->safe_psql('empty', 'CREATE EXTENSION shardring');
system_or_bail('pg_dump', '-f', "$dir/empty.sql", 'empty');
unlike(slurp_file("$dir/empty.sql"), qr/^[^\\-].*\t/m,
	'no row comes from CREATE EXTENSION');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'again', '-o',
		"$dir/out", '-f', "$dir/empty.sql" ],
	'dump right after CREATE EXTENSION is restored');
is($node->safe_psql('again', 'SELECT * FROM shardring.problems()'),
	'', 'and has no problems');

# ---------- what keeping-the-map.md says ----------

# The map by itself.
system_or_bail('pg_dump', '-e', 'shardring', '-n', 'shardring', '-f',
	"$dir/map.sql", 'origin');
unlike(slurp_file("$dir/map.sql"), qr/bar\.orders/, '-e, -n: nothing but the map');
$node->safe_psql('postgres', 'CREATE DATABASE map');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'map', '-o', "$dir/out",
		'-f', "$dir/map.sql" ],
	'-e, -n: the map is restored');
restored('map', '-e, -n');

# A CHECK that routes: rows of the table may come before those of the ring.
$node->safe_psql('postgres',
	'CREATE DATABASE checked; CREATE DATABASE at_once; CREATE DATABASE in_turn');
$node->safe_psql('checked', 'CREATE EXTENSION shardring');
add_ring($node, 'checked', 'r', 8);
$node->safe_psql('checked', q{
	CREATE TABLE account (id bigint PRIMARY KEY
		CHECK (shardring.shard_for('r', id) LIKE 'db%'));
	INSERT INTO account SELECT generate_series(1, 100)});
system_or_bail('pg_dump', '-Fc', '-f', "$dir/checked", 'checked');
$node->command_fails_like([ 'pg_restore', '-d', 'at_once', "$dir/checked" ],
	qr/ring "r" does not exist/, 'a CHECK that routes is not restored at once');
$node->command_ok([ 'pg_restore', @$_, '-d', 'in_turn', "$dir/checked" ],
	"but in turn: @$_")
  foreach [ '--section=pre-data' ], [ '-a', '-n', 'shardring' ],
  [ '-a', '-N', 'shardring' ], [ '--section=post-data' ];
is($node->safe_psql('in_turn', 'SELECT count(*) FROM account'),
	100, 'with all rows');
is($node->safe_psql('in_turn', 'SELECT * FROM shardring.problems()'),
	'', 'and a ring without problems');

# FOR ALL TABLES means ours, too.
is( $node->safe_psql('checked', q{
		CREATE PUBLICATION everything FOR ALL TABLES;
		SELECT count(*) = (SELECT count(*) FROM pg_class
			WHERE relnamespace = 'shardring'::regnamespace AND relkind = 'r')
		FROM pg_publication_tables
		WHERE pubname = 'everything' AND schemaname = 'shardring'}),
	't', 'FOR ALL TABLES publishes the map');

# ---------- rows in any order ----------

my $seed = $ENV{SHARDRING_SEED} // int(rand(1_000_000));
srand($seed);
note "seed $seed";
system_or_bail('pg_dump', '--data-only', '--inserts', '-N', 'bar', '-f',
	"$dir/inserts.sql", 'origin');
my @rows = grep { /^INSERT/ } split "\n", slurp_file("$dir/inserts.sql");
is(scalar @rows, $rows, 'one INSERT a row');
foreach my $round (1 .. 3)
{
	$node->safe_psql('postgres', "CREATE DATABASE shuffled$round");
	$node->safe_psql("shuffled$round", 'CREATE EXTENSION shardring');
	append_to_file("$dir/shuffled$round.sql", join "\n", shuffle @rows);
	$node->command_ok(
		[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', "shuffled$round",
			'-f', "$dir/shuffled$round.sql" ],
		"rows are restored in random order $round (seed $seed)");
	restored("shuffled$round", "random order $round (seed $seed)");
}

$node->stop;
done_testing();
