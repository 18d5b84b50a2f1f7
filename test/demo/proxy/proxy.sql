-- proxy.sql: the functions that PL/Proxy sends to the shards

CREATE USER MAPPING FOR CURRENT_USER SERVER orders;

CREATE FUNCTION put(key text, value text) RETURNS text LANGUAGE plproxy AS $$
	CLUSTER 'orders';
	RUN ON shardring.plproxy_partition('orders', key);
$$;
CREATE FUNCTION get(key text) RETURNS SETOF text LANGUAGE plproxy AS $$
	CLUSTER 'orders';
	RUN ON shardring.plproxy_partition('orders', key);
$$;
CREATE FUNCTION del(key text) RETURNS void LANGUAGE plproxy AS $$
	CLUSTER 'orders';
	RUN ON shardring.plproxy_partition('orders', key);
$$;
CREATE FUNCTION get_many(keys text[], OUT shard text, OUT key text)
RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'orders';
	SPLIT keys;
	RUN ON shardring.plproxy_partition('orders', keys);
	SELECT current_setting('shardring.shard') AS shard, h.key
	FROM held AS h WHERE h.key = ANY (keys);
$$;
CREATE FUNCTION get_all(OUT shard text, OUT key text)
RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'orders';
	RUN ON ALL;
	SELECT current_setting('shardring.shard') AS shard, h.key FROM held AS h;
$$;
