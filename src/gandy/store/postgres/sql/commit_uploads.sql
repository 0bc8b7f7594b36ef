-- commit_uploads: notes keys under which lines are sent before their job.
INSERT INTO {schema}.uploads (shard, key) SELECT %(shard)s::int, u.* FROM fence, unnest(%(uploads_0)s::bigint[]) AS u
