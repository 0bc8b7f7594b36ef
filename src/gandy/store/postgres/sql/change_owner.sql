-- change_owner: gives a shard to another foreman, if it is still as it was seen. A lease that had expired may have been
-- renewed since: then it is not.
UPDATE {schema}.shards SET owner = %(heir)s, epoch = epoch + 1, generation = 0, taken = clock_timestamp()
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s AND NOT is_retired
    AND NOT (%(has_expired)s::boolean AND EXISTS (
        SELECT FROM {schema}.foremen WHERE id = %(owner)s AND seen > clock_timestamp() - %(lease)s * interval '1 second'))
RETURNING epoch
