-- check_writable: locks our shard as a commit does, which no standby and no full or read-only server lets us do.
SELECT pg_is_in_recovery(), (
    SELECT count(*) FROM (
        SELECT FROM {schema}.shards WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s FOR SHARE
    ) AS locked)
