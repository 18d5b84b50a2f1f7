/*
 * 99-grants.sql
 *		What a role needs to call functions of this extension.
 *
 * Functions run with the rights of their caller, so whoever calls one needs
 * what its body calls, too, and what that calls.  Bodies qualify every name,
 * and so the list can be read from them.
 */

/* NULL functions: all of them. */
CREATE FUNCTION shardring.grants(role text, functions text[] DEFAULT NULL)
RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	grantee text;
BEGIN
	PERFORM shardring_internal.refuse_null('role', role);
	SELECT quote_ident(r.rolname) INTO grantee
	FROM pg_roles AS r WHERE r.rolname = role COLLATE "C";
	IF NOT FOUND THEN
		PERFORM shardring_internal.fail('42704', format(
			'role "%s" does not exist', left(role, 63)));
	END IF;
	PERFORM shardring_internal.require_functions(functions);
	RETURN QUERY
		WITH called AS MATERIALIZED (
			SELECT c.* FROM shardring_internal.called_functions(functions) AS c)
		SELECT format('GRANT EXECUTE ON ROUTINE %s TO %s;', string_agg(
			c.function::regprocedure::text, ', '
			ORDER BY c.function::regprocedure::text COLLATE "C"), grantee)
		FROM called AS c
			JOIN pg_proc AS p ON p.oid = c.function
		WHERE NOT has_function_privilege('public', c.function, 'EXECUTE')
			AND p.prorettype <> 'trigger'::regtype
		HAVING count(*) > 0
		UNION ALL
		SELECT format('GRANT %s ON %s TO %s;',
			string_agg(w.privilege, ', ' ORDER BY w.privilege COLLATE "C"),
			w.relation, grantee)
		FROM (SELECT DISTINCT t.privilege COLLATE "C" AS privilege,
				  t.relation COLLATE "C" AS relation
			  FROM called AS c
				  CROSS JOIN LATERAL
					  shardring_internal.written_tables(c.body) AS t) AS w
		GROUP BY w.relation
		ORDER BY 1;
END
$body$;
COMMENT ON FUNCTION shardring.grants(text, text[]) IS
	'the grants that a role needs to call functions, by default all';
REVOKE EXECUTE ON FUNCTION shardring.grants(text, text[]) FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_functions(functions text[])
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY coalesce(functions, '{}') LOOP
		PERFORM shardring_internal.refuse_null('name of a function', name);
		PERFORM FROM pg_proc AS p
		WHERE p.pronamespace = 'shardring'::regnamespace
			AND p.proname = name COLLATE "C";
		IF NOT FOUND THEN
			PERFORM shardring_internal.fail('42704', format(
				'function shardring."%s" does not exist', left(name, 63)));
		END IF;
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_functions(text[]) IS
	'raises unless these are names of functions of schema shardring';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_functions(text[])
	FROM PUBLIC;

/*
 * These functions, and all that is called by them in turn, also by triggers of
 * tables that they write.  Who fires a trigger needs no right on its function.
 */
CREATE FUNCTION shardring_internal.called_functions(functions text[])
RETURNS TABLE (function oid, body text)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000000 ROWS 100
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	RETURN QUERY
		WITH RECURSIVE ours AS MATERIALIZED (
			SELECT p.oid, n.nspname || '.' || p.proname AS name,
				n.nspname = 'shardring' AND (functions IS NULL
					OR p.proname = ANY (functions COLLATE "C")) AS wanted,
				shardring_internal.without_literals(concat(
					p.prosrc, pg_get_function_sqlbody(p.oid))) AS body
			FROM pg_proc AS p
				JOIN pg_namespace AS n ON n.oid = p.pronamespace
				JOIN pg_depend AS d
					ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
						AND d.deptype = 'e'
			WHERE n.nspname IN ('shardring', 'shardring_internal')),
		call AS MATERIALIZED (
			SELECT o.oid AS caller, c.oid AS callee
			FROM ours AS o
				CROSS JOIN LATERAL regexp_matches(o.body,
					'\m(shardring(?:_internal)?\.\w+)\(', 'g') AS m (name)
				JOIN ours AS c ON c.name = m.name[1] COLLATE "C"
			UNION
			SELECT o.oid, t.tgfoid
			FROM ours AS o
				CROSS JOIN LATERAL
					shardring_internal.written_tables(o.body) AS w
				JOIN pg_trigger AS t ON t.tgrelid = w.relation::regclass),
		needed AS (
			SELECT o.oid FROM ours AS o WHERE o.wanted
			UNION
			SELECT c.callee
			FROM needed AS e
				JOIN call AS c ON c.caller = e.oid)
		SELECT o.oid, o.body
		FROM needed AS e
			JOIN ours AS o ON o.oid = e.oid;
END
$body$;
COMMENT ON FUNCTION shardring_internal.called_functions(text[]) IS
	'functions of schema shardring, and all that they call';
REVOKE EXECUTE ON FUNCTION shardring_internal.called_functions(text[])
	FROM PUBLIC;

/* A text that is sent elsewhere, or tells what to call, calls nothing. */
CREATE FUNCTION shardring_internal.without_literals(body text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT regexp_replace(regexp_replace(body, '/\*.*?\*/', '', 'g'),
						  '''[^'']*''', '', 'g');
END;
COMMENT ON FUNCTION shardring_internal.without_literals(text) IS
	'the body of a function without its comments and literals';
REVOKE EXECUTE ON FUNCTION shardring_internal.without_literals(text)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.written_tables(body text)
RETURNS TABLE (privilege text, relation text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 2
BEGIN ATOMIC
	SELECT DISTINCT w.privilege, m.part[2]
	FROM regexp_matches(body, '\m(INSERT INTO|UPDATE|DELETE FROM)\s+'
			'(shardring(?:_internal)?\.\w+)', 'g') AS m (part)
		CROSS JOIN LATERAL (
			SELECT split_part(m.part[1], ' ', 1)
			UNION ALL
			/* ON CONFLICT DO UPDATE does not name the table again */
			SELECT 'UPDATE'
			WHERE m.part[1] LIKE 'INSERT%' AND body ~ 'DO UPDATE') AS w
			(privilege)
	WHERE to_regclass(m.part[2]) IS NOT NULL;
END;
COMMENT ON FUNCTION shardring_internal.written_tables(text) IS
	'tables that a function writes, by its body';
REVOKE EXECUTE ON FUNCTION shardring_internal.written_tables(text) FROM PUBLIC;
