--
-- labels.sql
--	How our objects are labelled: volatility, strictness, parallel safety and
--	cost of the functions, comments, search paths, dump and collations.
--
-- The objects are always in a schema of their own.  The extension itself stands
-- in pg_catalog, as pg_dump writes it, and can be put nowhere else.
CREATE EXTENSION shardring SCHEMA public;
CREATE EXTENSION shardring SCHEMA pg_catalog;
SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = 'shardring';

-- The functions people call.  Pure hashes are immutable, what reads tables is
-- stable, what writes them is volatile (B43).
SELECT p.proname AS function, pg_get_function_identity_arguments(p.oid) AS arguments,
	CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility, p.proisstrict AS strict,
	CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel, p.procost AS cost, nullif(p.prorows, 0) AS rows
FROM pg_proc AS p
WHERE p.pronamespace = 'shardring'::regnamespace AND p.prorettype <> 'trigger'::regtype
ORDER BY p.oid::regprocedure::text COLLATE "C";

-- From here on, every query lists what breaks a rule.
-- all that the extension owns
CREATE TEMP TABLE members AS
	SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'shardring';
SELECT count(*) > 100 AS members FROM members;
-- what writes is volatile, and not parallel safe
SELECT p.oid::regprocedure FROM pg_proc AS p
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	AND coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) ~* '(insert\s+into|update|delete\s+from|truncate)\s+shardring\.'
	AND (p.provolatile <> 'v' OR p.proparallel <> 'u');
-- what is immutable reads no table of ours
SELECT p.oid::regprocedure FROM pg_proc AS p, pg_class AS c
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[]) AND p.provolatile = 'i' AND c.relnamespace = 'shardring'::regnamespace
	AND coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) ~ ('shardring\.' || c.relname || '\M');
-- names are found by a path of our own, or were when the body was parsed, or in C
SELECT p.oid::regprocedure, l.lanname, p.proconfig
FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	-- an aggregate has no body; a procedure that commits may have no path, and
	-- t/move.pl plants captures for its names
	AND p.prokind NOT IN ('a', 'p')
	AND CASE WHEN l.lanname = 'c' THEN p.proconfig IS NOT NULL
		WHEN p.prosqlbody IS NOT NULL THEN p.proconfig IS NOT NULL
		ELSE 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}')) END;
SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[]) AND (p.prosecdef OR p.proleakproof);
-- sets say how many rows they have
SELECT p.oid::regprocedure FROM pg_proc AS p
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[]) AND p.proretset AND p.prorows = 1000
	AND p.proname NOT IN ('points', 'arcs', 'moving_keys', 'resize_groups');
-- every object says what it is, columns too, and says it like a line of text
SELECT pg_describe_object(classid, objid, 0) FROM members
WHERE obj_description(objid, classid::regclass::name) IS NULL
	AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid WHERE t.oid = objid AND (t.typelem <> 0 OR c.relkind <> 'c')));
SELECT a.attrelid::regclass, a.attname
FROM members AS m JOIN pg_attribute AS a ON m.classid = 'pg_class'::regclass AND a.attrelid = m.objid
WHERE a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL;
SELECT a.attrelid::regclass, a.attname
FROM members AS m JOIN pg_type AS t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid AND t.typtype = 'c'
	JOIN pg_attribute AS a ON a.attrelid = t.typrelid
WHERE a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL;
SELECT t.tgrelid::regclass, t.tgname
FROM members AS m JOIN pg_trigger AS t ON m.classid = 'pg_class'::regclass AND t.tgrelid = m.objid
WHERE NOT t.tgisinternal AND obj_description(t.oid, 'pg_trigger') IS NULL ORDER BY 1, 2;
SELECT pg_describe_object(classid, objid, 0), d.description FROM members JOIN pg_description AS d ON d.classoid = classid AND d.objoid = objid
WHERE d.description ~ '\.$|^\s|\s$|\n' OR d.description = '';
-- everything is in our schemas, which nobody could have made before
SELECT pg_describe_object(m.classid, m.objid, 0) FROM members AS m, LATERAL pg_identify_object(m.classid, m.objid, 0) AS o
WHERE o.schema <> ALL ('{shardring,shardring_internal}') AND o.type <> 'event trigger';
SELECT extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'shardring';
-- pg_dump takes the rows of every table, all of them
SELECT c.oid::regclass
FROM pg_extension AS e, pg_class AS c
WHERE e.extname = 'shardring' AND c.relnamespace = 'shardring'::regnamespace AND c.relkind = 'r'
	AND (c.oid <> ALL (e.extconfig) OR e.extcondition[array_position(e.extconfig, c.oid)] <> '');
-- no foreign keys, no OIDs, and names compare by bytes
SELECT conrelid::regclass, conname FROM pg_constraint WHERE connamespace = 'shardring'::regnamespace AND contype = 'f';
SELECT a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = 'shardring'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
	AND (a.atttypid IN ('oid'::regtype, 'regclass'::regtype, 'name'::regtype, 'varchar'::regtype)
		 OR a.atttypid = 'text'::regtype AND a.attcollation <> '"C"'::regcollation);
-- constraints have names that somebody chose
SELECT conrelid::regclass, conname FROM pg_constraint
WHERE connamespace = 'shardring'::regnamespace AND conname ~ '_check\d*$';

DROP EXTENSION shardring;
