# on_shards.pl
#	One query on all shards: what its rows become, what is refused before any
#	shard is asked, and that a shard whose rows cannot all be shown has one row
#	with the reason and no other.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shards;
use Shardring qw(sqlstate_of);
use Test::More;

my $main = new_server('main');
my $other = new_server('other');
my ($host, $port) = ($other->host, $other->port);

sub on_main
{
	return $main->safe_psql('postgres', @_);
}

# What on_shards says to a query, in the order in which it says it.
sub ask
{
	my ($query, $more) = @_;
	$more //= '';
	return on_main(qq{
		SELECT s.* FROM shardring.on_shards('orders', \$q\$$query\$q\$$more)
			AS s});
}

# The same from all three shards.
sub all_say
{
	my ($answer) = @_;
	return join "\n", map { "$_|$answer" } qw(a b c);
}

sub refused
{
	my ($query) = @_;
	return sqlstate_of($main, 'postgres',
		"SELECT * FROM shardring.on_shards('orders', \$q\$$query\$q\$)");
}

# The shards are databases a, b and c of the other server.
on_main('CREATE EXTENSION postgres_fdw');
foreach my $name (qw(a b c))
{
	$other->safe_psql('postgres', qq{
		CREATE DATABASE $name;
		ALTER DATABASE $name SET shardring.shard = '$name'});
	$other->safe_psql($name, q{
		CREATE EXTENSION shardring;
		CREATE TABLE held (key bigint PRIMARY KEY)});
	on_main(qq{
		CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$port', dbname '$name')});
}
on_main(q{
	SELECT shardring.create_ring('orders');
	SELECT shardring.add_group('orders', 'g', ARRAY['a', 'b'], 4);
	SELECT shardring.activate('orders');
	SELECT shardring.draft_version('orders');
	SELECT shardring.add_group('orders', 'h', ARRAY['c'], 4);
	SELECT shardring.seal('orders')});
on_main(q{SELECT shardring.push_version('orders', v, activate => v = 1)
	FROM generate_series(1, 2) AS v});
# every shard holds all keys, as in the middle of a move
$other->safe_psql($_,
	'INSERT INTO held SELECT i FROM generate_series(1, 1000) AS i')
  foreach qw(a b c);

# ---------- rows ----------

is(ask('SELECT count(*) FROM public.held'), all_say('t|{"count": 1000}|'),
	'a row from each, of newer sealed versions too');
is( on_main(q{
		SELECT sum((s.row ->> 'count')::bigint), bool_and(s.ok)
		FROM shardring.on_shards('orders', 'SELECT count(*)
			FROM public.held WHERE shardring.is_here(''orders'', key)') AS s}),
	'1000|t', 'sum of counts, each key where it lives');
is( ask(q{VALUES (3, 'c'), (1, 'a'), (2, NULL)}, ', ARRAY[\'b\']'),
	qq{b|t|{"column1": 3, "column2": "c"}|\n}
	  . qq{b|t|{"column1": 1, "column2": "a"}|\n}
	  . 'b|t|{"column1": 2, "column2": null}|',
	'rows stay in their order');
is( ask(q{
		SELECT true AS "t", false AS "F", 9223372036854775807 AS big,
			-1::smallint AS small, 1.50 AS scale, 'NaN'::numeric AS nan,
			0.1::float8 AS float, '{"a": [1, null]}'::jsonb AS j,
			' [1.10] '::json AS k, 'x'::name AS n, NULL::integer AS null,
			E'q"\\\\\n\t' AS "quoted ""name""", 'größe' AS "größe",
			'{1,2}'::integer[] AS list, date '2000-01-02' AS day}, ", '{a}'"),
	'a|t|{"F": false, "j": {"a": [1, null]}, "k": [1.10], "n": "x", "t": true,'
	  . ' "big": 9223372036854775807, "day": "2000-01-02", "nan": "NaN",'
	  . ' "list": "{1,2}", "null": null, "float": "0.1", "scale": 1.50,'
	  . ' "small": -1, "größe": "größe",'
	  . ' "quoted \"name\"": "q\"\\\\\n\t"}|',
	'values and names');
is(ask('SELECT 1 WHERE false'), '', 'no rows are none');
is(ask('SELECT'), all_say('t|{}|'), 'a row without columns');
is( ask('SHOW transaction_read_only', ", '{c}'"),
	'c|t|{"transaction_read_only": "on"}|', 'SHOW');
like(ask('EXPLAIN SELECT 1'), qr/\Aa\|t\|\{"QUERY PLAN": "Result/, 'EXPLAIN');
is(ask('TABLE pg_catalog.pg_am LIMIT 0'), '', 'TABLE');
is(ask('WITH w AS (SELECT 1 AS x) SELECT * FROM w;'), all_say('t|{"x": 1}|'),
	'WITH, and a semicolon');
is( on_main(q{SELECT count(*) FROM shardring.on_shards('orders',
		'SELECT i, repeat(''x'', 900) FROM generate_series(1, 1000) AS i')}),
	'3000', 'as many as there may be');

# ---------- which shards ----------

is(ask('SELECT 1 AS x', ", '{c,a,c}'"), qq{a|t|{"x": 1}|\nc|t|{"x": 1}|},
	'those that are named, once, by number');
is(ask('SELECT 1', ", '{}'"), '', 'none');
is( sqlstate_of($main, 'postgres',
		q{SELECT * FROM shardring.on_shards('orders', 'SELECT 1', '{a,x}')}),
	'42704', 'a shard that does not exist');
is( sqlstate_of($main, 'postgres',
		q{SELECT * FROM shardring.on_shards('orders', 'SELECT 1', '{NULL}')}),
	'42704', 'a shard without a name');
on_main(q{UPDATE shardring.shard SET server = 'a' WHERE shard = 'b'});
is(ask('SELECT count(*) FROM public.held'),
	qq{a|t|{"count": 1000}|\nc|t|{"count": 1000}|}, 'two shards, one server');
is( ask('SELECT 1 / 0', ", '{a,b}'"),
	qq{a|f||division by zero\nb|f||division by zero},
	'two shards, one server that fails');
on_main(q{UPDATE shardring.shard SET server = NULL;
	ALTER SERVER b OPTIONS (SET dbname 'a')});
is( ask('SELECT 1 AS x'), qq{a|f||same database as server "b"\n}
	  . qq{b|f||same database as server "a"\nc|t|{"x": 1}|},
	'nothing is read twice');
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'c');
	ALTER SERVER c OPTIONS (SET dbname 'postgres')});
is( ask('SELECT 1 AS x'),
	qq{a|t|{"x": 1}|\nb|f||the server is shard "c"\n}
	  . 'c|f||shardring.shard is not set there: '
	  . q{ALTER DATABASE postgres SET shardring.shard = 'c'},
	'nor by another name');
on_main(q{ALTER SERVER b OPTIONS (SET dbname 'b');
	ALTER SERVER c OPTIONS (SET dbname 'c')});

# ---------- refused here ----------

is(refused($_->[0]), $_->[1], "refused: $_->[0]") foreach (
	[ 'SELECT 1; SELECT 2', '42601' ],
	[ '', '42601' ],
	[ ' ; -- ', '42601' ],
	[ 'SELECT FROM WHERE', '42601' ],
	[ 'SELECT 1) AS x; (SELECT 2', '42601' ],
	[ 'INSERT INTO public.held VALUES (0)', '22023' ],
	[ 'DELETE FROM public.held RETURNING key', '22023' ],
	[ 'WITH d AS (SELECT 1) DELETE FROM public.held', '22023' ],
	[ 'COPY public.held TO STDOUT', '22023' ],
	[ 'COMMIT', '22023' ],
	[ q{PREPARE TRANSACTION 'x'}, '22023' ],
	[ 'SET transaction_read_only = off', '22023' ],
	[ 'CALL public.p()', '22023' ],
	[ 'DO $$ BEGIN END $$', '22023' ]);
is( sqlstate_of($main, 'postgres',
		"SELECT * FROM shardring.on_shards($_->[0], $_->[1])"),
	$_->[2], "refused: on_shards($_->[0], $_->[1])") foreach (
	[ 'NULL', q{'SELECT 1'}, '22004' ],
	[ q{'orders'}, 'NULL', '22004' ],
	[ q{'größe'}, q{'SELECT 1'}, '42704' ],
	[ q{'orders'}, q{repeat('(', 1000000)}, '42601' ]);
my ($status, $out, $error) = $main->psql('postgres',
	q{SELECT * FROM shardring.on_shards('orders', 'SELECT 1 FROM WHERE')});
like($error, qr/syntax error at or near "WHERE".*QUERY:  SELECT 1 FROM WHERE/s,
	'the position is that in the query');
unlike($error, qr/CONTEXT/, 'and no CONTEXT is in between');

# ---------- refused by the shards ----------

my $only = 'a read-only transaction';
$other->safe_psql($_, q{
	CREATE FUNCTION put() RETURNS integer LANGUAGE sql AS
	'INSERT INTO public.held VALUES (0) RETURNING 1'}) foreach qw(a b c);
is(ask('SELECT public.put()'), all_say("f||cannot execute INSERT in $only"),
	'a function that writes');
is( ask('WITH d AS (DELETE FROM public.held RETURNING 1) SELECT * FROM d'),
	all_say("f||cannot execute SELECT in $only"), 'WITH that writes');
is(ask('SELECT 1 AS x INTO public.made'),
	all_say("f||cannot execute SELECT INTO in $only"), 'SELECT INTO');
is( ask('EXPLAIN ANALYZE DELETE FROM public.held'),
	all_say("f||cannot execute DELETE in $only"), 'EXPLAIN ANALYZE');
is( ask(q{SELECT set_config('transaction_read_only', 'off', true)}),
	all_say('f||transaction read-write mode must be set before any query'),
	'getting out of it');
is($other->safe_psql('a', 'SELECT count(*) FROM held'),
	'1000', 'nothing was written');
is(ask('SELECT * FROM held'),
	all_say('f||relation "held" does not exist'), 'names need their schema');

# ---------- rows that cannot all be shown ----------

my $too_much = 'answer exceeds 1000 rows or 1048576 bytes';
is( ask('SELECT i FROM generate_series(1, 1001) AS i'),
	all_say("f||$too_much"), 'too many rows');
is( ask(q{SELECT repeat('x', 1000000) AS a, repeat('x', 100000) AS b}),
	all_say("f||$too_much"), 'too many bytes');
is( ask(q{SELECT repeat(chr(1), 300000) AS x}),
	all_say("f||$too_much"), 'too many as JSON');
is( ask('SELECT count(*), count(key) FROM public.held'),
	all_say('f||two columns are named "count"'), 'two columns of one name');
is( ask(q{SELECT '"\u0000"'::json AS x}),
	all_say('f||unsupported Unicode escape sequence'), 'JSON, but no jsonb');
is( ask(q{SELECT i, 1 / (500 - i) AS x FROM generate_series(1, 900) AS i}),
	all_say('f||division by zero'), 'an error after some rows');
is( on_main(q{
		SELECT s.shard, s.ok, s.error, count(*), count(s.row)
		FROM shardring.on_shards('orders', $q$
			SELECT i, repeat('x', 500), CASE WHEN i = 900
				AND current_database() = 'b'
				THEN pg_terminate_backend(pg_backend_pid()) END IS NULL AS x
			FROM generate_series(1, 1000) AS i$q$) AS s
		GROUP BY s.shard, s.ok, s.error ORDER BY s.shard}),
	"a|t||1000|1000\n"
	  . "b|f|terminating connection due to administrator command|1|0\n"
	  . 'c|t||1000|1000',
	'a shard that dies after some rows has only that row');

# ---------- time ----------

on_main(q{ALTER SERVER b OPTIONS (SET port '1')});
like(ask('SELECT 1 AS x'),
	qr/\Aa\|t\|\{"x": 1\}\|\nb\|f\|\|connection to .*\nc\|t\|\{"x": 1\}\|\z/,
	'a shard that is down');
on_main(qq{ALTER SERVER b OPTIONS (SET port '$port')});
is( on_main(q{
		SET shardring.remote_timeout = '1s';
		SELECT s.shard, s.ok, s.error FROM shardring.on_shards('orders',
			'SELECT pg_sleep(CASE current_database() WHEN ''c'' THEN 60
				ELSE 0 END)') AS s}) =~
	  s/canceling statement due to statement timeout/no answer within 1000 ms/r,
	"a|t|\nb|t|\nc|f|no answer within 1000 ms", 'a shard that is slow');
my $started = time;
is( sqlstate_of($main, 'postgres', q{
		SET statement_timeout = '1s';
		SELECT shardring.on_shards('orders', 'SELECT pg_sleep(60)')}),
	'57014', 'a cancel ends the statement');
cmp_ok(time - $started, '<', 8, 'at once');
ok( $other->poll_query_until('postgres', q{
		SELECT count(*) = 0 FROM pg_stat_activity
		WHERE application_name = 'shardring'}),
	'and all sessions on the shards');

# ---------- who may ----------

my @grants = (
	'EXECUTE ON FUNCTION shardring.on_shards',
	map { "EXECUTE ON FUNCTION shardring_internal.$_" } qw(ask_identities
	  ask_rows ask_servers ask_shards keep_connections parse_rows push_targets
	  query_shards require_query sound_answers sound_servers));
push @grants, map { "USAGE ON FOREIGN SERVER $_" } qw(a b c);
on_main(q{
	CREATE ROLE reader LOGIN;
	CREATE USER MAPPING FOR reader SERVER a
	OPTIONS (user 'reader', password 'x');
	CREATE USER MAPPING FOR reader SERVER b
	OPTIONS (user 'reader', password 'x');
	CREATE USER MAPPING FOR reader SERVER c
	OPTIONS (user 'reader', password 'x')});
$other->safe_psql('postgres', q{CREATE ROLE reader LOGIN PASSWORD 'x'});
$other->safe_psql($_, 'GRANT SELECT ON held TO reader') foreach qw(a b c);
my $hba = slurp_file($other->data_dir . '/pg_hba.conf');
unlink $other->data_dir . '/pg_hba.conf';
append_to_file($other->data_dir . '/pg_hba.conf',
	"local all reader scram-sha-256\n$hba");
$other->reload;
on_main("GRANT $_ TO reader") foreach @grants;
my $as_reader = 'SET SESSION AUTHORIZATION reader; ';
is( on_main($as_reader . q{SELECT s.* FROM shardring.on_shards('orders',
		'SELECT count(*), current_user FROM public.held') AS s}),
	all_say('t|{"count": 1000, "current_user": "reader"}|'),
	'a reader with the documented grants');
foreach my $grant (@grants)
{
	is( sqlstate_of($main, 'postgres',
			"BEGIN; REVOKE $grant FROM reader; $as_reader"
			  . q{SELECT 1 / (NOT bool_or(s.error = 'permission denied for '
				|| 'foreign server ' || s.shard))::integer
				FROM shardring.on_shards('orders', 'SELECT 1') AS s})
		  =~ s/22012/42501/r,
		'42501', "needed: $grant");
}

$main->stop;
$other->stop;
done_testing();
