-- commit_reopened: notes jobs that are final no longer.
INSERT INTO {schema}.reopened (key) SELECT u.* FROM fence, unnest(%(reopened_0)s::bigint[]) AS u ON CONFLICT DO NOTHING
