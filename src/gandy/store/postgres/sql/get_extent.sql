-- get_extent: since when all samples of each level are kept, if older ones were dropped; and how many shards there were.
WITH RECURSIVE next (shard) AS (
    (SELECT shard FROM {schema}.hourly ORDER BY shard LIMIT 1)
    UNION ALL
    SELECT (SELECT h.shard FROM {schema}.hourly AS h WHERE h.shard > next.shard ORDER BY h.shard LIMIT 1)
    FROM next WHERE next.shard IS NOT NULL
), known AS (SELECT shard FROM next WHERE shard IS NOT NULL)
SELECT
    CASE WHEN (SELECT min(part) FROM {schema}.parts WHERE family = 'samples') > 1 THEN (
        SELECT min(s.at) FROM known,
            LATERAL (SELECT at FROM {schema}.samples WHERE shard = known.shard ORDER BY at LIMIT 1) AS s) END,
    CASE WHEN (SELECT min(part) FROM {schema}.parts WHERE family = 'keyframes') > 1 THEN (
        SELECT min(s.at) FROM known,
            LATERAL (SELECT at FROM {schema}.keyframes WHERE shard = known.shard ORDER BY at LIMIT 1) AS s) END,
    CASE WHEN (SELECT min(part) FROM {schema}.parts WHERE family = 'hourly') > 1 THEN (
        SELECT min(s.at) FROM known,
            LATERAL (SELECT at FROM {schema}.hourly WHERE shard = known.shard ORDER BY at LIMIT 1) AS s) END,
    (SELECT count(*) FROM known)
