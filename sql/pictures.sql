--
-- pictures.sql
--	ring_svg and share_bars: what is drawn is what is so.  The SVG is parsed
--	and the angles of its arcs are added up.
--
SET client_encoding = 'UTF8';
CREATE EXTENSION shardring;
SET search_path = shardring;
\set SHOW_CONTEXT never
SET client_min_messages = error;

-- all arcs of a band, as fractions of the circle, with the title of the path
CREATE FUNCTION pg_temp.pieces(svg text, band text)
RETURNS TABLE (colour text, title text, lo float8, hi float8)
LANGUAGE sql STABLE AS $body$
	WITH ns AS MATERIALIZED (
		SELECT svg::xml AS svg,
			ARRAY[ARRAY['s', 'http://www.w3.org/2000/svg']] AS ns
	), ring AS MATERIALIZED (
		SELECT (xpath('//s:circle/@cx', svg, ns))[1]::text::float8 AS x,
			(xpath('//s:circle/@cy', svg, ns))[1]::text::float8 AS y
		FROM ns
	), path AS MATERIALIZED (
		SELECT (xpath('//@stroke', p.p))[1]::text AS colour,
			(xpath('//s:title/text()', p.p, ns))[1]::text AS title,
			(xpath('//@d', p.p))[1]::text AS d
		FROM ns, unnest(xpath(
			format('//s:g[@class="%s"]/s:path', band), ns.svg, ns)) AS p (p)
	), step AS (
		SELECT p.colour, p.title, m.n, string_to_array(m.m, ' ') AS m
		FROM path AS p, string_to_table(
			replace(replace(p.d, 'M', '|M '), 'A', '|A '), '|')
			WITH ORDINALITY AS m (m, n)
		WHERE m.m <> ''
	), point AS (
		SELECT s.colour, s.title, s.n, s.m[1] AS command,
			atan2d(s.m[cardinality(s.m) - 1]::float8 - r.x,
				   r.y - s.m[cardinality(s.m)]::float8) / 360 AS at
		FROM step AS s, ring AS r
	), arc AS (
		SELECT p.*, lag(p.at) OVER (PARTITION BY p.colour ORDER BY p.n) AS start
		FROM point AS p
	)
	SELECT a.colour, replace(replace(replace(a.title, '&lt;', '<'),
			'&gt;', '>'), '&amp;', '&'), (a.start + 1)::numeric % 1,
		(a.start + 1)::numeric % 1 + (a.at - a.start + 1)::numeric % 1
	FROM arc AS a
	WHERE a.command = 'A';
$body$;
-- the band against what each group should have: to 0.01 % of the circle, which
-- is a tenth of a pixel
CREATE FUNCTION pg_temp.compared(svg text, band text, wanted float8[],
	names text[])
RETURNS TABLE (paths bigint, colours bigint, whole boolean,
	exact boolean, titles boolean)
LANGUAGE sql STABLE AS $body$
	WITH wanted AS (
		SELECT w.name, w.share
		FROM unnest(names, wanted) AS w (name, share)
		WHERE w.share > 0
	), drawn AS (
		SELECT p.colour, p.title, sum(p.hi - p.lo) AS share
		FROM pg_temp.pieces(svg, band) AS p
		GROUP BY p.colour, p.title
	)
	SELECT count(d.colour), count(DISTINCT d.colour),
		abs(sum(d.share) - 1) < 0.0005,
		bool_and(coalesce(abs(d.share - w.share) < 0.0001, false)),
		bool_and(d.title = w.name || ': '
				 || round(100 * w.share::numeric, 2) || ' %')
	FROM drawn AS d
		FULL JOIN wanted AS w
			ON regexp_replace(d.title, ': [0-9.]+ %$', '') = w.name;
$body$;
CREATE FUNCTION pg_temp.owners(ring text, version integer,
	from_version integer DEFAULT NULL)
RETURNS TABLE (paths bigint, colours bigint, whole boolean,
	exact boolean, titles boolean)
LANGUAGE sql STABLE AS $body$
	SELECT c.*
	FROM (SELECT array_agg(s.share) AS shares,
			  array_agg(s.group_name) AS names
		  FROM shardring.shares(ring, version) AS s) AS s
		CROSS JOIN LATERAL pg_temp.compared(
			shardring.ring_svg(ring, from_version, version), 'owners',
			s.shares, s.names) AS c;
