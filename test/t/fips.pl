# fips.pl
#	On a server whose OpenSSL is in FIPS mode md5() fails, and routing works
#	(B44).
#
#	Once the mode is emulated: every algorithm is asked for with the property
#	fips=yes, which the default provider does not have.  The random generator
#	is exempted, since no session could start without it.  Once it is the real
#	one, where OpenSSL's FIPS provider is installed.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $emulated = <<'END';
openssl_conf = main
[main]
providers = provider_section
alg_section = algorithm_section
random = random_section
[provider_section]
default = default_section
[default_section]
activate = 1
[algorithm_section]
default_properties = fips=yes
[random_section]
random = CTR-DRBG
cipher = AES-256-CTR
seed = SEED-SRC
properties = -fips
seed_properties = -fips
END

# The base provider has no algorithms, only what reads and writes keys.
my $real = <<"END";
openssl_conf = main
.include $dir/fipsmodule.cnf
[main]
providers = provider_section
alg_section = algorithm_section
[provider_section]
fips = fips_sect
base = base_section
[base_section]
activate = 1
[algorithm_section]
default_properties = fips=yes
END

# The file of the FIPS provider, or nothing.
sub fips_module
{
	my ($modules) = `openssl version -m 2>&1` =~ /^MODULESDIR: "(.*)"$/m;
	return defined $modules && -e "$modules/fips.so"
	  ? "$modules/fips.so"
	  : undef;
}

# Starts a server with this configuration of OpenSSL.  It is made without, so
# that initdb is not part of the test.
sub start_with
{
	my ($name, $config) = @_;
	my $node = start_server($name);
	$node->stop;
	append_to_file("$dir/$name.cnf", $config);
	local $ENV{OPENSSL_CONF} = "$dir/$name.cnf";
	$node->start;
	return $node;
}

# The tests of one server: 7.
sub check_server
{
	my ($what, $node) = @_;
	like(sqlstate_of($node, 'postgres', "SELECT md5('user:1')"),
		qr/^[0-9A-Z]{5}$/, "$what: the built-in md5() fails");

	$node->safe_psql('postgres', 'CREATE EXTENSION shardring');
	is($node->safe_psql('postgres', "SELECT shardring.key_position('user:1')"),
		'3182550288', "$what: ours does not");
	$node->safe_psql('postgres', <<'END');
SELECT shardring.create_ring('plain');
SELECT shardring.add_group('plain', g, ARRAY[g])
	FROM unnest('{node-a,node-b,node-c}'::text[]) AS g;
SELECT shardring.activate('plain');
END
	is( $node->safe_psql(
			'postgres', 'SELECT fingerprint FROM shardring.ring'),
		'ba8de723acae2c1f26c1806aef9c10bfe9fa0c6f0410fceb5c956127a3f9c6cb',
		"$what: points and fingerprint are the same");
	is( $node->safe_psql(
			'postgres',
			"SELECT shardring.shard_for('plain', k) FROM"
			  . " unnest('{user:1,user:42,é,日本語}'::text[]) AS k"),
		"node-a\nnode-b\nnode-a\nnode-b",
		"$what: and routes");
	is( $node->safe_psql(
			'postgres',
			"SELECT shardring.draft_version('plain');"
			  . "SELECT shardring.add_group('plain', 'node-d', '{node-d}');"
			  . "SELECT count(*) FROM shardring.moving_keys('plain', 1, 2, ARRAY("
			  . "SELECT 'user:' || i FROM generate_series(0, 9999) AS i))"),
		"2\n\n2614",
		"$what: and what moves");
	is($node->safe_psql('postgres', 'SELECT * FROM shardring.problems()'),
		'', "$what: no problems");
	# Ours may not have let the default provider in for the others.
	like( sqlstate_of(
			$node, 'postgres',
			"SELECT shardring.key_position('user:1'), md5('user:1')"),
		qr/^[0-9A-Z]{5}$/,
		"$what: md5() fails in the same backend too");
	$node->stop;
	return;
}

check_server('emulated', start_with('emulated', $emulated));

SKIP:
{
	my $module = fips_module()
	  or skip 'the FIPS provider of OpenSSL is not installed', 10;
	system_or_bail('openssl', 'fipsinstall', '-quiet', '-module', $module,
		'-out', "$dir/fipsmodule.cnf");
	my $node = start_with('real', $real);

	# That it is this provider, and no other, as the server has it.
	my $providers =
	  `OPENSSL_CONF=$dir/real.cnf openssl list -providers -verbose 2>&1`;
	like($providers, qr/^ +name: OpenSSL FIPS Provider$/m,
		'the FIPS provider is active');
	unlike($providers, qr/Default Provider/, 'the default one is not');
	my $pid = slurp_file($node->data_dir . '/postmaster.pid');
	$pid =~ s/\n.*//s;
	like(slurp_file("/proc/$pid/maps"),
		qr/\Q$module\E$/m, 'the server has loaded it');
	check_server('real', $node);
}

done_testing();
