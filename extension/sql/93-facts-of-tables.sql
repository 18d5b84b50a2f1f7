/*
 * 93-facts-of-tables.sql
 *		On a shard: what is known about the tables that are guarded.
 */

/* A table is there once, even if it is guarded by several triggers. */
CREATE FUNCTION shardring_internal.ring_tables(ring text)
RETURNS TABLE (oid oid, schema name, name name, key_column name)
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	prefix bytea := convert_to(ring, getdatabaseencoding())
		|| decode('00', 'hex');
BEGIN
	RETURN QUERY
		SELECT DISTINCT ON (c.oid)
			c.oid, n.nspname, c.relname,
			convert_from(
				substr(t.tgargs, length(prefix) + 1,
					   length(t.tgargs) - length(prefix) - 1),
				getdatabaseencoding())::name
		FROM pg_trigger AS t
			JOIN pg_class AS c ON c.oid = t.tgrelid
			JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE t.tgfoid = 'shardring.guard()'::regprocedure
			AND t.tgnargs = 2 AND substr(t.tgargs, 1, length(prefix)) = prefix
		ORDER BY c.oid, t.tgname = 'zz_guard' DESC, t.tgname;
END
$body$;
COMMENT ON FUNCTION shardring_internal.ring_tables(text) IS
	'tables that are guarded for a ring, and by which column';

CREATE FUNCTION shardring_internal.table_facts(ring text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT coalesce(jsonb_agg(
			jsonb_build_object(
				'schema', t.schema, 'name', t.name, 'key_column', t.key_column,
				'kind', c.relkind, 'persistence', c.relpersistence,
				'digest', encode(sha256(convert_to(o.objects::text, 'UTF8')),
								 'hex'),
				'objects', o.objects,
				'guards', shardring_internal.guard_facts(
					t.oid, table_facts.ring, t.key_column),
				'relatives', shardring_internal.relative_facts(t.oid),
				'foreign_keys', shardring_internal.foreign_key_facts(
					t.oid, table_facts.ring),
				'unique_keys', shardring_internal.unique_facts(t.oid),
				'replica_identity', c.relreplident,
				'sequences', shardring_internal.sequence_facts(t.oid))
			|| shardring_internal.reader_facts(t.oid)
			ORDER BY t.schema, t.name), '[]')
		FROM shardring_internal.ring_tables(table_facts.ring) AS t
			JOIN pg_class AS c ON c.oid = t.oid
			CROSS JOIN LATERAL (
				SELECT coalesce(jsonb_object_agg(d.object, d.definition), '{}')
					AS objects
				FROM shardring_internal.table_objects(t.oid) AS d) AS o);
END
$body$;
COMMENT ON FUNCTION shardring_internal.table_facts(text) IS
	'guards, definition, keys and readers of all guarded tables';

/*
 * How the triggers of add_guard stand: as pg_trigger.tgenabled says, or
 * "missing", or "other" for one of that name that is something else.  A
 * trigger with another name that does the same is as good.
 */
CREATE FUNCTION shardring_internal.guard_facts(
	relation oid, ring text, key_column name)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT jsonb_build_object(
			'triggers', (
				SELECT jsonb_object_agg(w.name, coalesce(
					(SELECT t.tgenabled::text FROM pg_trigger AS t
					 WHERE t.tgrelid = guard_facts.relation
						 AND t.tgfoid = w.function AND t.tgtype = w.type
						 AND t.tgqual IS NULL AND t.tgattr = ''::int2vector
						 AND t.tgargs = w.arguments
					 ORDER BY t.tgenabled IN ('O', 'A') DESC,
						 t.tgname = w.name DESC
					 LIMIT 1),
					(SELECT 'other' FROM pg_trigger AS t
					 WHERE t.tgrelid = guard_facts.relation
						 AND t.tgname = w.name), 'missing'))
				FROM shardring_internal.guard_triggers(
					guard_facts.ring, guard_facts.key_column) AS w),
			/* BEFORE ROW, of INSERT or UPDATE; see catalog/pg_trigger.h */
			'later', (
				SELECT coalesce(jsonb_agg(t.tgname ORDER BY t.tgname), '[]')
				FROM pg_trigger AS t
				WHERE t.tgrelid = guard_facts.relation AND NOT t.tgisinternal
					AND t.tgname > 'zz_guard' AND t.tgtype & 3 = 3
					AND t.tgtype & 20 > 0 AND t.tgenabled <> 'D'
					AND t.tgfoid <> 'shardring.guard()'::regprocedure),
			'other_rings', (
				SELECT coalesce(jsonb_agg(DISTINCT o.ring), '[]')
				FROM (SELECT shardring_internal.first_argument(t.tgargs)
						AS ring
					  FROM pg_trigger AS t
					  WHERE t.tgrelid = guard_facts.relation
						  AND t.tgfoid = 'shardring.guard()'::regprocedure
						  AND t.tgnargs = 2) AS o
				WHERE o.ring <> guard_facts.ring)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.guard_facts(oid, text, name) IS
	'which triggers guard a table, and which could undo it';

/* Arguments of a trigger end with a zero byte each. */
CREATE FUNCTION shardring_internal.first_argument(arguments bytea)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT convert_from(
		substr(arguments, 1, greatest(
			position(decode('00', 'hex') IN arguments) - 1, 0)),
		getdatabaseencoding());
END;
COMMENT ON FUNCTION shardring_internal.first_argument(bytea) IS
	'the first argument of a trigger';

/* Their rows are not seen by the guard, or come past it. */
CREATE FUNCTION shardring_internal.relative_facts(relation oid)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object(
		'schema', n.nspname, 'name', c.relname,
		'child', i.inhparent = relative_facts.relation,
		'partition', c.relispartition OR c.relkind = 'p')
		ORDER BY n.nspname, c.relname), '[]')
	FROM pg_inherits AS i
		JOIN pg_class AS c
			ON c.oid = CASE i.inhparent WHEN relative_facts.relation
				THEN i.inhrelid ELSE i.inhparent END
		JOIN pg_namespace AS n ON n.oid = c.relnamespace
	WHERE relative_facts.relation IN (i.inhparent, i.inhrelid);
