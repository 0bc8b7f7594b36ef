-- find_history: the last sample of each shard up to a time. Each shard has hourly samples.
WITH RECURSIVE next (shard) AS (
    (SELECT shard FROM {schema}.hourly ORDER BY shard LIMIT 1)
    UNION ALL
    SELECT (SELECT h.shard FROM {schema}.hourly AS h WHERE h.shard > next.shard ORDER BY h.shard LIMIT 1)
    FROM next WHERE next.shard IS NOT NULL
), known AS (SELECT shard FROM next WHERE shard IS NOT NULL)
SELECT last.* FROM known, LATERAL (
    SELECT * FROM (
        (SELECT shard, number, run, base, 0 AS level, at, packed FROM {schema}.samples
        WHERE shard = known.shard AND at <= %(at)s ORDER BY at DESC LIMIT 1)
        UNION ALL
        (SELECT shard, number, run, base, 1, at, packed FROM {schema}.keyframes
        WHERE shard = known.shard AND at <= %(at)s ORDER BY at DESC LIMIT 1)
        UNION ALL
        (SELECT shard, number, run, base, 2, at, packed FROM {schema}.hourly
        WHERE shard = known.shard AND at <= %(at)s ORDER BY at DESC LIMIT 1)
    ) AS found ORDER BY at DESC, number DESC LIMIT 1
) AS last
