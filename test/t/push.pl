
# push.pl
#	Pushing to the right servers, in the right order: entries that lead to
#	another database than they should, shards that do not say who they are,
#	activating in an order that would make two owners of a key, and versions
#	that are left over.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

my $main = new_server('main');
my $other = new_server('other');
$other->append_conf('postgresql.conf',
	"wal_level = replica\nmax_wal_senders = 2");
$other->restart;
my ($host, $port) = ($other->host, $other->port);

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

# SQLSTATE, message, detail and hint of a statement that fails.
sub failure
{
	my ($sql) = @_;
	my ($status, $out, $error) = $main->psql('postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	my ($code, $message) = $error =~ /ERROR:\s+(\w{5}): (.*)/;
	my ($detail) = $error =~ /DETAIL:\s+(.*)/;
	my ($hint) = $error =~ /HINT:\s+(.*)/;
	return ($code // 'no error', $message // '', $detail // '', $hint // '');
}

# A shard is a database of the other server that does not say who it is.
sub add_shard
{
	my ($name) = @_;
	$other->safe_psql('postgres', qq{CREATE DATABASE "$name"});
	$other->safe_psql($name, q{
		CREATE EXTENSION shardring;
		CREATE TABLE held (key text PRIMARY KEY)});
	on_main(qq{
		SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
					  'OPTIONS (host %L, port %L, dbname %1\$L)',
					  '$name', '$host', '$port') \\gexec});
	return;
}

sub say_who
{
	my ($name) = @_;
	$other->safe_psql('postgres',
		qq{ALTER DATABASE "$name" SET shardring.shard = '$name'});
	return;
}

sub guard
{
	my ($name, $ring) = @_;
	$other->safe_psql($name, qq{
		CREATE TRIGGER zz_guard_$ring BEFORE INSERT OR UPDATE OR DELETE ON held
		FOR EACH ROW EXECUTE FUNCTION shardring.guard('$ring', 'key')});
	return;
}

sub push_to
{
	my ($arguments) = @_;
	return on_main(qq{
		SELECT p.shard, p.ok, p.active_version, p.error
		FROM shardring.push_version($arguments) AS p});
}

sub status
{
	my ($ring) = @_;
	return on_main(qq{
		SELECT s.shard, s.in_sync, s.version, s.problem
		FROM shardring.shard_status('$ring') AS s});
}

# Versions that are on a shard, and the one that is active.
sub versions_on
{
	my ($name, $ring) = @_;
	return $other->safe_psql($name, qq{
		SELECT string_agg(v.version::text, ' ' ORDER BY v.version), max(
			(SELECT r.active_version FROM shardring.ring AS r
			 WHERE r.ring = '$ring'))
		FROM shardring.ring_version AS v WHERE v.ring = '$ring'});
}

on_main('CREATE EXTENSION postgres_fdw');
add_shard($_) for qw(a b c);

# ---------- who is it? ----------

on_main(q{
	SELECT shardring.create_ring('who');
	SELECT shardring.add_group('who', 'g', ARRAY['a', 'b'], 2);
	SELECT shardring.activate('who')});
say_who('a');
my $unset = qq{shardring.shard is not set there: }
  . q{ALTER DATABASE b SET shardring.shard = 'b'};
is(push_to(q{'who', 1, activate => true}), "a|t|1|\nb|f|1|$unset",
	'unset: done all the same, and not well');
is(status('who'), "a|t|1|\nb|f|1|shardring.shard is not set",
	'unset: not in sync');
my $command = on_main(q{SELECT d.hint FROM shardring.shard_details('who') AS d
	WHERE d.shard = 'b'});
my $early = $other->background_psql('b');
$early->query_safe('SELECT 1');
$other->safe_psql('b', $command);
is( $early->query_safe('SELECT i.shard FROM shardring.shard_identity() AS i'),
	'b', 'a session from before, as a pooler has it, says it too');
$early->quit;
is(push_to(q{'who', 1, activate => true}), "a|t|1|\nb|t|1|",
	'and well after the command that it says');
is(status('who'), "a|t|1|\nb|t|1|", 'and in sync');
is( on_main(q{
		SELECT count(DISTINCT d.system_identifier), string_agg(d.database, ' '),
			bool_and(d.round_trip = date_trunc('ms', d.round_trip))
		FROM shardring.shard_details('who') AS d}),
	'1|a b|t', 'one cluster, two databases, times in milliseconds');

# two entries that lead to one database
on_main(q{
	SELECT shardring.draft_version('who');
	SELECT shardring.set_weight('who', 'g', 2);
	SELECT shardring.activate('who');
	ALTER SERVER b OPTIONS (SET dbname 'a')});
my $one = qq{same database as server "b"\nb|f||same database as server "a"};
is(status('who'), "a|f|1|same database as server \"b\"\n"
	  . 'b|f|1|same database as server "a"', 'two entries, one database');
is(push_to(q{'who', 2}), "a|f||$one", 'is not pushed to');
is(push_to(q{'who', 2, activate => true}), "a|f||$one", 'nor activated');
is(push_to(q{'who', 2, '{a}', true}),
	'a|f||same database as server "b"', 'nor one of them');
is(versions_on($_, 'who'), '1|1', "nothing has reached $_") for qw(a b);
is(on_main(q{SELECT p.failures FROM shardring.probe('who') AS p}), "1\n1",
	'and is a failure');

# the same when no name is set
$other->safe_psql('postgres', 'ALTER DATABASE a RESET shardring.shard');
is(push_to(q{'who', 2}), 'a|f||same database as server "b", or a copy where '
	  . qq{shardring.shard is not set\nb|f||same database as server "a", }
	  . 'or a copy where shardring.shard is not set', 'also when it has no name');
say_who('a');

# an entry that leads to another shard
is(push_to(q{'who', 2, '{b}'}), 'b|f||the server is shard "a"',
	'another shard is not pushed to');
is(versions_on('a', 'who'), '1|1', 'and has nothing');
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'b')});

