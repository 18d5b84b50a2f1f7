# build.pl
#	The extension is built in another directory than its sources, by make and
#	by Debian's pg_buildext, with the same result as in place.
#
# Rules of this file:
#	- sources are a copy in which nothing was built;
#	- builds are not optimized, which is faster, and Debian's headers warn of
#	  that; symbols and names of files do not depend on it.

use strict;
use warnings;

use File::Find;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

$ENV{COPT} = '-O0 -Wno-cpp';
my @make = ('make', '--no-print-directory', "PG_CONFIG=$ENV{PG_CONFIG}");
my $source = copy_sources();
my $place = copy_sources();
my $root = tempdir();

# ---------- the same result ----------

my $doc_dir;
install('in place', $place, "$root/place");
foreach my $how ([ 'VPATH', "VPATH=$source" ], ['by the name of the Makefile'])
{
	my ($name, @vpath) = @$how;
	my $build = tempdir();
	install($name, $build, "$root/$name", '-f', "$source/Makefile", @vpath);
	is_deeply(symbols("$build/shardring.so"),
		symbols("$place/shardring.so"), "$name: the same symbols");
	is_deeply(files("$root/$name"), files("$root/place"),
		"$name: the same files");
	is_deeply(files($source), files(copy_sources()),
		"$name: nothing is written beside the sources");
}
cmp_ok(scalar @{ symbols("$place/shardring.so") },
	'>', 50, 'the library has symbols');
is_deeply(symbols("$place/shardring.so"),
	symbols('shardring.so'), 'and they are those of the library under test');

# ---------- what is installed ----------

my @installed = @{ files("$root/place") };
foreach my $pattern (
	'/shardring\.so', '/extension/shardring\.control',
	'/extension/shardring--[\d.]+\.sql', '/extension/shardring--old--new\.sql',
	'/extension/shardring/README\.md',
	'/extension/shardring/reference\.md',
	'/extension/shardring/examples/client\.py')
{
	is(scalar(grep { m{$pattern$} } @installed), 1, "installed: $pattern");
}
is_deeply([ grep { m{/examples/} && !-x "$root/place$_" } @installed ],
	[], 'the installed examples can be run');
is_deeply([ map { lost_links($_) } grep { /\.md$/ } @installed ],
	[], 'links in the installed documentation lead to what is installed');

# ---------- with pg_buildext ----------

my ($major) = `$ENV{PG_CONFIG} --version` =~ /(\d+)/;
my $package = copy_sources();
run_in($package, 'pg_buildext', "build-$major", 'build-%v');
is_deeply(symbols("$package/build-$major/shardring.so"),
	symbols("$place/shardring.so"), 'pg_buildext build: the same symbols');
run_in($package, 'pg_buildext', "install-$major", 'build-%v', 'package');
is_deeply(files("$package/debian/package"),
	files("$root/place"), 'pg_buildext install: the same files');

# ---------- what is refused ----------

refused('a tree without sources', tempdir(), qr/no source files/,
	'-f', "$source/Makefile", 'VPATH=' . tempdir());
refused('sources that were built in', tempdir(), qr/was built in/,
	'-f', "$place/Makefile", "VPATH=$place");

# ---------- found where the server looks ----------

my ($library) = grep { /shardring\.so$/ } @installed;
my ($folder) = "$root/place$library" =~ m{(.*)/};
my $node = start_server('build', "dynamic_library_path = '$folder:\$libdir'");
is( $node->safe_psql(
		'postgres',
		"CREATE EXTENSION shardring; SELECT shardring.key_position('k') > 0;"
		  . 'SELECT DISTINCT substring(pg_read_file('
		  . "'/proc/self/maps') FROM '[^ ]*/shardring\\.so')"),
	"t\n$folder/shardring.so",
	'the library is found in dynamic_library_path');
$node->stop;

# ---------- and gone again ----------

run_in($place, @make, 'uninstall', "DESTDIR=$root/place");
is_deeply(files("$root/place"), [], 'uninstall leaves no file');

done_testing();

# A copy of the tree as git has it, as far as a build reads it, and with a
# script that is not built.
sub copy_sources
{
	my $copy = tempdir();
	run_in('.', 'tar', '--exclude=*.o', '--exclude=*.gc*',
		'--exclude=extension/shardring--*.sql',
		'-cf', "$copy.tar", 'Makefile', 'README.md', 'extension', 'sql');
	run_in($copy, 'tar', '-xf', "$copy.tar");
	unlink "$copy.tar";
	append_to_file("$copy/extension/shardring--old--new.sql", "-- an update\n");
	return $copy;
}

sub tempdir
{
	return PostgreSQL::Test::Utils::tempdir_short();
}

# Builds and installs, with these arguments for make.
sub install
{
	my ($name, $directory, $destination, @arguments) = @_;
	run_in($directory, @make, @arguments);
	run_in($directory, @make, @arguments, 'install', "DESTDIR=$destination");
	return;
}

# Runs a command in a directory; it must succeed.
sub run_in
{
	my ($directory, @command) = @_;
	my ($status, $output) = outcome($directory, @command);
	is($status, 0, "in $directory: @command") or diag($output);
	return;
}

# The status of a command and all its output.
sub outcome
{
	my ($directory, @command) = @_;
	my $output = '';
	my $done = IPC::Run::run([ 'env', '-C', $directory, @command ],
		'<', \undef, '>&', \$output);
	return ($done ? 0 : 1, $output);
}

sub refused
{
	my ($name, $directory, $reason, @arguments) = @_;
	my ($status, $output) = outcome($directory, @make, @arguments);
	isnt($status, 0, "$name: make fails");
	like($output, $reason, "$name: and says why");
	return;
}

# The exported symbols of a library, sorted.
sub symbols
{
	my ($library) = @_;
	my ($list) = run_command([ 'nm', '-D', '--defined-only', $library ]);
	return [ sort map { (split)[2] } split /\n/, $list ];
}

# The files below a directory, as paths below it, sorted.
sub files
{
	my ($directory) = @_;
	my @files;
	find(
		{
			no_chdir => 1,
			wanted => sub { push @files, $_ if -f }
		},
		$directory);
	return [ sort map { substr $_, length $directory } @files ];
}

# The links in an installed document to files that are not there.
sub lost_links
{
	my ($file) = @_;
	my $path = "$root/place$file";
	my ($folder) = $path =~ m{(.*)/};
	return map { "$file: $_" }
	  grep { !/^https?:/ && !-e "$folder/$_" }
	  map { s/#.*//r } slurp_file($path) =~ /\]\(([^)#][^)]*)\)/g;
}
