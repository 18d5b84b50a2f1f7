# update.pl
#	A database that came to the current version by ALTER EXTENSION UPDATE has
#	the same catalogue as one that began with it, and its rings are untouched.
#
#	Every shardring--X.sql that is not the default version is an older one and
#	is tested by being there: a new version needs no change here.  That the
#	comparison sees each kind of difference is tested by planting them.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use Shardring;
use Test::More;

my $node = start_server('update');

# Everything about every member of the extension, one line each, without OIDs.
my $catalogue = <<'END';
SET search_path = pg_catalog;
CREATE TEMP TABLE member AS
	SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS name
	FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND e.extname = 'shardring';
CREATE TEMP VIEW class AS
	SELECT m.name, c.* FROM member AS m JOIN pg_class AS c ON c.oid = m.objid
	WHERE m.classid = 'pg_class'::regclass;
SELECT line FROM (
	SELECT concat_ws(' | ', name, 'comment', obj_description(objid,
		(SELECT relname FROM pg_class WHERE oid = classid))) AS line
	FROM member
	UNION ALL
	SELECT concat_ws(' | ', name, 'function',
		CASE WHEN p.prokind = 'a'
			THEN (SELECT to_jsonb(a)::text FROM pg_aggregate AS a
				  WHERE a.aggfnoid = p.oid)
			ELSE pg_get_functiondef(p.oid) END,
		p.prosrc, p.procost, p.prorows, p.proleakproof,
		pg_get_userbyid(p.proowner))
	FROM member JOIN pg_proc AS p ON p.oid = objid
	WHERE classid = 'pg_proc'::regclass
	UNION ALL
	SELECT concat_ws(' | ', name, 'acl', pg_get_userbyid(a.grantee),
		a.privilege_type, a.is_grantable)
	FROM (SELECT m.name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl
		  FROM member AS m JOIN pg_proc AS p ON p.oid = m.objid
		  WHERE m.classid = 'pg_proc'::regclass
		  UNION ALL
		  SELECT name, coalesce(relacl, acldefault('r', relowner)) FROM class
		  UNION ALL
		  SELECT m.name, coalesce(n.nspacl, acldefault('n', n.nspowner))
		  FROM member AS m JOIN pg_namespace AS n ON n.oid = m.objid
		  WHERE m.classid = 'pg_namespace'::regclass
		  UNION ALL
		  SELECT m.name, coalesce(t.typacl, acldefault('T', t.typowner))
		  FROM member AS m JOIN pg_type AS t ON t.oid = m.objid
		  WHERE m.classid = 'pg_type'::regclass) AS o,
		aclexplode(o.acl) AS a
	UNION ALL
	SELECT concat_ws(' | ', name, 'relation', relkind, relpersistence,
		reloptions, relrowsecurity, relreplident, CASE relkind WHEN 'v'
			THEN pg_get_viewdef(oid) END)
	FROM class
	UNION ALL
	SELECT concat_ws(' | ', name, 'column', a.attnum, a.attname,
		format_type(a.atttypid, a.atttypmod), a.attnotnull,
		a.attcollation::regcollation, a.attstorage, a.attidentity,
		a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
		col_description(c.oid, a.attnum), a.attacl)
	FROM class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT concat_ws(' | ', name, 'column of a type', a.attnum, a.attname,
		format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
		col_description(t.typrelid, a.attnum))
	FROM member AS m JOIN pg_type AS t ON t.oid = m.objid
		JOIN pg_attribute AS a ON a.attrelid = t.typrelid
	WHERE m.classid = 'pg_type'::regclass AND NOT a.attisdropped
	UNION ALL
	SELECT concat_ws(' | ', name, 'constraint', k.conname,
		pg_get_constraintdef(k.oid), k.convalidated,
		obj_description(k.oid, 'pg_constraint'))
	FROM class AS c JOIN pg_constraint AS k ON k.conrelid = c.oid
	UNION ALL
	SELECT concat_ws(' | ', name, 'index', pg_get_indexdef(i.indexrelid))
	FROM class AS c JOIN pg_index AS i ON i.indrelid = c.oid
	UNION ALL
	SELECT concat_ws(' | ', name, 'trigger', pg_get_triggerdef(t.oid),
		t.tgenabled, obj_description(t.oid, 'pg_trigger'))
	FROM class AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid
	WHERE NOT t.tgisinternal
	UNION ALL
	SELECT concat_ws(' | ', 'config', c.oid::regclass, e.extcondition[c.n])
	FROM pg_extension AS e, unnest(e.extconfig) WITH ORDINALITY AS c (oid, n)
	WHERE e.extname = 'shardring'
	UNION ALL
	SELECT concat_ws(' | ', 'extension', extversion, extrelocatable,
		extnamespace::regnamespace, obj_description(oid, 'pg_extension'))
	FROM pg_extension WHERE extname = 'shardring') AS l
ORDER BY line COLLATE "C"
END

sub catalogue
{
	my ($database) = @_;
	return $node->safe_psql($database, $catalogue);
}