# A copy that was promoted is the same database by its identifier, and another
# one when it has a name of its own.
$other->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($other, 'copy');
$copy->start;
my ($copy_host, $copy_port) = ($copy->host, $copy->port);
on_main(qq{
	ALTER SERVER b OPTIONS (SET host '$copy_host', SET port '$copy_port',
		SET dbname 'a')});
like(status('who'), qr/^a\|f\|1\|same database as/, 'a copy without a name');
$copy->safe_psql('postgres', q{ALTER DATABASE a SET shardring.shard = 'b'});
like(status('who'), qr/^a\|f\|1\|the map has version 2\nb\|f\|1\|the map/,
	'a copy with a name of its own');
is(push_to(q{'who', 2}), "a|t|1|\nb|t|1|", 'is pushed to');
is($copy->safe_psql('a', 'SELECT max(version) FROM shardring.ring_version'),
	'2', 'and has it');
$copy->stop;
$other->safe_psql('a', q{SELECT shardring.drop_version('who', 2)});
on_main(qq{
	ALTER SERVER b OPTIONS (SET host '$host', SET port '$port',
		SET dbname 'b')});

# between question and command it is another database
my $identity = q{SELECT i.system_identifier || '/' || i.database_oid
	FROM shardring.shard_identity() AS i};
