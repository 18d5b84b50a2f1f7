# partitions.pl
#	A number never leaves us that PL/Proxy would wrap: whatever changes its
#	partitions while a transaction is open, a call reaches the shard that the
#	ring says or fails with 55000, and the next transaction reaches it.  So it
#	is when a ring is called in the cluster of another one.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('partitions');

sub on_server
{
	return $node->safe_psql('postgres', @_);
}

foreach my $name (qw(d0 d1 d2 e0))
{
	on_server("CREATE DATABASE $name");
	$node->safe_psql($name, q{CREATE FUNCTION whoami(k text) RETURNS text
		STABLE LANGUAGE sql RETURN current_database()});
}
my ($host, $port) = ($node->host, $node->port);
on_server(qq{
	CREATE EXTENSION shardring;
	CREATE EXTENSION plproxy;
	CREATE EXTENSION postgres_fdw;
	DO \$\$
	DECLARE
		d text;
	BEGIN
		FOREACH d IN ARRAY '{d0,d1,d2,e0}'::text[] LOOP
			EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER postgres_fdw '
				'OPTIONS (host %L, port %L, dbname %L)', d, '$host', '$port', d);
			EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I', d);
		END LOOP;
	END \$\$;
	SELECT shardring.create_ring('rb');
	SELECT shardring.add_group('rb', 'g0', '{e0}');
	SELECT shardring.activate('rb');
	SELECT shardring.plproxy_sync('rb');
	CREATE USER MAPPING FOR CURRENT_USER SERVER rb;
	CREATE FUNCTION ask_a(k text) RETURNS text LANGUAGE plproxy AS \$\$
		CLUSTER 'ra'; RUN ON shardring.plproxy_partition('ra', k);
		TARGET whoami; \$\$;
	CREATE FUNCTION ask_b(k text) RETURNS text LANGUAGE plproxy AS \$\$
		CLUSTER 'rb'; RUN ON shardring.plproxy_partition('rb', k);
		TARGET whoami; \$\$});

# Ring ra on d0 and d1, with partitions; its version 2 adds d2.
sub start_again
{
	on_server(q{
		DROP SERVER IF EXISTS ra CASCADE;
		SELECT shardring.drop_ring(ring) FROM shardring.ring WHERE ring = 'ra';
		SELECT shardring.create_ring('ra');
		SELECT shardring.add_group('ra', 'g0', '{d0}'),
			shardring.add_group('ra', 'g1', '{d1}');
		SELECT shardring.activate('ra');
		SELECT shardring.plproxy_sync('ra');
		CREATE USER MAPPING FOR CURRENT_USER SERVER ra;
		SELECT shardring.draft_version('ra');
		SELECT shardring.add_group('ra', 'g2', '{d2}');
		SELECT shardring.seal('ra')});
	return;
}

start_again();
my $key = on_server(q{SELECT min('k' || i) FROM generate_series(1, 300) AS i
	WHERE shardring.shard_for('ra', 'k' || i, 2) = 'd2'});
my $switch = q{SELECT shardring.plproxy_sync('ra');
	SELECT shardring.activate('ra', 2);
	SELECT shardring.plproxy_sync('ra')};

# A call in the session's transaction: right, or refused.
sub ask
{
	my ($session, $name) = @_;
	step($session, 'SAVEPOINT ask');
	my $right = $session->query("\\set VERBOSITY sqlstate\n"
		  . "SELECT ask_a('$key') = shardring.shard_for('ra', '$key')");
	my ($sqlstate) = $session->{stderr} =~ /ERROR:  (\w{5})/;
	$session->{stderr} = '';
	if (defined $sqlstate)
	{
		is($sqlstate, '55000', "$name: refused");
		step($session, 'ROLLBACK TO ask');
	}
	else
	{
		is($right, 't', "$name: right");
	}
	return;
}

# Warm: the session has asked the same before its transaction begins, so that
# it need not look into the catalog, where it would hear of changes.
sub begin_warm
{
	my ($level) = @_;
	my $session = open_session($node);
	step($session, "SELECT ask_a('$key') = shardring.shard_for('ra', '$key')")
	  for (1 .. 3);
	step($session, "BEGIN ISOLATION LEVEL $level");
	return $session;
}

# The next transaction is not refused.
sub finish
{
	my ($session, $name) = @_;
	step($session, 'COMMIT');
	is( step($session, "SELECT ask_a('$key') = shardring.shard_for('ra', '$key')"),
		't', "$name: right in the next transaction");
	$session->quit;
	start_again();
	return;
}

foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $name = "$level, another session switches";
	my $session = begin_warm($level);
	on_server($switch);
	ask($session, "$name, first call");
	ask($session, "$name, second call");
	finish($session, $name);

	$name = "$level, calls of two rings before";
	$session = begin_warm($level);
	step($session, "SELECT ask_a('k1'), ask_b('k1')");
	on_server($switch);
	ask($session, $name);
	step($session, "SELECT ask_b('k1')");
	ask($session, "$name and between");
	finish($session, $name);

	$name = "$level, own change is taken back";
	$session = begin_warm($level);
	step($session, q{SELECT shardring.activate('ra', 2)});
	step($session, 'SAVEPOINT s');
	step($session, q{SELECT shardring.plproxy_sync('ra')});
	ask($session, "$name, before");
	step($session, 'ROLLBACK TO s');
	ask($session, "$name, after");
	step($session, q{SELECT shardring.plproxy_sync('ra')});
	ask($session, "$name, again");
	finish($session, $name);

	$name = "$level, a partition is taken away";
	on_server($switch);
	$session = begin_warm($level);
	ask($session, "$name, before");
	on_server(q{ALTER SERVER ra OPTIONS (DROP p2)});
	step($session, 'SELECT count(*) FROM pg_class');
	ask($session, "$name, after");
	on_server(q{SELECT shardring.plproxy_sync('ra')});
	ask($session, "$name, and given back");
	finish($session, $name);
}

