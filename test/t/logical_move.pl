# logical_move.pl
#	Rows that follow their keys to a new shard by logical replication, in the
#	order of extension/doc/expanding.md: none is lost, none is there twice.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use Shardring;
use Test::More;

my %server = map { $_ => start_server($_) } qw(db0 db1);

sub on
{
	my ($name, $sql) = @_;
	return $server{$name}->safe_psql('postgres', $sql);
}

foreach my $name (sort keys %server)
{
	on($name, qq{
		CREATE EXTENSION shardring;
		ALTER DATABASE postgres SET shardring.shard = '$name';
		CREATE TABLE account (id bigint PRIMARY KEY, content text);
		CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON account
			FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'id')});
}
on('db0', q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g0', '{db0}', 4);
	SELECT shardring.activate('orders');
	INSERT INTO account SELECT i, 'first' FROM generate_series(1, 5000) AS i});

# steps 1 to 3
on('db0', q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'g1', '{db1}', 4);
	SELECT shardring.seal('orders')});
on('db1', "SELECT shardring.import_version(\$document\$"
	  . on('db0', q{SELECT shardring.export_version('orders', 2)})
	  . "\$document\$)");
my $condition = on('db0', q{
	SELECT shardring.move_predicate('orders', 1, 2, 'db0', 'db1', 'id',
		key_type => 'bigint')});
on('db0', "CREATE PUBLICATION moving FOR TABLE account WHERE ($condition)");
my $address = $server{db0}->connstr('postgres') =~ s{'}{''}gr;
on('db1', "CREATE SUBSCRIPTION moving CONNECTION '$address'"
	  . ' PUBLICATION moving');

# the source goes on
on('db0', q{
	UPDATE account SET content = 'second' WHERE id % 3 = 0;
	DELETE FROM account WHERE id % 5 = 0;
	INSERT INTO account SELECT i, 'new' FROM generate_series(5001, 6000) AS i});

# steps 4 and 5
on('db0', q{SELECT shardring.activate('orders', 2)});
on('db0', q{SELECT shardring.wait_for_drain('orders', 2)});
my $fence = on('db0', 'SELECT pg_current_wal_lsn()');
my $moving = on('db0', "SELECT min(id) FROM account WHERE $condition");
is(sqlstate_of($server{db0}, 'postgres', "DELETE FROM account WHERE id = $moving"),
	'SR001', 'the source does not write what moves');
ok( $server{db1}->poll_query_until('postgres',
		q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}),
	'the subscription is ready');
ok( $server{db0}->poll_query_until('postgres',
		"SELECT bool_and(confirmed_flush_lsn >= '$fence')"
		  . ' FROM pg_replication_slots'),
	'and has all up to the fence');

my $content = "SELECT count(*), md5(string_agg(account::text, ' ' ORDER BY id))"
  . ' FROM account WHERE ';
is(on('db1', $content . 'true'), on('db0', $content . $condition),
	'the target has what moves, and nothing else');
is( on('db0', q{SELECT count(*) FROM shardring.moving_keys('orders', 1, 2,
		'account', 'id')}),
	on('db1', 'SELECT count(*) FROM account'),
	'as many rows as the plan says');
my $all = on('db0', $content . 'true');
on('db1', 'DROP SUBSCRIPTION moving');

# steps 6 to 8
on('db1', q{SELECT shardring.activate('orders', 2)});
on('db1', "UPDATE account SET content = content WHERE id = $moving");
on('db0', qq{
	DROP PUBLICATION moving;
	SET session_replication_role = replica;
	DELETE FROM account WHERE $condition});

my $rows = 'SELECT account FROM account';
my @left = split /\n/, on('db0', $rows);
my @moved = split /\n/, on('db1', $rows);
on('db0', 'CREATE TABLE together (LIKE account)');
on('db0', "INSERT INTO together SELECT * FROM unnest(ARRAY["
	  . join(',', map { "'$_'" } @left, @moved)
	  . ']::account[])');
is(on('db0', $content =~ s/account/together/gr . 'true'),
	$all, 'no row is lost, changed or there twice');
foreach my $name (sort keys %server)
{
	is( on($name, "SELECT count(*) FROM account WHERE"
			  . " shardring.shard_for('orders', id) <> '$name'"),
		0, "$name holds nothing that is not its own");
}

$_->stop foreach values %server;
done_testing();
