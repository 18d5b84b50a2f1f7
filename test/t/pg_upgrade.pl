# pg_upgrade.pl
#	pg_upgrade keeps rings as they are: rows, fingerprints, routes.  Both
#	clusters are of the same major version, which runs the whole way.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $old = start_server('old');
$old->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($old, 'postgres', 'r', 5);
$old->safe_psql('postgres',
	    next_version('r', 5)
	  . "SELECT shardring.draft_version('r');"
	  . "SELECT shardring.pin('r', 17, 'node-3');");
$old->safe_psql('postgres', <<'END');
CREATE TABLE orders (id bigint, key text,
	at bigint GENERATED ALWAYS AS (shardring.key_position(key)) STORED);
CREATE INDEX orders_at ON orders (shardring.key_position(id));
INSERT INTO orders SELECT i, 'user:' || i FROM generate_series(1, 1000) AS i;
END

# All rows of our tables, and what routes.
sub contents
{
	my ($node) = @_;
	my $tables = $node->safe_psql('postgres',
		"SELECT string_agg(format('SELECT %L, t.* FROM %s AS t ORDER BY"
		  . " t::text COLLATE \"C\"', c.oid::regclass, c.oid::regclass), ';'"
		  . " ORDER BY c.oid::regclass::text) FROM pg_extension AS e,"
		  . " unnest(e.extconfig) AS c (oid) WHERE extname = 'shardring'");
	return $node->safe_psql('postgres', $tables) . "\n"
	  . routes($node, 'postgres', 'r', 10000);
}

my $before = contents($old);
like($before, qr/^shardring\.shard_pin\|r\|3\|17\|node-3$/m,
	'rows before the upgrade');
$old->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init(extra => [ '--encoding=UTF8', '--locale=C' ]);

my $bindir = $new->config_data('--bindir');
chdir $PostgreSQL::Test::Utils::tmp_check or die;
command_ok(
	[
		'pg_upgrade', '--no-sync',
		'-d', $old->data_dir, '-D', $new->data_dir,
		'-b', $bindir, '-B', $bindir,
		'-s', $new->host,
		'-p', $old->port, '-P', $new->port,
	],
	'pg_upgrade');

$new->start;
ok(contents($new) eq $before, 'rows and routes are the same');
is($new->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'no problems');
is( $new->safe_psql(
		'postgres',
		'SET enable_seqscan = off;'
		  . ' SELECT count(*) FROM orders WHERE at ='
		  . ' shardring.key_position(key) AND shardring.key_position(id)'
		  . ' = shardring.key_position(id::text)'),
	'1000',
	'index and generated column of a user');
is( $new->safe_psql(
		'postgres',
		"SELECT shardring.activate('r');"
		  . "SELECT (shardring.locate('r', 'user:1')).version"),
	"3\n3",
	'the draft can be activated');
is($new->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'still no problems');

# The old and the new extension can be dropped like any other.
is( $new->safe_psql(
		'postgres',
		'DROP TABLE orders; DROP EXTENSION shardring;'
		  . "SELECT to_regnamespace('shardring') IS NULL"),
	't',
	'dropped after the upgrade');

$new->stop;
done_testing();