my $here = $other->safe_psql('b', $identity);
my $document = on_main(q{SELECT shardring.export_version('who', 2)});
for my $case ([ qq({"$here": ["a", "c"]}), 'database "b" is shard "b"' ],
	[ '{"1/2": ["b"]}', 'database "b" is not the one that was asked before' ],
	[ '{}', 'database "b" is not the one that was asked before' ],
	[ '"b"', 'database "b" is not the one that was asked before' ])
{
	my ($expected, $message) = @$case;
	for my $call (qq{receive_version('$document', false, NULL, '$expected')},
		qq{receive_drop('who', '{1}', '$expected')})
	{
		my ($status, $out, $error) = $other->psql('b',
			"SELECT shardring.$call",
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		like($error, qr/ERROR:  55000: \Q$message\E\n/,
			"$expected: " . substr $call, 0, 15);
	}
}
is(versions_on('b', 'who'), '1|1', 'and has nothing');
is( $other->safe_psql('b', qq{
		SELECT r.error, r.active_version FROM shardring.receive_version(
			'$document', true, NULL, '{"$here": ["c", "b"]}') AS r}),
	'|2', 'one of the names is its own');
is(push_to(q{'who', 2, activate => true}), "a|t|2|\nb|t|2|", 'and all is well');

# names of all kinds
my $odd = "gr\xc3\xb6\xc3\x9fe 'x\"";
my $quoted = $odd =~ s/"/""/r;
my $literal = $odd =~ s/'/''/r;
$other->safe_psql('postgres', qq{CREATE DATABASE "$quoted"});
$other->safe_psql($odd, 'CREATE EXTENSION shardring');
on_main(qq{
	SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
				  'OPTIONS (host %L, port %L, dbname %1\$L)',
				  '$literal', '$host', '$port') \\gexec
	SELECT shardring.create_ring('odd');
	SELECT shardring.add_group('odd', 'g', ARRAY['$literal']);
	SELECT shardring.activate('odd')});
$other->safe_psql('postgres', on_main(
	q{SELECT d.hint FROM shardring.shard_details('odd') AS d}));
is(push_to(q{'odd', 1, activate => true}), "$odd|t|1|", 'a name of all kinds');

# shards that are on one server on purpose are asked once
on_main(q{
	SELECT shardring.create_ring('shared');
	SELECT shardring.add_group('shared', 'g', ARRAY['a', 'c1', 'c2'], 3);
	SELECT shardring.activate('shared');
	UPDATE shardring.shard SET server = 'c' WHERE shard IN ('c1', 'c2')});
is(push_to(q{'shared', 1, activate => true}), "a|t|1|\nc1|t|1|\nc2|t|1|",
	'two shards on a server that says nothing');
$other->safe_psql('postgres', q{ALTER DATABASE c SET shardring.shard = 'c2'});
is(push_to(q{'shared', 1, '{c1}'}), 'c1|t|1|', 'or is the other of them');
is(status('shared'), "a|t|1|\nc1|t|1|\nc2|t|1|", 'and is in sync');
$other->safe_psql('postgres', q{ALTER DATABASE c SET shardring.shard = 'b'});
is(push_to(q{'shared', 1}),
	join("\n", 'a|t|1|', map { "$_|f||the server is shard \"b\"" } qw(c1 c2)),
	'but not a third one');
say_who('c');

# ---------- in which order? ----------

on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'ga', ARRAY['a']);
	SELECT shardring.add_group('orders', 'gb', ARRAY['b']);
	SELECT shardring.activate('orders')});
guard('a', 'orders');
is(push_to(q{'orders', 1, activate => true}), "a|t|1|\nb|t|1|",
	'with a guard: nothing is active yet');
guard('b', 'orders');
is(push_to(q{'orders', 1, activate => true}), "a|t|1|\nb|t|1|",
	'with guards: once more');
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'gc', ARRAY['c']);
	SELECT shardring.seal('orders')});
my $all = q{SELECT shardring.push_version('orders', 2, activate => true)};
my ($code, $message, $detail, $hint) = failure($all);
is("$code $message",
	'55000 shard "c" would take keys that shard "a" still takes',
	'with guards: not all at once');
is($hint, q{Close the sources: CALL shardring.fence('orders', 2);},
	'but by a fence');
is(versions_on('c', 'orders'), '|', 'and nothing was sent');
is((failure($all =~ s/2,/2, '{c}',/r))[0], '55000', 'nor the target first');
is((failure($all =~ s/2,/2, '{b,c}',/r))[0], '55000', 'nor with it');
is(push_to(q{'orders', 2}), "a|t|1|\nb|t|1|\nc|t||", 'inactive: all at once');
is(push_to(q{'orders', 2, '{a}', true}), 'a|t|2|', 'one source');
($code, $message, $detail, $hint) = failure($all);
is($message, 'shard "c" would take keys that shard "b" still takes',
	'the other one is left');
