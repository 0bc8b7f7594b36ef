-- make_shard: makes a shard with the next number, unless another foreman makes the same one.
INSERT INTO {schema}.shards (shard, owner, epoch, taken)
SELECT coalesce(max(shard), 0) + 1, %(id)s, 1, clock_timestamp() FROM {schema}.shards
ON CONFLICT DO NOTHING RETURNING shard, epoch
