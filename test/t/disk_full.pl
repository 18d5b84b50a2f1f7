# disk_full.pl
#	A disk that gets full while a version is written: at the first block, or
#	at a later one.  Where relations have no room the statement ends with 53100
#	and has done nothing, and its backend goes on; where WAL has none the server
#	panics, and comes back with the version before or the one after.  When there
#	is room again the same can be done.
#
#	disk_full.c, preloaded into the server, is the disk.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;
use Time::HiRes qw(usleep);

# ---------- the disk and the server ----------

my $no_limit = 0x7FFFFFFFFFFFFFFF;
my $disk = "$PostgreSQL::Test::Utils::tmp_check/disk";
my $preload = "$PostgreSQL::Test::Utils::tmp_check/disk_full.so";

# Gives the disk so much room for relations and for WAL.
sub make_room
{
	my ($relations, $wal, $copies) = @_;
	open my $file, '+>>:raw', $disk or die "$disk: $!";
	close $file;
	open $file, '+<:raw', $disk or die "$disk: $!";
	syswrite $file, pack('q3', $relations, $wal, $copies // 0) or die $!;
	close $file or die $!;
	return;
}

make_room($no_limit, $no_limit);
system_or_bail($ENV{CC} // 'gcc', '-std=gnu11', '-O1', '-fPIC', '-shared',
	'-o', $preload, "$FindBin::RealBin/disk_full.c", '-ldl');

# Few buffers, so that backends must write themselves; small segments of WAL,
# none of which is there before it is needed.
my $node = PostgreSQL::Test::Cluster->new('disk_full');
$node->init(extra => [ '--encoding=UTF8', '--locale=C', '--wal-segsize=1' ]);
$node->append_conf('postgresql.conf', "$_\n")
  foreach ('shared_buffers = 128kB', 'autovacuum = off',
	'bgwriter_lru_maxpages = 0', 'checkpoint_timeout = 1h',
	'max_wal_size = 1GB', 'min_wal_size = 2MB', 'wal_recycle = off',
	'restart_after_crash = off', 'jit = off',
	'max_parallel_workers_per_gather = 0');

sub start
{
	local $ENV{DISK_FULL} = $disk;
	local $ENV{LD_PRELOAD} = join ':', $preload, $ENV{LD_PRELOAD} // ();
	$node->start;
	return;
}

start();
my $session;

sub connect_session
{
	$session = open_session($node);
	return;
}

# ---------- what is written ----------

$node->safe_psql('postgres', <<'END');
CREATE EXTENSION shardring;
CREATE FUNCTION shards(name text) RETURNS text[] LANGUAGE sql AS $$
	SELECT array_agg(rpad(name || '-' || i || '-', 60, 'x'))
	FROM generate_series(1, 80) AS i $$;
-- All rows, but for times.
CREATE VIEW content AS
	SELECT md5(string_agg(line, ' ' ORDER BY line)) AS digest
	FROM (
		SELECT 'ring ' || (ring, active_version, fingerprint,
			last_version)::text FROM shardring.ring
		UNION ALL SELECT 'version ' || (ring, version, parent, base_active,
			vnodes, sealed_at IS NULL, fingerprint, zone_fingerprint, note,
			group_rows, map_rows, pin_rows)::text FROM shardring.ring_version
		UNION ALL SELECT 'group ' || md5(g::text) FROM shardring.shard_group g
		UNION ALL SELECT 'map ' || m::text FROM shardring.shard_map m
		UNION ALL SELECT 'pin ' || p::text FROM shardring.shard_pin p
		UNION ALL SELECT 'shard ' || s::text FROM shardring.shard s
		UNION ALL SELECT 'activation ' || (ring, version, from_version,
			moved)::text FROM shardring.activation) AS rows (line);
SET client_min_messages = error;
SELECT shardring.create_ring('r', 3000);
SELECT shardring.add_group('r', 'g' || i, shards('g' || i))
FROM generate_series(1, 4) AS i;
SELECT shardring.activate('r');
END

# From one active version to the next.
sub steps
{
	my ($name) = @_;
	return (
		[ 'draft_version', "SELECT shardring.draft_version('r')" ],
		[ 'add_group',
			"SELECT shardring.add_group('r', '$name', shards('$name'))" ],
		[ 'set_vnodes', "SELECT shardring.set_vnodes('r', 4000)" ],
		[ 'set_weight', "SELECT shardring.set_weight('r', '$name', 3)" ],
		[ 'pins', "SELECT count(shardring.pin('r', i, 'g1'))"
			  . " FROM generate_series(1, 300) AS i" ],
		[ 'seal', "SELECT shardring.seal('r')" ],
		[ 'activate', "SELECT shardring.activate('r')" ],
		[ 'import_version', "SELECT shardring.import_version(jsonb_set("
			  . "shardring.export_version('r'), '{ring}', '\"$name\"'))" ],
		[ 'drop_ring', "SELECT shardring.drop_ring('$name')" ],
		[ 'all in one', "BEGIN; SELECT shardring.draft_version('r');"
			  . "SELECT shardring.remove_group('r', '$name');"
			  . "SELECT shardring.set_vnodes('r', 3000);"
			  . "SELECT shardring.activate('r'); COMMIT" ],
		[ 'prune', "SELECT shardring.prune('r', 0)" ]);
}

sub content
{
	return step($session, 'TABLE content');
}

# What the content will be when SQL is committed; it is not.
sub content_after
{
	my ($sql) = @_;
	$sql =~ s/BEGIN;|; COMMIT//g;
	step($session, "BEGIN; $sql");
	my $content = content();
	step($session, 'ROLLBACK');
	return $content;
}

# Runs SQL, and returns the SQLSTATE it ends with.
sub run
{
	my ($sql) = @_;
	my $sqlstate = step_error($session, $sql);
	$session->query('ROLLBACK');
	return $sqlstate =~ /^none: $/ ? '00000' : $sqlstate;
}

sub sound
{
	my ($what, $content) = @_;
	is(content(), $content, "$what: the content");
	is(step($session, 'SELECT * FROM shardring.problems()'),
		'', "$what: no problems");
	is(step($session, invariant('r', 200)),
		't', "$what: routes by the active version");
	return;
}

# ---------- no room for relations ----------

# Runs a step with more and more room, until it succeeds.  Returns how often
# it did not.
sub grow_room
{
	my ($what, $sql, $copies) = @_;
	my $failures = 0;
	my $before = content();
	my $after = content_after($sql);
	for (my $room = 0;; $room = 2 * $room || 8192)
	{
		make_room($room, $no_limit, $copies);
		my $sqlstate = run($sql);
		make_room($no_limit, $no_limit);
		if ($sqlstate eq '00000')
		{
			sound("$what, room $room", $after);
			last;
		}
		is($sqlstate, '53100', "$what, room $room: disk full");
		sound("$what, room $room", $before);
		die "$what never succeeds" if ++$failures > 30;
	}
	return $failures;
}

connect_session();
foreach my $copies (0, 1)
{
	my $which = $copies ? 'all blocks need room' : 'new blocks need room';
	my %failures;
	foreach my $step (steps("new-$copies"))
	{
		my ($name, $sql) = @$step;
		$failures{$name} = grow_room("$which, $name", $sql, $copies);
	}
	note "$which, failed: "
	  . join ', ', map { "$_ $failures{$_}" } sort keys %failures;
	# What fits into the pages there are needs no new ones.
	delete @failures{ 'drop_ring', 'prune' } if !$copies;
	is(join(' ', grep { !$failures{$_} } sort keys %failures),
		'', "$which: every step met a full disk");
}

# A backend that meets a full disk again and again holds no more than before.
sub held
{
	my ($pid) = @_;
	return (
		contexts => step($session, 'SELECT sum(total_bytes) FROM'
			  . ' pg_backend_memory_contexts WHERE name !~ ALL'
			  . " ('{ExecutorState,ExprContext}')"),
		locks => step($session,
			'SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()'),
		files => scalar(@{ [ glob "/proc/$pid/fd/*" ] }),
		VmRSS => status_kb($pid, 'VmRSS') * 1024);
}

sub fail_often
{
	my ($times, $sql) = @_;
	my $failures = 0;
	foreach my $round (1 .. $times)
	{
		make_room(8192 * ($round % 8), $no_limit, 1);
		$failures++ if run($sql) eq '53100';
		make_room($no_limit, $no_limit);
	}
	is($failures, $times, 'a full disk again and again');
	return;
}

my ($all) = map { $_->[1] } grep { $_->[0] eq 'all in one' } steps('g1');
my $backend = step($session, 'SELECT pg_backend_pid()');
my $before = content();
fail_often(16, $all);
my %held = held($backend);
fail_often(64, $all);
my %held_after = held($backend);
my %more = (contexts => 65536, locks => 0, files => 2, VmRSS => 4194304);
cmp_ok($held_after{$_}, '<=', $held{$_} + $more{$_}, "$_ of the backend")
  foreach (sort keys %more);
sound('again and again', $before);

# ---------- no room for WAL ----------

my $segment = 1024 * 1024;

# Bytes of WAL that SQL writes; the second time there are no full pages in it.
sub wal_of
{
	my ($sql) = @_;
	my $lsn = 'pg_current_wal_insert_lsn()';
	content_after($sql);
	my $start = step($session, "SELECT $lsn");
	content_after($sql);
	return step($session, "SELECT $lsn - '$start'");
}

# Writes WAL until its last segment has only so many bytes left, or few more.
sub fill_wal
{
	my ($left) = @_;
	for (;;)
	{
		my ($rest, $newer) = split /\|/, step($session,
			"SELECT $segment - (pg_current_wal_insert_lsn() - '0/0')"
			  . " % $segment, (SELECT count(*) FROM pg_ls_waldir() WHERE"
			  . ' name > pg_walfile_name(pg_current_wal_insert_lsn()))');
		# A record has a head, and every page too.
		my $size = int(($rest - $left) * 0.99) - 80;
		return if !$newer && $size < 1;
		step($session, $newer ? 'SELECT pg_switch_wal()'
			: "SELECT pg_logical_emit_message(false, '', repeat('x', $size))");
	}
}

# The server has ended itself, or is about to.
sub wait_for_end
{
	my ($pid) = @_;
	my $patience = 10 * $PostgreSQL::Test::Utils::timeout_default;
	while (kill 0, $pid)
	{
		die 'the server does not end' if $patience-- <= 0;
		usleep(100_000);
	}
	eval { $session->quit };
	$node->stop('immediate', fail_ok => 1);
	return;
}

# The server has written to its log since then that it panicked, and is gone;
# start it again, with room.
sub come_back
{
	my ($what, $postmaster, $logged) = @_;
	wait_for_end($postmaster);
	make_room($no_limit, $no_limit);
	like(substr(slurp_file($node->logfile), $logged),
		qr/PANIC: .*pg_wal.*No space left on device/,
		"$what: the server panics");
	start();
	connect_session();
	return;
}

# Runs a step with room for so many bytes of WAL or few more.  Returns whether
# it was done.
sub fail_in_wal
{
	my ($what, $sql, $left) = @_;
	my ($postmaster) =
	  slurp_file($node->data_dir . '/postmaster.pid') =~ /(\d+)/;
	my $logged = -s $node->logfile;
	fill_wal($left);
	make_room($no_limit, 0);
	my ($status) = $node->psql('postgres',
		"SET client_min_messages = error;\n$sql");
	come_back($what, $postmaster, $logged) if $status != 0;
	make_room($no_limit, $no_limit);
	return $status == 0;
}

foreach my $step (steps('wal'))
{
	my ($name, $sql) = @$step;
	next if $name =~ /^(set_weight|pins|drop_ring)$/;
	my $wal = wal_of($sql);
	note "$name writes $wal bytes of WAL";
	my $before = content();
	my $after = content_after($sql);
	foreach my $percent (10, 90)
	{
		my $what = "WAL for $percent % of $name";
		ok(!fail_in_wal($what, $sql, int($wal * $percent / 100)),
			"$what: not done");
		sound($what, $before);
	}
	# It may be the last record, and the commit be in or not.
	my $what = "WAL for all of $name";
	content_after($sql);
	my $done = fail_in_wal($what, $sql, $wal - 100);
	my $content = content();
	note "$what: " . ($done ? 'done' : 'panic')
	  . ($content eq $before ? ', and it is gone' : ', and it is there');
	$content = $after if $done || $content ne $before;
	sound($what, $content);
	is(run($sql), '00000', "$name with room again") if $content eq $before;
	sound("$name with room again", $after);
}

$session->quit;
$node->stop;
done_testing();
