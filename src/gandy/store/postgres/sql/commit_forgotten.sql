-- commit_forgotten: removes jobs of this shard, and of none.
DELETE FROM {schema}.jobs USING fence WHERE job = ANY (%(forgotten_0)s::bigint[])
    AND shard NOT IN (SELECT s.shard FROM {schema}.shards AS s WHERE NOT s.is_retired AND s.shard <> %(shard)s)
RETURNING key
