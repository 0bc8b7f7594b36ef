-- commit_jobs: adds jobs.
INSERT INTO {schema}.jobs (shard, job, key, submission, submitted, spec)
SELECT %(shard)s::int, %(jobs_0)s[i], %(jobs_1)s[i], %(jobs_2)s[i], %(jobs_3)s[i], %(jobs_4)s[i] FROM fence{rows jobs_4}
