# names.pl
#	Shards that are known by name, where names take long to be resolved, fail
#	or have several addresses: deadlines and cancels hold, and neither a thread
#	nor a descriptor is left.
#
#	slow_names.c, preloaded into the server, resolves them, and writes down
#	when it begins and ends.  A statement that is over while nothing has ended
#	did not wait for it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;
use Time::HiRes qw(usleep);

# ---------- the server, which is its own shard ----------

my $names = "$PostgreSQL::Test::Utils::tmp_check/names";
my $services = "$PostgreSQL::Test::Utils::tmp_check/services";
my $preload = "$PostgreSQL::Test::Utils::tmp_check/slow_names.so";
system_or_bail($ENV{CC} // 'gcc', '-std=gnu11', '-O1', '-fPIC', '-shared',
	'-o', $preload, "$FindBin::RealBin/slow_names.c", '-ldl');

my $node = PostgreSQL::Test::Cluster->new('names');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', "$_\n")
  foreach ("listen_addresses = '127.0.0.1'", 'autovacuum = off');
my $port = $node->port;
append_to_file($services, "[of-a-file]\nhost=service.slow.invalid\n"
	. "port=$port\n[good]\nhost=service.fast.invalid\nport=$port\n");
{
	local $ENV{SLOW_NAMES} = $names;
	local $ENV{PGSERVICEFILE} = $services;
	local $ENV{LD_PRELOAD} = join ':', $preload, $ENV{LD_PRELOAD} // ();
	$node->start;
}
$node->safe_psql('postgres', q{
	CREATE EXTENSION shardring;
	CREATE FOREIGN DATA WRAPPER wrapper});

# Makes servers, each with these options of libpq.
sub add_server
{
	my ($name, %options) = @_;
	%options = (dbname => 'postgres', port => $port, %options);
	my $list = join ', ', map { "$_ '$options{$_}'" } sort keys %options;
	$node->safe_psql('postgres',
		"CREATE SERVER $name FOREIGN DATA WRAPPER wrapper OPTIONS ($list)");
	return;
}

# SQL that asks these servers.
sub ask
{
	my (@servers) = @_;
	my $list = join ',', @servers;
	return 'SELECT a.server, coalesce(a.error, a.answer[1])'
	  . " FROM shardring_internal.ask_servers('{$list}',"
	  . q{ 'SELECT ''fine''', '{}') AS a};
}

sub forget_names
{
	unlink $names;
	return;
}

# How many lines of the file say this of a name that looks like that.
sub count_names
{
	my ($word, $name) = @_;
	return 0 if !-e $names;
	return scalar grep { /^$word .*$name/ } split "\n", slurp_file($names);
}

# Waits until all that began has ended.
sub wait_for_names
{
	foreach (1 .. 600)
	{
		return if count_names('begins', '') == count_names('ends', '');
		usleep(50_000);
	}
	die 'names are still being resolved';
}

sub count_entries
{
	my ($pid, $what) = @_;
	my @entries = glob "/proc/$pid/$what/*";
	return scalar @entries;
}

# A thread says that it has ended a little before it has.
sub wait_for_threads
{
	my ($of) = @_;
	foreach (1 .. 100)
	{
		return 1 if count_entries($of, 'task') == 1;
		usleep(20_000);
	}
	return 0;
}

# ---------- names that are found ----------

my $session = open_session($node);
my $pid = step($session, 'SELECT pg_backend_pid()');
my $dir = $node->host;

add_server('fast', host => 'a.fast.invalid');
add_server('late', host => 'a.late.invalid');
is(step($session, ask('fast', 'late')), "fast|fine\nlate|fine",
	'a name that is resolved fast, one that takes its time; the first address'
	  . ' of both does not answer');
ok(wait_for_threads($pid), 'no thread is left');
my $descriptors = count_entries($pid, 'fd');

add_server('refused', host => 'b.fast.invalid', port => 1);
like(step($session, ask('refused')),
	qr/^refused\|host "b\.fast\.invalid": .* at "127\.0\.0\.2", port 1 failed.* at "127\.0\.0\.1", port 1 failed/,
	'the error has the name, and all addresses');

# ---------- names that are not ----------

add_server('number_of_it', host => '127.0.0.1');
add_server('unknown', host => 'nobody.invalid');
add_server('broken', host => 'a.broken.invalid');
is( step($session, ask('unknown', 'broken', 'fast')),
	'unknown|could not translate host name "nobody.invalid" to address: '
	  . "Name or service not known\n"
	  . 'broken|could not translate host name "a.broken.invalid" to address: '
	  . "Too many open files\nfast|fine",
	'an unknown name and an error of the system are in their rows');

