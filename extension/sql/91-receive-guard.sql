/*
 * 91-receive-guard.sql
 *		On a shard: the other end of guard_table.
 */

/*
 * Changes nothing.  That nothing is active, or that the ring is not there,
 * is no problem, since guard_table pushes it.
 */
CREATE FUNCTION shardring.check_guard(
	ring text, relation text, key_column name,
	OUT guarded boolean, OUT problem text, OUT hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'relation', relation, 'key_column', key_column);
	guarded := false;
	guarded := shardring_internal.may_guard(ring, relation, key_column);
EXCEPTION
	WHEN null_value_not_allowed THEN
		RAISE;
	WHEN OTHERS THEN
		problem := SQLERRM;
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		hint := nullif(hint, '');
END
$body$;
COMMENT ON FUNCTION shardring.check_guard(text, text, name) IS
	'why a table of this shard cannot be guarded, and whether it is';
REVOKE EXECUTE ON FUNCTION shardring.check_guard(text, text, name)
	FROM PUBLIC;

/* Returns whether the guard is there already. */
CREATE FUNCTION shardring_internal.may_guard(
	ring text, relation text, key_column name)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_table regclass := shardring_internal.require_table(relation);
BEGIN
	IF pg_is_in_recovery() THEN
		PERFORM shardring_internal.fail('25006', 'the server is in recovery');
	ELSIF NOT pg_has_role((SELECT c.relowner FROM pg_class AS c
						   WHERE c.oid = found_table), 'USAGE')
	THEN
		PERFORM shardring_internal.fail('42501', format(
			'must be owner of table %s', found_table));
	END IF;
	PERFORM shardring_internal.require_name_right();
	PERFORM shardring_internal.require_guardable(found_table, key_column);
	PERFORM shardring_internal.refuse_other_trigger(
		ring, found_table, key_column);
	RETURN EXISTS (SELECT FROM pg_trigger AS t
				   WHERE t.tgrelid = found_table AND t.tgname = 'zz_guard');
END
$body$;
COMMENT ON FUNCTION shardring_internal.may_guard(text, text, name) IS
	'raises unless this role may guard this table';
REVOKE EXECUTE ON FUNCTION shardring_internal.may_guard(text, text, name)
	FROM PUBLIC;

CREATE FUNCTION shardring_internal.require_table(relation text)
RETURNS regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_table regclass := shardring_internal.find_table(relation);
BEGIN
	IF found_table IS NULL THEN
		PERFORM shardring_internal.fail('42P01', format(
			'table %s does not exist', relation));
	END IF;
	RETURN found_table;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_table(text) IS
	'the table with this qualified name';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_table(text)
	FROM PUBLIC;

/* PostgreSQL's majors do not agree on what they say of what is no name. */
CREATE FUNCTION shardring_internal.find_table(relation text)
RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	parts text[];
BEGIN
	BEGIN
		IF octet_length(relation) <= 1000 THEN
			parts := parse_ident(relation);
		END IF;
	EXCEPTION
		WHEN invalid_parameter_value THEN
			NULL;	/* told below */
	END;
	IF cardinality(parts) BETWEEN 1 AND 3 THEN
		RETURN to_regclass(relation);
	END IF;
	PERFORM shardring_internal.fail('42602', format(
		'"%s" is not the name of a table', left(relation, 60)));
END
$body$;
COMMENT ON FUNCTION shardring_internal.find_table(text) IS
	'the table of this name, or NULL; 42602 for what is no name';

/* What ALTER DATABASE ... SET will want, if it is needed. */
CREATE FUNCTION shardring_internal.require_name_right() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
	IF (SELECT i.shard FROM shardring.shard_identity() AS i) IS NULL
		AND NOT (has_parameter_privilege('shardring.shard', 'SET')
				 AND pg_has_role((SELECT d.datdba FROM pg_database AS d
								  WHERE d.datname = current_database()),
								 'USAGE'))
	THEN
		PERFORM shardring_internal.fail('42501',
			'setting shardring.shard needs superuser or owner + SET',
			detail => 'Parameter "shardring.shard" is not set here, and '
				'only a superuser, or the owner of the database with SET on '
				'the parameter, can set it.',
			hint => format(
				'ALTER DATABASE %I SET shardring.shard = ''name'';',
				current_database()));
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.require_name_right() IS
	'raises when the shard has no name and this role may give it none';
REVOKE EXECUTE ON FUNCTION shardring_internal.require_name_right()
	FROM PUBLIC;

/*
 * The map has said which shard it means; a ring that does not have it yet, as
 * when it is in a draft, lets no row in.  Returns whether the guard was there
 * before.
 */
CREATE FUNCTION shardring.receive_guard(
	ring text, relation text, key_column name, wanted boolean,
	expected_shards jsonb, OUT guarded boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	found_table regclass;
BEGIN
	PERFORM shardring_internal.refuse_null(
		'ring', ring, 'relation', relation, 'key_column', key_column,
		'wanted', wanted::text, 'expected_shards', expected_shards::text);
	PERFORM shardring_internal.require_expected(expected_shards);
	PERFORM shardring_internal.require_ring(ring);
	found_table := shardring_internal.require_table(relation);
	guarded := EXISTS (
		SELECT FROM pg_trigger AS t
		WHERE t.tgrelid = found_table AND t.tgname = 'zz_guard');
	IF wanted THEN
		PERFORM shardring_internal.name_this_shard(expected_shards);
		PERFORM shardring_internal.make_guard(ring, found_table, key_column);
	ELSE
		PERFORM shardring.drop_guard(found_table);
	END IF;
END
$body$;
COMMENT ON FUNCTION
	shardring.receive_guard(text, text, name, boolean, jsonb) IS
	'makes the guard of a table that the map wants, or drops it';
REVOKE EXECUTE ON FUNCTION
	shardring.receive_guard(text, text, name, boolean, jsonb) FROM PUBLIC;

/*
 * Sets it for this transaction too: what the database has was read before.
 */
CREATE FUNCTION shardring_internal.name_this_shard(expected_shards jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
	here record;
	names jsonb;
BEGIN
	SELECT i.* INTO STRICT here FROM shardring.shard_identity() AS i;
	names := expected_shards -> format('%s/%s', here.system_identifier,
									   here.database_oid);
	IF here.shard IS NULL THEN
		IF jsonb_typeof(names) IS DISTINCT FROM 'array'
			OR jsonb_typeof(names -> 0) IS DISTINCT FROM 'string'
		THEN
			PERFORM shardring_internal.fail('22023',
				'the map names no shard in this database');
		ELSIF jsonb_array_length(names) <> 1 THEN
			PERFORM shardring_internal.fail('55000',
				'several shards are in this database');
		END IF;
		EXECUTE format('ALTER DATABASE %I SET shardring.shard = %L',
					   here.database, names ->> 0);
		PERFORM set_config('shardring.shard', names ->> 0, true);
	END IF;
END
$body$;
COMMENT ON FUNCTION shardring_internal.name_this_shard(jsonb) IS
	'sets shardring.shard for this database where it is not set';
REVOKE EXECUTE ON FUNCTION shardring_internal.name_this_shard(jsonb)
	FROM PUBLIC;
