-- commit_done: notes jobs that are final.
INSERT INTO {schema}.done (key) SELECT u.* FROM fence, unnest(%(done_0)s::bigint[]) AS u ON CONFLICT DO NOTHING