append_to_file("$names.alone", '');
is( step($session, ask('fast', 'number_of_it')),
	'fast|could not start a thread: Resource temporarily unavailable'
	  . "\nnumber_of_it|fine",
	'no thread can be started');
unlink "$names.alone";

# ---------- lists, and what is no name ----------

foreach my $case (
	[ 'list', "nobody.invalid,c.fast.invalid,$dir", "1,$port,1" ],
	[ 'socket_last', "nobody.invalid,$dir", "1,$port" ],
	[ 'one_port', "nobody.invalid,127.0.0.2,c.fast.invalid", $port ],
	[ 'number', '127.0.0.1', $port ],
	[ 'socket', $dir, $port ])
{
	my ($name, $host, $ports) = @$case;
	add_server($name, host => $host, port => $ports);
	is(step($session, ask($name)), "$name|fine", "hosts: $name");
}
add_server('empty_item', host => 'nobody.invalid,d.fast.invalid,', port => 1);
like(step($session, ask('empty_item')),
	qr/^empty_item\|could not translate host name "nobody\.invalid" to address: Name or service not known; host "nobody\.invalid,d\.fast\.invalid,": .* at "127\.0\.0\.1", port 1 failed.* on socket ".*\.1" failed/,
	'hosts: one unknown, one down, one by default');
add_server('all_unknown', host => 'nobody.invalid,none.invalid');
like(step($session, ask('all_unknown')),
	qr/^all_unknown\|could not translate host name "nobody\.invalid"/,
	'hosts: none is known');
add_server('uneven', host => 'd.slow.invalid,e.slow.invalid', port => '1,2,3');
like(step($session, ask('uneven')),
	qr/^uneven\|could not match 3 port numbers to 2 hosts/,
	'hosts: libpq says what is wrong with lists');
add_server('by_default');
is(step($session, ask('by_default')), 'by_default|fine',
	'hosts: that of the environment');

forget_names();
add_server('hostaddr', host => 'f.slow.invalid', hostaddr => '127.0.0.1');
is(step($session, ask('hostaddr')), 'hostaddr|fine', 'hostaddr is taken');
is(count_names('begins', ''), 0, 'and its name is not resolved');

add_server('service', service => 'good');
is(step($session, ask('service')), 'service|fine', 'the host of a service');
add_server('no_service', service => 'nowhere');
like(step($session, ask('no_service')),
	qr/^no_service\|definition of service "nowhere" not found/,
	'a service that is not there');

# ---------- four slow names: a deadline ----------

add_server("slow$_", host => "s$_.slow.invalid") foreach (1 .. 4);
add_server('slow_service', service => 'of-a-file');
my @slow = map { "slow$_" } (1 .. 4);
my $too_late = sub {
	my ($server, $name) = @_;
	return qq{$server|could not translate host name "$name.slow.invalid" to }
	  . 'address within 300 ms';
};

forget_names();
step($session, 'SET shardring.remote_timeout = 300');
is( step($session, ask(@slow)),
	join("\n", map { $too_late->("slow$_", "s$_") } (1 .. 4)),
	'four slow names: each has its deadline');
is(count_names('begins', 'slow'), 4, 'all four had begun');
is(count_names('ends', 'slow'), 0, 'and none was waited for');
is( step($session, ask('slow1', 'slow_service')),
	$too_late->('slow1', 's1') . "\n"
	  . $too_late->('slow_service', 'service'),
	'again, and one of a service');
is(count_names('begins', 's1'), 1,
	'a name that is being resolved is not begun a second time');
is(count_names('ends', ''), 0, 'and none was waited for');
is(count_entries($pid, 'fd'), $descriptors, 'no descriptor is left');
wait_for_names();
ok(wait_for_threads($pid), 'no thread is left when they have ended');

# ---------- some hosts of a list are slow ----------

foreach my $case (
	[ 'then_slow', "$dir,h1.slow.invalid" ],
	[ 'slow_first', "h2.slow.invalid,none.invalid,h.fast.invalid" ])
{
	my ($name, $host) = @$case;
	forget_names();
	add_server($name, host => $host);
	step($session, 'SET shardring.remote_timeout = 2000');
	is(step($session, ask($name)), "$name|fine",
		"hosts: $name: the one that is known is asked");
	is(count_names('ends', 'slow'), 0, 'and the other was not waited for');
	wait_for_names();
}
add_server('then_late', host => "$dir,i.late.invalid", port => "1,$port");
step($session, 'SET shardring.remote_timeout = 800');
is(step($session, ask('then_late')), 'then_late|fine',
	'hosts: one that is down, then one that is known late');
