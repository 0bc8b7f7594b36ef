-- retire_lock: locks a shard against commits, so that it gets no more jobs.
SELECT FROM {schema}.shards WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s AND NOT is_retired FOR UPDATE
