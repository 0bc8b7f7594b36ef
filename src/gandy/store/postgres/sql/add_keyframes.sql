-- add_keyframes: appends samples of this level, if the shard that has them is ours.
WITH fence AS MATERIALIZED (
    SELECT FROM {schema}.shards
    WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s AND generation = %(generation)s FOR SHARE
)
INSERT INTO {schema}.keyframes (part, shard, number, run, base, at, packed)
SELECT %(part)s::int, u.*
FROM fence, unnest(%(shards)s::int[], %(numbers)s::bigint[], %(runs)s::bigint[], %(bases)s::bigint[],
    %(times)s::double precision[], %(packed)s::bytea[]) AS u (shard, number, run, base, at, packed)