END;
COMMENT ON FUNCTION shardring_internal.relative_facts(oid) IS
	'parents and children of a table';

/* Columns that the user sees, with what pg_dump would write. */
CREATE FUNCTION shardring_internal.table_objects(relation oid)
RETURNS TABLE (object text, definition text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
	SELECT format('column %I', a.attname), concat_ws(' ',
		format_type(a.atttypid, a.atttypmod),
		CASE y.typtype WHEN 'e' THEN (
			SELECT format('(%s)', string_agg(quote_literal(e.enumlabel), ','
											 ORDER BY e.enumsortorder))
			FROM pg_enum AS e WHERE e.enumtypid = y.oid) END,
		CASE WHEN a.attcollation <> y.typcollation THEN (
			SELECT format('COLLATE %I.%I', n.nspname, c.collname)
			FROM pg_collation AS c
				JOIN pg_namespace AS n ON n.oid = c.collnamespace
			WHERE c.oid = a.attcollation) END,
		CASE WHEN a.attnotnull THEN 'NOT NULL' END,
		CASE a.attidentity
			WHEN 'a' THEN 'GENERATED ALWAYS AS IDENTITY'
			WHEN 'd' THEN 'GENERATED BY DEFAULT AS IDENTITY' END,
		CASE a.attgenerated
			WHEN '' THEN 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)
			ELSE format('GENERATED ALWAYS AS (%s) %s',
				pg_get_expr(d.adbin, d.adrelid), CASE a.attgenerated
				WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END) END)
	FROM pg_attribute AS a
		JOIN pg_type AS y ON y.oid = a.atttypid
		LEFT JOIN pg_attrdef AS d
			ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attrelid = table_objects.relation AND a.attnum > 0
		AND NOT a.attisdropped
	UNION ALL
	SELECT format('constraint %I', c.conname), pg_get_constraintdef(c.oid)
	FROM pg_constraint AS c
	WHERE c.conrelid = table_objects.relation
		AND c.contype IN ('c', 'f', 'p', 'u', 'x')
	UNION ALL
	SELECT format('index %I', c.relname), pg_get_indexdef(i.indexrelid)
		|| CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
	FROM pg_index AS i
		JOIN pg_class AS c ON c.oid = i.indexrelid
	WHERE i.indrelid = table_objects.relation
		AND NOT EXISTS (SELECT FROM pg_constraint AS k
						WHERE k.conindid = i.indexrelid
							AND k.contype IN ('p', 'u', 'x'))
	UNION ALL
	SELECT 'row security', CASE WHEN c.relforcerowsecurity THEN 'forced'
		ELSE 'enabled' END
	FROM pg_class AS c
	WHERE c.oid = table_objects.relation AND c.relrowsecurity;
END;
COMMENT ON FUNCTION shardring_internal.table_objects(oid) IS
	'columns, constraints and indexes of a table, as on every major version';

/*
 * All that refer to other tables, and of those that others have into this
 * one, what comes from tables without a guard.
 */
CREATE FUNCTION shardring_internal.foreign_key_facts(relation oid, ring text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT coalesce(jsonb_agg(jsonb_build_object(
			'name', k.conname, 'incoming', k.incoming,
			'columns', shardring_internal.column_names(k.conrelid, k.conkey),
			'other_schema', n.nspname, 'other_name', c.relname,
			'other_columns', shardring_internal.column_names(k.confrelid,
															 k.confkey),
			'other_key', t.key_column) ORDER BY k.incoming, k.conname), '[]')
		FROM (SELECT f.*, f.conrelid <> foreign_key_facts.relation AS incoming
			  FROM pg_constraint AS f
			  WHERE f.contype = 'f' AND f.conparentid = 0
				  AND foreign_key_facts.relation IN (f.conrelid, f.confrelid)
			 ) AS k
			JOIN pg_class AS c
				ON c.oid = CASE WHEN k.incoming THEN k.conrelid
					ELSE k.confrelid END
			JOIN pg_namespace AS n ON n.oid = c.relnamespace
			LEFT JOIN shardring_internal.ring_tables(
				foreign_key_facts.ring) AS t ON t.oid = c.oid
		WHERE NOT k.incoming OR t.oid IS NULL);