# ---------- a ring in the cluster of another ----------

# Rings "orders" on d0, d1, d2 and "invoices" on d0, d2: d2 has another number
# there.  Only "orders" has a cluster.
on_server(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', d, ARRAY[d])
	FROM unnest('{d0,d1,d2}'::text[]) AS d;
	SELECT shardring.activate('orders');
	SELECT shardring.plproxy_sync('orders');
	SELECT shardring.create_ring('invoices');
	SELECT shardring.add_group('invoices', d, ARRAY[d])
	FROM unnest('{d2,d0}'::text[]) AS d;
	SELECT shardring.activate('invoices');
	CREATE USER MAPPING FOR CURRENT_USER SERVER orders;
	CREATE FUNCTION ask_invoices(k text) RETURNS text LANGUAGE plproxy AS $$
		CLUSTER 'orders';
		RUN ON shardring.plproxy_partition('invoices', k);
		TARGET whoami; $$;
	CREATE FUNCTION ask_orders(k text) RETURNS text LANGUAGE plproxy AS $$
		CLUSTER 'orders'; RUN ON shardring.plproxy_partition('orders', k);
		TARGET whoami; $$;
	CREATE FUNCTION try_invoices(k text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		RETURN CASE ask_invoices(k) WHEN shardring.shard_for('invoices', k)
			THEN 'right' ELSE 'wrong' END;
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE;
	END $$});

# What became of 50 keys.
sub outcomes
{
	return on_server(q{
		SELECT string_agg(format('%s %s', o, n), ', ' ORDER BY o)
		FROM (SELECT try_invoices('k' || i), count(*)
			  FROM generate_series(1, 50) AS i GROUP BY 1) AS t (o, n)});
}

is(outcomes(), '55000 50', 'without a cluster and naming none: refused');
my ($status, $out, $error) = $node->psql('postgres',
	q{SELECT shardring.plproxy_partition('invoices', 'k')});
like($error,
	qr/ring "invoices" has no cluster .*HINT: .*plproxy_sync.*set_cluster/s,
	'and told what to do');
on_server(q{SELECT shardring.set_cluster('invoices', 'orders')});
is(outcomes(), 'right 50', 'called in the cluster that it names: right');
is(on_server(q{SELECT bool_and(ask_orders('k' || i)
		= shardring.shard_for('orders', 'k' || i))
	FROM generate_series(1, 50) AS i}),
	't', 'and so is the ring whose cluster it is');
is(on_server(q{SELECT string_agg(shard || '=' || number, ' ' ORDER BY number)
	FROM shardring.shard WHERE ring = 'invoices'}),
	'd0=0 d2=1', 'its numbers stay dense');

# What it cannot reach there.
on_server(q{
	SELECT shardring.draft_version('invoices');
	SELECT shardring.add_group('invoices', 'e0', '{e0}');
	SELECT shardring.activate('invoices')});
like(outcomes(), qr/^55000 \d+, right \d+$/,
	'a shard that the other ring does not have: refused, others right');
on_server(q{
	SELECT shardring.draft_version('invoices');
	SELECT shardring.remove_group('invoices', 'e0');
	SELECT shardring.activate('invoices')});
is(outcomes(), 'right 50', 'and right without it');

# A smaller cluster: the count is that of the server that is called.
on_server(q{ALTER SERVER orders OPTIONS (DROP p2)});
like(outcomes(), qr/^55000 \d+, right \d+$/,
	'a partition that is missing: refused, others right');
on_server(q{SELECT shardring.plproxy_sync('orders')});
is(outcomes(), 'right 50', 'and right with it');

# A retired shard keeps its number, and its partition leads elsewhere.
on_server(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.remove_group('orders', 'd2');
	SELECT shardring.activate('orders');
	SELECT shardring.plproxy_sync('orders')});
like(outcomes(), qr/^55000 \d+, right \d+$/,
	'a shard that left the other ring: refused, others right');
on_server(q{
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'd2', '{d2}', force => true);
	SELECT shardring.seal('orders');
	SELECT shardring.plproxy_sync('orders');
	SELECT shardring.activate('orders')});
is(outcomes(), 'right 50', 'and right when it is back');

# What is set while a transaction is open counts as its snapshot sees it.
my $session = open_session($node);
step($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is(step($session, q{SELECT try_invoices('k1')}), 'right', 'before a change');
on_server(q{SELECT shardring.set_cluster('invoices', NULL)});
is(outcomes(), '55000 50', 'taken back: refused');
is(step($session, q{SELECT try_invoices('k1')}), 'right', 'an old snapshot');
step($session, 'COMMIT');
is(step($session, q{SELECT try_invoices('k1')}), '55000', 'a new one');
step($session, 'BEGIN');
step($session, q{SELECT shardring.set_cluster('invoices', 'orders')});
is(step($session, q{SELECT try_invoices('k1')}), 'right', 'an own change');
step($session, 'SAVEPOINT s');
step($session, q{SELECT shardring.set_cluster('invoices', NULL)});
is(step($session, q{SELECT try_invoices('k1')}), '55000', 'another');
step($session, 'ROLLBACK TO s');
is(step($session, q{SELECT try_invoices('k1')}), 'right', 'that is taken back');
step($session, 'ROLLBACK');
is(step($session, q{SELECT try_invoices('k1')}), '55000', 'and all of it');
$session->quit;

done_testing();