my ($next) = $hint =~ /: (SELECT .*?\))\. /;
is($next,
	q{SELECT * FROM shardring.push_version('orders', 2, ARRAY['b'], activate => true)},
	'the hint has the next command');
# A source that does not answer, whatever it has.
sub refused_unknown
{
	my ($source, $taker, $arguments, $name) = @_;
	my ($code, $message, $detail) =
	  failure("SELECT shardring.push_version($arguments)");
	is("$code $message",
		qq{55000 shard "$taker" would take keys that shard "$source" may still take},
		$name);
	return $detail;
}

on_main(q{ALTER SERVER a OPTIONS (SET port '1')});
refused_unknown('a', 'c', q{'orders', 2, activate => true},
	'a source that does not answer');
on_main(qq{ALTER SERVER a OPTIONS (SET port '$port')});
on_main(q{ALTER SERVER b OPTIONS (SET port '1')});
like(refused_unknown('b', 'c', q{'orders', 2, '{c}', true},
		'it is left out, the target first'),
	qr/^Shard "b" has not said that it refuses them: /, 'and why');
refused_unknown('b', 'c', q{'orders', 2, '{a,b,c}', true}, 'it is named');
is(push_to(q{'orders', 2, '{a}', true}), 'a|t|2|', 'the other source');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});
$other->safe_psql('postgres', q{ALTER DATABASE b SET shardring.shard = 'bb'});
like(refused_unknown('b', 'c', q{'orders', 2, '{c}', true},
		'a source that was renamed'),
	qr/the server is shard "bb"/, 'and its name');
$other->safe_psql('postgres', 'ALTER DATABASE b RESET shardring.shard');
like(refused_unknown('b', 'c', q{'orders', 2, '{c}', true},
		'a source that says no name'),
	qr/shardring\.shard is not set there/, 'and what is missing');
say_who('b');
on_main($next);
is(push_to(q{'orders', 2, activate => true}), "a|t|2|\nb|t|2|\nc|t|2|",
	'the sources refuse them: now the target');
is(status('orders'), join("\n", map { "$_|f|2|the map has version 1" } qw(a b c)),
	'and not in sync as long as the map is behind');
on_main(q{SELECT shardring.activate('orders', 2)});
is(status('orders'), join("\n", map { "$_|t|2|" } qw(a b c)), 'in sync');

# Guards are only where they cannot be seen; the map may be ahead of its shards.
on_main(q{
	SELECT shardring.create_ring('dark');
	SELECT shardring.add_group('dark', 'da', ARRAY['a']);
	SELECT shardring.activate('dark')});
push_to(q{'dark', 1, activate => true});
guard('a', 'dark');
on_main(q{
	SELECT shardring.draft_version('dark');
	SELECT shardring.add_group('dark', 'dc', ARRAY['c']);
	SELECT shardring.activate('dark', 2);
	ALTER SERVER a OPTIONS (SET port '1')});
refused_unknown('a', 'c', "'dark', 2, $_", "the only guard is not seen: $_")
  for q{'{c}', true}, 'activate => true';
is(push_to(q{'dark', 2, '{c}'}), 'c|t||', 'inactive it is pushed');
is($other->safe_psql('c', q{SELECT shardring.activate('dark', 2)}),
	'2', 'and by hand it is activated');
on_main(qq{ALTER SERVER a OPTIONS (SET port '$port')});
is(push_to(q{'dark', 2, activate => true}), "a|t|2|\nc|t|2|",
	'it answers again');

# a shard that was left behind, by a version that is not here any more
on_main(q{
	SELECT shardring.create_ring('left');
	SELECT shardring.add_group('left', 'la', ARRAY['a']);
	SELECT shardring.add_group('left', 'lb', ARRAY['b']);
	SELECT shardring.activate('left')});
push_to(q{'left', 1, activate => true});
guard($_, 'left') foreach (qw(a b));
on_main(q{
	SELECT shardring.draft_version('left');
	SELECT shardring.add_group('left', 'lc', ARRAY['c']);
	SELECT shardring.seal('left')});
