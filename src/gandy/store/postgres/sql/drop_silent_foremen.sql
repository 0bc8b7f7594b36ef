-- drop_silent_foremen: forgets foremen that own nothing and have been silent for an hour.
DELETE FROM {schema}.foremen WHERE seen < clock_timestamp() - interval '1 hour'
    AND NOT EXISTS (SELECT FROM {schema}.shards WHERE owner = foremen.id)
