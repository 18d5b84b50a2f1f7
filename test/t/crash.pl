# crash.pl
#	kill -9 of the postmaster: what was committed is there after the restart,
#	what was not is gone, and nothing is there by half.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

# A crash that loses what was not flushed would prove nothing.
my $node = start_server('crash', 'fsync = on', 'synchronous_commit = on');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
add_ring($node, 'postgres', 'r', 4);

# Kills the postmaster and starts again, once all its children are gone.
sub crash
{
	my $pid = slurp_file($node->data_dir . '/postmaster.pid');
	$pid =~ s/\n.*//s;
	$node->kill9;
	my $patience = 10 * $PostgreSQL::Test::Utils::timeout_default;
	while (kill(0, $pid) || -S $node->host . '/.s.PGSQL.' . $node->port)
	{
		die 'the postmaster does not go' if $patience-- <= 0;
		unlink $node->host . '/.s.PGSQL.' . $node->port if !kill(0, $pid);
		select undef, undef, undef, 0.1;
	}
	# Children that have not noticed yet hold the shared memory.
	until (eval { $node->start(fail_ok => 1) })
	{
		die 'the server does not start' if $patience-- <= 0;
		select undef, undef, undef, 0.1;
	}
	return;
}

sub sound
{
	my ($what) = @_;
	is($node->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
		'', "$what: no problems");
	is($node->safe_psql('postgres', invariant('r', 1000)),
		't', "$what: routes by the active version");
	return;
}

# Right after an activation was committed.
$node->safe_psql('postgres', next_version('r', 4));
my $routes = routes($node, 'postgres', 'r', 10000);
like($routes, qr/^2\|/, 'version 2 is active');
$node->safe_psql('postgres', next_version('r', 5));
my $after = routes($node, 'postgres', 'r', 10000);
crash();
is(routes($node, 'postgres', 'r', 10000),
	$after, 'a committed activation survives');
sound('committed');

# In the middle of one.
my $session = open_session($node);
step($session, 'BEGIN');
step($session, next_version('r', 6));
like(step($session, "SELECT shardring.active_version('r')"),
	qr/^4$/, 'an activation is open');
crash();
eval { $session->quit };
is(routes($node, 'postgres', 'r', 10000),
	$after, 'an open activation is gone');
sound('open');
is($node->safe_psql('postgres', 'SELECT last_version FROM shardring.ring'),
	'3', 'and its number too');

# Prepared: it survives, and can be committed.
$session = open_session($node);
step($session, 'BEGIN');
step($session, next_version('r', 6));
step($session, "PREPARE TRANSACTION 'switch'");
$session->quit;
crash();
is(routes($node, 'postgres', 'r', 10000),
	$after, 'a prepared activation is not seen after a crash');
$node->safe_psql('postgres', "COMMIT PREPARED 'switch'");
like(routes($node, 'postgres', 'r', 10000),
	qr/^4\|/, 'but can be committed');
sound('prepared');

$node->stop;
done_testing();