push_to(q{'left', 2});
push_to(q{'left', 2, '{a}', true});
on_main(q{SELECT shardring.activate('left', 2), shardring.prune('left', 0)});
($code, $message, $detail, $hint) =
  failure(q{SELECT shardring.push_version('left', 2, '{c}', true)});
is("$code $message",
	'55000 shard "b" has version 1 active, which is not here any more',
	'what a shard left behind takes is not known');
on_main($hint);
is(push_to(q{'left', 2, '{c}', true}), 'c|t|2|',
	'the hint brings it forward, and then the target takes its keys');

# a shard that leaves is a source although no version has it any more
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.remove_group('orders', 'gc');
	SELECT shardring.activate('orders', 3)});
($code, $message) = failure($all =~ s/2,/3,/r);
is("$code $message",
	'55000 shard "a" would take keys that shard "c" still takes',
	'a shard that leaves comes first, wherever the map is');
is(push_to(q{'orders', 3, '{c}', true}), 'c|t|3|', 'and then');
is(push_to(q{'orders', 3, activate => true}), "a|t|3|\nb|t|3|",
	'the ones that stay');

# source and target at once: weights of two groups change
$other->safe_psql('c', 'TRUNCATE held');
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'gd', ARRAY['c']);
	SELECT shardring.set_weight('orders', 'ga', 3);
	SELECT shardring.seal('orders')});
for my $list (q{}, q{'{a}', }, q{'{b}', }, q{'{a,b,c}', })
{
	($code, $message, $detail, $hint) =
	  failure(qq{SELECT shardring.push_version('orders', 4, ${list}activate => true)});
	is("$code $message",
		'55000 shard "a" would be source and target of keys at once',
		"source and target: $list");
}
like($detail, qr/two shards would own the same keys/, 'and why');
like($hint, qr/^Close the sources: CALL shardring.fence\('orders', 4\);$/m,
	'and what to do');
# or a version of each change
on_main(q{
	SELECT shardring.drop_version('orders', 4);
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'ga', 3);
	SELECT shardring.seal('orders')});
is(push_to(q{'orders', 5, '{b}', true}), 'b|t|5|', 'one change: the source');
is(push_to(q{'orders', 5, '{a}', true}), 'a|t|5|', 'and the target');
on_main(q{
	SELECT shardring.activate('orders', 5);
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'gd', ARRAY['c']);
	SELECT shardring.seal('orders')});
is(push_to(q{'orders', 6, '{a,b}', true}), "a|t|6|\nb|t|6|",
	'the other one: the sources');
is(push_to(q{'orders', 6, '{c}', true}), 'c|t|6|', 'and the target');
on_main(q{SELECT shardring.activate('orders', 6)});

# guards of another ring, or that are switched off, are none
$other->safe_psql($_, qq{
	ALTER TABLE held DISABLE TRIGGER zz_guard_orders;
	CREATE TRIGGER zz_guard_more BEFORE INSERT ON held
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders2', 'key')})
  for qw(a b);
is( on_main(q{SELECT string_agg(d.guards::text, ' ')
		FROM shardring.shard_details('orders') AS d}),
	'0 0 0', 'no guards');
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.set_weight('orders', 'ga', 1);
	SELECT shardring.set_weight('orders', 'gb', 2);
	SELECT shardring.seal('orders')});
is(push_to(q{'orders', 7, activate => true}),
	join("\n", map { "$_|t|7|" } qw(a b c)), 'without guards: all at once');
on_main(q{SELECT shardring.activate('orders', 7)});

# ---------- what a refused activation leaves ----------

# Drafted before 7 was active, so it needs to be told.
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.seal('orders', 9);
	SELECT shardring.activate('orders', 8)});
is(push_to(q{'orders', 8, activate => true}),
	join("\n", map { "$_|t|8|" } qw(a b c)), 'version 8');
is( push_to(q{'orders', 9, activate => true}),
	join("\n", map {
		"$_|f|8|version 9 of ring \"orders\" was drafted while version 7 was active"
	} qw(a b c)),
	'version 9 may undo what 8 did');
