# memory.pl
#	A backend that routes for long stays as small as it was: memory contexts
#	and VmRSS (the memory of libcrypto is in no context) after many calls,
#	many versions, and many versions in one transaction.
#
#	SHARDRING_LONG=1 takes ten times as much, and 10 million calls.  The work
#	is done in many small steps, but for the one transaction that is the point.

use strict;
use warnings;

# What a step may take, read when the modules are loaded.
BEGIN
{
	$ENV{PG_TEST_TIMEOUT_DEFAULT} //= 1800 if $ENV{SHARDRING_LONG};
}

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $long = $ENV{SHARDRING_LONG};
my $versions = $long ? 10_000 : 1_000;
my $rounds = $long ? 10_000 : 500;
my $calls = $long ? 10_000_000 : 500_000;

# The bound of the cache, in bytes, as the source has it.
my ($bound) = slurp_file('extension/src/cache.c') =~
  /^#define CACHE_BYTES\s+\(\(Size\) (\d+) \* 1024 \* 1024\)/m
  or die 'CACHE_BYTES not found';
$bound *= 1024 * 1024;

my $node = start_server('memory', 'shared_buffers = 2MB', 'autovacuum = off',
	'max_parallel_workers_per_gather = 0', 'jit = off');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($node, 'postgres', 'r', 8);

my $session = open_session($node);
my $pid = step($session, 'SELECT pg_backend_pid()');

# Bytes of memory contexts by name, of compiled rings, of the table that finds
# them beyond what so many of them may need, and of the process as a whole.
sub measure
{
	my %bytes = map { split /\|/ } split "\n", step($session,
		'SELECT name, sum(total_bytes) FROM pg_backend_memory_contexts'
		  . ' GROUP BY name');
	# The measuring query's own, which has a row for each ring.
	delete @bytes{ 'ExecutorState', 'ExprContext',
		'pg_get_backend_memory_contexts' };
	my $rings = delete $bytes{'shardring ring'} // 0;
	my $table = delete $bytes{'shardring cache'} // 0;
	$table -= 256 * step($session, 'SELECT count(*) FROM'
		  . " pg_backend_memory_contexts WHERE name = 'shardring ring'");
	return (\%bytes, $rings, $table, status_kb($pid, 'VmRSS') * 1024);
}

