# Moves.pm
#	Servers between which rows move, and clients that write meanwhile.

package Moves;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Test::More;

our @EXPORT = qw(%node on says new_move new_servers new_shard_server start_writers stop_writers
  check_rows nothing_left);
our %node;
my (@shards, $writers, $in, $out);

# On a server, by its name; the map is "map".
sub on
{
	my ($name, @more) = @_;
	return $node{$name}->safe_psql('postgres', @more);
}

# What a call on the map says: notices and errors, with detail and hint.
sub says
{
	my ($sql) = @_;
	my ($status, $stdout, $error) = $node{map}->psql('postgres',
		"SET search_path = captures, pg_catalog; $sql");
	$error =~ s/^psql:<stdin>:\d+: //mg;
	$error =~ s/^NOTICE:  (copying|comparing|deleting|waiting|rows stay).*\n//mg;
	$error =~ s/^CONTEXT: .*\n(?:(?:PL|SQL).*\n)*//mg;
	return "$error\n";
}

# A map and shards a, b and c: version 1 has a and b, version 2, a draft, adds
# c and gives b more, which thus is source and target.
sub new_move
{
	my ($settings) = @_;
	new_servers($settings, qw(a b c));
	on('map', q{
		SELECT shardring.create_ring('orders');
		SELECT shardring.add_group('orders', 'g' || s, ARRAY[s])
		FROM unnest('{a,b}'::text[]) AS s;
		SELECT shardring.activate('orders')});
	on('map', q{
		SELECT shardring.draft_version('orders');
		SELECT shardring.add_group('orders', 'gc', ARRAY['c']);
		SELECT shardring.set_weight('orders', 'gb', 1.5)});
	is(on('map', qq{SELECT string_agg(g.ok::text, ',')
			FROM shardring.guard_table('orders', 'public.$_->[0]', '$_->[1]')
				AS g}), 'true,true,true', "$_->[0] is guarded")
	  foreach ([ 'account', 'id' ], [ 'entry', 'account' ]);
	return;
}

# A map, with what would capture names, and shards with two tables.
sub new_servers
{
	my $settings = shift;
	@shards = @_;
	$node{map} = new_server('map');
	on('map', q{
		CREATE EXTENSION postgres_fdw;
		CREATE SCHEMA captures;
		CREATE FUNCTION captures.captured() RETURNS text LANGUAGE plpgsql
		AS 'BEGIN RAISE ''captured''; END';
		CREATE DOMAIN captures.int8 AS bigint CHECK (captures.captured() = '');
		CREATE DOMAIN captures.timestamptz AS pg_catalog.timestamptz
			CHECK (captures.captured() = '');
		CREATE FUNCTION captures.clock_timestamp() RETURNS pg_catalog.timestamptz
		LANGUAGE sql AS 'SELECT captures.captured()::pg_catalog.timestamptz';
		CREATE FUNCTION captures.pg_sleep(double precision) RETURNS text
		LANGUAGE sql AS 'SELECT captures.captured()';
		CREATE FUNCTION captures.jsonb_build_object(VARIADIC "any") RETURNS jsonb
		LANGUAGE internal AS 'jsonb_build_array'});
	foreach my $name (@shards)
	{
		new_shard_server($name, $settings);
		on($name, q{
			CREATE TABLE account (id text PRIMARY KEY, value text, note text);
			CREATE TABLE entry (id uuid DEFAULT gen_random_uuid(),
				account text REFERENCES account ON DELETE CASCADE,
				amount numeric, PRIMARY KEY (account, id))});
		add_address($node{map}, $node{$name}, 'postgres_fdw');
	}
	return;
}

# A server that is to be a shard, without tables.
sub new_shard_server
{
	my ($name, $settings) = @_;
	$node{$name} = new_server($name);
	$node{$name}->append_conf('postgresql.conf', "wal_level = logical\n"
		. "max_wal_senders = 10\nwal_retrieve_retry_interval = 100ms\n"
		. "shardring.shard = '$name'\n" . ($settings // ''));
	$node{$name}->restart;
	push @shards, $name unless grep { $_ eq $name } @shards;
	return;
}

# Clients that write until they are stopped; "proxy": and through PL/Proxy.
sub start_writers
{
	my ($number, $keys, $seed, $proxy) = @_;
	note "seed $seed";
	($in, $out) = ('', '');
	$writers = IPC::Run::start(
		[ '/usr/bin/python3', "$FindBin::RealBin/writers.py", 300, $number, $keys,
			$seed, $node{map}->connstr('postgres'),
			(map { "$_=" . $node{$_}->connstr('postgres') } @shards),
			$proxy ? 'proxy=' . $node{$proxy}->connstr('postgres') : () ],
		'<', \$in, '>', \$out, '2>', \my $errors);
	IPC::Run::pump($writers) until $out =~ /started/;
	return;
}

# Stops them, and returns what they remember.
sub stop_writers
{
	$writers->signal('TERM');
	$writers->finish;
	my ($json) = $out =~ /^(\{.*)$/m;
	my $memory = decode_json($json);
	is(join("\n", @{ $memory->{faults} }), '', 'no client saw a fault');
	cmp_ok($memory->{writes}, '>', 0, 'there were writes');
	note sprintf '%d writes, %d refused, %d not known, longest %.0f ms',
		@$memory{qw(writes refused unknown)}, 1000 * $memory->{longest};
	return $memory;
}

# Every key has what it may have, on the shard it lives on by this version; with
# "alone", on no other.
sub check_rows
{
	my ($memory, $version, $alone) = @_;
	my (%has, @wrong);
	foreach my $shard (@shards)
	{
		foreach (split /\n/, on($shard, qq{
				SELECT id || ' ' || value || ' '
					|| shardring.shard_for('orders', id, $version) FROM account}))
		{
			my ($id, $value, $lives) = split / /;
			if ($lives eq $shard) { $has{$id} = $value; }
			elsif ($alone) { push @wrong, "$id is on $shard"; }
		}
		push @wrong, "entry without account on $shard"
		  if on($shard, q{SELECT count(*) FROM entry AS e WHERE NOT EXISTS (
			SELECT FROM account AS a WHERE a.id = e.account)}) ne '0';
	}
	foreach my $id (sort keys %{ $memory->{may_be} })
	{
		my $value = $has{$id} // '';
		push @wrong, "$id has '$value', not @{ $memory->{may_be}{$id} }"
		  unless grep { $_ eq $value } @{ $memory->{may_be}{$id} };
	}
	is(join("\n", @wrong[0 .. ($#wrong > 9 ? 9 : $#wrong)]), '',
		"every acknowledged write is where it belongs by version $version");
	return;
}

# No publication, slot, subscription or column of a move is left.
sub nothing_left
{
	my ($what) = @_;
	foreach my $shard (@shards)
	{
		is(on($shard, q{
			SELECT 'slot ' || slot_name FROM pg_replication_slots
			UNION ALL SELECT 'publication ' || pubname FROM pg_publication
			UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
			UNION ALL SELECT 'moving' FROM shardring.ring
			WHERE num_nonnulls(moving_from, moving_to, closed_until, back_lsn) > 0}),
			'', "$what: nothing is left on $shard");
	}
	return;
}

1;