END
$body$;
COMMENT ON FUNCTION shardring_internal.foreign_key_facts(oid, text) IS
	'foreign keys of a table, and those into it from unguarded tables';

CREATE FUNCTION shardring_internal.column_names(
	relation oid, numbers smallint[])
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_agg(a.attname ORDER BY u.i)
	FROM unnest(numbers) WITH ORDINALITY AS u (number, i)
		LEFT JOIN pg_attribute AS a
			ON a.attrelid = column_names.relation AND a.attnum = u.number;
END;
COMMENT ON FUNCTION shardring_internal.column_names(oid, smallint[]) IS
	'names of columns; null where there is an expression';

/* "usable" is what an index needs to be a replica identity. */
CREATE FUNCTION shardring_internal.unique_facts(relation oid) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		SELECT coalesce(jsonb_agg(jsonb_build_object(
			'name', c.relname, 'constraint', k.contype,
			'columns', shardring_internal.column_names(i.indrelid, i.keys),
			'primary', i.indisprimary, 'identity', i.indisreplident,
			'usable', i.indimmediate AND i.indisvalid AND i.indpred IS NULL
				AND NOT EXISTS (
					SELECT FROM unnest(i.keys) AS u (number)
					WHERE NOT EXISTS (
						SELECT FROM pg_attribute AS a
						WHERE a.attrelid = i.indrelid AND a.attnum = u.number
							AND a.attnotnull)))
			ORDER BY c.relname), '[]')
		FROM (SELECT x.*, (x.indkey::int2[])[0 : x.indnkeyatts - 1] AS keys
			  FROM pg_index AS x
			  WHERE x.indrelid = unique_facts.relation AND x.indisunique) AS i
			JOIN pg_class AS c ON c.oid = i.indexrelid
			LEFT JOIN pg_constraint AS k
				ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u'));
END
$body$;
COMMENT ON FUNCTION shardring_internal.unique_facts(oid) IS
	'unique indexes of a table';

/* Those that a column owns, and those that its default names. */
CREATE FUNCTION shardring_internal.sequence_facts(relation oid)
RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object(
		'schema', n.nspname, 'name', c.relname, 'start', q.seqstart,
		'increment', q.seqincrement, 'min', q.seqmin, 'max', q.seqmax,
		'cycle', q.seqcycle, 'known', p.may,
		'last', CASE WHEN p.may THEN pg_sequence_last_value(c.oid) END)
		ORDER BY n.nspname, c.relname), '[]')
	FROM (SELECT d.objid AS oid FROM pg_depend AS d
		  WHERE d.classid = 'pg_class'::regclass
			  AND d.refclassid = 'pg_class'::regclass
			  AND d.refobjid = sequence_facts.relation
			  AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
		  UNION
		  SELECT d.refobjid FROM pg_attrdef AS f
			  JOIN pg_depend AS d
				  ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
		  WHERE f.adrelid = sequence_facts.relation
			  AND d.refclassid = 'pg_class'::regclass) AS s
		JOIN pg_sequence AS q ON q.seqrelid = s.oid
		JOIN pg_class AS c ON c.oid = s.oid
		JOIN pg_namespace AS n ON n.oid = c.relnamespace
		CROSS JOIN LATERAL (
			SELECT has_sequence_privilege(c.oid, 'SELECT,USAGE')) AS p (may);
END;
COMMENT ON FUNCTION shardring_internal.sequence_facts(oid) IS
	'sequences that number rows of a table';

/* Those of a move have names that begin so; see mover. */
CREATE FUNCTION shardring_internal.reader_facts(relation oid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'publications', (
			SELECT coalesce(jsonb_agg(p.pubname ORDER BY p.pubname), '[]')
			FROM pg_publication AS p
			WHERE p.pubname !~ '^shardring_[0-9a-f]{8}_'
				AND (p.puballtables OR EXISTS (
					SELECT FROM pg_publication_rel AS r
					WHERE r.prpubid = p.oid
						AND r.prrelid = reader_facts.relation)
					OR EXISTS (
					SELECT FROM pg_publication_namespace AS n
						JOIN pg_class AS c ON c.relnamespace = n.pnnspid
					WHERE n.pnpubid = p.oid
						AND c.oid = reader_facts.relation))),
		'subscriptions', (
			SELECT coalesce(jsonb_agg(s.subname ORDER BY s.subname), '[]')
			FROM pg_subscription_rel AS r
				JOIN pg_subscription AS s ON s.oid = r.srsubid
			WHERE r.srrelid = reader_facts.relation AND s.subenabled
				AND s.subname !~ '^shardring_[0-9a-f]{8}_'));
END;
COMMENT ON FUNCTION shardring_internal.reader_facts(oid) IS
	'publications and subscriptions of others that have a table';