# Runs a piece of work twice as warm-up, then several times, each time after
# what others may do; the memory it leaves must not have grown by more than a
# little.
sub no_growth
{
	my ($what, $sql, $times, $others) = @_;
	my $work = sub { $others->() if $others; step($session, $sql) };
	$work->() foreach (1 .. 2);
	my ($before, undef, undef, $resident) = measure();
	$work->() foreach (1 .. $times);
	my ($after, $rings, $table, $resident_after) = measure();
	my $grown = 0;
	foreach my $name (sort keys %$after)
	{
		my $more = $after->{$name} - ($before->{$name} // 0);
		note "$what: $name grew by $more" if $more > 0;
		$grown += $more if $more > 0;
	}
	cmp_ok($grown, '<=', 64 * 1024, "$what: memory contexts");
	cmp_ok($rings, '<=', $bound + 1024 * 1024, "$what: compiled rings");
	cmp_ok($table, '<=', 64 * 1024, "$what: the table of them");
	cmp_ok($resident_after - $resident, '<=', 4 * 1024 * 1024,
		"$what: VmRSS");
	return;
}

# ---------- many calls ----------

foreach my $hash ('md5', 'murmur3', 'fnv1a')
{
	step($session,
		"SELECT shardring.create_ring('$hash', hash => '$hash');"
		  . group_calls($hash, 0 .. 3)
		  . "SELECT shardring.activate('$hash')");
}
my $batch = int($calls / 20);
no_growth('calls in one statement', <<"END", 20);
SELECT count(shardring.shard_for('r', i)), count(shardring.locate('r',
	'user:' || i)), count(shardring.moves('r', 1, 1, i)),
	count(shardring.shard_for('murmur3', i)),
	count(shardring.shard_for('fnv1a', i, 1)),
	count(shardring.bytes_position(int8send(i)))
FROM generate_series(1, $batch) AS i
END
no_growth('calls in plpgsql', <<'END', 10);
DO $$
DECLARE
	shard text;
BEGIN
	FOR i IN 1 .. 5000 LOOP
		shard := shardring.shard_for('r', i);
		EXECUTE 'SELECT shardring.shard_for(''md5'', $1)' INTO shard USING i;
	END LOOP;
END $$
END
no_growth('failed calls', <<'END', 10);
DO $$
BEGIN
	FOR i IN 1 .. 500 LOOP
		BEGIN
			PERFORM shardring.shard_for('nowhere', i);
		EXCEPTION WHEN undefined_object THEN
			PERFORM shardring.shard_for('r', i);
		END;
	END LOOP;
END $$
END
no_growth('what looks and compares', <<'END', 20);
SELECT (SELECT count(*) FROM shardring.arcs('r')),
	(SELECT count(*) FROM shardring.points('r')),
	(SELECT count(*) FROM shardring.shares('r')),
	(SELECT count(*) FROM shardring.shard_shares('r')),
	(SELECT count(*) FROM shardring.moved_ranges('r', 1, 1)),
	(SELECT count(*) FROM shardring.move_plan('r', 1, 1)),
	(SELECT count(*) FROM shardring.problems())
END

# ---------- many versions in one transaction ----------

# As draft_version and seal would make them, only faster: a version of 8
# groups of 1,000 points, and copies of it with one pin each.
step($session, <<'END');
SELECT shardring.create_ring('many', 1000);
SELECT shardring.add_group('many', 'g' || i, ARRAY['s' || i])
FROM generate_series(1, 8) AS i;
SELECT shardring.pin('many', 1, 'g1');
SELECT shardring.seal('many');
CREATE PROCEDURE copy(first int, last int) LANGUAGE sql AS $$
	INSERT INTO shardring.ring_version (ring, version, parent, vnodes)
	SELECT 'many', v, 1, 1000 FROM generate_series(first, last) AS v;
	INSERT INTO shardring.shard_group
	SELECT ring, v, group_name, weight, slots, zone, points
	FROM shardring.shard_group, generate_series(first, last) AS v
	WHERE ring = 'many' AND version = 1;
	INSERT INTO shardring.shard_map
	SELECT ring, v, group_name, shard, slots
	FROM shardring.shard_map, generate_series(first, last) AS v
	WHERE ring = 'many' AND version = 1;
	INSERT INTO shardring.shard_pin
	SELECT 'many', v, v, 'g1' FROM generate_series(first, last) AS v;
	UPDATE shardring.ring_version
	SET sealed_at = clock_timestamp(), group_rows = 8, map_rows = 8,
		pin_rows = 1, fingerprint = shardring.version_fingerprint(ring, version),
		zone_fingerprint = shardring_internal.zone_fingerprint(ring, version)
	WHERE ring = 'many' AND version BETWEEN first AND last;
	UPDATE shardring.ring SET last_version = last WHERE ring = 'many' $$;
END
for (my $first = 2; $first <= $versions; $first += 500)
{
	my $last = $first + 499 < $versions ? $first + 499 : $versions;
	step($session, "CALL copy($first, $last)");
}

my (undef, undef, undef, $resident) = measure();
my $route_all = <<"END";
DO \$\$
DECLARE
	shard text;
BEGIN
	FOR v IN 1 .. $versions LOOP
		IF shardring.shard_at('many', v, v) <> 's1' THEN
			RAISE EXCEPTION 'wrong in version %', v;
		END IF;
	END LOOP;
END \$\$
END
step($session, $route_all);
my (undef, $rings) = measure();
cmp_ok($rings, '>', $bound / 2, 'one DO block fills the cache');
cmp_ok($rings, '<=', $bound + 1024 * 1024, 'but not above its bound');
my $peak = status_kb($pid, 'VmHWM') * 1024 - $resident;
cmp_ok($peak, '<=', $bound + 32 * 1024 * 1024,
	"$versions versions in one DO block: VmHWM grows by $peak");
step($session, $route_all);
$node->safe_psql('postgres', "SELECT shardring.drop_ring('many')");

# ---------- many rounds of draft, activate, route ----------

step($session, <<'END');
SELECT shardring.create_ring('round', 20);
SELECT shardring.add_group('round', 'g' || i, ARRAY['s' || i])
FROM generate_series(0, 3) AS i;
SELECT shardring.activate('round');
CREATE PROCEDURE rounds(n int) LANGUAGE plpgsql AS $$
DECLARE
	next int;
	shard text;
BEGIN
	FOR i IN 1 .. n LOOP
		next := shardring.draft_version('round');
		PERFORM shardring.assign_slots('round', 'g' || next % 4, '{[0,1)}',
			'v' || next);
		PERFORM shardring.activate('round');
		COMMIT;
		shard := shardring.shard_at('round', 7);
		PERFORM shardring.shard_for('round', k) FROM generate_series(1, 20) AS k;
		IF shardring.active_version('round') <> next THEN
			RAISE EXCEPTION 'wrong version';
		END IF;
		PERFORM shardring.prune('round', 2);
		COMMIT;
		-- a round that is taken back
		next := shardring.draft_version('round');
		PERFORM shardring.pin('round', 7, 'g1');
		PERFORM shardring.activate('round');
		shard := shardring.shard_at('round', 7);
		ROLLBACK;
	END LOOP;
END $$;
END
# Without VACUUM a round takes the longer, the more there were before.
no_growth("$rounds rounds", 'CALL rounds(100)', $rounds / 100,
	sub { $node->safe_psql('postgres', 'VACUUM') });

$session->quit;
$node->stop;
done_testing();
