# encodings.pl
#	The encoding and the collation of a database change nothing: the same
#	names and keys have the same positions, points, fingerprints and routes.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('encodings');

# The client always speaks UTF-8; only SQL_ASCII passes bytes as they are.
$ENV{PGCLIENTENCODING} = 'UTF8';

my %databases = (
	utf8 => "ENCODING 'UTF8' LOCALE 'C'",
	ascii => "ENCODING 'SQL_ASCII' LOCALE 'C'",
	latin1 => "ENCODING 'LATIN1' LOCALE 'C'",
	euc_jp => "ENCODING 'EUC_JP' LOCALE 'C'",
	icu => "ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER 'icu'"
	  . " ICU_LOCALE 'en-US'");
foreach my $database (sort keys %databases)
{
	$node->safe_psql('postgres',
		"CREATE DATABASE $database TEMPLATE template0 $databases{$database}");
	$node->safe_psql($database, 'CREATE EXTENSION shardring');
}

# Names and keys that a database can hold.
my @latin = ('Zürich', 'Ångström', 'é', 'ß', 'naïve');
my @japanese = ('東京', '日本語', '大阪', 'カタカナ', '吉');
my %words = (
	utf8 => [ @latin, @japanese ],
	icu => [ @latin, @japanese ],
	ascii => [ @latin, @japanese ],
	latin1 => \@latin,
	euc_jp => \@japanese);

# Builds a ring from words and says everything about it, as UTF-8.
sub build
{
	my ($database, $ring, $hash, @words) = @_;
	my $list = join ',', map { "'$_'" } @words;
	return $node->safe_psql($database, <<"END");
SET client_min_messages = error;
SELECT shardring.create_ring('$ring', 40, '$hash', true);
SELECT shardring.add_group('$ring', w, ARRAY['s-' || w, 't-' || w], 3,
	zone => 'z' || w)
FROM unnest(ARRAY[$list]) WITH ORDINALITY AS u (w, i) ORDER BY i;
SELECT shardring.pin_key('$ring', '$words[0]', '$words[1]');
SELECT shardring.activate('$ring');
SELECT fingerprint FROM shardring.ring WHERE ring = '$ring';
SELECT * FROM shardring.points('$ring');
SELECT * FROM shardring.arcs('$ring');
SELECT * FROM shardring.shares('$ring');
SELECT * FROM shardring.shard_shares('$ring');
SELECT number, shard FROM shardring.shard WHERE ring = '$ring' ORDER BY number;
SELECT w, k, shardring.locate('$ring', k), shardring.shard_for('$ring', k),
	shardring.key_position(k, '$hash'),
	(SELECT array_agg(r) FROM shardring.replicas_for('$ring', k, 3) AS r)
FROM unnest(ARRAY[$list]) WITH ORDINALITY AS u (w, i),
	unnest(ARRAY[w, w || 'x', 'x' || w || w, '{' || w || '}y']) AS k
ORDER BY i, k COLLATE "C";
SELECT array_agg(shardring.shard_for('$ring', k) ORDER BY k)
FROM generate_series(1, 1000) AS k;
SELECT shardring.export_version('$ring');
SELECT count(*) FROM shardring.problems();
END
}

# What the guard on a shard of that ring says to every word.
sub guard
{
	my ($database, $ring, @words) = @_;
	my $list = join ',', map { "'$_'" } @words;
	return $node->safe_psql($database, <<"SQL");
CREATE TEMP TABLE said (line text);
CREATE TEMP TABLE guarded (k text);
CREATE TRIGGER guard BEFORE INSERT ON guarded
FOR EACH ROW EXECUTE FUNCTION shardring.guard('$ring', 'k');
SELECT set_config('shardring.shard',
	shardring.shard_for('$ring', '$words[1]'), false);
DO \$do\$
DECLARE
	w text;
	detail text;
BEGIN
	FOREACH w IN ARRAY ARRAY[$list]
	LOOP
		BEGIN
			INSERT INTO guarded VALUES (w);
			INSERT INTO said
			VALUES ('here ' || shardring.require_here('$ring', w));
		EXCEPTION WHEN SQLSTATE 'SR001' THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			INSERT INTO said VALUES (sqlerrm || ' ' || detail);
		END;
	END LOOP;
END
\$do\$;
SELECT * FROM said;
SELECT * FROM guarded;
SQL
}

