# picture.pl
#	ring_svg is drawn by a renderer: the pixels have the colours of the groups,
#	in the places and in the parts that arcs() and shares() name.  The colours
#	can be told apart, also by people who see two of three.

use strict;
use warnings;

use Compress::Zlib;
use FindBin;
use lib $FindBin::RealBin;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shardring;
use Test::More;

my $node = start_server('picture');
$node->safe_psql('postgres', 'CREATE EXTENSION shardring');

# Makes a ring, with one group more in version 2.
sub make_ring
{
	my ($ring, $groups, $vnodes) = @_;
	my $add = sub {
		return "SELECT count(shardring.add_group('$ring', 'node-' || n,"
		  . " ARRAY['s' || n])) FROM generate_series($_[0], $_[1]) n;";
	};
	$node->safe_psql('postgres',
		    "SET client_min_messages = error;"
		  . "SELECT shardring.create_ring('$ring', $vnodes);"
		  . $add->(0, $groups - 1)
		  . "SELECT shardring.activate('$ring'),"
		  . " shardring.draft_version('$ring');"
		  . $add->($groups, $groups));
	return;
}

sub rows
{
	my ($sql) = @_;
	return map { [ split /\|/ ] } split /\n/,
	  $node->safe_psql('postgres', $sql);
}