# Shows the lines that are not in both.
sub same_catalogue
{
	my ($got, $wanted, $what) = @_;
	my %seen;
	$seen{$_}++ foreach split "\n", $wanted;
	$seen{$_}-- foreach split "\n", $got;
	is(join("\n", map { "$seen{$_}: $_" } grep { $seen{$_} } sort keys %seen),
		'', $what);
	return;
}

# ---------- the comparison itself ----------

$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION shardring');
my $fresh = catalogue('fresh');
foreach my $line (
	qr/(?m)^schema shardring \| acl \| /, qr/(?m)^function shardring\.shard_for/,
	qr/(?m)^table shardring\.ring \| column \| 1 \| ring \| text \| t/,
	qr/(?m)^table shardring\.ring \| trigger /, qr/(?m)^view shardring\.shard_slot/,
	qr/(?m)^type shardring\.location \| column of a type/,
	qr/(?m)^config \| shardring\.shard_pin/, qr/(?m)^extension \| 1\./)
{
	ok($fresh =~ $line, "the catalogue has $line");
}

$node->safe_psql('fresh',
	'DROP EXTENSION shardring; CREATE EXTENSION shardring');
same_catalogue(catalogue('fresh'), $fresh, 'dropped and created again');

# What a careless update script might leave behind.
foreach my $change (
	'ALTER FUNCTION shardring.shard_for(text, text) VOLATILE',
	'ALTER FUNCTION shardring.shard_for(text, text) CALLED ON NULL INPUT',
	'ALTER FUNCTION shardring.shard_for(text, text) PARALLEL UNSAFE',
	'ALTER FUNCTION shardring.shard_for(text, text) COST 7',
	'ALTER FUNCTION shardring.points(text, int) ROWS 7',
	'ALTER FUNCTION shardring.seal(text, int) RESET search_path',
	'COMMENT ON FUNCTION shardring.seal(text, int) IS NULL',
	'COMMENT ON COLUMN shardring.ring.hash IS NULL',
	'COMMENT ON SCHEMA shardring IS NULL',
	'GRANT EXECUTE ON FUNCTION shardring.seal(text, int) TO PUBLIC',
	'REVOKE SELECT ON shardring.shard_map FROM PUBLIC',
	'REVOKE USAGE ON SCHEMA shardring FROM PUBLIC',
	'ALTER TABLE shardring.ring ALTER created_at DROP DEFAULT',
	'ALTER TABLE shardring.ring ALTER created_at DROP NOT NULL',
	'ALTER TABLE shardring.ring ADD extra int',
	'ALTER TABLE shardring.ring DROP CONSTRAINT ring_hash_known',
	'ALTER TABLE shardring.shard_map DISABLE TRIGGER shard_map_protect',
	'DROP TRIGGER shard_map_protect ON shardring.shard_map',
	'CREATE INDEX extra ON shardring.ring (hash)',
	"UPDATE pg_extension SET extconfig = extconfig[2:] WHERE extname = 'shardring'",
	'ALTER EXTENSION shardring DROP FUNCTION shardring.seal(text, int)',
	'ALTER EXTENSION shardring DROP VIEW shardring.shard_slot')
{
	isnt($node->safe_psql('fresh', "BEGIN; $change; $catalogue; ROLLBACK"),
		$fresh, "the comparison sees: $change");
}
same_catalogue(catalogue('fresh'), $fresh, 'nothing of that is left');

# ---------- from every older version (B42) ----------

my $current = $node->safe_psql('postgres',
	"SELECT default_version FROM pg_available_extensions"
	  . " WHERE name = 'shardring'");
my @scripts = map { m{/shardring--([^-]+)\.sql$} ? $1 : () }
  glob 'extension/shardring--*.sql';
is( join(' ', sort @scripts),
	$node->safe_psql(
		'postgres',
		"SELECT string_agg(version, ' ' ORDER BY version COLLATE \"C\")"
		  . " FROM pg_available_extension_versions WHERE name = 'shardring'"
	),
	'every install script is installed');
ok(scalar(grep { $_ eq $current } @scripts),
	"version $current can be installed");

foreach my $old (grep { $_ ne $current } @scripts)
{
	my $database = 'from_' . $old =~ s/\W/_/gr;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, "CREATE EXTENSION shardring VERSION '$old'");
	add_ring($node, $database, 'r', 4);
	my $routes = routes($node, $database, 'r', 10000);
	my $rows = 'SELECT * FROM shardring.ring; SELECT * FROM'
	  . ' shardring.ring_version ORDER BY ring, version';
	my $before = $node->safe_psql($database, $rows);
	$node->safe_psql($database,
		"ALTER EXTENSION shardring UPDATE TO '$current'");
	same_catalogue(catalogue($database), $fresh,
		"$old to $current: catalogue");
	is(routes($node, $database, 'r', 10000),
		$routes, "$old to $current: routes");
	is($node->safe_psql($database, $rows), $before, "$old to $current: rows");
	is($node->safe_psql($database, 'SELECT * FROM shardring.problems()'),
		'', "$old to $current: no problems");
	$node->safe_psql($database, next_version('r', 4));
}

$node->stop;
done_testing();
