-- find_commit: waits for the last commit of our shard to end, and rules out that it is done later.
UPDATE {schema}.shards SET generation = generation + 1
WHERE shard = %(shard)s AND owner = %(owner)s AND epoch = %(epoch)s
RETURNING generation