# Renders a picture; returns its SVG, width, height and a function for the
# colour of a pixel.
sub render
{
	my ($name, $call, $scale) = @_;
	my $base = PostgreSQL::Test::Utils::tempdir() . "/$name";
	my $svg = $node->safe_psql('postgres', "SELECT shardring.$call");
	append_to_file("$base.svg", $svg);
	command_ok(
		[ 'rsvg-convert', '--width=' . 600 * ($scale // 1),
			"--output=$base.png", "$base.svg" ],
		"$name: is drawn");
	return ($svg, decode(slurp_file("$base.png"), $scale // 1));
}

# Width, height and a function for the pixels of a PNG of 8-bit RGB or RGBA; it
# takes coordinates of the SVG.
sub decode
{
	my ($png, $scale) = @_;
	is(substr($png, 0, 8), "\x89PNG\r\n\x1a\n", 'a PNG');
	my ($at, $data, $width, $height, $depth, $type) = (8, '');
	while ($at < length $png)
	{
		my ($length, $kind) = unpack 'N a4', substr($png, $at, 8);
		my $chunk = substr($png, $at + 8, $length);
		($width, $height, $depth, $type) = unpack 'N N C C', $chunk
		  if $kind eq 'IHDR';
		$data .= $chunk if $kind eq 'IDAT';
		$at += $length + 12;
	}
	die "not 8-bit RGB" if $depth != 8 || ($type != 2 && $type != 6);
	my $pixel = $type == 6 ? 4 : 3;
	my $raw = uncompress($data);
	my $stride = $width * $pixel;
	my @before = (0) x $stride;
	my @image;
	foreach my $y (0 .. $height - 1)
	{
		my ($filter, @line) =
		  unpack 'C*', substr($raw, $y * ($stride + 1), $stride + 1);
		foreach my $i (0 .. $stride - 1)
		{
			my $left = $i < $pixel ? 0 : $line[ $i - $pixel ];
			my $corner = $i < $pixel ? 0 : $before[ $i - $pixel ];
			$line[$i] = ($line[$i]
				  + predict($filter, $left, $before[$i], $corner)) & 255;
		}
		@before = @line;
		push @image, [ map { sprintf '%02x%02x%02x',
			@line[ $_ * $pixel .. $_ * $pixel + 2 ] } 0 .. $width - 1 ];
	}
	return ($width, $height,
		sub { return $image[ int($_[1] * $scale) ][ int($_[0] * $scale) ] });
}

# The five filters of PNG.
sub predict
{
	my ($filter, $left, $up, $corner) = @_;
	return 0 if $filter == 0;
	return $left if $filter == 1;
	return $up if $filter == 2;
	return int(($left + $up) / 2) if $filter == 3;
	my $guess = $left + $up - $corner;
	my ($a, $b, $c) =
	  (abs($guess - $left), abs($guess - $up), abs($guess - $corner));
	return $a <= $b && $a <= $c ? $left : $b <= $c ? $up : $corner;
}

# Colours by the names of groups, from the titles of a band.
sub colours
{
	my ($svg, $band) = @_;
	my ($paths) = $svg =~ m{<g class="$band".*?>(.*?)</g>}s;
	return { reverse $paths =~
		  m{stroke="#(\w+)" d="[^"]*"><title>(?:to )?(.*?): [\d.]+ %<}g };
}

# The pixel at a fraction of the circle, in the middle of a band.
sub pixel_at
{
	my ($svg, $pixel, $band, $fraction) = @_;
	my ($x, $y, $r) = $svg =~
	  m{cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"[^>]*>\n<g class="$band"};
	my $angle = 2 * 3.14159265358979 * $fraction;
	return $pixel->($x + $r * sin($angle), $y - $r * cos($angle));
}

# ---------- wide arcs are where they belong ----------

make_ring('few', 4, 3);
my ($svg, $width, $height, $pixel) = render('few', "ring_svg('few', 1, 2)");
is($width, 600, 'few: width');
cmp_ok($height, '>', 300, 'few: height');
my $owners = colours($svg, 'owners');
is(keys %$owners, 5, 'few: five colours');
my $circle = 4294967296;
my ($wide, @wrong) = (0);
foreach my $arc (rows('SELECT lower(positions), upper(positions), group_name'
		  . " FROM shardring.arcs('few', 2)"))
{
	my ($lo, $hi, $group) = @$arc;
	next if $hi - $lo < $circle / 100;
	$wide++;
	my $seen = pixel_at($svg, $pixel, 'owners', ($lo + $hi) / 2 / $circle);
	push @wrong, "$group at $lo is $seen" if $seen ne $owners->{$group};
}
cmp_ok($wide, '>', 8, 'few: there are wide arcs');
is_deeply(\@wrong, [], 'few: they have their colours');

my $to = colours($svg, 'moves');
my ($moving, @astray) = (0);
foreach my $range (rows('SELECT lower(r), upper(r), to_group'
		  . " FROM shardring.moved_ranges('few', 1, 2), unnest(positions) r"))
{
	my ($lo, $hi, $group) = @$range;
	next if $hi - $lo < $circle / 100;
	$moving++;
	my $seen = pixel_at($svg, $pixel, 'moves', ($lo + $hi) / 2 / $circle);
	push @astray, "$group at $lo is $seen" if $seen ne $to->{$group};
}
cmp_ok($moving, '>', 1, 'few: something wide moves');
is_deeply(\@astray, [], 'few: it has the colour of where it goes');
is($to->{'node-4'}, $owners->{'node-4'}, 'few: which is the same');

# ---------- many arcs have the shares of their groups ----------

make_ring('many', 8, 160);
($svg, $width, $height, $pixel) = render('many', "ring_svg('many', 2)", 2);
$owners = colours($svg, 'owners');
is(keys %$owners, 9, 'many: nine colours');
my (%count, %nearest, $all);
foreach my $step (0 .. 19_999)
{
	my $seen = pixel_at($svg, $pixel, 'owners', $step / 20_000);
	my $nearest = $nearest{$seen} //= nearest($seen, values %$owners);
	$count{$nearest}++ if distance(lab($seen), lab($nearest)) < 0.05;
}
$all += $_ foreach values %count;
foreach my $share (rows(
		'SELECT group_name, share FROM shardring.shares($$many$$, 2)'))
{
	my ($group, $part) = @$share;
	cmp_ok(abs($count{ $owners->{$group} } / $all - $part),
		'<', 0.03, "many: about the share of $group in pixels");
}

# ---------- colours can be told apart ----------

# Linear RGB as people see it who lack the cones for red, green or blue
# (Machado, Oliveira and Fernandes 2009, severity 1).
my %sight = (
	normal => [ 1, 0, 0, 0, 1, 0, 0, 0, 1 ],
	protanopia => [
		0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216,
		-0.003882, -0.048116, 1.051998
	],
	deuteranopia => [
		0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413,
		-0.011820, 0.042940, 0.968881
	],
	tritanopia => [
		1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602,
		0.004733, 0.691367, 0.303900
	]);

# A colour in OKLab, where distances are as large as they look.
sub lab
{
	my ($colour, $matrix) = @_;
	my @rgb = map {
		my $c = hex($_) / 255;
		$c <= 0.04045 ? $c / 12.92 : (($c + 0.055) / 1.055)**2.4
	} $colour =~ /../g;
	@rgb = map { max(0, min(1, $_)) } product($matrix, @rgb) if $matrix;
	my @lms = map { $_**(1 / 3) } product(
		[ 0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982,
			0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376,
			0.6299787005 ], @rgb);
	return [ product(
			[ 0.2104542553, 0.7936177850, -0.0040720468, 1.9779984951,
				-2.4285922050, 0.4505937099, 0.0259040371, 0.7827717662,
				-0.8086757660 ], @lms) ];
}

sub product
{
	my ($m, @v) = @_;
	return map {
		my $row = $_;
		$m->[$row] * $v[0] + $m->[ $row + 1 ] * $v[1]
		  + $m->[ $row + 2 ] * $v[2]
	} (0, 3, 6);
}

sub distance
{
	my ($x, $y) = @_;
	return sqrt(($x->[0] - $y->[0])**2 + ($x->[1] - $y->[1])**2
		  + ($x->[2] - $y->[2])**2);
}

sub nearest
{
	my ($colour, @all) = @_;
	my $lab = lab($colour);
	my ($best) = sort {
		distance($lab, lab($a)) <=> distance($lab, lab($b))
	} @all;
	return $best;
}

foreach my $kind (sort keys %sight)
{
	my @colours = sort values %$owners;
	my $least = 1;
	foreach my $i (1 .. $#colours)
	{
		$least = min($least, distance(lab($colours[$i], $sight{$kind}),
				lab($colours[$_], $sight{$kind}))) foreach (0 .. $i - 1);
	}
	cmp_ok($least, '>', 0.1, "nine colours differ in $kind");
}

# ---------- one group, a hundred, and what the README shows ----------

make_ring('one', 1, 160);
($svg, $width, $height, $pixel) = render('one', "ring_svg('one', 1)");
my %seen = map { pixel_at($svg, $pixel, 'owners', $_ / 360) => 1 } 0 .. 359;
is_deeply([ keys %seen ], [ values %{ colours($svg, 'owners') } ],
	'one: the circle has one colour');
make_ring('hundred', 100, 20);
($svg, $width, $height, $pixel) = render('hundred', "ring_svg('hundred', 1)");
is(keys %{ colours($svg, 'owners') }, 100, 'hundred: a colour for each');
my %legend = map { $_ => 1 } $svg =~ /<rect x="[\d.]+" [^>]* fill="#(\w+)"/g;
is_deeply([ sort keys %legend ],
	[ sort values %{ colours($svg, 'owners') } ],
	'hundred: and each in the legend');

my $shown = slurp_file('extension/doc/ring.svg');
make_ring('orders', 8, 160);
ok( $shown eq $node->safe_psql(
		'postgres', "SELECT shardring.ring_svg('orders', 1, 2)"),
	'the picture in the README is what ring_svg draws');

$node->stop;
done_testing();
