
# drift.pl
#	Tables that differ between shards, and keys and sequences that cannot be
#	kept across them: each planted on its own, found, and mended by its hint.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Findings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

start_cluster();
my @shards = qw(a b c d e);

sub everywhere
{
	on_shard($_, @_) foreach (@shards);
	return;
}

sub guarded
{
	my ($relation, $key) = @_;
	on_map("SELECT shardring.guard_table('orders', '$relation', '$key')");
	return;
}

is_deeply([ problems() ], [], 'healthy');

# A richer table, and one that rows of it refer to.
everywhere(q{
	CREATE TYPE mood AS ENUM ('good', 'bad');
	CREATE TABLE country (code text PRIMARY KEY, name text);
	CREATE TABLE item (
		key text NOT NULL, id bigint NOT NULL, country text REFERENCES country,
		price numeric(10,2) DEFAULT 1.5 CHECK (price > 0),
		at timestamptz DEFAULT '2020-01-01 00:00+00',
		name text COLLATE "C", total numeric GENERATED ALWAYS AS (price * 2) STORED,
		mood mood, PRIMARY KEY (key, id));
	CREATE INDEX item_name ON item (lower(name)) WHERE price > 5;
	CREATE TABLE part (
		key text NOT NULL, id bigint NOT NULL, item bigint,
		PRIMARY KEY (key, id),
		CONSTRAINT part_item FOREIGN KEY (key, item) REFERENCES item (key, id))});
guarded('public.item', 'key');
guarded('public.part', 'key');
is_deeply([ problems() ], [], 'a richer table is well');

# ---------- definitions ----------

