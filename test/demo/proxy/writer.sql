-- writer.sql: what pgbench calls on the proxy while servers join and leave
--
-- A write is acknowledged when its key is in table "written": put() has
-- returned, so it is committed on the shard.  Every other attempt also deletes
-- one of the first 10,000 keys; when del() has returned, it is in "gone".

CREATE SEQUENCE attempt;
CREATE TABLE written (key text PRIMARY KEY);
CREATE TABLE gone (key text PRIMARY KEY);
CREATE TABLE refused (state text, message text);

CREATE FUNCTION write_once() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	attempt bigint := nextval('attempt');
	new_key text := 'live:' || attempt;
	old_key text := 'key:' || attempt;
BEGIN
	-- an error may come before or after the row is gone
	DELETE FROM written AS w WHERE w.key = old_key AND attempt % 2 = 0;
	BEGIN
		PERFORM put(new_key, 'live');
		INSERT INTO written VALUES (new_key);
		IF attempt % 2 = 0 THEN
			PERFORM del(old_key);
			INSERT INTO gone VALUES (old_key);
		END IF;
	EXCEPTION WHEN OTHERS THEN
		INSERT INTO refused VALUES (SQLSTATE, SQLERRM);
	END;
END
$$;
