# one_version.pl
#	Which version a statement sees, where isolation specs do not reach:
#	prepared transactions, parallel workers, procedures that commit, COPY with
#	defaults, DROP and CREATE EXTENSION in one session.  At every step routing
#	must agree with the version that the snapshot says is active.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('one_version', 'max_parallel_workers = 4');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($node, 'postgres', 'r', 3);

my $session = open_session($node);
my $other = open_session($node);

# The active version of a ring, if routing agrees with it.
sub seen
{
	my ($who, $ring) = @_;
	$ring //= 'r';
	return step($who,
		    "SELECT CASE WHEN (" . invariant($ring, 200) . ")"
		  . " THEN shardring.active_version('$ring') END");
}

# ---------- prepared transactions ----------

is(seen($session), 1, 'a ring was activated');
is(seen($other), 1, 'another session sees it');
step($session, 'BEGIN');
step($session, next_version('r', 3));
is(seen($session), 2, 'a transaction sees its own switch');
step($session, "PREPARE TRANSACTION 'switch'");
is(seen($session), 1, 'a prepared switch is not seen by its session');
is(seen($other), 1, 'a prepared switch is not seen by others');
step($other, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
is(seen($other), 1, 'REPEATABLE READ begins before COMMIT PREPARED');
step($session, "COMMIT PREPARED 'switch'");
is(seen($session), 2, 'COMMIT PREPARED switches for the session');
is(seen($other), 1, 'but not in REPEATABLE READ');
step($other, 'COMMIT');
is(seen($other), 2, 'and afterwards for the other session');

step($session, 'BEGIN');
step($session, next_version('r', 4));
is(seen($session), 3, 'a transaction sees its next switch');
step($session, "PREPARE TRANSACTION 'switch'");
is(seen($other), 2, 'prepared again, not seen');
step($other, "ROLLBACK PREPARED 'switch'");
is(seen($session), 2, 'ROLLBACK PREPARED takes it back for the session');
is(seen($other), 2, 'and for the other one');

# ---------- parallel workers (B35) ----------

$node->safe_psql('postgres', <<'END');
CREATE TABLE keys AS SELECT 'user:' || i AS key, i AS id,
	md5(i::text)::uuid AS uuid FROM generate_series(1, 100000) AS i;
ANALYZE keys;
CREATE FUNCTION force_parallel() RETURNS void LANGUAGE sql AS $$
	SELECT set_config(name, value, false) FROM (VALUES
		('force_parallel_mode', 'on'), ('debug_parallel_query', 'on'),
		('parallel_setup_cost', '0'), ('parallel_tuple_cost', '0'),
		('min_parallel_table_scan_size', '0'),
		('max_parallel_workers_per_gather', '2')) AS v (name, value)
		JOIN pg_settings AS s USING (name);
$$;
CREATE FUNCTION force_serial() RETURNS void LANGUAGE sql AS $$
	SELECT set_config(name, value, false) FROM (VALUES
		('force_parallel_mode', 'off'), ('debug_parallel_query', 'off'),
		('max_parallel_workers_per_gather', '0')) AS v (name, value)
		JOIN pg_settings AS s USING (name);
$$;
END

# One line over all keys and functions that workers may run.
my $all_keys = <<'END';
SELECT count(*), encode(sha256(convert_to(string_agg(concat_ws(' ',
		shardring.shard_for('r', key), shardring.locate('r', id),
		shardring.shard_for('r', uuid), shardring.shard_for('r', key, 1),
		shardring.shard_at('r', shardring.key_position(key)),
		shardring.moves('r', 1, 2, key), shardring.active_version('r'),
		CASE WHEN id % 100 = 0 THEN (SELECT string_agg(shard, ' ' ORDER BY rank)
			FROM shardring.replicas_for('r', key, 2)) END),
		' ' ORDER BY id), 'UTF8')), 'hex')
FROM keys
END

foreach my $state ('committed', 'not committed yet', 'rolled back')
{
	if ($state eq 'not committed yet')
	{
		step($session, 'BEGIN');
		# An uncommitted switch, and on top of it one that is rolled back.
		step($session, next_version('r', 4));
		step($session, 'SAVEPOINT s');
		step($session, next_version('r', 5, 6));
		is(seen($session), 4, 'two switches in one transaction');
		step($session, 'ROLLBACK TO SAVEPOINT s');
	}
	step($session, 'ROLLBACK') if $state eq 'rolled back';
	step($session, 'SELECT force_serial()');
	my $serial = step($session, $all_keys);
	like($serial, qr/^100000\|[0-9a-f]{64}$/, "$state: serial");
	step($session, 'SELECT force_parallel()');
	like(step($session, "EXPLAIN (ANALYZE, COSTS off, TIMING off) $all_keys"),
		qr/Workers Launched: [1-9]/, "$state: workers are used");
	is(step($session, $all_keys), $serial, "$state: parallel equals serial");
	is( step($session,
			'SELECT bool_and(shardring.shard_for(\'r\', key) ='
			  . ' shardring.shard_for(\'r\', key, active_version))'
			  . ' FROM keys, shardring.ring'),
		't',
		"$state: workers route by the version of the statement");
	is(seen($session),
		$state eq 'not committed yet' ? 3 : 2, "$state: version");
}
step($session, 'SELECT force_serial()');

# ---------- plpgsql and procedures ----------

# Each line of output: the shard, and the version it must be of.
$node->safe_psql('postgres', <<'END');
CREATE TABLE seen (step int GENERATED ALWAYS AS IDENTITY, what text,
	version int, agrees boolean);
CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	version int := (shardring.locate('p', 'k')).version;
	shard text := shardring.shard_for('p', 'k');
	active int;
BEGIN
	SELECT active_version INTO active FROM shardring.ring WHERE ring = 'p';
	INSERT INTO seen (what, version, agrees)
	VALUES (note.what, version, version = active
		AND shard = shardring.shard_for('p', 'k', active));
END $$;
CREATE FUNCTION switch() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	next int := shardring.draft_version('p');
BEGIN
	PERFORM shardring.remove_group('p', 'g' || next - 1);
	PERFORM shardring.add_group('p', 'g' || next, ARRAY['s' || next]);
	PERFORM shardring.activate('p');
END $$;
CREATE PROCEDURE walk() LANGUAGE plpgsql AS $$
DECLARE
	shard text;
BEGIN
	PERFORM note('start');
	PERFORM switch();
	PERFORM note('own switch');
	COMMIT;
	PERFORM note('committed');
	COMMIT;
	PERFORM switch();
	PERFORM note('second switch');
	ROLLBACK;
	PERFORM note('rolled back');
	BEGIN
		PERFORM switch();
		PERFORM note('lost with its block');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM note('block was rolled back');
	END;
	COMMIT;
	-- a simple expression, before and after in one loop
	FOR i IN 1 .. 6 LOOP
		shard := shardring.shard_for('p', 'k');
		IF i = 3 THEN
			PERFORM switch();
		ELSIF i = 5 THEN
			COMMIT;
		END IF;
		INSERT INTO seen (what, version, agrees)
		VALUES ('loop ' || i, substr(shard, 2)::int, NULL);
	END LOOP;
	COMMIT;
END $$;
SELECT shardring.create_ring('p');
SELECT shardring.add_group('p', 'g1', '{s1}');
SELECT shardring.activate('p');
END
my @walked = (
	'start|1|t',
	'own switch|2|t',
	'committed|2|t',
	'block was rolled back|2|t',
	(map { "loop $_|2|" } 1 .. 3),
	(map { "loop $_|3|" } 4 .. 6));
step($session, 'CALL walk()');
is( step($session,
		"SELECT what, version, agrees FROM seen WHERE what <> 'rolled back'"
		  . " ORDER BY step"),
	join("\n", @walked),
	'a procedure with COMMIT and ROLLBACK between lookups');
is( step($session,
		"SELECT what, version, agrees FROM seen WHERE what = 'rolled back'"),
	'rolled back|2|t',
	'routing right after ROLLBACK in a procedure');

# ---------- COPY with defaults ----------

$node->safe_psql('postgres', <<'END');
CREATE TABLE copied (id int, shard text DEFAULT shardring.shard_for('p', 'k'),
	version int DEFAULT shardring.active_version('p'));
END
my $ids = "$PostgreSQL::Test::Utils::tmp_check/ids";
append_to_file($ids, "1\n2\n3\n");
step($session, "COPY copied (id) FROM '$ids'");
step($session, 'BEGIN');
step($session, "COPY copied (id) FROM '$ids'");
step($session, 'SELECT switch()');
step($session, "COPY copied (id) FROM '$ids'");
step($session, 'ROLLBACK');
step($session, 'SELECT switch()');
step($session, "COPY copied (id) FROM '$ids'");
is( step($session,
		'SELECT version, shard, count(*) FROM copied GROUP BY 1, 2 ORDER BY 1'
	),
	"3|s3|3\n4|s4|3",
	'COPY with defaults that route');

# ---------- DROP and CREATE EXTENSION in one session ----------

my $fresh = open_session($node);
my ($locate) = "SELECT shardring.shard_for('q', 'k'), shardring.shard_at('q', 7)";
$node->safe_psql('postgres', 'DROP TABLE copied; DROP EXTENSION shardring');
foreach my $round (1 .. 3)
{
	is(step_error($fresh, $locate), '3F000', "round $round: nothing there");
	step($fresh, 'CREATE EXTENSION shardring');
	is(step_error($fresh, $locate), '42704', "round $round: no ring yet");
	step($fresh, "SELECT shardring.create_ring('q');"
		  . "SELECT shardring.add_group('q', 'g$round', '{s$round}');"
		  . "SELECT shardring.activate('q')");
	is(step($fresh, $locate), "s$round|s$round", "round $round: new ring");
	is(step($fresh, 'SELECT * FROM shardring.problems()'),
		'', "round $round: no problems");
	step($fresh, 'DROP EXTENSION shardring');
}
# The same in one transaction, and rolled back.
step($fresh, 'CREATE EXTENSION shardring');
step($fresh, "SELECT shardring.create_ring('q');"
	  . "SELECT shardring.add_group('q', 'old', '{old}');"
	  . "SELECT shardring.activate('q')");
is(step($fresh, $locate), 'old|old', 'before a transaction');
step($fresh, 'BEGIN; DROP EXTENSION shardring; CREATE EXTENSION shardring');
step($fresh, "SELECT shardring.create_ring('q');"
	  . "SELECT shardring.add_group('q', 'new', '{new}');"
	  . "SELECT shardring.activate('q')");
is(step($fresh, $locate), 'new|new', 'dropped and created in a transaction');
step($fresh, 'ROLLBACK');
is(step($fresh, $locate), 'old|old', 'rolled back');

$_->quit foreach ($session, $other, $fresh);
$node->stop;
done_testing();
