/*
 * 80-guard.sql
 *		On a shard: refusing keys that live elsewhere.
 *
 * VOLATILE and PARALLEL UNSAFE: they look at what is active now, not at what
 * the statement sees.
 */

CREATE FUNCTION shardring.guard() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_guard';
COMMENT ON FUNCTION shardring.guard() IS
	'trigger (ring, key column): refuses rows whose key lives elsewhere';

CREATE FUNCTION shardring.guard_statement() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_guard_statement';
COMMENT ON FUNCTION shardring.guard_statement() IS
	'trigger (ring): refuses transactions from before the last switch';

CREATE FUNCTION shardring.guard_truncate() RETURNS trigger
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardring_guard_truncate';
COMMENT ON FUNCTION shardring.guard_truncate() IS
	'trigger (ring): refuses TRUNCATE while the ring moves';

/*
 * The name sorts after what people call their triggers, because BEFORE
 * triggers fire in the order of their names.
 */
CREATE FUNCTION shardring.add_guard(
	ring text, relation regclass, key_column name)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'relation', relation::text, 'key_column', key_column);
	PERFORM shardring_internal.require_ring(ring);
	PERFORM shardring_internal.require_this_shard(ring);
	PERFORM shardring_internal.make_guard(ring, relation, key_column);
END
$body$;
COMMENT ON FUNCTION shardring.add_guard(text, regclass, name) IS
	'guards a table of this shard by triggers; may be repeated';
REVOKE EXECUTE ON FUNCTION shardring.add_guard(text, regclass, name)
	FROM PUBLIC;

