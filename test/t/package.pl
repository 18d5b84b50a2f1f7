# package.pl
#	META.json is what PGXN asks for, and META.json, the control file and the
#	install script agree on the version.

use strict;
use warnings;
use JSON::PP;
use Test::More;

sub slurp
{
	my ($path) = @_;
	open my $handle, '<:raw', $path or die "$path: $!\n";
	local $/;
	return <$handle>;
}

my $meta = eval { JSON::PP->new->utf8->decode(slurp('META.json')) };
is($@, '', 'META.json is JSON');

# PGXN Meta Spec 1.0.0, section "Required Fields".
foreach
  my $key (qw(abstract license maintainer meta-spec name provides version))
{
	ok($meta->{$key}, "META.json has \"$key\"");
}
is($meta->{'meta-spec'}{version}, '1.0.0', 'version of the meta spec');
is($meta->{name}, 'shardring', 'name of the distribution');
is($meta->{license}, 'postgresql', 'license');
like($meta->{release_status}, qr/^(stable|testing|unstable)$/,
	'release status');

# A semantic version, as the spec wants it: three numbers, no leading zero.
my $semver = qr/^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)$/;
my ($name, @more) = keys %{ $meta->{provides} };
my $provided = $meta->{provides}{shardring};
is($name, 'shardring', 'the distribution provides shardring');
is(@more, 0, 'and nothing else');
like($meta->{version}, $semver, 'version of the distribution');
is($provided->{version}, $meta->{version}, 'version of the extension');
ok(-s $provided->{file}, 'its file is there');
ok(-s $provided->{docfile}, 'its documentation is there');
like($meta->{prereqs}{runtime}{requires}{PostgreSQL},
	$semver, 'the PostgreSQL it needs');
is_deeply([ grep { !m{^https://} } map { ref $_ ? $_->{web} : $_ }
		values %{ $meta->{resources} } ],
	[], 'its resources are links');

my %control =
  slurp('extension/shardring.control') =~ /^(\w+)\s*=\s*'?([^'\n]*)'?$/mg;
is("$control{default_version}.0",
	$meta->{version}, 'version in the control file');
is($provided->{file},
	"extension/shardring--$control{default_version}.sql",
	'version in the name of the install script');
is($control{module_pathname}, 'shardring', 'path of the library');
is($control{schema}, 'pg_catalog', 'schema');
is($control{relocatable}, 'false', 'relocatable');
is($control{superuser}, 'true', 'superuser');

done_testing();