$body$;
CREATE FUNCTION pg_temp.moves(ring text, version integer,
	from_version integer)
RETURNS TABLE (paths bigint, colours bigint, whole boolean,
	exact boolean, titles boolean)
LANGUAGE sql STABLE AS $body$
	WITH moved AS (
		SELECT 'to ' || p.to_group AS name, sum(p.share) AS share
		FROM shardring.move_plan(ring, from_version, version) AS p
		GROUP BY p.to_group
	), every AS (
		SELECT m.name, m.share FROM moved AS m
		UNION ALL
		SELECT 'stays', 1 - coalesce(sum(m.share), 0) FROM moved AS m
	)
	SELECT c.*
	FROM (SELECT array_agg(e.share) AS shares, array_agg(e.name) AS names
		  FROM every AS e) AS e
		CROSS JOIN LATERAL pg_temp.compared(
			shardring.ring_svg(ring, from_version, version), 'moves',
			e.shares, e.names) AS c;
$body$;
-- arcs that are wide enough to be seen are drawn where they are
CREATE FUNCTION pg_temp.misplaced(ring text, version integer)
RETURNS TABLE (wide bigint, misplaced bigint)
LANGUAGE sql STABLE AS $body$
	WITH arc AS (
		SELECT a.group_name, (lower(a.positions) + upper(a.positions))
			/ 8589934592.0::float8 AS middle
		FROM shardring.arcs(ring, version) AS a
		WHERE upper(a.positions) - lower(a.positions) > 4294967296 * 0.004
	), piece AS MATERIALIZED (
		SELECT p.* FROM pg_temp.pieces(
			shardring.ring_svg(ring, version), 'owners') AS p
	)
	SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
		SELECT FROM piece AS p
		WHERE a.middle BETWEEN p.lo AND p.hi
			AND p.title LIKE a.group_name || ': %'))
	FROM arc AS a;
$body$;

-- 1, 3, 9 and 100 groups
SELECT count(create_ring('g' || n))
FROM unnest(ARRAY[1, 3, 8, 100]) AS n (n);
SELECT count(add_group('g' || n, 'node-' || i, ARRAY['s' || i, 't' || i]))
FROM unnest(ARRAY[1, 3, 8, 100]) AS n (n), generate_series(0, n - 1) AS g (i);
SELECT count(activate('g' || n)), count(draft_version('g' || n))
FROM unnest(ARRAY[1, 3, 8, 100]) AS n (n);
SELECT count(add_group('g' || n, 'node-' || n, ARRAY['new']))
FROM unnest(ARRAY[1, 3, 8]) AS n (n);
SELECT * FROM pg_temp.owners('g1', 1);
SELECT * FROM pg_temp.owners('g3', 1);
SELECT * FROM pg_temp.owners('g8', 2);
SELECT * FROM pg_temp.owners('g100', 1);
SELECT n, m.* FROM unnest(ARRAY[1, 3, 8, 100]) AS n (n)
	CROSS JOIN LATERAL pg_temp.misplaced('g' || n, 1) AS m;
SELECT * FROM pg_temp.owners('g8', 2, 1);
SELECT * FROM pg_temp.moves('g8', 2, 1);
SELECT * FROM pg_temp.moves('g1', 2, 1);
-- and back, to all others
SELECT * FROM pg_temp.moves('g8', 1, 2);
SELECT * FROM pg_temp.moves('g100', 2, 1);

-- a few points of very different weights; pins, which are too thin to see
SELECT create_ring('w', vnodes => 1);
SELECT add_group('w', 'big', ARRAY['b'], weight => 900);
SELECT count(add_group('w', 'small-' || i, ARRAY['s']))
FROM generate_series(1, 30) AS g (i);
SELECT add_group('w', 'pinned', ARRAY['p'], weight => 0),
	pin('w', 1000, 'pinned');
