-- list_open_jobs: the keys of a shard's jobs that a foreman must know when it starts.
SELECT key, job FROM {schema}.jobs
WHERE shard = %(shard)s AND NOT EXISTS (SELECT FROM {schema}.done WHERE done.key = jobs.key)
UNION
SELECT key, job FROM {schema}.jobs JOIN {schema}.reopened USING (key) WHERE shard = %(shard)s
ORDER BY job