# Takes the first group of that ring away and says what moves.
sub change
{
	my ($database, $ring, @words) = @_;
	my $keys = join ' UNION ALL ',
	  map { "SELECT '$_' || i FROM generate_series(1, 40) AS i" } @words;
	return $node->safe_psql($database, <<"END");
SET client_min_messages = error;
SELECT shardring.draft_version('$ring', note => '$words[1]');
SELECT shardring.unpin('$ring', key_position)
FROM shardring.shard_pin WHERE ring = '$ring' AND version = 2;
SELECT shardring.remove_group('$ring', '$words[0]');
SELECT shardring.assign_slots('$ring', '$words[1]', '{[1,2)}', 's-$words[0]');
SELECT * FROM shardring.moved_ranges('$ring', 1, 2);
SELECT * FROM shardring.move_plan('$ring', 1, 2);
CREATE TEMP TABLE keys AS SELECT k FROM ($keys) AS u (k);
SELECT 'moves', * FROM shardring.moving_keys('$ring', 1, 2, 'keys', 'k');
SELECT * FROM shardring.moving_keys('$ring', 1, 2, ARRAY(SELECT k FROM keys));
SELECT k FROM keys WHERE shardring.moves('$ring', 1, 2, k);
END
}

foreach my $database (grep { $_ ne 'utf8' } sort keys %databases)
{
	foreach my $hash ('md5', 'murmur3')
	{
		my @words = @{ $words{$database} };
		my $ring = "$database-$words[0]-$hash";
		my $what = "$database $hash";
		my $built = build($database, $ring, $hash, @words);
		like($built, qr/^[0-9a-f]{64}$/m, "$what: a ring is built");
		ok($built eq build('utf8', $ring, $hash, @words),
			"$what: points, routes, document and fingerprint are as in UTF8");
		my $said = guard($database, $ring, @words);
		like($said, qr/^here [st]-.*^\Q$words[1]\E$/ms,
			"$what: the guard knows its own");
		is($said, guard('utf8', $ring, @words),
			"$what: the guard says what it says in UTF8");
		my $moved = change($database, $ring, @words);
		like($moved, qr/^moves\|\Q$words[0]\E[0-9]/m, "$what: keys move");
		ok($moved eq change('utf8', $ring, @words),
			"$what: what moves is as in UTF8");
	}
}

# ---------- positions of bytes that only SQL_ASCII can hold ----------

is( $node->safe_psql('ascii', "SELECT shardring.key_position(E'\\xC3\\xA9')"),
	'1725812119',
	'UTF-8 bytes in SQL_ASCII');
add_ring($node, 'ascii', 'r', 2);
foreach my $call (
	"key_position(E'\\xE9')",
	"key_position(E'ok\\xC3')",
	"shard_for('r', E'\\xE9')",
	"locate('r', E'\\xE9', 1)",
	"moves('r', 1, 1, E'\\xE9')",
	"moving_keys('r', 1, 1, ARRAY[E'\\xE9'])",
	"shard_for(E'r\\xE9', 'k')",
	"create_ring(E'\\xE9')",
	"active_version(E'\\xE9')")
{
	is(sqlstate_of($node, 'ascii', "SELECT shardring.$call"),
		'22021', "bytes that are no UTF-8: $call");
}
$node->safe_psql('ascii', "SELECT shardring.draft_version('r')");
is( sqlstate_of(
		$node, 'ascii',
		"SELECT shardring.add_group('r', E'\\xE9', '{s}')"),
	'22021',
	'a group whose name is no UTF-8');
is( sqlstate_of(
		$node, 'ascii',
		"SELECT shardring.add_group('r', 'g', ARRAY[E'\\xE9'])"),
	'22021',
	'a shard whose name is no UTF-8');
is($node->safe_psql('ascii', 'SELECT count(*) FROM shardring.problems()'),
	'0', 'no problems after all that');

# Nor do the messages show any of a key: JIS has no character 0x2921.
my $none = q{convert_from('\\x61a9a162', 'EUC_JP')};
add_ring($node, 'euc_jp', 'nowhere', 2);
$node->safe_psql('euc_jp', qq{
	ALTER DATABASE euc_jp SET shardring.shard = 'db0-0';
	CREATE TABLE held (key text PRIMARY KEY);
	SELECT shardring.add_guard('nowhere', 'held', 'key')});
