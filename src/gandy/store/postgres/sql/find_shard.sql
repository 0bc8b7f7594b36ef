-- find_shard: the shard of a job, or 0 if that is retired.
SELECT coalesce((SELECT s.shard FROM {schema}.shards AS s WHERE s.shard = j.shard AND NOT s.is_retired), 0)
FROM {schema}.jobs AS j WHERE j.job = %(job)s
