-- commit_jobs: adds jobs.
INSERT INTO {schema}.jobs (shard, job, key, submission, submitted, spec)
SELECT %(shard)s::int, u.*
FROM fence, unnest(%(jobs_0)s::bigint[], %(jobs_1)s::bigint[], %(jobs_2)s::bigint[], %(jobs_3)s::double precision[],
    %(jobs_4)s::bytea[]) AS u
