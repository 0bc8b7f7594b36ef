-- retire: ends a shard. Its jobs, which are final, belong to no shard then.
UPDATE {schema}.shards SET is_retired = true, owner = '', epoch = epoch + 1 WHERE shard = %(shard)s
