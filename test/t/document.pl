
# document.pl
#	The document of a version, read by a client in another language and by
#	another server, routes like the ring it came from.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('origin');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
$node->safe_psql('postgres',
	"CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
$node->safe_psql($_, 'CREATE EXTENSION shardring')
  for qw(postgres elsewhere latin);

# What a key looks like, by its number: short, long, tagged, not ASCII.
my $keys = <<'END';
	CREATE VIEW keys AS SELECT i, CASE i % 7
		WHEN 0 THEN i::text
		WHEN 1 THEN 'user:' || i
		WHEN 2 THEN '{user' || i / 100 || '}.cart'
		WHEN 3 THEN 'a{}{' || i || '}'
		WHEN 4 THEN repeat('é', i % 40) || i
		WHEN 5 THEN '}{' || i
		ELSE md5(i::text) END AS key
	FROM generate_series(1, 100000) AS i
END
$node->safe_psql('postgres', $keys);

sub build_ring
{
	my ($ring, $hash, $tags) = @_;
	return qq{
		SET client_min_messages = error;
		SELECT shardring.create_ring('$ring', hash => '$hash',
			hash_tags => $tags);
		SELECT shardring.add_group('$ring', 'grün', ARRAY['a', 'b', 'c'], 64);
		SELECT shardring.add_group('$ring', 'rot', ARRAY['ß', 'e'], 16,
			weight => 2.3);
		SELECT shardring.add_group('$ring', 'home', ARRAY['f'], 1,
			weight => 0);
		SELECT shardring.assign_slots('$ring', 'grün', '{[5,9),[60,61)}', 'e');
		SELECT shardring.pin_key('$ring', 'user:8', 'home');
		SELECT shardring.pin_key('$ring', '{user7}', 'rot');
		SELECT shardring.activate('$ring');
		SELECT shardring.draft_version('$ring');
		SELECT shardring.add_group('$ring', 'blau', ARRAY['g'], 7);
		SELECT shardring.set_weight('$ring', 'rot', 1.1);
		SELECT shardring.activate('$ring')};
}

sub check_client
{
	my ($ring) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	append_to_file("$dir/keys", $node->safe_psql('postgres',
		'SELECT k.key FROM keys AS k ORDER BY k.i') . "\n");
	for my $version (1, 2)
	{
		unlink "$dir/document";
		append_to_file("$dir/document", $node->safe_psql('postgres',
			"SELECT shardring.export_version('$ring', $version)"));
		my $routes = '';
		IPC::Run::run [ '/usr/bin/python3', 'extension/doc/examples/client.py',
			"$dir/document" ], '<', "$dir/keys", '>', \$routes
		  or die 'client.py failed';
		chomp $routes;
		my $own = $node->safe_psql('postgres', qq{
			COPY (SELECT l.key_position, l.group_name, l.slot, l.shard
				  FROM keys AS k CROSS JOIN LATERAL
					  shardring.locate('$ring', k.key, $version) AS l
				  ORDER BY k.i) TO STDOUT});
		is($own =~ tr/\n//, 99999, "$ring, version $version: all keys");
		ok($own eq $routes, "$ring, version $version: the client agrees");
	}
	return;
}

for my $case ([ 'md5', 'false' ], [ 'md5', 'true' ], [ 'murmur3', 'true' ],
	[ 'fnv1a', 'false' ])
{
	my $ring = join '_', @$case;
	$node->safe_psql('postgres', build_ring($ring, @$case));
	check_client($ring);
}

# fixed slots, as Redis has them
$node->safe_psql('postgres', q{
	SELECT shardring.create_ring('fixed', hash => 'crc16', hash_tags => true);
	SELECT shardring.add_group('fixed', 'all', ARRAY['x', 'y', 'z'], 16384);
	SELECT shardring.activate('fixed');
	SELECT shardring.draft_version('fixed');
	SELECT shardring.assign_slots('fixed', 'all', '{[0,100)}', 'y');
	SELECT shardring.activate('fixed')});
check_client('fixed');

# to another database, and to one in another encoding
my $print = "SELECT v.fingerprint FROM shardring.ring_version AS v
	WHERE v.ring = 'md5_true' AND v.version = 2";
my $document = $node->safe_psql('postgres',
	q{SELECT shardring.export_version('md5_true', 2)});
for my $database (qw(elsewhere latin))
{
	$node->safe_psql($database, "SET client_encoding = 'UTF8';
		SELECT shardring.import_version(\$document\$$document\$document\$)");
	is($node->safe_psql($database, $print),
		$node->safe_psql('postgres', $print),
		"$database: same fingerprint");
	my $routes = q{SET client_encoding = 'UTF8';
		SELECT md5(string_agg(convert_to(
			shardring.shard_for('md5_true', i, 2), 'UTF8')::text, ' '
			ORDER BY i))
		FROM generate_series(1, 10000) AS i};
	is($node->safe_psql($database, $routes),
		$node->safe_psql('postgres', $routes),
		"$database: same routes");
}

$node->stop;
done_testing();
