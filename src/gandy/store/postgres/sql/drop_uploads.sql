-- drop_uploads: when a shard is opened, forgets lines whose job never came: their clients send them again.
WITH fence AS MATERIALIZED (
    SELECT 1 FROM {schema}.shards WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s FOR SHARE
), gone AS (
    DELETE FROM {schema}.uploads USING fence WHERE shard = %(shard)s RETURNING key
), lines AS (
    DELETE FROM {schema}.lines USING gone WHERE lines.key = gone.key
        AND NOT EXISTS (SELECT FROM {schema}.jobs WHERE jobs.key = gone.key)
)
SELECT count(*) FROM fence