# What the hint shows is mended by hand: a definition is in no command.
sub drifts
{
	my ($what, $sql, $back, @expected) = @_;
	on_shard('d', $sql);
	my @lines = found($what, @expected);
	like((split /\|/, $_, 5)[4], qr/^diff <\(pg_dump .*port=\d.* <\(pg_dump /,
		"$what: shown by diff")
	  foreach (@lines);
	on_shard('d', $back);
	is_deeply([ problems() ], [], "$what: all is well");
	return;
}

drifts('a column more', 'ALTER TABLE item ADD more integer DEFAULT 7',
	'ALTER TABLE item DROP more',
	'error|d|public.item|column more is integer DEFAULT 7, elsewhere missing');
drifts('another type', 'ALTER TABLE item ALTER id TYPE integer',
	'ALTER TABLE item ALTER id TYPE bigint',
	'error|d|public.item|column id is integer NOT NULL, elsewhere bigint NOT NULL');
drifts('another collation', 'ALTER TABLE item ALTER name TYPE text COLLATE "POSIX"',
	'ALTER TABLE item ALTER name TYPE text COLLATE "C"',
	'error|d|public.item|column name is text COLLATE pg_catalog."POSIX", '
	  . 'elsewhere text COLLATE pg_catalog."C"');
drifts('another default', 'ALTER TABLE item ALTER price SET DEFAULT 2',
	'ALTER TABLE item ALTER price SET DEFAULT 1.5',
	'error|d|public.item|column price is numeric(10,2) DEFAULT 2, '
	  . 'elsewhere numeric(10,2) DEFAULT 1.5');
drifts('NOT NULL', 'ALTER TABLE item ALTER name SET NOT NULL',
	'ALTER TABLE item ALTER name DROP NOT NULL',
	'error|d|public.item|column name is text COLLATE pg_catalog."C" NOT NULL, '
	  . 'elsewhere text COLLATE pg_catalog."C"');
drifts('a label of an enum', q{ALTER TYPE mood ADD VALUE 'fair' AFTER 'good'},
	q{BEGIN; ALTER TABLE item ALTER mood TYPE text; DROP TYPE mood;
		CREATE TYPE mood AS ENUM ('good', 'bad');
		ALTER TABLE item ALTER mood TYPE mood USING mood::mood; COMMIT},
	q{error|d|public.item|column mood is public.mood ('good','fair','bad'), }
	  . q{elsewhere public.mood ('good','bad')});
drifts('another check', q{ALTER TABLE item DROP CONSTRAINT item_price_check,
		ADD CONSTRAINT item_price_check CHECK (price >= 0)},
	q{ALTER TABLE item DROP CONSTRAINT item_price_check,
		ADD CONSTRAINT item_price_check CHECK (price > 0)},
	'error|d|public.item|constraint item_price_check is '
	  . 'CHECK ((price >= (0)::numeric)), elsewhere CHECK ((price > (0)::numeric))');
drifts('a check less', 'ALTER TABLE item DROP CONSTRAINT item_price_check',
	'ALTER TABLE item ADD CONSTRAINT item_price_check CHECK (price > 0)',
	'error|d|public.item|constraint item_price_check is missing, '
	  . 'elsewhere CHECK ((price > (0)::numeric))');
drifts('an index more', 'CREATE INDEX item_at ON item (at)', 'DROP INDEX item_at',
	'warning|d|public.item|index item_at is '
	  . 'CREATE INDEX item_at ON public.item USING btree (at), elsewhere missing');
drifts('row security', 'ALTER TABLE item ENABLE ROW LEVEL SECURITY',
	'ALTER TABLE item DISABLE ROW LEVEL SECURITY',
	'error|d|public.item|row security is enabled, elsewhere missing');

# what is missing is made by the hint
plant('an index less', 'd', 'DROP INDEX item_name',
	'warning|d|public.item|index item_name is missing, elsewhere '
	  . 'CREATE INDEX item_name ON public.item USING btree (lower(name)) WHERE (price > (5)::numeric)');
plant('a primary key less', 'a', 'ALTER TABLE held DROP CONSTRAINT held_pkey',
	'error|a|public.held|constraint held_pkey is missing, elsewhere PRIMARY KEY (key)',
	'warning|a|public.held|the replica identity is missing, or does not contain the shard key');

# two against two: the lower number is right
on_shard($_, 'ALTER TABLE held ADD x integer') foreach (qw(a c));
node('e')->stop;
is_deeply([ map { (split /\|/, $_, 5)[1] } grep { !/^error\|e/ } problems() ],
	[ 'b', 'd' ], 'of two and two, those with the higher numbers differ');
node('e')->start;
on_shard($_, 'ALTER TABLE held DROP x') foreach (qw(a c));

# ---------- tables ----------

plant('a table that is missing', 'b', 'DROP TABLE held',
	'error|b|public.held|the table is missing');
plant('a table that is referred to', 'b', 'DROP TABLE country CASCADE',
	'error|b|public.country|missing, and public.item refers to it',
	'error|b|public.item|constraint item_country_fkey is missing, '
	  . 'elsewhere FOREIGN KEY (country) REFERENCES public.country(code)');
plant('unlogged', 'c', 'ALTER TABLE held SET UNLOGGED',
	'warning|c|public.held|unlogged: its rows are lost in a crash, '
	  . 'and cannot move by logical replication');
plant('a child', 'c', 'CREATE TABLE "Kind ""1""" () INHERITS (held)',
	'error|c|public.held|the guard does not see rows of child public."Kind ""1"""');
on_shard('c', 'DROP TABLE "Kind ""1"""');
plant('a parent', 'c', 'CREATE TABLE parent (key text); ALTER TABLE held INHERIT parent',
	'error|c|public.held|a child of table public.parent');
plant('a partition', 'c', q{DROP TABLE parent;
	CREATE TABLE parent (key text NOT NULL, value text) PARTITION BY LIST (key);
	ALTER TABLE parent ATTACH PARTITION held DEFAULT},
	'error|c|public.held|a child of table public.parent');
on_shard('c', 'DROP TABLE parent');

# ---------- keys ----------

everywhere(q{
	CREATE TABLE note (id bigint, author text NOT NULL, held text NOT NULL
		CONSTRAINT note_held REFERENCES held, PRIMARY KEY (held, id))});
mended('a reference from a table without a guard', found('a reference',
		'error||public.held|public.note refers to it and is not guarded'));
everywhere(q{
	CREATE TABLE detail (key text, id bigint, number bigint, PRIMARY KEY (key, id));
	ALTER TABLE note ADD CONSTRAINT note_id UNIQUE (id),
		ADD CONSTRAINT note_text UNIQUE (author, held)});
my $note_id = 'warning||public.note|unique constraint note_id does not contain '
  . 'held: it is unique on each shard only';
my @lines = found('a unique constraint', $note_id);
everywhere(q{ALTER TABLE detail ADD CONSTRAINT detail_note
	FOREIGN KEY (number) REFERENCES note (id)});
guarded('public.detail', 'key');
my @foreign = found('a foreign key without the shard key',
	'error||public.detail|foreign key detail_note does not contain key', $note_id);
mended('a foreign key without the shard key', @foreign);
everywhere(q{CREATE UNIQUE INDEX note_lower ON note (lower(author));
	CREATE UNIQUE INDEX note_both ON note (lower(author), held)});
@lines = found('a unique index',
	'warning||public.note|unique index note_lower does not contain held: '
	  . 'it is unique on each shard only');
is((split /\|/, $lines[0], 5)[4] // '', '', 'for which there is no command');
everywhere('DROP INDEX note_lower, note_both');
everywhere(q{CREATE TABLE log (id bigint PRIMARY KEY, held text);
	ALTER TABLE held ADD number bigint UNIQUE;
	ALTER TABLE log ADD CONSTRAINT log_held FOREIGN KEY (id) REFERENCES held (number)});
@lines = found('a reference without the key',
	'error||public.held|public.log refers to it without key',
	'warning||public.held|unique constraint held_number_key does not contain '
	  . 'key: it is unique on each shard only');
mended('a reference without the key', @lines);
everywhere('ALTER TABLE held DROP number; DROP TABLE log');
on_shard('e', q{ALTER TABLE note DROP CONSTRAINT note_text;
	ALTER TABLE note ADD CONSTRAINT note_text UNIQUE (author)});
mended('a key that differs', reverse found('a key that differs',
	'error|e|public.note|constraint note_text is UNIQUE (author), '
	  . 'elsewhere UNIQUE (author, held)',
	'warning|e|public.note|unique constraint note_text does not contain held: '
	  . 'it is unique on each shard only'));

# ---------- sequences ----------

everywhere(q{
	CREATE SEQUENCE "Zähler ""x""";
	ALTER TABLE item ALTER id SET DEFAULT nextval('"Zähler ""x"""');
	SELECT nextval('"Zähler ""x"""') FROM generate_series(1, 37)});
my $name = 'public."Zähler ""x"""';
@lines = found('sequences',
	map { my $other = $_ eq 'a' ? 'b' : 'a';
		"warning|$_|public.item|sequence $name gives numbers that it also gives "
		  . "on shard \"$other\"" } @shards);
like($lines[2], qr/INCREMENT BY 10 START WITH 43 RESTART;$/, 'beyond all that was given');
mended('sequences', @lines);
is( on_shard('c', q{SELECT string_agg(nextval('"Zähler ""x"""')::text, ' ')
		FROM generate_series(1, 3)}), '43 53 63', 'numbers of one shard');
is_deeply([ problems() ], [], 'and after some were given');
plant('a newcomer', 'e', q{ALTER SEQUENCE "Zähler ""x""" INCREMENT BY 1 START WITH 1 RESTART},
	"warning|e|public.item|sequence $name gives numbers that it also gives on shard \"a\"");
plant('a number that was set', 'd', q{SELECT setval('"Zähler ""x"""', 142)},
	"warning|d|public.item|sequence $name gives numbers that it also gives on shard \"b\"");
everywhere(q{ALTER SEQUENCE "Zähler ""x""" INCREMENT BY 1});
on_shard($shards[$_], sprintf q{ALTER SEQUENCE "Zähler ""x""" MINVALUE %s
	START WITH %1$s MAXVALUE %s RESTART}, $_ * 10000 + 1, $_ * 10000 + 10000)
  foreach (0 .. 4);
is_deeply([ problems() ], [], 'ranges that do not meet');
on_shard($shards[$_], sprintf q{ALTER SEQUENCE "Zähler ""x""" MINVALUE 1
	START WITH %s NO MAXVALUE RESTART}, $_ * 1e12 + 1)
  foreach (0 .. 4);
is_deeply([ problems() ], [], 'beginnings that are far apart');
everywhere(q{ALTER TABLE item ALTER id DROP DEFAULT;
	DROP SEQUENCE "Zähler ""x""";
	ALTER TABLE item ALTER id ADD GENERATED BY DEFAULT AS IDENTITY
		(INCREMENT BY -1 MINVALUE -1000000 MAXVALUE 1000000 START WITH -1)});
mended('identity columns that count down', found('identity columns',
	map { my $other = $_ eq 'a' ? 'b' : 'a';
		'warning|' . $_ . '|public.item|sequence public.item_id_seq gives numbers '
		  . "that it also gives on shard \"$other\"" } @shards));

# ---------- moving by logical replication ----------

plant('no identity', 'b', 'ALTER TABLE held REPLICA IDENTITY NOTHING',
	'warning|b|public.held|the replica identity is missing, or does not contain the shard key');
on_shard('b', 'CREATE PUBLICATION "Leser" FOR TABLE held');
@lines = found('a publication',
	'info|b|public.held|publication "Leser" will show a move as inserts and deletes');
on_shard('b', q{DROP PUBLICATION "Leser"; CREATE PUBLICATION all_of_it FOR TABLES IN SCHEMA public});
is(scalar(grep { /^info\|b\|.*publication "all_of_it"/ } problems()), 5, 'of a schema');
on_shard('b', 'DROP PUBLICATION all_of_it; CREATE PUBLICATION all_of_it FOR ALL TABLES');
is(scalar(grep { /^info\|b\|.*publication "all_of_it"/ } problems()), 5, 'of all tables');
on_shard('b', 'DROP PUBLICATION all_of_it');
on_shard('b', 'CREATE PUBLICATION shardring_01234567_1_0_1 FOR TABLE held');
is_deeply([ problems() ], [], 'one of a move');
on_shard('b', 'DROP PUBLICATION shardring_01234567_1_0_1');
node('map')->append_conf('postgresql.conf',
	"wal_level = logical\nmax_wal_senders = 5\nmax_replication_slots = 5");
node('map')->restart;
on_map('CREATE TABLE held (key text PRIMARY KEY, value text); CREATE PUBLICATION p FOR TABLE held');
my $from = node('map')->connstr('postgres');
$from =~ s/'/''/g;
plant('a subscription', 'c', "CREATE SUBSCRIPTION \"Über\" CONNECTION '$from' PUBLICATION p WITH (slot_name = ueber)",
	'error|c|public.held|subscription "Über" writes to it past the guard');
on_shard('c', 'DROP SUBSCRIPTION "Über"');
plant('replica', 'd', q{CREATE ROLE "Bote"; ALTER ROLE "Bote" SET session_replication_role = replica;
	ALTER ROLE "Bote" IN DATABASE postgres SET session_replication_role = replica;
	ALTER DATABASE postgres SET session_replication_role = replica;
	ALTER ROLE ALL SET session_replication_role = replica},
	map { 'error|d||guards do not fire where session_replication_role is replica, for ' . $_ }
	  'all roles', 'all roles in database postgres', 'role Bote',
	'role Bote in database postgres');

node('d')->append_conf('postgresql.conf', "wal_level = replica\nmax_replication_slots = 2\n"
	. "max_wal_senders = 1\nmax_logical_replication_workers = 0\n");
node('d')->restart;
@lines = found('settings',
	'warning|d||max_logical_replication_workers has 0 free: a move needs 3',
	'warning|d||max_replication_slots has 2 free: a move needs 3',
	'warning|d||max_wal_senders has 1 free: a move needs 3',
	'warning|d||wal_level is replica: a move needs logical');
run_hint((split /\|/, $_, 5)[4]) foreach (@lines);
node('d')->restart;
is_deeply([ problems() ], [], 'settings: gone after the hints and a restart');

# ---------- collations and transactions ----------

everywhere('CREATE TABLE word (key text PRIMARY KEY, word text COLLATE "de-x-icu")');
guarded('public.word', 'key');
is_deeply([ problems() ], [], 'a collation with a version');
on_shard('e', q{UPDATE pg_collation SET collversion = '1.2' WHERE collname = 'de-x-icu'});
@lines = problems();
like($lines[0], qr/^warning\|e\|\|collation pg_catalog."de-x-icu" is of version 1\.2, the library of /,
	'a version that is not that of the library');
mended('a version', @lines);

on_shard('e', q{BEGIN; INSERT INTO country VALUES ('x', 'y'); PREPARE TRANSACTION 'vergessen'});
is_deeply([ problems() ], [], 'a transaction that was prepared just now');
on_shard('e', q{ROLLBACK PREPARED 'vergessen'});

stop_cluster();
done_testing();
