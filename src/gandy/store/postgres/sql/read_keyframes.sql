-- read_keyframes: samples of this level behind one, by time.
SELECT shard, number, run, base, at, packed FROM {schema}.keyframes
WHERE (at, shard, number) > (%(at)s, %(shard)s, %(number)s) ORDER BY at, shard, number LIMIT %(limit)s
