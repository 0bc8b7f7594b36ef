-- fence: locks our shard, if it is still ours. Without it, nothing of a commit is written.
SELECT 1 FROM {schema}.shards
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s AND generation = %(generation)s FOR SHARE
