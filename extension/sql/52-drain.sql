/*
 * 52-drain.sql
 *		Waiting for those who still use an older version.
 */

CREATE FUNCTION shardring.wait_for_drain(
	ring text, version integer, timeout interval DEFAULT '1 min')
RETURNS void
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000
AS 'MODULE_PATHNAME', 'shardring_wait_for_drain';
COMMENT ON FUNCTION shardring.wait_for_drain(text, integer, interval) IS
	'waits until no open transaction can use a version older than this one';

