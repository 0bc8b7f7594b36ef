-- list_near: samples of each shard between two times.
SELECT s.shard, s.number, s.run, s.base, s.level, s.at, s.packed
FROM unnest(%(shards)s::int[], %(begins)s::double precision[], %(ends)s::double precision[])
    AS wanted (shard, first, last), LATERAL (
    SELECT shard, number, run, base, 0 AS level, at, packed FROM {schema}.samples
    WHERE shard = wanted.shard AND at BETWEEN wanted.first AND wanted.last
    UNION ALL
    SELECT shard, number, run, base, 1, at, packed FROM {schema}.keyframes
    WHERE shard = wanted.shard AND at BETWEEN wanted.first AND wanted.last
    UNION ALL
    SELECT shard, number, run, base, 2, at, packed FROM {schema}.hourly
    WHERE shard = wanted.shard AND at BETWEEN wanted.first AND wanted.last
) AS s
