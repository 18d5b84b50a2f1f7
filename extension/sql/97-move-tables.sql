/*
 * 97-move-tables.sql
 *		On a shard: what the tables of a move must have alike on both sides.
 */

/*
 * Two digests: of which tables are guarded, and how; and of their columns by
 * name, and of what identifies their rows.
 */
CREATE FUNCTION shardring_internal.tables_digests(ring text) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN (
		WITH guarded AS MATERIALIZED (
			SELECT g.* FROM shardring_internal.guards(ring) AS g)
		SELECT jsonb_build_object(
			'guards', shardring_internal.lines_digest(ARRAY(
				SELECT concat_ws(' ', g.name, t.tgname, t.tgenabled, t.tgtype,
								 encode(t.tgargs, 'hex'))
				FROM guarded AS g JOIN pg_trigger AS t ON t.tgrelid = g.relation
				WHERE t.tgname LIKE 'zz\_guard%')),
			'columns', shardring_internal.lines_digest(ARRAY(
				SELECT concat_ws(' ', g.name, c.relreplident,
					quote_ident(a.attname),
					format_type(a.atttypid, a.atttypmod), o.collname,
					a.attnotnull, a.attgenerated)
				FROM guarded AS g
					JOIN pg_class AS c ON c.oid = g.relation
					JOIN pg_attribute AS a ON a.attrelid = g.relation
					LEFT JOIN pg_collation AS o ON o.oid = a.attcollation
				WHERE a.attnum > 0 AND NOT a.attisdropped))));
END
$body$;
COMMENT ON FUNCTION shardring_internal.tables_digests(text) IS
	'digests of the guards of a ring, and of the columns of its tables';
REVOKE EXECUTE ON FUNCTION shardring_internal.tables_digests(text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.lines_digest(lines text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT hashtextextended(coalesce(string_agg(
		l.line, chr(10) ORDER BY l.line COLLATE "C"), '') COLLATE "C", 0)::text
	FROM unnest(lines) AS l (line);
END;
COMMENT ON FUNCTION shardring_internal.lines_digest(text[]) IS
	'a digest of lines, in whatever order they are';
REVOKE EXECUTE ON FUNCTION shardring_internal.lines_digest(text[])
	FROM PUBLIC;

/*
 * Rows that have come here without the row that they refer to: the other side
 * has a table that does not move with them, or ours has lost a row.
 */
CREATE FUNCTION shardring_internal.step_partners(
	ring text, token bigint, document jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $body$
DECLARE
	ours shardring.ring := shardring_internal.require_token(
		ring, token, document);
	reference record;
	missing bigint;
	result jsonb := '{}';
BEGIN
	FOR reference IN
		SELECT g.name, c.conname, g.relation, g.key_column, c.confrelid,
			shardring_internal.partner_condition(c.oid) AS partner
		FROM shardring_internal.guards(ring) AS g
			JOIN pg_constraint AS c
				ON c.conrelid = g.relation AND c.contype = 'f'
		ORDER BY g.name, c.conname
	LOOP
		EXECUTE format('SELECT count(*) FROM ONLY %s AS t '
			'WHERE shardring.moves($1, $2, $3, %2$s) '
			'AND shardring.shard_for($1, %2$s, $3) = $4 '
			'AND NOT %3$s',
			reference.relation::regclass, shardring_internal.key_expression(
				reference.relation, reference.key_column),
			reference.partner)
		INTO missing
		USING ours.ring, ours.moving_from, ours.moving_to,
			shardring_internal.this_shard();
		IF missing > 0 THEN
			result := result || jsonb_build_object(format(
				'%s of %s', reference.conname, reference.name), missing);
		END IF;
	END LOOP;
	RETURN jsonb_build_object('missing', result);
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.step_partners(text, bigint, jsonb) IS
	'step of a move: counts rows without the row that they refer to';
REVOKE EXECUTE ON FUNCTION
	shardring_internal.step_partners(text, bigint, jsonb) FROM PUBLIC;

/* Row "t" refers to a row that is there, or to none. */
CREATE FUNCTION shardring_internal.partner_condition(foreign_key oid)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('(%s OR EXISTS (SELECT FROM %s AS p WHERE %s))',
		string_agg(format('t.%I IS NULL', a.attname), ' OR ' ORDER BY k.i),
		c.confrelid::regclass,
		string_agg(format('p.%I OPERATOR(%I.%s) t.%I', b.attname,
						  n.nspname, o.oprname, a.attname),
				   ' AND ' ORDER BY k.i))
	FROM pg_constraint AS c
		CROSS JOIN LATERAL unnest(c.conkey, c.confkey, c.conpfeqop)
			WITH ORDINALITY AS k (here, there, operator, i)
		JOIN pg_attribute AS a
			ON a.attrelid = c.conrelid AND a.attnum = k.here
		JOIN pg_attribute AS b
			ON b.attrelid = c.confrelid AND b.attnum = k.there
		JOIN pg_operator AS o ON o.oid = k.operator
		JOIN pg_namespace AS n ON n.oid = o.oprnamespace
	WHERE c.oid = foreign_key
	GROUP BY c.oid, c.confrelid;
END;
COMMENT ON FUNCTION shardring_internal.partner_condition(oid) IS
	'SQL for: what a row refers to by a foreign key is there';
REVOKE EXECUTE ON FUNCTION shardring_internal.partner_condition(oid)
	FROM PUBLIC;