SELECT paths, colours, whole, exact FROM pg_temp.owners('w', 1);
SELECT * FROM pg_temp.misplaced('w', 1);
SELECT create_ring('one', vnodes => 1);
SELECT count(add_group('one', 'g' || i, ARRAY['s']))
FROM generate_series(1, 12) AS g (i);
SELECT * FROM pg_temp.owners('one', 1);
SELECT * FROM pg_temp.misplaced('one', 1);

-- slots that move inside their groups
SELECT create_ring('s', vnodes => 3);
SELECT add_group('s', 'a', ARRAY['a0', 'a1'], slots => 16),
	add_group('s', 'b', ARRAY['b0', 'b1']), activate('s'), draft_version('s');
SELECT assign_slots('s', 'a', '{[0,3)}', 'a2'),
	assign_slots('s', 'b', '{[1,2)}', 'b2'),
	add_group('s', 'c', ARRAY['c0']);
SELECT * FROM pg_temp.owners('s', 2, 1);
SELECT * FROM pg_temp.moves('s', 2, 1);

-- slots only: groups stay, so the owners are shards, and the target is seen
SELECT create_ring('slots');
SELECT add_group('slots', 'all', ARRAY['customers-europe-west-01',
	'customers-europe-west-02'], slots => 100);
SELECT activate('slots'), draft_version('slots');
SELECT assign_slots('slots', 'all', '{[40,60)}', 'customers-europe-west-03');
SELECT share_bars('slots', 1);
SELECT share_bars('slots', 1, 2);
SELECT share_bars('slots', 2, 1);
SELECT c.*
FROM (SELECT array_agg(s.share) AS shares, array_agg(s.shard) AS names
	  FROM shard_shares('slots', 2) AS s) AS s
	CROSS JOIN LATERAL pg_temp.compared(ring_svg('slots', 1, 2), 'owners',
										s.shares, s.names) AS c;
SELECT c.*
FROM (SELECT array_agg(e.share) AS shares, array_agg(e.name) AS names
	  FROM (SELECT 'to ' || p.to_shard AS name, sum(p.share) AS share
			FROM move_plan('slots', 1, 2) AS p GROUP BY p.to_shard
			UNION ALL
			SELECT 'stays', 0.8) AS e) AS e
	CROSS JOIN LATERAL pg_temp.compared(ring_svg('slots', 1, 2), 'moves',
										e.shares, e.names) AS c;
-- in the legend, long names are cut in the middle, where they are alike
SELECT unnest(xpath('//s:g[@class="legend"]/s:text/text()',
	ring_svg('slots', 1, 2)::xml,
	ARRAY[ARRAY['s', 'http://www.w3.org/2000/svg']])) AS legend;

-- 80,000 points: small, and the colours go to whoever gains, then to the
-- largest
SELECT create_ring('large', vnodes => 667);
SELECT count(add_group('large', 'node-' || i, ARRAY['s' || i]))
FROM generate_series(1, 119) AS g (i);
SELECT activate('large'), draft_version('large');
SELECT add_group('large', 'tiny', ARRAY['tiny'], weight => 0.1),
	set_weight('large', 'node-7', 2);
SELECT sum(points) FROM shares('large', 2);
SELECT length(ring_svg('large', 2)) < 1000000 AS one,
	length(ring_svg('large', 1, 2)) < 1000000 AS two;
CREATE TEMP TABLE large AS
	SELECT s.group_name, s.share,
		row_number() OVER (ORDER BY s.group_name NOT IN ('tiny', 'node-7'),
						   s.share DESC) > 100 AS other
	FROM shares('large', 2) AS s;
SELECT c.*
FROM (SELECT array_agg(l.share) AS shares, array_agg(l.name) AS names
	  FROM (SELECT group_name AS name, share FROM large WHERE NOT other
			UNION ALL SELECT '… ' || count(*) || ' more', sum(share)
			FROM large WHERE other) AS l) AS l
	CROSS JOIN LATERAL pg_temp.compared(ring_svg('large', 1, 2), 'owners',
										l.shares, l.names) AS c;
SELECT * FROM pg_temp.moves('large', 2, 1);

-- names that are not for XML
SELECT create_ring('<r> & "s"');
SELECT count(add_group('<r> & "s"', n, ARRAY['s']))
FROM unnest(ARRAY['<b>&amp;', 'it''s "quoted"', 'größer 日本語',
				  ']]>', repeat('long ', 30) || 'x']) AS n (n);
