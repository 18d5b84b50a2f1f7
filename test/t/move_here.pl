# move_here.pl
#	A move of rows between a shard and the map, which is a shard itself.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

my %node;
foreach my $name (qw(m b))
{
	$node{$name} = new_server($name);
	$node{$name}->append_conf('postgresql.conf', "wal_level = logical\n"
		. "max_wal_senders = 10\nshardring.shard = '$name'\n");
	$node{$name}->restart;
	$node{$name}->safe_psql('postgres', 'CREATE TABLE account (id text PRIMARY KEY)');
}

sub on
{
	my ($name, $sql) = @_;
	return $node{$name}->safe_psql('postgres', $sql);
}

on('m', 'CREATE EXTENSION postgres_fdw');
add_address($node{m}, $node{$_}, 'postgres_fdw') foreach qw(m b);
on('m', q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'gm', ARRAY['m']);
	SELECT shardring.activate('orders')});
on('m', q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'gb', ARRAY['b'])});
is(on('m', q{SELECT string_agg(ok::text, ',')
		FROM shardring.guard_table('orders', 'public.account', 'id')}), 'true,true', 'guarded');
on('m', q{INSERT INTO account SELECT 'k' || i FROM generate_series(1, 100) AS i});
is(on('m', q{SELECT shardring.start_move('orders')}), '1', 'a move');
foreach my $call (qw(run_move switch_move finish_move))
{
	my $more = $call eq 'finish_move' ? ", grace => '0'" : '';
	is($node{m}->psql('postgres', "CALL shardring.$call('orders'$more)"), 0, $call);
}
is(on('m', q{SELECT state FROM shardring_internal.row_move}), 'finished', 'finished');
is(on($_, qq{SELECT count(*) FROM account
		WHERE shardring.shard_for('orders', id, 2) <> '$_'}), '0', "$_ has its own rows alone")
  foreach qw(m b);
is(on('m', 'SELECT count(*) FROM account') + on('b', 'SELECT count(*) FROM account'),
	'100', 'every row is there once');

$_->stop foreach values %node;
done_testing();
