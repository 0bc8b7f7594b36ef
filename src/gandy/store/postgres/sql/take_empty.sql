-- take_empty: takes a shard that has no owner and no jobs that are not final, or one that was retired.
UPDATE {schema}.shards AS s
SET owner = %(id)s, epoch = s.epoch + 1, generation = 0, taken = clock_timestamp(), is_retired = false
WHERE s.shard = (
    SELECT shard FROM {schema}.shards WHERE is_retired OR (owner = '' AND NOT EXISTS (
        SELECT FROM {schema}.jobs WHERE jobs.shard = shards.shard
            AND (NOT EXISTS (SELECT FROM {schema}.done WHERE done.key = jobs.key)
                OR EXISTS (SELECT FROM {schema}.reopened WHERE reopened.key = jobs.key))))
    ORDER BY is_retired, shard LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING shard, epoch
