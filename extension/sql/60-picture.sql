/*
 * 60-picture.sql
 *		Pictures: a version, or a move, at a glance.
 */

CREATE FUNCTION shardring.ring_svg(
	ring text, version integer DEFAULT NULL)
RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_ring_svg';
COMMENT ON FUNCTION shardring.ring_svg(text, integer) IS
	'a picture of a version as SVG';

CREATE FUNCTION shardring.ring_svg(
	ring text, from_version integer, to_version integer)
RETURNS text
LANGUAGE C STABLE PARALLEL SAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_ring_svg';
COMMENT ON FUNCTION shardring.ring_svg(text, integer, integer) IS
	'a picture of a version as SVG, and of what moves since another';

/*
 * Before and after are told by one bar: # stays with the group, + comes to
 * it, - leaves it.  Rounding is done at the ends of the parts, so that equal
 * sums have equal bars.
 */
CREATE FUNCTION shardring.share_bars(
	ring text, from_version integer, to_version integer)
RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE COST 100000 ROWS 10
BEGIN ATOMIC
	WITH asked AS (
		SELECT coalesce(share_bars.to_version,
						shardring.active_version(share_bars.ring)) AS version
	), moved AS (
		SELECT m.from_group, m.to_group, m.share
		FROM asked AS a
			CROSS JOIN LATERAL shardring.moved_ranges(
				share_bars.ring, share_bars.from_version, a.version) AS m
	), groups AS (
		SELECT s.group_name, s.share,
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.to_group = s.group_name) AS gained,
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.from_group = s.group_name) AS lost
		FROM shardring.shares(share_bars.ring, share_bars.to_version) AS s
		UNION ALL
		SELECT s.group_name, 0, 0, s.share
		FROM shardring.shares(share_bars.ring, share_bars.from_version) AS s
		WHERE share_bars.from_version IS NOT NULL
			AND NOT EXISTS (
				SELECT FROM shardring.shares(share_bars.ring,
											 share_bars.to_version) AS n
				WHERE n.group_name = s.group_name)
	), scaled AS (
		SELECT g.*,
			coalesce(40 / nullif(max(g.share + g.lost) OVER (), 0), 0)
				AS scale,
			least(max(length(g.group_name)) OVER (), 20) AS width,
			regexp_replace(CASE WHEN length(g.group_name) > 20
				THEN left(g.group_name, 17) || '...' ELSE g.group_name END,
				'[[:cntrl:]]', '?', 'g') AS label
		FROM groups AS g
	), lines AS (
		SELECT 2 AS part, s.group_name, rtrim(
			rpad(s.label, s.width) || to_char(100 * s.share, '990.00') || ' %'
			|| CASE WHEN share_bars.from_version IS NULL THEN ''
				WHEN s.gained = s.lost THEN repeat(' ', 9)
				ELSE lpad(to_char(100 * (s.gained - s.lost), 'FMSG990.00'),
						  9) END
			|| '  '
			|| repeat('#', round((s.share - s.gained) * s.scale)::integer)
			|| repeat('+', (round(s.share * s.scale)
							- round((s.share - s.gained) * s.scale))::integer)
			|| repeat('-', (round((s.share + s.lost) * s.scale)
							- round(s.share * s.scale))::integer)) AS line
		FROM scaled AS s
		UNION ALL
		SELECT 1, '', CASE WHEN share_bars.from_version IS NULL
			THEN format('ring %s, version %s', share_bars.ring, a.version)
			ELSE format('ring %s, from version %s to version %s: %s %% move',
				share_bars.ring, share_bars.from_version, a.version,
				round(100 * shardring_internal.moved_share(
					share_bars.ring, share_bars.from_version,
					a.version)::numeric, 2)) END
		FROM asked AS a
		WHERE share_bars.ring IS NOT NULL
		UNION ALL
		SELECT 3, '', '# stays   + comes   - leaves'
		WHERE share_bars.from_version IS NOT NULL
			AND share_bars.ring IS NOT NULL
	)
	SELECT l.line
	FROM lines AS l
	ORDER BY l.part, l.group_name COLLATE "C";
END;
COMMENT ON FUNCTION shardring.share_bars(text, integer, integer) IS
	'the shares of a version as bars, and what changed since another';


CREATE FUNCTION shardring.share_bars(
	ring text, version integer DEFAULT NULL)
RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE COST 100000 ROWS 10
BEGIN ATOMIC
	SELECT shardring.share_bars(ring, NULL, version);
END;
COMMENT ON FUNCTION shardring.share_bars(text, integer) IS
	'the shares of a version as bars';
