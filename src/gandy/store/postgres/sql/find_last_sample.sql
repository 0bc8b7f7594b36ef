-- find_last_sample: the last sample of a shard, and when its last hourly one was made.
SELECT shard, number, run, base, level, at, packed,
    (SELECT at FROM {schema}.hourly WHERE shard = %(shard)s ORDER BY number DESC LIMIT 1)
FROM (
    (SELECT shard, number, run, base, 0 AS level, at, packed FROM {schema}.samples
    WHERE shard = %(shard)s ORDER BY number DESC LIMIT 1)
    UNION ALL
    (SELECT shard, number, run, base, 1, at, packed FROM {schema}.keyframes
    WHERE shard = %(shard)s ORDER BY number DESC LIMIT 1)
    UNION ALL
    (SELECT shard, number, run, base, 2, at, packed FROM {schema}.hourly
    WHERE shard = %(shard)s ORDER BY number DESC LIMIT 1)
) AS found ORDER BY number DESC LIMIT 1
