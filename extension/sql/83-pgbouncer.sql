/*
 * 83-pgbouncer.sql
 *		The databases of pgbouncer.
 */

/*
 * Values are in apostrophes, doubled inside; for names pgbouncer has nothing
 * of the kind.
 */
CREATE FUNCTION shardring.pgbouncer_databases(ring text) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL UNSAFE COST 1000 ROWS 10
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	line record;
BEGIN
	FOR line IN
		SELECT l.shard, l.server, f.oid IS NULL AS missing, (
			SELECT string_agg(format('%s=''%s''', o.option_name,
									 replace(o.option_value, '''', '''''')),
							  ' ' ORDER BY o.option_name)
			FROM pg_options_to_table(f.srvoptions) AS o
			WHERE o.option_name = ANY (ARRAY['host', 'port', 'dbname'])
			) AS address
		FROM shardring.live_shards(ring) AS l
			LEFT JOIN pg_foreign_server AS f ON f.srvname = l.server
		ORDER BY l.number
	LOOP
		IF line.missing THEN
			PERFORM shardring_internal.fail('42704', format(
				'server "%s" does not exist', line.server));
		ELSIF line.shard !~ '^[-_.A-Za-z0-9]+$' OR line.shard = 'pgbouncer'
		THEN
			PERFORM shardring_internal.fail('22023', format(
				'shard name "%s" cannot be a database name in pgbouncer',
				line.shard),
				detail => 'It allows ASCII letters, digits, ".", "-", and '
					'"_".');
		ELSIF line.address ~ '[[:cntrl:]]' THEN
			PERFORM shardring_internal.fail('22023', format(
				'server "%s" has options with control characters',
				line.server));
		END IF;
		RETURN NEXT format('%s = %s', line.shard, line.address);
	END LOOP;
END
$body$;
COMMENT ON FUNCTION shardring.pgbouncer_databases(text) IS
	'lines for the databases section of pgbouncer.ini, one per shard';

