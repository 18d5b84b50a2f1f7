
# Shards.pm
#	Shards for the tests 5xx: servers that hold a table "held" behind a guard,
#	and one that knows them all by foreign servers.

package Shards;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_server new_shard add_address list_keys);

# A server with the extension.  It writes no more than it must: there are
# several of them on a small machine.
sub new_server
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "shared_buffers = 8MB\n"
		. "log_statement = none\nmax_connections = 60\nautovacuum = off\nfsync = off\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
	return $node;
}

# A server that is a shard of ring "orders".
sub new_shard
{
	my ($name) = @_;
	my $node = new_server($name);
	$node->safe_psql('postgres', qq{
		ALTER DATABASE postgres SET shardring.shard = '$name';
		CREATE TABLE held (key text PRIMARY KEY, value text);
		CREATE FUNCTION put(key text, value text) RETURNS text
		LANGUAGE sql AS \$body\$
			INSERT INTO held VALUES (key, value)
			RETURNING current_setting('shardring.shard');
		\$body\$;
		CREATE FUNCTION del(key text) RETURNS void
		LANGUAGE sql AS \$body\$
			DELETE FROM held AS h WHERE h.key = del.key;
		\$body\$;
		CREATE FUNCTION get(key text) RETURNS SETOF text
		LANGUAGE sql AS \$body\$
			SELECT h.value FROM held AS h WHERE h.key = get.key;
		\$body\$;
		CREATE FUNCTION get_many(keys text[]) RETURNS SETOF text
		LANGUAGE sql AS \$body\$
			SELECT h.value FROM held AS h WHERE h.key = ANY (keys);
		\$body\$;
		CREATE FUNCTION count_all() RETURNS SETOF bigint
		LANGUAGE sql AS \$body\$ SELECT count(*) FROM held; \$body\$});
	return $node;
}

# Guards the table of a shard, which must know the ring by now.
sub add_guard
{
	my ($node) = @_;
	$node->safe_psql('postgres',
		q{SELECT shardring.add_guard('orders', 'held', 'key')});
	return;
}

# Makes the address of one server known on another, under its name.
sub add_address
{
	my ($on, $node, $wrapper) = @_;
	my ($name, $host, $port) = ($node->name, $node->host, $node->port);
	$wrapper //= 'postgres_fdw';
	$on->safe_psql('postgres', qq{
		CREATE SERVER "$name" FOREIGN DATA WRAPPER $wrapper
		OPTIONS (host '$host', port '$port', dbname 'postgres')});
	return;
}

# The keys a shard holds, in order.
sub list_keys
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		'SELECT h.key FROM held AS h ORDER BY h.key COLLATE "C"');
}

1;
