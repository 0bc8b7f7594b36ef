-- list_history: of each run of each shard, the last sample in each step of time. Each shard has hourly samples.
WITH RECURSIVE next (shard) AS (
    (SELECT shard FROM {schema}.hourly ORDER BY shard LIMIT 1)
    UNION ALL
    SELECT (SELECT h.shard FROM {schema}.hourly AS h WHERE h.shard > next.shard ORDER BY h.shard LIMIT 1)
    FROM next WHERE next.shard IS NOT NULL
), known AS (SELECT shard FROM next WHERE shard IS NOT NULL)
SELECT DISTINCT ON (s.shard, s.run, place) s.shard, s.number, s.run, s.base, s.level, s.at, s.packed,
    floor((s.at - %(begin)s) / %(step)s) AS place
FROM known, LATERAL (
    SELECT shard, number, run, base, 0 AS level, at, packed FROM {schema}.samples
    WHERE %(level)s::int <= 0 AND shard = known.shard AND at >= %(begin)s AND at <= %(end)s
    UNION ALL
    SELECT shard, number, run, base, 1, at, packed FROM {schema}.keyframes
    WHERE %(level)s::int <= 1 AND shard = known.shard AND at >= %(begin)s AND at <= %(end)s
    UNION ALL
    SELECT shard, number, run, base, 2, at, packed FROM {schema}.hourly
    WHERE shard = known.shard AND at >= %(begin)s AND at <= %(end)s
) AS s ORDER BY s.shard, s.run, place, s.at DESC, s.number DESC
