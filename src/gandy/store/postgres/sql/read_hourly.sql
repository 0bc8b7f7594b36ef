-- read_hourly: samples of this level behind one, by time.
SELECT shard, number, run, base, at, packed FROM {schema}.hourly
WHERE (at, shard, number) > (%(at)s, %(shard)s, %(number)s) ORDER BY at, shard, number LIMIT %(limit)s
