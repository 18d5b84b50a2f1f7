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
	'an SVG picture of a version, and of what moved since another';

/*
 * Whose share is what, and what it gained and lost.  Where groups stay and
 * only slots move, or one group has several shards, the owners are shards:
 * bars of groups would not change, or be one.
 */
CREATE FUNCTION shardring_internal.share_changes(
	ring text, from_version integer, to_version integer)
RETURNS TABLE (name text, share double precision, gained double precision,
	lost double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF shardring_internal.shows_shards(ring, from_version, to_version) THEN
		RETURN QUERY
			WITH moved AS (
				SELECT m.from_shard, m.to_shard, m.share
				FROM shardring.move_plan(ring, from_version, to_version) AS m
			), owner AS (
				SELECT s.shard, s.share
				FROM shardring.shard_shares(ring, to_version) AS s
				UNION ALL
				SELECT DISTINCT m.from_shard, 0 FROM moved AS m
				WHERE m.from_shard <> ALL (ARRAY(
					SELECT s.shard
					FROM shardring.shard_shares(ring, to_version) AS s))
			)
			SELECT o.shard, o.share,
				(SELECT coalesce(sum(m.share), 0) FROM moved AS m
				 WHERE m.to_shard = o.shard),
				(SELECT coalesce(sum(m.share), 0) FROM moved AS m
				 WHERE m.from_shard = o.shard)
			FROM owner AS o;
		RETURN;
	END IF;
	RETURN QUERY
		WITH moved AS (
			SELECT m.from_group, m.to_group, m.share
			FROM shardring.moved_ranges(ring, from_version, to_version) AS m
		), owner AS (
			SELECT s.group_name, s.share
			FROM shardring.shares(ring, to_version) AS s
			UNION ALL
			SELECT s.group_name, 0
			FROM shardring.shares(ring, from_version) AS s
			WHERE from_version IS NOT NULL
				AND s.group_name <> ALL (ARRAY(
					SELECT n.group_name
					FROM shardring.shares(ring, to_version) AS n))
		)
		SELECT o.group_name, o.share,
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.to_group = o.group_name),
			(SELECT coalesce(sum(m.share), 0) FROM moved AS m
			 WHERE m.from_group = o.group_name)
		FROM owner AS o;
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.share_changes(text, integer, integer) IS
	'shares of a version, and what each owner gained and lost since another';

CREATE FUNCTION shardring_internal.shows_shards(
	ring text, from_version integer, to_version integer)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100000
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF from_version IS NULL THEN
		RETURN 1 = (SELECT count(*) FROM shardring.shares(ring, to_version))
			AND 1 < (SELECT count(*)
					 FROM shardring.shard_shares(ring, to_version));
	END IF;
	RETURN NOT EXISTS (
			SELECT FROM shardring.moved_ranges(ring, from_version, to_version))
		AND EXISTS (
			SELECT FROM shardring.move_plan(ring, from_version, to_version));
END
$body$;
COMMENT ON FUNCTION
	shardring_internal.shows_shards(text, integer, integer) IS
	'whether bars stand for shards rather than groups';

/*
 * Before and after are told by one bar: # stays with the owner, + comes to
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
	), scaled AS (
		SELECT c.*,
			coalesce(40 / nullif(max(c.share + c.lost) OVER (), 0), 0)
				AS scale,
			least(max(length(c.name)) OVER (), 20) AS width,
			regexp_replace(CASE WHEN length(c.name) > 20
				THEN left(c.name, 9) || '...' || right(c.name, 8)
				ELSE c.name END, '[[:cntrl:]]', '?', 'g') AS label
		FROM asked AS a
			CROSS JOIN LATERAL shardring_internal.share_changes(
				share_bars.ring, share_bars.from_version, a.version) AS c
	), lines AS (
		SELECT 2 AS part, s.name, rtrim(
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
	ORDER BY l.part, l.name COLLATE "C";
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
