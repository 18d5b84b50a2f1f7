# taken_over.pl
#	With the extension built --with-llvm, the server takes our functions over
#	into the expressions that it compiles, and they give the same answers.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('jit', 'jit_above_cost = 0',
	'jit_inline_above_cost = 0', 'jit_optimize_above_cost = 0');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
is($node->safe_psql('postgres', 'SET jit = on; SELECT pg_jit_available()'),
	't', 'the server can compile expressions');
add_ring($node, 'postgres', 'r', 8);

# Functions that call into other files of ours, whose symbols are not exported.
my $query = <<'END';
SELECT shardring.shard_for('r', i), shardring.shard_for('r', 'k' || i),
	shardring.shard_at('r', i), shardring.key_position('k' || i),
	shardring.locate('r', i, 1), shardring.active_version('r'),
	shardring.require_version('r', 1), shardring.moves('r', 1, 1, i),
	shardring.bytes_position(int8send(i))
FROM generate_series(1, 1000::bigint) AS i
END
my $expected = $node->safe_psql('postgres', "SET jit = off; $query");
ok( $node->safe_psql('postgres',
		"SET jit = on; SET jit_dump_bitcode = on; $query") eq $expected,
	'compiled, they give the same answers');

# The server wrote down what it compiled.  A function of ours that no query
# calls, only some other one of ours, has its name there when that other one
# was taken over.
my @modules = glob $node->data_dir . '/*[0-9].bc';
cmp_ok(scalar(@modules), '>', 0, 'expressions were compiled');
my $names = join '', map { slurp_file($_) } @modules;
ok($names =~ /memo_get/, 'and functions of ours were taken over');

$node->stop;
done_testing();
