# no_digest.pl
#	On a server whose libcrypto does not give its digests, what needs one is an
#	error that says so, in every place; the rest works, nothing is damaged, and
#	the session goes on when they are there again.
#
#	A library that is preloaded refuses the provider while a file exists, or
#	says that there is no memory while another does.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $sign = "$dir/refuse";
append_to_file("$dir/refuse.c", <<"END");
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
void *
OSSL_PROVIDER_load(void *library, const char *name)
{
	void	   *(*load) (void *, const char *);

	if (access("$sign", F_OK) == 0)
		return 0;
	if (access("$sign-memory", F_OK) == 0)
	{
		errno = ENOMEM;
		return 0;
	}
	*(void **) &load = dlsym(RTLD_NEXT, "OSSL_PROVIDER_load");
	return load(library, name);
}
END
system_or_bail('gcc', '-Wall', '-shared', '-fPIC', '-o', "$dir/refuse.so",
	"$dir/refuse.c");

my $node = start_server('main');
$node->stop;
{
	local $ENV{LD_PRELOAD} = "$dir/refuse.so";
	$node->start;
}
$node->safe_psql('postgres', <<'END');
CREATE EXTENSION shardring;
SELECT shardring.create_ring(h, hash => h) FROM unnest('{md5,murmur3}'::text[]) AS h;
SELECT shardring.add_group(h, g, ARRAY[g])
	FROM unnest('{md5,murmur3}'::text[]) AS h, unnest('{a,b}'::text[]) AS g;
SELECT shardring.activate('md5'), shardring.activate('murmur3');
SELECT shardring.draft_version('md5'), shardring.draft_version('murmur3');
END
my $everything = q{
	SELECT md5(string_agg(x::text, '|' ORDER BY x::text))
	FROM (SELECT g::text FROM shardring.shard_group AS g UNION ALL
		  SELECT v::text FROM shardring.ring_version AS v) AS r (x)};
my $before = $node->safe_psql('postgres', $everything);

# ---------- refused ----------

my $open = open_session($node);
append_to_file($sign, 'yes');
for my $call (
	q{key_position('k')}, q{key_position(1)}, q{bytes_position('k')},
	q{shard_for('md5', 'k')}, q{locate('murmur3', 'k')},
	q{shard_for('md5', 'k', 2)}, q{points('md5', 2)},
	q{version_problems('md5', 2)}, q{version_fingerprint('murmur3', 2)},
	q{zone_fingerprint('md5', 1)}, q{replicas_for('md5', 'k', 2)},
	q{resize_groups('md5', 2, '{c}', '{1}')}, q{simulate(2, 3)},
	q{add_group('md5', 'c', '{c}')}, q{set_weight('md5', 'a', 2)},
	q{seal('md5')}, q{activate('murmur3')}, q{problems()})
{
	is(sqlstate_of(
			$node, 'postgres',
			"SET search_path = shardring, shardring_internal; SELECT $call"),
		'58000', "refused: $call");
}
is( $node->safe_psql('postgres', q{
		SELECT shardring.key_position('a', 'murmur3'),
			shardring.shard_for('murmur3', 'k', 2) IS NOT NULL}),
	'1009084850|t', 'what needs no digest works');
is($node->safe_psql('postgres', $everything), $before, 'nothing is changed');
is(step_error($open, q{SELECT shardring.shard_for('md5', 'k')}),
	'58000', 'refused in a session that stays');

unlink $sign or die "cannot remove $sign: $!";
append_to_file("$sign-memory", 'yes');
is(step_error($open, q{SELECT shardring.shard_for('md5', 'k')}),
	'53200', 'no memory');

# ---------- there again ----------

unlink "$sign-memory" or die "cannot remove $sign-memory: $!";
is(step($open, q{SELECT shardring.shard_for('md5', 'user:1')}),
	$node->safe_psql('postgres', q{SELECT shardring.shard_for('md5', 'user:1')}),
	'the same session routes');
is($node->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
	'', 'no problems');
$open->quit;
$node->stop;
done_testing();
