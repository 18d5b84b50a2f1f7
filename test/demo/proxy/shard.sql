-- shard.sql: a shard's table, and what PL/Proxy calls there

CREATE TABLE held (key text PRIMARY KEY, value text);

CREATE FUNCTION put(key text, value text) RETURNS text LANGUAGE sql AS $$
	INSERT INTO held VALUES (key, value)
	RETURNING current_setting('shardring.shard');
$$;
CREATE FUNCTION get(key text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT h.value FROM held AS h WHERE h.key = get.key;
$$;
CREATE FUNCTION del(key text) RETURNS void LANGUAGE sql AS $$
	DELETE FROM held AS h WHERE h.key = del.key;
$$;
