-- adopt: a job that belongs to no shard, because its own is retired, becomes one of ours.
UPDATE {schema}.jobs SET shard = %(shard)s
FROM (SELECT FROM {schema}.shards WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s FOR SHARE) AS fence
WHERE job = %(job)s AND shard <> %(shard)s
    AND shard IN (SELECT shard FROM {schema}.shards WHERE is_retired)