/* Drops what add_guard made, and no trigger of others. */
CREATE FUNCTION shardring.drop_guard(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	guard name;
BEGIN
	PERFORM shardring_internal.refuse_null('relation', relation::text);
	FOR guard IN
		SELECT t.tgname
		FROM pg_trigger AS t
			JOIN shardring_internal.guard_triggers('', '') AS g
				ON g.name = t.tgname AND g.function = t.tgfoid
		WHERE t.tgrelid = relation
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', guard, relation);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.drop_guard(regclass) IS
	'drops the guard of a table of this shard, if there is one';
REVOKE EXECUTE ON FUNCTION shardring.drop_guard(regclass) FROM PUBLIC;

/* Types are bits of catalog/pg_trigger.h; all are BEFORE. */
CREATE FUNCTION shardring_internal.guard_triggers(ring text, key_column name)
RETURNS TABLE (name name, function oid, type integer, arguments bytea,
	command text)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 3
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	/* between arguments of a trigger; '\x00' is a matter of settings */
	zero bytea := decode('00', 'hex');
	first bytea := convert_to(ring, getdatabaseencoding()) || zero;
BEGIN
	RETURN QUERY VALUES
		('zz_guard'::name, 'shardring.guard()'::regprocedure::oid, 31,
		 first || convert_to(key_column, getdatabaseencoding()) || zero,
		 'CREATE TRIGGER zz_guard BEFORE INSERT OR UPDATE OR DELETE ON %s '
		 'FOR EACH ROW EXECUTE FUNCTION shardring.guard(%L, %L)'),
		('zz_guard_statement', 'shardring.guard_statement()'::regprocedure,
		 26, first,
		 'CREATE TRIGGER zz_guard_statement BEFORE UPDATE OR DELETE ON %s '
		 'FOR EACH STATEMENT '
		 'EXECUTE FUNCTION shardring.guard_statement(%L)'),
		('zz_guard_truncate', 'shardring.guard_truncate()'::regprocedure,
		 34, first,
		 'CREATE TRIGGER zz_guard_truncate BEFORE TRUNCATE ON %s '
		 'FOR EACH STATEMENT '
		 'EXECUTE FUNCTION shardring.guard_truncate(%L)');
END
$body$;
COMMENT ON FUNCTION shardring_internal.guard_triggers(text, name) IS
	'the triggers that guard a table';

CREATE FUNCTION shardring_internal.make_guard(
	ring text, relation regclass, key_column name)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	wanted record;
	enabled "char";
BEGIN
	PERFORM shardring_internal.require_guardable(relation, key_column);
	PERFORM shardring_internal.refuse_other_trigger(
		ring, relation, key_column);
	FOR wanted IN
		SELECT g.name, g.command
		FROM shardring_internal.guard_triggers(ring, key_column) AS g
	LOOP
		SELECT t.tgenabled INTO enabled FROM pg_trigger AS t
		WHERE t.tgrelid = relation AND t.tgname = wanted.name;
		IF NOT FOUND THEN
			EXECUTE format(wanted.command, relation, ring, key_column);
		ELSIF enabled = 'D' OR enabled = 'R' THEN
			/* one that is enabled ALWAYS stays so */
			EXECUTE format('ALTER TABLE %s ENABLE TRIGGER %I', relation,
						   wanted.name);
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.make_guard(text, regclass, name) IS
	'makes the triggers that guard a table, and enables them';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.make_guard(text, regclass, name) FROM PUBLIC;

CREATE FUNCTION shardring_internal.refuse_other_trigger(
	ring text, relation regclass, key_column name)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	other record;
BEGIN
	SELECT t.tgname AS name, pg_get_triggerdef(t.oid) AS definition INTO other
	FROM pg_trigger AS t
		JOIN shardring_internal.guard_triggers(ring, key_column) AS g
			ON g.name = t.tgname
	WHERE t.tgrelid = relation
		AND (t.tgfoid <> g.function OR t.tgtype <> g.type
			 OR t.tgqual IS NOT NULL OR t.tgattr <> ''::int2vector
			 OR t.tgargs <> g.arguments)
	ORDER BY t.tgname
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('42710', format(
			'table %s already has another trigger "%s"', relation, other.name),
			detail => format('Its definition is: %s.', other.definition),
			hint => format('DROP TRIGGER %I ON %s;', other.name, relation));
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.refuse_other_trigger(text, regclass, name) IS
	'raises when a table has a guard of another kind, ring or column';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.refuse_other_trigger(text, regclass, name) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_this_shard(ring text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	here text := shardring_internal.this_shard();
BEGIN
	IF NOT EXISTS (SELECT FROM shardring.shard AS s
				   WHERE s.ring = require_this_shard.ring COLLATE "C"
					   AND s.shard = here COLLATE "C")
	THEN
		PERFORM shardring_internal.fail('55000', format(
			'this database is shard "%s", which ring "%s" does not have', here,
			ring),
			hint => 'Correct parameter "shardring.shard" with ALTER DATABASE, '
				'or push a version that has the shard.');
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_this_shard(text) IS
	'raises unless this database is a shard of the ring';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_this_shard(text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.this_shard() RETURNS text
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_this_shard';
COMMENT ON FUNCTION shardring_internal.this_shard() IS
	'the name of the shard in this database, or 55000';

/*
 * What the guard itself would refuse with the first row is refused here, and
 * what a guard could never make safe.
 */
CREATE FUNCTION shardring_internal.require_guardable(
	relation regclass, key_column name)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	guarded pg_class;
	key pg_attribute;
	later name;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'relation', relation::text, 'key_column', key_column);
	PERFORM shardring_internal.key_expression(relation, key_column);
	SELECT c.* INTO STRICT guarded FROM pg_class AS c WHERE c.oid = relation;
	SELECT a.* INTO STRICT key FROM pg_attribute AS a
	WHERE a.attrelid = relation AND a.attname = key_column COLLATE "C";
	/* FirstNormalObjectId: no triggers on system catalogs */
	IF guarded.relkind <> 'r' OR guarded.relpersistence = 't'
		OR guarded.oid < 16384
	THEN
		PERFORM shardring_internal.fail('0A000', format(
			'relation %s cannot be guarded', relation),
			detail => 'Only ordinary tables that are not temporary can be '
				'guarded.');
	ELSIF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = relation)
	THEN
		PERFORM shardring_internal.fail('0A000', format(
			'table %s has inheritance children, which its guard does not see',
			relation),
			hint => 'Guard tables without children.');
	ELSIF key.attgenerated <> '' THEN
		PERFORM shardring_internal.fail('0A000', format(
			'generated column "%s" cannot be guarded', key_column),
			detail => 'Generated columns are computed after BEFORE triggers.');
	ELSIF NOT key.attnotnull THEN
		PERFORM shardring_internal.fail('55000', format(
			'column "%s" of table %s may be null', key_column, relation),
			detail => 'A NULL key has no shard.',
			hint => format('ALTER TABLE %s ALTER %I SET NOT NULL;', relation,
				key_column));
	END IF;
	SELECT t.tgname INTO later FROM pg_trigger AS t
	WHERE t.tgrelid = relation AND NOT t.tgisinternal
		AND t.tgname > 'zz_guard' COLLATE "C"
		/* BEFORE ROW, of INSERT or UPDATE; see catalog/pg_trigger.h */
		AND t.tgtype & 3 = 3 AND t.tgtype & 20 > 0
		AND t.tgenabled <> 'D'
	LIMIT 1;
	IF FOUND THEN
		PERFORM shardring_internal.fail('55000', format(
			'trigger "%s" would fire after guard "zz_guard"', later),
			detail => 'BEFORE triggers fire in order of name, and a later one '
				'may set another key.',
			hint => format('ALTER TRIGGER %I ON %s RENAME TO %I;', later,
				relation, left('a_' || later, 63)));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_guardable(regclass, name) IS
	'raises when a table cannot be guarded by this column';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.require_guardable(regclass, name) FROM PUBLIC;

CREATE FUNCTION shardring.require_here(ring text, key text) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_text';
COMMENT ON FUNCTION shardring.require_here(text, text) IS
	'returns this shard, or raises SR001 when a text key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key bigint) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_int8';
COMMENT ON FUNCTION shardring.require_here(text, bigint) IS
	'returns this shard, or raises SR001 when an integer key lives elsewhere';

CREATE FUNCTION shardring.require_here(ring text, key uuid) RETURNS text
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE COST 10
AS 'MODULE_PATHNAME', 'shardring_require_here_uuid';
COMMENT ON FUNCTION shardring.require_here(text, uuid) IS
	'returns this shard, or raises SR001 when a uuid key lives elsewhere';

/* For reading, so by what the statement sees: STABLE. */
CREATE FUNCTION shardring.is_here(ring text, key text) RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_here_text';
COMMENT ON FUNCTION shardring.is_here(text, text) IS
	'whether a text key lives on this shard in the active version';

CREATE FUNCTION shardring.is_here(ring text, key bigint) RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_here_int8';
COMMENT ON FUNCTION shardring.is_here(text, bigint) IS
	'whether an integer key lives on this shard in the active version';

CREATE FUNCTION shardring.is_here(ring text, key uuid) RETURNS boolean
LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1
AS 'MODULE_PATHNAME', 'shardring_is_here_uuid';
COMMENT ON FUNCTION shardring.is_here(text, uuid) IS
	'whether a uuid key lives on this shard in the active version';
