# readme.pl
#	What the documents say is what the extension does.
#
# Rules of this file:
#	- Every ```sql block of the README, of hashing.md and of the guides is run, in
#	  order, in one session a document.  A comment at the end of a statement is its
#	  result, in psql's unaligned format; a ```text block right after a ```sql block
#	  is what psql prints for its last statement.
#	- Every public function has an entry in reference.md with the signatures the
#	  catalog knows, and no entry is left of a function that is gone.
#	- Links lead to files that exist.

use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $doc = 'extension/doc';
my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init(
	allows_streaming => 'logical',
	extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->start;

check_example();
check_sql('README.md');
check_sql("$doc/$_.md")
  foreach ('hashing', 'expanding', 'choosing', 'limits-of-a-ring');
check_reference("$doc/reference.md");
check_tables("$doc/reference.md");
check_settings("$doc/reference.md");
check_links($_) foreach ('README.md', glob "$doc/*.md");

$node->stop;
done_testing();

# ---------- SQL ----------

# The first thing a reader sees is an example.
sub check_example
{
	my @lines = (split /\n/, slurp_file('README.md'))[ 0 .. 29 ];
	my @fences = grep { /^```/ } @lines;
	is_deeply([ @fences[ 0, 1 ] ],
		[ '```sql', '```' ], 'the first 30 lines hold an example');
}

sub check_sql
{
	my ($file) = @_;
	my @statements = map { statements(@$_) } blocks(slurp_file($file));
	my @answers = run($file, @statements);
	cmp_ok(scalar @statements, '>', 3, "$file has SQL");
	foreach my $i (0 .. $#statements)
	{
		my ($sql, $expected) = @{ $statements[$i] }{qw(sql expected)};
		is($answers[$i], $expected, "$file: " . join ' ', split ' ', $sql)
		  if defined $expected;
	}
}

# [SQL, table or undef] of each ```sql block.
sub blocks
{
	my ($text) = @_;
	my @blocks;
	while ($text =~ /^```sql\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?/gms)
	{
		push @blocks, [ $1, $2 ];
	}
	return @blocks;
}

# The statements of a block, each with what it must return, if that is told.
sub statements
{
	my ($text, $table) = @_;
	my (@statements, $sql);
	foreach my $line (split /\n/, $text)
	{
		$sql .= "$line\n" if defined $sql || $line =~ /^\s*(?!--)\S/;
		next if $line !~ /(?:;|\\gset)\s*(?:-- (.*))?$/ || !defined $sql;
		push @statements, { sql => $sql, expected => $1 };
		undef $sql;
	}
	die "no end of statement: $sql" if defined $sql;
	@{ $statements[-1] }{qw(expected table)} = (trim_lines($table), 1)
	  if defined $table;
	return @statements;
}

# Runs all statements in one session; returns what each of them printed.
sub run
{
	my ($file, @statements) = @_;
	my $script = '';
	foreach my $i (0 .. $#statements)
	{
		my $format = $statements[$i]{table} ? 'aligned' : 'unaligned';
		my $plain = $statements[$i]{table} ? 'off' : 'on';
		$script .= "\\echo =$i=\n\\pset format $format\n"
		  . "\\pset tuples_only $plain\n$statements[$i]{sql}";
	}
	my $database = basename($file, '.md');
	$node->safe_psql('postgres', qq(CREATE DATABASE "$database"));
	my ($stdout, $stderr) = ('', '');
	$node->psql(
		$database, "\\pset footer off\n$script",
		on_error_stop => 1,
		extra_params => ['-q'],
		stdout => \$stdout,
		stderr => \$stderr);
	is($stderr, '', "$file: no error and no warning");
	my @parts = split /^=\d+=\n?/m, "$stdout\n";
	shift @parts;
	return map { trim_lines($_) } @parts;
}

sub trim_lines
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/\n+\z//;
	return $text;
}

# ---------- reference ----------

sub check_reference
{
	my ($file) = @_;
	my %written = entries(slurp_file($file));
	my %real = catalog();
	foreach my $name (sort keys %real)
	{
		is($written{$name}, $real{$name}, "reference: $name");
	}
	is_deeply([ grep { !$real{$_} } sort keys %written ],
		[], 'reference: nothing that is not there');
}

# The signatures in the first block below each heading that is a name: one line
# each, alternatives of a type spread out, sorted; and the line of labels.
sub entries
{
	my ($text) = @_;
	my %entries;
	while ($text =~ /^### (\w+)\n\n```text\n(.*?)^```\n/gms)
	{
		my ($name, $block) = ($1, $2);
		$block =~ s/\n\s+(?=\S)/ /g;
		$block =~ s/\(\s+/(/g;
		my @lines = split /\n/, $block;
		my $labels = pop @lines;
		$entries{$name} =
		  join "\n", sort(map { spread($_) } @lines), $labels;
	}
	return %entries;
}

# "key text|bigint" stands for two functions.
sub spread
{
	my ($line) = @_;
	return $line if $line !~ /^(.*? )([\w\[\]]+(?:\|[\w\[\]]+)+)(.*)$/;
	my ($before, $types, $after) = ($1, $2, $3);
	return map { "$before$_$after" } split /\|/, $types;
}

sub catalog
{
	my %real;
	my $rows = $node->safe_psql('README', <<'END');
SELECT p.proname, format('%s(%s)%s', p.proname,
    regexp_replace(replace(pg_get_function_arguments(p.oid), ' DEFAULT ', ' = '),
                   '::[a-z ]+(\[\])?|\mIN ', '', 'g'),
    ' → ' || replace(pg_get_function_result(p.oid), 'shardring.', '')),
  CASE p.prokind WHEN 'p' THEN 'procedure' ELSE
  CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable'
    ELSE 'volatile' END
  || CASE WHEN p.proisstrict THEN ', strict' ELSE '' END
  || CASE p.proparallel WHEN 's' THEN ', parallel safe'
    WHEN 'r' THEN ', parallel restricted' ELSE '' END END
FROM pg_proc AS p
WHERE p.pronamespace = 'shardring'::regnamespace
ORDER BY 2
END
	my (%signatures, %labels);
	foreach my $row (split /\n/, $rows)
	{
		my ($name, $signature, $labels) = split /[|]/, $row;
		push @{ $signatures{$name} }, $signature;
		$labels{$name}{$labels} = 1;
	}
	foreach my $name (keys %signatures)
	{
		$real{$name} = join "\n", sort(@{ $signatures{$name} }),
		  join '; ', sort keys %{ $labels{$name} };
	}
	return %real;
}

# Every table and view, with all columns and their comments, as rows.
sub check_tables
{
	my ($file) = @_;
	my %written = slurp_file($file) =~ /^### Table (\w+)\n(.*?)(?=^##)/gms;
	my $rows = $node->safe_psql('README', <<'END');
SELECT c.relname, format('| %s | %s | %s |', a.attname,
  format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum))
FROM pg_class AS c
  JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = 'shardring'::regnamespace AND c.relkind IN ('r', 'v')
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum
END
	my %real;
	foreach my $row (split /\n/, $rows)
	{
		my ($table, $column) = split /[|]/, $row, 2;
		$real{$table} .= "$column\n";
	}
	foreach my $table (sort keys %real)
	{
		my ($columns) = ($written{$table} // '') =~ /^\|---.*?\n(.*)^$/ms;
		is($columns, $real{$table}, "reference: table $table");
	}
	is_deeply([ grep { !$real{$_} } sort keys %written ],
		[], 'reference: no table that is not there');
}

# Every setting that people may see.
sub check_settings
{
	my ($file) = @_;
	my @written = slurp_file($file) =~ /^\| `(shardring\.\w+)` \|/mg;
	foreach my $setting (split /\n/, $node->safe_psql('README', <<'END'))
LOAD 'shardring';
SELECT name FROM pg_settings WHERE name LIKE 'shardring.%'
END
	{
		ok((grep { $_ eq $setting } @written), "reference: $setting");
	}
}

# ---------- links ----------

sub check_links
{
	my ($file) = @_;
	my @broken =
	  grep { !-e dirname($file) . "/$_" }
	  grep { !/^https?:/ && $_ ne '' }
	  map { s/#.*//r } slurp_file($file) =~ /\]\(([^)\s]+)\)/g;
	is_deeply(\@broken, [], "$file: links");
}