is(versions_on('c', 'orders'), '2 3 6 7 8 9|8', 'the import is kept');
is( push_to(q{'orders', 9, '{a}', true, 7}),
	'a|f|8|version 7 of ring "orders" is not the active one',
	'expected_active is another');
is( push_to(q{'orders', 9, activate => true, expected_active => 8}),
	join("\n", map { "$_|t|9|" } qw(a b c)), 'expected_active');
on_main(q{SELECT shardring.activate('orders', 9, expected_active => 8)});
is(status('orders'), join("\n", map { "$_|t|9|" } qw(a b c)), 'in sync');

# ---------- dropping everywhere ----------

sub drop_with
{
	my ($call) = @_;
	return on_main("
		SELECT d.shard, d.ok, d.error, d.dropped FROM shardring.$call AS d");
}

is(drop_with(q{drop_version_on_shards('orders', 5)}),
	"a|t||{5}\nb|t||{5}\nc|t||{}\n|t||{5}", 'dropped where it was, and here');
is(drop_with(q{drop_version_on_shards('orders', 5)}),
	"a|t||{}\nb|t||{}\nc|t||{}\n|t||{}", 'twice');
is(join(' ', (failure(q{SELECT shardring.drop_version_on_shards('orders', 9)}))[0, 1]),
	'55000 version 9 of ring "orders" is active', 'not the active one');
is((failure(q{SELECT shardring.drop_version_on_shards('orders', $_)} =~ s/\$_/$_/r))[0],
	'42704', "no version $_") for 0, 10;

# one that is active on a shard
on_main(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.seal('orders');
	SELECT shardring.push_version('orders', 10)});
push_to(q{'orders', 10, '{b}', true});
is( drop_with(q{drop_version_on_shards('orders', 10)}),
	"a|t||{10}\nb|f|version 10 of ring \"orders\" is active|{}\nc|t||{10}\n"
	  . '|f|version 10 of ring "orders" is active on shard "b"|{}',
	'one that is active on a shard');
push_to(q{'orders', 10, activate => true});
on_main(q{SELECT shardring.activate('orders', 10)});

# leftovers, and a shard that is dead meanwhile
on_main(q{
	SELECT shardring.drop_version('orders', 2);
	SELECT shardring.drop_version('orders', 3);
	ALTER SERVER b OPTIONS (SET port '1')});
is( on_main(q{SELECT d.shard, d.in_sync, d.leftovers, d.problem
		FROM shardring.shard_details('orders') AS d WHERE d.shard <> 'b'}),
	"a|t|{2,3}|not on the map: version 2, 3\n"
	  . 'c|t|{2,3}|not on the map: version 2, 3', 'leftovers');
like(drop_with(q{drop_version_on_shards('orders', 3)}),
	qr/^a\|t\|\|\{3\}\nb\|f\|connection .*\|\nc\|t\|\|\{3\}\n\|t\|\|\{\}$/,
	'the ones that answer drop it');
like(drop_with(q{prune_on_shards('orders', 1)}),
	qr/^a\|t\|\|\{1,2,6,7,8\}\nb\|f\|connection .*\|\nc\|t\|\|\{2,6,7,8\}\n\|f\|kept here: shard "b" has not said .*\|\{\}$/,
	'and prune, but the map keeps what one may have');
is( on_main(q{SELECT string_agg(v.version::text, ' ' ORDER BY v.version)
		FROM shardring.ring_version AS v WHERE v.ring = 'orders'}),
	'1 6 7 8 9 10', 'all of it');
like(drop_with(q{drop_version_on_shards('orders', 6)}),
	qr/\n\|f\|kept here: shard "b" has not said that it dropped version 6 of ring "orders"\.  When it can: SELECT \* FROM shardring\.drop_version_on_shards\('orders', 6\)\.  If it is lost: add without => ARRAY\['b'\]\|\{\}$/,
	'and says what is next');
like(drop_with(q{drop_version_on_shards('orders', 6, without => '{a,c}')}),
	qr/\n\|f\|kept here: shard "b"/, 'without others');