add_server('none_left', host => "$dir,j.late.invalid,nobody.invalid",
	port => '1,1,1');
like(step($session, ask('none_left')),
	qr/^none_left\|could not translate host name "nobody\.invalid"[^;]*; host "[^"]*": .* on socket "[^"]*\.1" failed.* at "127\.0\.0\.1", port 1 failed/,
	'hosts: all are down: what each said');
add_server('unknown_late', host => "$dir,k.later.invalid", port => '1,1');
like(step($session, ask('unknown_late')),
	qr/^unknown_late\|could not translate host name "k\.later\.invalid"[^;]*: Name or service not known; host "[^"]*": .* on socket "[^"]*\.1" failed/,
	'hosts: one is down, one turns out to be unknown');
add_server('down_slow', host => "$dir,l.slow.invalid", port => '1,1');
like(step($session, ask('down_slow')),
	qr/^down_slow\|host "[^"]*": .* on socket "[^"]*\.1" failed.*could not translate host name "l\.slow\.invalid" to address within 800 ms$/,
	'hosts: one is down, one slow');
is(count_entries($pid, 'fd'), $descriptors, 'no descriptor is left');
wait_for_names();

# ---------- equal names, many names ----------

forget_names();
add_server("same$_", host => 'same.late.invalid') foreach (1 .. 20);
step($session, "SET shardring.remote_timeout = '2 min'");
is( step($session, ask(map { "same$_" } (1 .. 20))),
	join("\n", map { "same$_|fine" } (1 .. 20)),
	'twenty servers of one name');
is(count_names('begins', 'same'), 1, 'it is resolved once');

my ($most) = slurp_file('extension/src/resolve.c') =~
  /^#define MOST_THREADS\s+(\d+)/m
  or die 'MOST_THREADS not found';
forget_names();
$node->safe_psql('postgres', qq{
	SELECT format('CREATE SERVER w%s FOREIGN DATA WRAPPER wrapper OPTIONS '
				  '(host %L, port %L, dbname %L)', i, 'w' || i
				  || '.slow.invalid', '1', 'x')
	FROM generate_series(1, 200) AS i \\gexec});
step($session, 'SET shardring.remote_timeout = 1000');
is( step($session, 'SELECT count(*), count(error) FROM ('
		  . ask(map { "w$_" } (1 .. 200)) . ') AS a (server, error)'),
	'200|200', 'two hundred slow names');
is(count_names('ends', ''), 0, 'none was waited for');
cmp_ok(count_entries($pid, 'task'), '<=', $most + 1, "at most $most threads");
is(count_names('begins', ''), $most, 'and as many names were begun');
wait_for_names();
ok(wait_for_threads($pid), 'no thread is left');
is(step($session, ask('fast')), 'fast|fine', 'and then a name is resolved');

# ---------- cancels, and the end of a session ----------

step($session, "SET shardring.remote_timeout = '2 min'");
forget_names();
step($session, 'SET statement_timeout = 300');
is(step_error($session, ask(@slow)), '57014', 'statement_timeout ends it');
step($session, 'RESET statement_timeout');
is(count_names('ends', ''), 0, 'it waited for no name');
is(count_entries($pid, 'fd'), $descriptors, 'no descriptor is left');
wait_for_names();

foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
	forget_names();
	my $waiting = open_session($node);
	my $its_pid = step($waiting, 'SELECT pg_backend_pid()');
	step($waiting, "SET shardring.remote_timeout = '2 min'");
	$waiting->{stdin} .= ask(@slow) . ";\n";
	$waiting->{run}->pump_nb;
	foreach (1 .. 600)
	{
		last if count_names('begins', '') == 4;
		usleep(10_000);
	}
	$node->safe_psql('postgres', "SELECT $how($its_pid)");
	if ($how eq 'pg_cancel_backend')
	{
		$waiting->query('SELECT 1');
		like($waiting->{stderr}, qr/due to user request/, "$how: it ends");
		$waiting->quit;
	}
	ok( $node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM'
			  . " pg_stat_activity WHERE pid = $its_pid"),
		"$how: the session ends");
	is(count_names('ends', ''), 0, "$how: beside its threads");
	eval { $waiting->quit } if $how eq 'pg_terminate_backend';
}
is(step($session, 'SELECT 1'), '1', 'no other session was harmed');
unlike(slurp_file($node->logfile), qr/terminated by signal|exited with exit code [^01]/,
	'and none ended by a signal');

$session->quit;
$node->stop;
done_testing();
