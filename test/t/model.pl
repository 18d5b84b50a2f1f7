# model.pl
#	The extension against an independent model of its rules (test/t/model.py):
#	random rings over several versions, and rings and hashes that are pinned
#	for ever.  A value here that changes is lost data for every user, so none
#	may be edited.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('model');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');

# SHARDRING_SEED repeats a run.
my $seed = $ENV{SHARDRING_SEED} // int(rand(1_000_000));
my $script = "$PostgreSQL::Test::Utils::tmp_check/random.sql";
note "seed $seed";
system_or_bail('sh', '-c',
	"/usr/bin/python3 -B test/t/random_rings.py $seed 24 10000 > '$script'");
my ($out, $err) = run_command(
	[ 'psql', '-XqAt', '-d', $node->connstr('postgres'), '-f', $script ]);
is($err, '', "random rings were built (seed $seed)");
is($out, 'compared|72|10000',
	"72 fingerprints and 10000 keys are as in the model (seed $seed)");

# The same five rings as pinned_rings() of the model.
$node->safe_psql('postgres', <<'END');
SET client_min_messages = error;
SET search_path = shardring;
BEGIN;
SELECT create_ring('plain');
SELECT add_group('plain', g, ARRAY[g])
	FROM unnest('{node-a,node-b,node-c}'::text[]) AS g;
SELECT create_ring('blocks', vnodes => 40);
SELECT add_group('blocks', 'group-' || i,
	ARRAY['db' || 2 * i, 'db' || 2 * i + 1], 64)
	FROM generate_series(0, 7) AS i;
SELECT set_weight('blocks', 'group-3', 1.5);
SELECT set_weight('blocks', 'group-5', 0.5);
SELECT remove_group('blocks', 'group-6');
SELECT assign_slots('blocks', 'group-0', '{[0,3),[7,8),[63,64)}', 'db99');
SELECT create_ring('fixed', vnodes => 1, hash => 'crc16', hash_tags => true);
SELECT add_group('fixed', 'all', '{redis-0,redis-1,redis-2}', 16384);
SELECT create_ring('pinned', vnodes => 16, hash => 'murmur3',
	hash_tags => true);
SELECT add_group('pinned', 'Zürich', '{züri-1}');
SELECT add_group('pinned', '日本', '{東京,大阪}', 3);
SELECT add_group('pinned', 'home', '{vip}', 1, 0);
SELECT pin('pinned', 0, 'home');
SELECT pin('pinned', 4294967295, '日本');
SELECT pin_key('pinned', 'user:42', 'home');
SELECT create_ring('colliding', hash => 'fnv1a');
SELECT add_group('colliding', 'mid-1', '{m}');
SELECT add_group('colliding', 'alpha-4', '{a}');
SELECT add_group('colliding', 'Zeta-646', '{z}');
SELECT set_vnodes('colliding', 200);
SELECT activate(r) FROM unnest(
	'{plain,blocks,fixed,pinned,colliding}'::text[]) AS r;
COMMIT;
END

my %pinned = (
	plain =>
	  'ba8de723acae2c1f26c1806aef9c10bfe9fa0c6f0410fceb5c956127a3f9c6cb',
	blocks =>
	  'b9806631dd24d0d92f56a64b376ab8b84ce243603afd527807491c932bed07b0',
	fixed =>
	  '5ca614640ad1c8b4374cd7d12eddbc14cf44ce8a05fe18fefa01c91ff0e3a3ce',
	pinned =>
	  '9e50828650ac849e24652176b27ed52fd57a721142f072ec90f5a2e340cb1111',
	colliding =>
	  'b9d82979752a61160e19b1a0c7f4ff855ed09857cf97743a0585486861ae0332');

my ($model) = run_command([ '/usr/bin/python3', '-B', 'test/t/model.py' ]);
my %model = split ' ', $model;
is_deeply(\%model, \%pinned, 'fingerprints of the model are pinned');
foreach my $ring (sort keys %pinned)
{
	is( $node->safe_psql(
			'postgres',
			"SELECT fingerprint FROM shardring.ring WHERE ring = '$ring'"),
		$pinned{$ring},
		"fingerprint of ring \"$ring\" is pinned");
}

# The SHA-256 over position:group of all points, computed elsewhere.
is( $node->safe_psql(
		'postgres',
		"SELECT encode(sha256(convert_to(string_agg("
		  . "key_position || ':' || group_name, E'\\n' ORDER BY key_position),"
		  . " 'UTF8')), 'hex') FROM shardring.points('plain')"),
	'7c21ddb8cdcb4fadfa782dcd5a6ea9dc53d19c8c448ea0806a786bd95192f5da',
	'points of a ring are pinned');

# key => md5, fnv1a, murmur3, crc16, slot of 16384 with tags
my %positions = (
	'' => [ 3558706393, 2166136261, 0, 0, 0 ],
	'a' => [ 214005177, 3826002220, 1009084850, 31879, 15495 ],
	'42' => [ 2714814184, 2279835011, 3159925814, 57152, 8000 ],
	'user:1' => [ 3182550288, 1830439627, 3416794175, 27162, 10778 ],
	'é' => [ 1725812119, 513665217, 269551495, 26564, 10180 ],
	'日本語' => [ 1116920, 2153733351, 2779017879, 12788, 12788 ],
	'{}' => [ 2576436115, 1415952421, 2315792072, 31641, 15257 ],
	'order-1001' =>
	  [ 2459046385, 2439986572, 1038198555, 25471, 9087 ]);
foreach my $key (sort keys %positions)
{
	is( $node->safe_psql(
			'postgres', "SELECT string_agg(shardring.key_position("
			  . "'$key', h)::text, ' ' ORDER BY i) || ' ' ||"
			  . " (shardring.locate('fixed', '$key')).slot"
			  . " FROM unnest('{md5,fnv1a,murmur3,crc16}'::text[])"
			  . " WITH ORDINALITY AS u (h, i)"),
		"@{$positions{$key}}",
		'positions of a key of ' . length($key) . ' bytes are pinned');
}

$node->stop;
done_testing();
