-- load_heads: jobs with some keys, as find_job gives them, the oldest first.
SELECT j.job, j.spec, j.submitted, c.state, c.held, c.tasks, c.is_open, c.changed,
    c.waiting, c.running, c.finished, c.failed, c.cancelled, c.assigned, j.key, c.number, c.fresh, j.shard,
    EXISTS (SELECT FROM {schema}.done WHERE done.key = j.key)
FROM {schema}.jobs AS j, LATERAL (SELECT * FROM {schema}.changes WHERE key = j.key ORDER BY number DESC LIMIT 1) AS c
WHERE j.key = ANY (%(keys)s::bigint[]) ORDER BY j.job
