-- find_commit: tells whether a commit was done, and whether the shard is still ours. The lock waits for the commit to end.
WITH locked AS MATERIALIZED (SELECT owner, epoch FROM {schema}.shards WHERE shard = %(shard)s FOR UPDATE)
SELECT EXISTS (SELECT FROM locked WHERE owner = %(owner)s AND epoch = %(epoch)s), pg_is_in_recovery()