foreach my $sql (
	"SELECT shardring.key_position($none)",
	"SELECT shardring.shard_for('nowhere', $none)",
	"SELECT shardring.require_here('nowhere', $none)",
	"SELECT shardring.moves('nowhere', 1, 1, $none)",
	"SELECT * FROM shardring.moving_keys('nowhere', 1, 1, ARRAY[$none])",
	"INSERT INTO held VALUES ($none)")
{
	my ($status, $out, $error) =
	  $node->psql('euc_jp', "\\set VERBOSITY verbose\n$sql");
	like($error, qr/ERROR:  22P05: key cannot be converted to UTF-8/,
		"a character that UTF-8 does not have: $sql");
	unlike($error, qr/a9/i, 'which is not shown');
}
my ($status, $out, $error) =
  $node->psql('ascii', q{SELECT shardring.key_position(E'ok\\xC3')});
like($error, qr/ERROR:  key cannot be converted to UTF-8/, 'SQL_ASCII, too');
unlike($error, qr/c3/i, 'which is not shown');

# ---------- collations ----------

# By locale alpha-4 comes before Zeta-646, by bytes after it, and they want
# the same point.
foreach my $database ('utf8', 'icu')
{
	$node->safe_psql($database,
		    "SELECT shardring.create_ring('order');"
		  . join('', map { "SELECT shardring.add_group('order', '$_', '{$_}');" }
			  ('mid-1', 'alpha-4', 'Zeta-646'))
		  . "SELECT shardring.activate('order')");
	is( $node->safe_psql($database,
			    "SELECT array_agg(group_name ORDER BY group_name) FROM ("
			  . "SELECT group_name FROM shardring.points('order')"
			  . ' WHERE key_position = 3195943442 UNION ALL SELECT'
			  . " shardring.shard_at('order', 3195943442)) AS g"),
		'{alpha-4,alpha-4}',
		"$database: who came first has the point");
	is( $node->safe_psql($database,
			    "SELECT count(*), bool_or(salt = 21), max(salt) FROM"
			  . " shardring.points('order') WHERE group_name = 'Zeta-646'"),
		'160|f|160',
		"$database: the other one skips a candidate");
	is( $node->safe_psql(
			$database, 'SELECT fingerprint FROM shardring.ring'
			  . " WHERE ring = 'order'"),
		$node->safe_psql(
			'utf8', 'SELECT fingerprint FROM shardring.ring'
			  . " WHERE ring = 'order'"),
		"$database: fingerprint");
}

# A collation for which 'A' and 'a' are equal does not make keys equal.
$node->safe_psql('icu', <<'END');
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1',
	deterministic = false);
CREATE TABLE keys (key text COLLATE blind);
INSERT INTO keys VALUES ('user:a'), ('USER:A'), ('üser:a');
END
is( $node->safe_psql('icu', <<'END'), '1|3|3|t', 'nondeterministic collation');
SELECT count(DISTINCT key), count(DISTINCT shardring.key_position(key)),
	count(DISTINCT (shardring.locate('order', key)).key_position),
	bool_and(shardring.shard_for('order', key)
		= shardring.shard_for('order', key COLLATE "C"))
FROM keys
END
is( $node->safe_psql('icu', <<'END'), 'a|A', 'groups that differ by case only');
SET client_min_messages = error;
SELECT shardring.create_ring('case') \g /dev/null
SELECT shardring.add_group('case', 'a', '{a}') \g /dev/null
SELECT shardring.add_group('case', 'A', '{A}') \g /dev/null
SELECT shardring.activate('case') \g /dev/null
SELECT shardring.shard_at('case' COLLATE blind, a.at),
	shardring.shard_at('case' COLLATE blind, b.at)
FROM shardring.key_position('a#0' COLLATE blind) AS a (at),
	shardring.key_position('A#0' COLLATE blind) AS b (at)
END
for my $call ("shardring.moving_keys('order', 1, 1, 'keys', 'key')",
	"shardring.rehearse('order', 1, 1, 'keys', 'key')")
{
	my $error;
	$node->psql('icu', "SELECT count(*) FROM $call",
		stderr => \$error, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	like($error, qr/ERROR:  42P22/,
		"a key column with a nondeterministic collation: $call");
}
is($node->safe_psql('icu', 'SELECT count(*) FROM shardring.problems()'),
	'0', 'no problems');

$node->stop;
done_testing();
