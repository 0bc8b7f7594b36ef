-- change_owner: gives a shard to another foreman, if it is still as it was seen.
UPDATE {schema}.shards SET owner = %(heir)s, epoch = epoch + 1, taken = clock_timestamp()
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s AND NOT is_retired RETURNING epoch
