-- find_chains: samples between two numbers of each shard.
SELECT s.shard, s.number, s.run, s.base, s.level, s.at, s.packed
FROM unnest(%(shards)s::int[], %(firsts)s::bigint[], %(lasts)s::bigint[]) AS wanted (shard, first, last), LATERAL (
    SELECT shard, number, run, base, 0 AS level, at, packed FROM {schema}.samples
    WHERE shard = wanted.shard AND number BETWEEN wanted.first AND wanted.last
    UNION ALL
    SELECT shard, number, run, base, 1, at, packed FROM {schema}.keyframes
    WHERE shard = wanted.shard AND number BETWEEN wanted.first AND wanted.last
    UNION ALL
    SELECT shard, number, run, base, 2, at, packed FROM {schema}.hourly
    WHERE shard = wanted.shard AND number BETWEEN wanted.first AND wanted.last
) AS s ORDER BY 1, 2
