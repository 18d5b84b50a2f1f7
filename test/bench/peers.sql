/*
 * peers.sql
 *		What people route with when they have no extension.
 *
 * Both peers work on the points of a ring of ours, so that all of them give
 * the same answer; peer_agree says whether they do.
 */

CREATE TABLE peer_point
(
	ring text COLLATE "C" NOT NULL,
	key_position bigint NOT NULL,
	shard text COLLATE "C" NOT NULL,
	PRIMARY KEY (ring, key_position) INCLUDE (shard)
);

/*
 * The position of a key in plain SQL.
 */
CREATE FUNCTION peer_position(key text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || substr(md5(key), 1, 8))::bit(32)::bigint;

/*
 * A ring as a function of PL/pgSQL over a B-tree.
 */
CREATE FUNCTION peer_btree(ring text, key text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $body$
DECLARE
	wanted bigint := ('x' || substr(md5(key), 1, 8))::bit(32)::bigint;
	found_shard text;
BEGIN
	SELECT p.shard INTO found_shard FROM peer_point AS p
	WHERE p.ring = peer_btree.ring AND p.key_position >= wanted
	ORDER BY p.key_position
	LIMIT 1;
	IF NOT FOUND THEN
		SELECT p.shard INTO found_shard FROM peer_point AS p
		WHERE p.ring = peer_btree.ring
		ORDER BY p.key_position
		LIMIT 1;
	END IF;
	RETURN found_shard;
END
$body$;

/*
 * A ring as one expression of key k: width_bucket over the points as literal,
 * an array of owners, an array of their names.
 */
CREATE FUNCTION peer_width_bucket(ring text) RETURNS text
LANGUAGE sql STABLE
RETURN (
	WITH point AS (
		SELECT p.key_position, p.shard,
			dense_rank() OVER (ORDER BY p.shard) AS owner
		FROM peer_point AS p WHERE p.ring = peer_width_bucket.ring
	)
	SELECT format(
		'(%L::text[])[(%L::int[])[1 + width_bucket(('
		'''x'' || substr(md5(k), 1, 8))::bit(32)::bigint, %L::bigint[])]]',
		(SELECT array_agg(DISTINCT shard ORDER BY shard) FROM point),
		array_agg(owner ORDER BY key_position) ||
			(array_agg(owner ORDER BY key_position))[1],
		array_agg(key_position + 1 ORDER BY key_position))
	FROM point
);