like(drop_with(q{drop_version_on_shards('orders', 6, without => ARRAY['b'])}),
	qr/\nb\|f\|connection .*\nc\|t\|\|\{\}\n\|t\|\|\{6\}$/, 'without it, on purpose');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});
is(status('orders'),
	"a|t|10|\nb|t|10|not on the map: version 2, 3, 6\nc|t|10|",
	'one was dead meanwhile');
is(drop_with(q{drop_version_on_shards('orders', 7)}),
	"a|t||{}\nb|t||{7}\nc|t||{}\n|t||{7}", 'it drops later, and the map last');
is(drop_with(q{prune_on_shards('orders', 1)}),
	"a|t||{}\nb|t||{1,2,3,6,8}\nc|t||{}\n|t||{1,8}", 'and is pruned later');
is(drop_with(q{prune_on_shards('orders', 1)}),
	"a|t||{}\nb|t||{}\nc|t||{}\n|t||{}", 'twice');
is(versions_on($_, 'orders'), '9 10|10', "$_ has what the map has")
  for qw(a b c);
is(status('orders'), join("\n", map { "$_|t|10|" } qw(a b c)),
	'and nothing is left over');
for my $case ([ q{'{nope}'}, '42704' ], [ q{'{NULL}'}, '42704' ],
	[ "'{\xc3\xa9}'", '42704' ], [ "ARRAY[repeat('x', 100000)]", '42704' ],
	[ 'NULL', '22004' ])
{
	my ($without, $code) = @$case;
	is((failure("SELECT shardring.$_, without => $without)"))[0],
		$code, "$_, without $without")
	  for q{drop_version_on_shards('orders', 9}, q{prune_on_shards('orders', 0};
}

# not on a server that is another shard, and one that is behind keeps its own
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'c')});
is( drop_with(q{prune_on_shards('orders', 0)}),
	"a|t||{9}\nb|f|same database as server \"c\"|\n"
	  . "c|f|same database as server \"b\"|\n|f|kept here: shard \"b\" has not "
	  . 'said that it dropped an old version of ring "orders".  When it can: SELECT * FROM '
	  . q{shardring.prune_on_shards('orders', 0).  If it is lost: add without }
	  . q{=> ARRAY['b']|{}},
	'two entries, one database: not pruned');
on_main(q{
	ALTER SERVER b OPTIONS (SET dbname 'b');
	SELECT shardring.draft_version('orders');
	SELECT shardring.activate('orders', 11);
	SELECT shardring.push_version('orders', 11, '{a,b}', true)});
is( drop_with(q{prune_on_shards('orders', 0)}),
	"a|t||{10}\nb|t||{9,10}\nc|f|version 10 of ring \"orders\" is active|{9}\n"
	  . '|f|an old version of ring "orders" is active on shard "c"|{}',
	'the one that is behind keeps what is active, and so does the map');
is((failure(q{SELECT shardring.prune_on_shards('orders', -1)}))[0],
	'22023', 'keep less than nothing');

# ---------- as a terminal shows it ----------

on_main(q{
	SELECT shardring.create_ring('wide');
	SELECT shardring.add_group('wide', 'g',
		ARRAY['orders-eu-1', 'orders-eu-2', 'orders-eu-3', 'orders-eu-4'], 4);
	SELECT shardring.activate('wide');
	UPDATE shardring.shard SET server = 'a' WHERE shard = 'orders-eu-1';
	UPDATE shardring.shard SET server = 'b' WHERE shard = 'orders-eu-2';
	ALTER SERVER b OPTIONS (SET host '/nowhere')});
for my $call (qw(shard_status probe))
{
	my $out = on_main("SELECT * FROM shardring.$call('wide')",
		extra_params => [ '-P', 'format=aligned', '-P', 'tuples_only=off' ]);
	is(scalar(grep { length > 80 } split /\n/, $out), 0, "$call: 80 columns");
	like($out, qr/orders-eu-4/, "$call: four shards");
}

$_->stop for $main, $other;
done_testing();
