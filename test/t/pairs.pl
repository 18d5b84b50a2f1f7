# pairs.pl
#	Every pair of what two sessions do at once, in either order, with every way
#	the first one can end and at every level of isolation.  Nothing is listed:
#	the scenarios are generated, and what must come out of each is reckoned by
#	a small model of which version a statement sees (extension/doc/design.md)
#	and of who holds which lock.
#
#	Session 0 acts and stays open, then session 1 acts, and waits exactly where
#	the model says so.  Then session 0 ends, and after it session 1; but if only
#	session 0 reads, it stays to see what the other one has committed.
#
#	Every look of a session must show the ring of the model as its own snapshot
#	has it: what is active, where every version routes, what is sealed, the
#	history, the shards.  In the same statement routing without a version must
#	agree with routing by the version that the snapshot says is active.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;
use Time::HiRes qw(usleep);

my $node = start_server('pairs', 'autovacuum = off');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');

# ---------- the ring ----------

# Version 1 is active, 2 is a draft that sends every key elsewhere: the names
# of the shards tell the version, a1 and b1, a2 and b2.
my $make = <<'END';
SELECT shardring.drop_ring(ring) FROM shardring.ring;
SELECT shardring.create_ring('r', 50);
SELECT shardring.add_group('r', 'a', '{a1}'),
	shardring.add_group('r', 'b', '{b1}');
SELECT shardring.activate('r');
SELECT shardring.draft_version('r');
SELECT shardring.assign_slots('r', 'a', '{[0,1)}', 'a2'),
	shardring.assign_slots('r', 'b', '{[0,1)}', 'b2')
END
$node->safe_psql('postgres', "SET client_min_messages = error; $make");

# Two keys of group a, one for each session to pin to group b.
my @keys = split /\n/, $node->safe_psql('postgres',
	"SELECT k FROM generate_series(1, 100) k"
	  . " WHERE shardring.shard_for('r', k) = 'a1' ORDER BY k LIMIT 2");

# A look begins and ends with the same call, so that an answer that was kept
# for too long would show; one is kept by the backend, and one by function kept
# as long as its transaction lasts.
my $active = '(SELECT active_version FROM shardring.ring)';
my $invariant = invariant('r', 8);
$node->safe_psql('postgres', <<"END");
CREATE FUNCTION routed(v int) RETURNS text STABLE LANGUAGE sql AS \$\$
	SELECT concat(shardring.shard_for('r', $keys[0], v),
		shardring.shard_for('r', $keys[1], v))
	FROM shardring.ring_version WHERE version = v \$\$;
CREATE FUNCTION kept() RETURNS text STABLE LANGUAGE plpgsql AS \$\$
	BEGIN RETURN shardring.shard_for('r', 'k'); END \$\$;
CREATE VIEW look AS
	SELECT format('%s by %s of %s, %s, history %s, shards %s, %s',
		kept() = shardring.shard_for('r', 'k', active_version),
		active_version, last_version,
		(SELECT string_agg(format('%s%s %s', CASE WHEN sealed_at IS NOT NULL
				THEN 'sealed ' END, version, routed(version)), ', '
			ORDER BY version) FROM shardring.ring_version),
		(SELECT string_agg(version::text, ' ' ORDER BY version)
		 FROM shardring.activation),
		(SELECT string_agg(shard, ' ' ORDER BY number) FROM shardring.shard),
		($invariant))
	FROM shardring.ring;
CREATE VIEW walk AS
	SELECT concat_ws(' ', shardring.active_version('r'),
		(shardring.locate('r', k)).version,
		shardring.shard_for('r', k) = shardring.shard_for('r', k, $active)
			AND $active = shardring.active_version('r'), routed(2))
	FROM generate_series(1, 6) k;
CREATE VIEW wrong AS
	SELECT problem FROM shardring.problems()
	UNION ALL
	SELECT p FROM shardring.ring_version,
		shardring_internal.version_problems(ring, version) p;
END

# ---------- the model: states of the ring ----------

sub start_state
{
	return {
		active => 1, last => 2, history => '1', shards => 'a1 b1',
		wrong => '',
		versions => {
			1 => { on => 1, sealed => 1, pins => [ 0, 0 ] },
			2 => { on => 2, sealed => 0, pins => [ 0, 0 ] } } };
}

sub copy_of
{
	my ($thing) = @_;
	return [ map { copy_of($_) } @$thing ] if ref $thing eq 'ARRAY';
	return { map { $_ => copy_of($thing->{$_}) } keys %$thing }
	  if ref $thing eq 'HASH';
	return $thing;
}

