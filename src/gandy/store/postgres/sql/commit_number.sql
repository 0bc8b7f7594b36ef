-- commit_number: notes that this commit was done.
INSERT INTO {schema}.commits (part, shard, epoch, number)
SELECT %(commit_part)s::int, %(shard)s, %(epoch)s, %(number)s FROM fence
