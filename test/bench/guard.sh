#!/bin/bash
#
# guard.sh
#	What the guard costs: CPU time of a single-row INSERT without and with it.
#
# Each INSERT is a statement of its own in a transaction of its own.  CPU time
# is the backend's, from /proc, so other load on the machine matters little.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

install_missing server
make_root
start_cluster main 'shared_buffers = 128MB' 'max_wal_size = 4GB' \
	'autovacuum = off'
psql -qAtX -v ON_ERROR_STOP=1 <<'SQL'
SET client_min_messages = warning;
CREATE EXTENSION shardring;
SELECT count(*) AS done FROM (
	SELECT shardring.create_ring('orders')
	UNION ALL
	SELECT count(shardring.add_group('orders', 'g' || i,
		ARRAY['here']))
	FROM generate_series(0, 49) AS i
	UNION ALL
	SELECT shardring.activate('orders')) AS made;
SET shardring.shard = 'here';
CREATE UNLOGGED TABLE plain (key bigint, value text);
CREATE UNLOGGED TABLE guarded (LIKE plain);
CREATE TRIGGER zz_guard BEFORE INSERT ON guarded
	FOR EACH ROW EXECUTE FUNCTION shardring.guard('orders', 'key');
CREATE FUNCTION cpu() RETURNS bigint LANGUAGE sql AS $body$
	SELECT 10000 * (s[14]::bigint + s[15]::bigint)
	FROM string_to_array(pg_read_file(
		format('/proc/%s/stat', pg_backend_pid())), ' ') AS s;
$body$;
CREATE PROCEDURE measure(relation regclass, n integer, INOUT us numeric = 0)
LANGUAGE plpgsql AS $body$
DECLARE
	began bigint := cpu();
BEGIN
	FOR i IN 1 .. n LOOP
		IF relation = 'plain'::regclass THEN
			INSERT INTO plain VALUES (i, 'x');
		ELSE
			INSERT INTO guarded VALUES (i, 'x');
		END IF;
		COMMIT;
	END LOOP;
	us := round((cpu() - began)::numeric / n, 2);
END
$body$;
CALL measure('plain', 1000);
CALL measure('guarded', 1000);
\echo CPU time of an INSERT, in microseconds, three times: plain, guarded
CALL measure('plain', 50000);
CALL measure('guarded', 50000);
CALL measure('plain', 50000);
CALL measure('guarded', 50000);
CALL measure('plain', 50000);
CALL measure('guarded', 50000);
SQL