# What function routed says of a version.
sub routed_of
{
	my ($version) = @_;
	return join '',
	  map { ($_ ? 'b' : 'a') . $version->{on} } @{ $version->{pins} };
}

# What view look shows.
sub look_of
{
	my ($state) = @_;
	my $versions = $state->{versions};
	return "t by $state->{active} of $state->{last}, "
	  . join('', map {
			($versions->{$_}{sealed} ? 'sealed ' : '')
			  . "$_ " . routed_of($versions->{$_}) . ', '
		} sort keys %$versions)
	  . "history $state->{history}, shards $state->{shards}, t\n";
}

# What a row of view walk shows.
sub walk_of
{
	my ($state) = @_;
	return "$state->{active} $state->{active} t "
	  . routed_of($state->{versions}{2}) . "\n";
}

# ---------- the model: actions ----------

sub missing { return $_[0]{versions}{2} ? undef : '42704' }
sub sealed { return ($_[0]{versions}{2} // {})->{sealed} ? '55000' : undef }
sub active { return $_[0]{active} == 2 ? '55000' : undef }

sub seal
{
	my ($state) = @_;
	$state->{versions}{2}{sealed} = 1;
	$state->{shards} .= ' a2 b2';
	return;
}

sub activate
{
	my ($state) = @_;
	seal($state) if !$state->{versions}{2}{sealed};
	$state->{active} = 2;
	$state->{history} .= ' 2';
	return;
}

sub draft
{
	my ($state, $seen, $who, $from) = @_;
	my $copy = copy_of($seen->{versions}{ $from // $seen->{active} });
	$copy->{sealed} = 0;
	$state->{versions}{ ++$state->{last} } = $copy;
	return;
}

sub edit
{
	my ($state, $seen, $who) = @_;
	$state->{versions}{2}{pins}[$who] = 1;
	return;
}

# A row of a version that is gone by then is let in, as a restore may need it.
sub plain_edit
{
	my ($state) = @_;
	return edit(@_) if $state->{versions}{2};
	$state->{wrong} = 'shard_pin has 1 row of a version that does not exist';
	return;
}

# "sql" of session 0 or 1.  "ring": it locks the ring.  "row": what it does to
# the row of version 2.  "now": it checks the rows as they are now, not only as
# its snapshot shows them.  "refused": the SQLSTATE in a state, if any.
# "does": what it makes of a state, given the one that its snapshot shows.
my %actions = (
	'route' => { reads => 1, sql => 'TABLE look' },
	'cursor' => {
		reads => 1, cursor => 1,
		sql => 'DECLARE c CURSOR FOR TABLE walk; FETCH 2 FROM c' },
	'seal' => {
		sql => "SELECT shardring.seal('r', 2)",
		ring => 1, row => 'change', now => 1, does => \&seal,
		refused => sub { missing(@_) // sealed(@_) } },
	'activate' => {
		sql => "SELECT shardring.activate('r', 2)",
		ring => 1, row => 'change', now => 1, does => \&activate,
		refused => sub { missing(@_) // active(@_) } },
	'drop version' => {
		sql => "SELECT shardring.drop_version('r', 2)",
		ring => 1, row => 'change', now => 1,
		does => sub { delete $_[0]{versions}{2} },
		refused => sub { missing(@_) // active(@_) } },
	'draft' => {
		sql => "SELECT shardring.draft_version('r')",
		ring => 1, does => \&draft },
	'draft from it' => {
		sql => "SELECT shardring.draft_version('r', 2)",
		ring => 1, row => 'lock', does => sub { draft(@_, 2) },
		refused => \&missing },
	'edit' => {
		sql => "SELECT shardring.pin_key('r', 'KEY', 'b', 2)",
		row => 'change', does => \&edit,
		refused => sub { missing(@_) // sealed(@_) } },
	'plain edit' => {
		sql => "INSERT INTO shardring.shard_pin"
		  . " VALUES ('r', 2, shardring.key_position('KEY'), 'b')",
		row => 'share', does => \&plain_edit, refused => \&sealed });

# The state after an action of session 0 or 1, whose snapshot shows $seen.
sub after
{
	my ($state, $action, $who, $seen) = @_;
	my $next = copy_of($state);
	$action->{does}->($next, $seen, $who) if $action->{does};
	return $next;
}

sub has_to_wait
{
	my ($first, $second) = @_;
	return 1 if $first->{ring} && $second->{ring};
	return 0 if !$first->{row} || !$second->{row};
	return $first->{row} eq 'share' && $second->{row} eq 'share' ? 0 : 1;
}

# Must the second one, of an older snapshot, fail when the first commits?
sub too_old
{
	my ($first, $second, $level) = @_;
	return 1 if $first->{ring} && $second->{ring};
	# Each of them has read what the other one writes.
	return 1
	  if $level eq 'SERIALIZABLE' && !$first->{reads} && !$second->{reads};
	return 0 if !$first->{row} || !$second->{row};
	return $first->{row} eq 'change'
	  || $first->{row} eq 'share' && $second->{now};
}

# ---------- two sessions and a judge ----------

my @sessions = map { open_session($node) } (0 .. 2);
my $judge = 2;
my @pids = map { step($_, 'SELECT pg_backend_pid()') } @sessions;
my $end = qr/^end (\w{5})\n/m;

# Of the scenario that runs: what was not as it must be, and the SQLSTATE that
# ended session 1.
my (@wrong, $failed);

sub expect
{
	my ($what, $got, $want) = @_;
	push @wrong, "$what:\n$got\nwhere it must be:\n$want" if $got ne $want;
	return;
}

# Sends SQL to a session and does not wait.  query_until would throw away what
# is printed at once.
sub send_sql
{
	my ($who, $sql) = @_;
	$sql =~ s/KEY/$keys[$who]/;
	$sessions[$who]->{stdin} .= "$sql;\n\\echo end :SQLSTATE\n";
	return;
}

# Waits for what was sent; returns its SQLSTATE and what it printed.
sub receive
{
	my ($who) = @_;
	my $output = $sessions[$who]->query_until($end, '');
	$output =~ s/$end// or die "session $who has gone";
	return ($1, $output);
}

# Runs SQL that must succeed and print this, if it is given.
sub run
{
	my ($who, $what, $sql, $want) = @_;
	send_sql($who, $sql);
	my ($sqlstate, $output) = receive($who);
	expect("session $who, $what", $sqlstate, '00000');
	expect("session $who, $what", $output, $want) if defined $want;
	return;
}

sub look
{
	my ($who, $when, $state) = @_;
	run($who, "look $when", 'TABLE look', look_of($state));
	return;
}

# Waits for what was sent to session 1, which may fail.
sub receive_second
{
	my ($what, $want) = @_;
	my ($sqlstate, $output) = receive(1);
	if ($sqlstate ne '00000')
	{
		$failed = $sqlstate;
	}
	elsif (defined $want)
	{
		expect("session 1, $what", $output, $want);
	}
	return;
}

# Goes on with session 1 unless it has failed; it may fail now.
sub try_second
{
	my ($what, $sql, $want) = @_;
	return if defined $failed;
	send_sql(1, $sql);
	receive_second($what, $want);
	return;
}

# Has what was sent to session 1 ended, or does it wait for session 0?
sub is_waiting
{
	my $session = $sessions[1];
	my $patience = 1000 * $PostgreSQL::Test::Utils::timeout_default;
	while ($patience-- > 0)
	{
		$session->{run}->pump_nb;
		return 0 if $session->{stdout} =~ $end;
		send_sql($judge, "SELECT 1 FROM pg_stat_activity WHERE pid = $pids[1]"
			  . " AND wait_event_type = 'Lock'"
			  . " AND pg_blocking_pids(pid) = '{$pids[0]}'");
		return 1 if (receive($judge))[1] ne '';
		usleep(1000);
	}
	die 'session 1 neither ends nor waits for session 0';
}

# ---------- one scenario ----------

# With what session 1 must end, given the state that session 0 leaves.
sub outcome
{
	my ($x, $y, $ending, $level, $left) = @_;
	my $commits = $ending eq 'commit';
	return $y->{refused} && $y->{refused}->($left) || '00000'
	  if $level eq 'READ COMMITTED';
	return '40001' if $commits && too_old($x, $y, $level);
	# What a savepoint took back may still count as written.
	return '00000 or 40001'
	  if $level eq 'SERIALIZABLE'
	  && $ending eq 'savepoint rollback'
	  && !$x->{reads} && !$y->{reads};
	return '00000';
}

# Both sessions begin, session 0 acts, and session 1 is told to.
sub open_both
{
	my ($x, $y, $ending, $level, $own) = @_;
	my $start = start_state();
	run($judge, 'make', $make);
	foreach my $who (0, 1)
	{
		run($who, 'begin', "BEGIN ISOLATION LEVEL $level");
		# A transaction with a number is in the snapshots of others, and keeps
		# the xmin of its own.
		run(0, 'number', 'SELECT pg_current_xact_id()')
		  if $who == 0 && $ending ne 'commit';
		look($who, 'at the start', $start);
	}
	run(0, 'savepoint', 'SAVEPOINT s') if $ending eq 'savepoint rollback';
	run(0, 'action', $x->{sql}, $x->{cursor} ? walk_of($start) x 2 : undef);
	look(0, 'after its action', $own);
	send_sql(1, $y->{sql});
	return;
}

# Session 1 has acted; see what both see.
sub acted
{
	my ($y, $view, $seen_by_0) = @_;
	receive_second('action', $y->{cursor} ? walk_of(start_state()) x 2 : undef);
	try_second('look after its action', 'TABLE look', look_of($view));
	look(0, 'beside the other one', $seen_by_0);
	return;
}

# The rest of a cursor is what it was when the cursor was opened.
sub fetch_rest
{
	my ($who, $action) = @_;
	return if !$action->{cursor};
	my @fetch = ('cursor', 'FETCH ALL FROM c', walk_of(start_state()) x 4);
	$who == 0 ? run(0, @fetch) : try_second(@fetch);
	return;
}

# Session 0 ends; without its action it sees $without.  A rollback to the
# savepoint is enough for session 1 to go on, which $released waits for.
sub end_first
{
	my ($ending, $without, $released) = @_;
	if ($ending eq 'savepoint rollback')
	{
		run(0, 'back', 'ROLLBACK TO SAVEPOINT s');
		look(0, 'after the rollback to a savepoint', $without);
		$released->();
	}
	run(0, 'end', $ending eq 'rollback' ? 'ROLLBACK' : 'COMMIT');
	$released->() if $ending ne 'savepoint rollback';
	return;
}

# When both are gone everybody sees the same, and nothing is there by half.
sub judge
{
	my ($state) = @_;
	look($_, 'at the end', $state) foreach (0, 1, $judge);
	run($judge, 'problems', 'TABLE wrong',
		$state->{wrong} && "$state->{wrong}\n");
	return;
}

sub scenario
{
	my ($x, $y, $ending, $level) = @_;
	my $keeps = $level ne 'READ COMMITTED';
	my $start = start_state();
	my $own = after($start, $x, 0, $start);
	my $left = $ending eq 'commit' ? $own : $start;
	my $wanted = outcome($x, $y, $ending, $level, $left);
	my $done = $y->{refused} && $y->{refused}->($left)
	  ? $left : after($left, $y, 1, $keeps ? $start : $left);
	my $second = after($start, $y, 1, $start);

	@wrong = ();
	undef $failed;
	open_both($x, $y, $ending, $level, $own);
	my $waits = is_waiting();
	expect('session 1 waits', $waits, has_to_wait($x, $y));
	acted($y, $second, $own) if !$waits;
	if ($x->{reads} && !$y->{reads})
	{
		my $seen = $keeps ? $start : $done;
		try_second('commit', 'COMMIT');
		look(0, 'after the other one', $seen);
		fetch_rest(0, $x);
		end_first($ending, $seen, sub { });
	}
	else
	{
		fetch_rest(0, $x);
		end_first($ending, $start, sub { receive_second('action') if $waits });
		fetch_rest(1, $y);
		try_second('look at last', 'TABLE look',
			look_of($keeps ? $second : $done));
		try_second('commit', 'COMMIT');
	}
	my $got = $failed // '00000';
	expect('session 1 ends with', $got, $wanted) if $wanted !~ /$got/;
	run(1, 'rollback', 'ROLLBACK') if defined $failed;
	judge(defined $failed ? $left : $done);
	return;
}

# ---------- all of them ----------

my %ended;
my $waited = 0;
my $scenarios = 0;
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	foreach my $ending ('commit', 'rollback', 'savepoint rollback')
	{
		foreach my $first (sort keys %actions)
		{
			foreach my $second (sort keys %actions)
			{
				my ($x, $y) = @actions{ $first, $second };
				scenario($x, $y, $ending, $level);
				is(join("\n", @wrong), '',
					"$first ($ending) beside $second, $level");
				$ended{ $failed // '00000' }++;
				$waited += has_to_wait($x, $y);
				$scenarios++;
			}
		}
	}
}
note "$scenarios scenarios; session 1 waited in $waited; it ended with "
  . join ', ', map { "$_ in $ended{$_}" } sort keys %ended;

$_->quit foreach (@sessions);
$node->stop;
done_testing($scenarios);