SELECT * FROM pg_temp.owners('<r> & "s"', 1);
SELECT unnest(xpath('/s:svg/s:title/text()', ring_svg('<r> & "s"', 1)::xml,
					ARRAY[ARRAY['s', 'http://www.w3.org/2000/svg']]));
SELECT create_ring('control');
SELECT add_group('control', E'a\x01b\tc', ARRAY['s']);
SELECT title FROM pg_temp.pieces(ring_svg('control', 1), 'owners') LIMIT 1;

-- a picture's legend: groups with equal parts of the ring, which is none
SELECT create_ring('e', 1);
SELECT add_group('e', g, ARRAY[g], weight => (g = 'b')::int) FROM unnest('{a,b,c}'::text[]) AS g;
SELECT string_agg(m[1], ' ' ORDER BY n) AS legend
FROM regexp_matches(ring_svg('e', 1), '>([abc])<', 'g') WITH ORDINALITY AS m (m, n);

-- bars
SELECT share_bars('g8');
SELECT share_bars('g8', 1, 2);
SELECT draft_version('g8', 2);
SELECT remove_group('g8', 'node-3', 3), set_weight('g8', 'node-1', 2, 3);
SELECT share_bars('g8', 2, 3);
SELECT share_bars('g8', 3, 3);
SELECT share_bars('s', 1, 2);
SELECT share_bars('<r> & "s"', 1);
SELECT share_bars('control', 1);
-- the parts of a bar, counted
SELECT bool_and(abs(b.stays - (s.share - s.gained) * s.scale) <= 1
				AND abs(b.comes - s.gained * s.scale) <= 1
				AND abs(b.leaves - s.lost * s.scale) <= 1
				AND length(b.bar) <= 80) AS as_told, count(*)
FROM (SELECT bar, length(bar) - length(replace(bar, '#', '')) AS stays,
		  length(regexp_replace(bar, '^.*?( *\+*)-*$', '\1'))
			  - length(regexp_replace(bar, '^.*?( *)\+*-*$', '\1')) AS comes,
		  length(bar) - length(rtrim(bar, '-')) AS leaves,
		  split_part(bar, ' ', 1) AS group_name
	  FROM share_bars('g8', 2, 3) AS bar) AS b
	JOIN (SELECT g.*, 40 / max(share + lost) OVER () AS scale
		  FROM (SELECT group_name, coalesce(a.share, 0) AS share,
					(SELECT coalesce(sum(m.share), 0)
					 FROM moved_ranges('g8', 2, 3) AS m
					 WHERE m.to_group = group_name) AS gained,
					(SELECT coalesce(sum(m.share), 0)
					 FROM moved_ranges('g8', 2, 3) AS m
					 WHERE m.from_group = group_name) AS lost
				FROM shares('g8', 2) AS b
					FULL JOIN shares('g8', 3) AS a USING (group_name)) AS g
		 ) AS s USING (group_name);

-- NULL, nothing there, nothing to see
SELECT ring_svg(NULL) IS NULL, ring_svg(NULL, 1, 1) IS NULL;
SELECT share_bars(NULL);
SELECT share_bars(NULL, 1, 1);
SELECT create_ring('empty');
SELECT add_group('empty', 'drained', ARRAY['s'], weight => 0);
SELECT share_bars('empty', 1);
SELECT ring_svg('g8', NULL, 2) = ring_svg('g8', 2) AS same,
	ring_svg('g8') = ring_svg('g8', 1) AS active;
\set VERBOSITY sqlstate
SELECT ring_svg('empty');
SELECT ring_svg('empty', 1);
SELECT share_bars('empty');
SELECT ring_svg('nowhere');
SELECT share_bars('nowhere');
SELECT ring_svg('g8', 99);
SELECT ring_svg('g8', 99, 2);
SELECT share_bars('g8', 99);
SELECT share_bars('g8', 99, 2);

DROP FUNCTION pg_temp.pieces, pg_temp.compared, pg_temp.owners,
	pg_temp.moves, pg_temp.misplaced;
RESET search_path;
DROP EXTENSION shardring;
