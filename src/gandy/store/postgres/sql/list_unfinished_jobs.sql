-- list_unfinished_jobs: the same for states that are not final; it does not look at all the jobs that are.
WITH candidate AS MATERIALIZED (
    SELECT job, key FROM {schema}.jobs
    WHERE job < %(before)s AND NOT EXISTS (SELECT FROM {schema}.done WHERE done.key = jobs.key)
    UNION ALL
    SELECT job, key FROM {schema}.reopened JOIN {schema}.jobs USING (key) WHERE job < %(before)s
), found AS MATERIALIZED (
    SELECT candidate.job, c.state, c.held, c.tasks, c.is_open, c.changed,
        c.waiting, c.running, c.finished, c.failed, c.cancelled, c.assigned
    FROM candidate,
        LATERAL (SELECT * FROM {schema}.changes WHERE key = candidate.key ORDER BY number DESC LIMIT 1) AS c
    WHERE c.state = ANY (%(states)s::int[])
    ORDER BY candidate.job DESC LIMIT %(limit)s
)
SELECT * FROM (
    SELECT j.job, j.spec, j.submitted, f.state, f.held, f.tasks, f.is_open, f.changed,
        f.waiting, f.running, f.finished, f.failed, f.cancelled, f.assigned,
        sum(length(j.spec)) OVER (ORDER BY j.job DESC) - length(j.spec) AS bytes_before
    FROM found AS f JOIN {schema}.jobs AS j USING (job)
) AS page WHERE bytes_before <= %(bytes)s ORDER BY job DESC
