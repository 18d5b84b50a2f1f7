# logical.pl
#	Logical replication, three times: of our tables, so that another server
#	follows the ring; of a user's rows that move, by a row filter on a database
#	that does not have the extension; and to a shard that has a guard.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use Shardring;
use Test::More;

my $one = start_server('one');
my $two = start_server('two');
$_->safe_psql('postgres', 'CREATE EXTENSION shardring') foreach ($one, $two);
add_ring($one, 'postgres', 'r', 4);
$one->safe_psql('postgres',
	"SELECT shardring.create_ring('tags', hash_tags => true);"
	  . group_calls('tags', 0 .. 2)
	  . "SELECT shardring.activate('tags');"
	  . next_version('tags', 3));

# ---------- our tables ----------

my $keys = 10000;
$one->safe_psql('postgres', <<'END');
CREATE PUBLICATION rings FOR TABLE shardring.ring, shardring.ring_version,
	shardring.shard_group, shardring.shard_map, shardring.shard_pin,
	shardring.shard, shardring.activation;
END
$two->safe_psql('postgres',
	    "CREATE SUBSCRIPTION rings CONNECTION '"
	  . $one->connstr
	  . " dbname=postgres' PUBLICATION rings");
$two->wait_for_subscription_sync($one, 'rings');

sub follows
{
	my ($what) = @_;
	$one->wait_for_catchup('rings');
	foreach my $ring ('r', 'tags')
	{
		is(routes($two, 'postgres', $ring, $keys),
			routes($one, 'postgres', $ring, $keys),
			"$what: ring \"$ring\" routes the same on the subscriber");
	}
	is($two->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
		'', "$what: no problems on the subscriber");
	return;
}

follows('first copy');
my $session = open_session($two);
my $transaction = open_session($two);
my $version =
  "SELECT shardring.active_version('r'), (" . invariant('r', 500) . ')';
