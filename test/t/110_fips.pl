# 110_fips.pl
#	On a server whose OpenSSL is in FIPS mode md5() fails, and routing works.
#
#	The mode is emulated: every algorithm is asked for with the property
#	fips=yes, which the default provider does not have.  The random generator
#	is exempted, since no session could start without it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $config = "$PostgreSQL::Test::Utils::tmp_check/openssl.cnf";
append_to_file($config, <<'END');
openssl_conf = main
[main]
providers = provider_section
alg_section = algorithm_section
random = random_section
[provider_section]
default = default_section
[default_section]
activate = 1
[algorithm_section]
default_properties = fips=yes
[random_section]
random = CTR-DRBG
cipher = AES-256-CTR
seed = SEED-SRC
properties = -fips
seed_properties = -fips
END

# Made without it, so that initdb is not part of the test.
my $node = start_server('fips');
$node->stop;
my $without = $ENV{OPENSSL_CONF};
$ENV{OPENSSL_CONF} = $config;
$node->start;
defined $without
  ? ($ENV{OPENSSL_CONF} = $without)
  : delete $ENV{OPENSSL_CONF};

like(sqlstate_of($node, 'postgres', "SELECT md5('user:1')"),
	qr/^[0-9A-Z]{5}$/, 'the built-in md5() fails');

$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
is($node->safe_psql('postgres', "SELECT shardring.key_position('user:1')"),
	'3182550288', 'ours does not');
$node->safe_psql('postgres', <<'END');
SELECT shardring.create_ring('plain');
SELECT shardring.add_group('plain', g, ARRAY[g])
	FROM unnest('{node-a,node-b,node-c}'::text[]) AS g;
SELECT shardring.activate('plain');
END
is( $node->safe_psql(
		'postgres', 'SELECT fingerprint FROM shardring.ring'),
	'ba8de723acae2c1f26c1806aef9c10bfe9fa0c6f0410fceb5c956127a3f9c6cb',
	'points and fingerprint are the same');
is( $node->safe_psql(
		'postgres',
		"SELECT shardring.shard_for('plain', k) FROM"
		  . " unnest('{user:1,user:42,é,日本語}'::text[]) AS k"),
	"node-a\nnode-b\nnode-a\nnode-b",
	'and routes');
is( $node->safe_psql(
		'postgres',
		"SELECT shardring.draft_version('plain');"
		  . "SELECT shardring.add_group('plain', 'node-d', '{node-d}');"
		  . "SELECT count(*) FROM shardring.moving_keys('plain', 1, 2, ARRAY("
		  . "SELECT 'user:' || i FROM generate_series(0, 9999) AS i))"),
	"2\n\n2614",
	'and what moves');
is($node->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'no problems');

$node->stop;
done_testing();
