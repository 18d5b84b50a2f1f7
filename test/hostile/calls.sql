-- calls.sql
--	Every call that is made, from pg_proc: for up to three arguments all
--	combinations of their values; for more, every pair of arguments with all
--	combinations of theirs and what is usual in the other places.

-- SQL has no value of type internal: only aggregates call such functions.
CREATE VIEW hostile.function AS
SELECT p.* FROM pg_proc p
WHERE p.pronamespace = ANY ('{shardring,shardring_internal}'::regnamespace[])
	AND 'internal'::regtype <> ALL (p.proargtypes);

CREATE VIEW hostile.argument AS
SELECT p.oid AS function, a.n, a.type::regtype,
	CASE WHEN p.provariadic <> 0 AND a.n = p.pronargs THEN 'VARIADIC ' ELSE ''
	END AS prefix, p.proargnames[a.n] AS name, p.pronargs AS arguments
FROM hostile.function p,
	unnest(p.proargtypes::oid[]) WITH ORDINALITY a (type, n);

CREATE VIEW hostile.choice AS
SELECT a.function, a.n, a.arguments,
	format('%s(%s)::%s', a.prefix, v.expression, a.type) AS expression,
	v.usual AND (v.argument IS NOT NULL OR NOT EXISTS (
		SELECT FROM hostile.value o
		WHERE o.type = a.type AND o.argument = a.name AND o.usual)) AS usual
FROM hostile.argument a
JOIN hostile.value v
	ON v.type = a.type AND (v.argument IS NULL OR v.argument = a.name);

CREATE TABLE hostile.call AS
WITH RECURSIVE all_of(function, n, expressions) AS
(
	SELECT p.oid, 0::bigint, '{}'::text[]
	FROM hostile.function p
	WHERE p.pronargs <= 3
UNION ALL
	SELECT c.function, c.n, a.expressions || c.expression
	FROM all_of a
	JOIN hostile.choice c ON c.function = a.function AND c.n = a.n + 1
),
pair AS
(
	SELECT a.function, a.n AS m, a.expression AS x, b.n, b.expression AS y
	FROM hostile.choice a
	JOIN hostile.choice b ON b.function = a.function AND b.n > a.n
	WHERE a.arguments > 3
),
list(function, expressions) AS
(
	SELECT a.function, a.expressions
	FROM all_of a JOIN pg_proc p ON p.oid = a.function AND p.pronargs = a.n
UNION
	SELECT pair.function, (
		SELECT array_agg(CASE c.n WHEN pair.m THEN pair.x WHEN pair.n
			THEN pair.y ELSE c.expression END ORDER BY c.n)
		FROM hostile.choice c WHERE c.function = pair.function AND c.usual)
	FROM pair
)
SELECT row_number() OVER (ORDER BY function::regprocedure::text, expressions)
	AS n, format(CASE WHEN function IN (
			SELECT p.oid FROM pg_proc p WHERE p.prokind = 'a')
		THEN 'SELECT /* %s */ %s(%s)'
		ELSE 'SELECT /* %s */ * FROM %s(%s)' END,
	replace(function::regprocedure::text, ' ', '_'), function::regproc,
	array_to_string(regexp_split_to_array(array_to_string(expressions, ', '),
		'\s+'), ' ')) AS call
FROM list;

-- A simulation of so many keys takes hours, as was asked for.  One is kept, to
-- see that it can be ended.
DELETE FROM hostile.call
WHERE call LIKE '%simulate(%, (2147483647)::integer, (%'
	AND call NOT LIKE '%((2)::integer, (2)::integer, (2)::integer, %md5%';

-- A text of 7 GB would be what was asked for.
DELETE FROM hostile.call
WHERE call LIKE '%partition_clauses(%hostile.huge%repeat%';

-- A type without values would leave its functions without calls.
SELECT format('not called: %s', p.oid::regprocedure)
FROM hostile.function p
WHERE NOT EXISTS (
	SELECT FROM hostile.call c
	WHERE c.call LIKE format('SELECT /* %s */ %%',
		replace(p.oid::regprocedure::text, ' ', '_')));