is(step($session, $version), '1|t', 'a session on the subscriber');
step($transaction, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is(step($transaction, $version), '1|t', 'a transaction on the subscriber');

$one->safe_psql('postgres', next_version('r', 4));
follows('switch');
is(step($session, $version), '2|t', 'the open session follows');
is(step($transaction, $version), '1|t', 'REPEATABLE READ stays');
step($transaction, 'COMMIT');
is(step($transaction, $version), '2|t', 'until its end');

# Edits of a draft, a dropped version, and a transaction that is rolled back.
$one->safe_psql('postgres',
	    "SELECT shardring.draft_version('r');"
	  . group_calls('r', 5)
	  . "SELECT shardring.set_weight('r', 'node-1', 0.5);"
	  . "SELECT shardring.assign_slots('r', 'node-2', '{[1,2)}', 'db99');"
	  . "SELECT shardring.remove_group('r', 'node-3');"
	  . "BEGIN; SELECT shardring.activate('r'); ROLLBACK;"
	  . "SELECT shardring.drop_version('r', 1)");
follows('edits');
is(step($session, $version), '2|t', 'a switch that was rolled back');
is(step_error($session, "SELECT shardring.shard_for('r', 'k', 1)"),
	'42704', 'a version that was dropped');
$one->safe_psql('postgres', "SELECT shardring.activate('r')");
follows('next switch');
is(step($session, $version), '3|t', 'the open session follows again');
$_->quit foreach ($session, $transaction);

# The subscriber can take over.
$two->safe_psql('postgres', 'DROP SUBSCRIPTION rings');
$two->safe_psql('postgres', next_version('r', 6));
is( $two->safe_psql('postgres', $version), '4|t',
	'the subscriber switches by itself once it is alone');

# ---------- rows that move ----------

# The rows are in databases without the extension, from $two to $one.
$two->safe_psql('postgres', 'CREATE DATABASE source');
$one->safe_psql('postgres', 'CREATE DATABASE target');
my $orders = <<'END';
CREATE TABLE orders (key text, id bigint, uid uuid, at bigint, note text,
	PRIMARY KEY (key, id, uid, at));
END
my $rows = <<'END';
SELECT CASE i % 4 WHEN 0 THEN 'user:' || i WHEN 1 THEN '{tag' || i || '}:x'
	WHEN 2 THEN 'a{}' || i ELSE '{' || i END AS key,
	i * 7919 - 30000000 AS id, md5(i::text)::uuid AS uid
FROM generate_series(1, 8000) AS i
END
# The positions can only be had where the extension is.
$one->safe_psql('postgres', "CREATE TABLE keys AS $rows");
my $stored = $one->safe_psql('postgres',
	"SELECT format('(%L, %s)', key, shardring.key_position(key))"
	  . ' FROM keys') =~ s/\n/,/gr;
$one->safe_psql('target', $orders);
$two->safe_psql('source', $orders);
$two->safe_psql('source',
	    "INSERT INTO orders SELECT r.key, id, uid, p.at FROM ($rows) AS r"
	  . " JOIN (VALUES $stored) AS p (key, at) USING (key)");

# Every pair of shards of the last switch of either ring, each type of keys:
# the condition as SQL, and the keys that the ring says are moving.
$one->safe_psql('postgres', <<'END');
CREATE TABLE moves AS
	WITH pairs AS (
		SELECT a.ring, a.from_version, a.version, p.from_shard, p.to_shard,
			sum(p.share) AS share
		FROM (SELECT DISTINCT ON (ring) * FROM shardring.activation
			  ORDER BY ring, version DESC) AS a,
			shardring.move_plan(a.ring, a.from_version, a.version) AS p
		GROUP BY 1, 2, 3, 4, 5)
	SELECT p.*, t.type, t.key_column, shardring.move_predicate(
			p.ring, p.from_version, p.version, p.from_shard, p.to_shard,
			t.key_column, key_type => t.type) AS predicate,
		ARRAY(SELECT m.key FROM shardring.moving_keys(p.ring,
					p.from_version, p.version, 'keys', t.key_column) AS m
			  WHERE m.from_shard = p.from_shard AND m.to_shard = p.to_shard
			  ORDER BY m.key COLLATE "C") AS keys
	FROM pairs AS p, (VALUES ('text', 'key'), ('bigint', 'id'),
		('uuid', 'uid')) AS t (type, key_column);
END
my ($pairs, $moving) = split /\|/,
  $one->safe_psql('postgres', 'SELECT count(*), sum(cardinality(keys)) FROM moves');
cmp_ok($pairs, '>', 60, 'many pairs of shards');
cmp_ok($moving, '>', 5000, 'and many keys that move');
is( $two->safe_psql(
		'source',
		$one->safe_psql(
			'postgres',
			"SELECT string_agg(format('SELECT %L WHERE ARRAY("
			  . 'SELECT %s::text COLLATE "C" FROM orders WHERE %s ORDER BY 1)'
			  . " <> %L::text[]', concat_ws(' ', ring, from_shard, to_shard,"
			  . " type), key_column, predicate, keys), ' UNION ALL ')"
			  . ' FROM moves')),
	'',
	'predicates select what moving_keys lists, in a database without us');

# One of them: that with the most to move.
sub biggest
{
	my ($ring, $type, $what) = @_;
	return $one->safe_psql('postgres',
		    "SELECT $what FROM moves WHERE ring = '$ring'"
		  . " AND type = '$type' ORDER BY share DESC, from_shard, to_shard"
		  . ' LIMIT 1');
}

# One pair of each kind through a publication.
my $number = 0;
sub publish
{
	my ($what, $filter, $column, $moving) = @_;
	my $name = 'moved' . $number++;
	$two->safe_psql('source',
		"CREATE PUBLICATION $name FOR TABLE orders WHERE ($filter)");
	$one->safe_psql('target',
		    "CREATE SUBSCRIPTION $name CONNECTION '"
		  . $two->connstr
		  . " dbname=source' PUBLICATION $name");
	$one->wait_for_subscription_sync($two, $name, 'target');
	my $arrived = "SELECT $column FROM orders"
	  . " ORDER BY $column\::text COLLATE \"C\"";
	isnt($moving, '', "$what: something moves");
	is($one->safe_psql('target', $arrived),
		$moving, "$what: exactly the moving rows are copied");
	# What the application goes on writing.
	$two->safe_psql('source',
		"UPDATE orders SET note = 'changed' WHERE id % 2 = 0;"
		  . " DELETE FROM orders WHERE id % 7 = 0 AND id % 3 = 1;"
		  . " INSERT INTO orders SELECT key, id + 1, uid, at, 'late'"
		  . " FROM orders WHERE id % 11 = 0");
	$two->wait_for_catchup($name);
	my $same = 'SELECT o::text FROM orders AS o%s ORDER BY 1';
	is( $one->safe_psql('target', sprintf $same, ''),
		$two->safe_psql('source', sprintf $same, " WHERE $filter"),
		"$what: and what changes them afterwards");
	$one->safe_psql('target', "DROP SUBSCRIPTION $name; TRUNCATE orders");
	$two->safe_psql('source',
		"DROP PUBLICATION $name; TRUNCATE orders;"
		  . "INSERT INTO orders SELECT r.key, id, uid, p.at FROM ($rows) AS r"
		  . " JOIN (VALUES $stored) AS p (key, at) USING (key)");
	return;
}

my $list = "array_to_string(keys, E'\\n')";
foreach my $type (qw(text bigint uuid))
{
	publish(
		"$type keys",
		biggest('r', $type, 'predicate'),
		biggest('r', $type, 'key_column'),
		biggest('r', $type, $list));
}
publish(
	'a stored position',
	biggest('r', 'text', 'shardring.move_predicate(ring, from_version,'
		  . " version, from_shard, to_shard, NULL,"
		  . " position_expression => 'at')"),
	'key',
	biggest('r', 'text', $list));
publish('hash tags', biggest('tags', 'text', 'predicate'),
	'key', biggest('tags', 'text', $list));

# ---------- to a shard with a guard ----------

# The guard refuses keys that live elsewhere when somebody writes them here,
# and lets replication apply what it is sent.
$one->safe_psql('postgres', 'CREATE DATABASE guarded');
$two->safe_psql('postgres', 'CREATE DATABASE plain');
$one->safe_psql('guarded', 'CREATE EXTENSION shardring');
add_ring($one, 'guarded', 'r', 4);
$_->[0]->safe_psql($_->[1],
	'CREATE TABLE visits (key text PRIMARY KEY, note text)')
  foreach ([ $one, 'guarded' ], [ $two, 'plain' ]);
$one->safe_psql('guarded', <<'END');
ALTER DATABASE guarded SET shardring.shard = 'db0-0';
CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON visits
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('r', 'key');
END
my @elsewhere = split /\n/, $one->safe_psql('guarded', <<'END');
SELECT 'user:' || i FROM generate_series(1, 100) AS i
WHERE shardring.shard_for('r', 'user:' || i) <> 'db0-0' ORDER BY i LIMIT 6;
END
is(scalar(@elsewhere), 6, 'six keys that live elsewhere');
my ($first, $changed, $deleted, $late, $late_changed, $local) = @elsewhere;

sub sorted
{
	return join "\n", sort @_;
}

sub visits
{
	return sorted(split /\n/,
		$one->safe_psql('guarded', 'SELECT key, note FROM visits'));
}

$two->safe_psql('plain',
	"INSERT INTO visits VALUES ('$first', 'copied'), ('$changed', 'copied'),"
	  . " ('$deleted', 'copied'); CREATE PUBLICATION visits FOR TABLE visits");
$one->safe_psql('guarded',
	    "CREATE SUBSCRIPTION visits CONNECTION '"
	  . $two->connstr
	  . " dbname=plain' PUBLICATION visits");
$one->wait_for_subscription_sync($two, 'visits', 'guarded');
is( visits(),
	sorted("$first|copied", "$changed|copied", "$deleted|copied"),
	'a guard lets the first copy through');
$two->safe_psql('plain', <<"END");
INSERT INTO visits VALUES ('$late', 'inserted');
UPDATE visits SET note = 'updated' WHERE key = '$changed';
UPDATE visits SET key = '$late_changed' WHERE key = '$first';
DELETE FROM visits WHERE key = '$deleted';
END
$two->wait_for_catchup('visits');
my $applied =
  sorted("$changed|updated", "$late_changed|copied", "$late|inserted");
is(visits(), $applied, 'a guard lets insert, update and delete be applied');

# The same by anybody else.
foreach my $statement (
	"INSERT INTO visits VALUES ('$local', 'local')",
	"UPDATE visits SET note = 'local' WHERE key = '$changed'",
	"DELETE FROM visits WHERE key = '$late'")
{
	is(sqlstate_of($one, 'guarded', $statement),
		'SR001', 'here it is refused: ' . ($statement =~ /^(\w+)/)[0]);
}
is(visits(), $applied, 'and nothing has changed');
$one->safe_psql('guarded', 'DROP SUBSCRIPTION visits');

$_->stop foreach ($one, $two);
done_testing();
