-- list_unfinished_jobs: the same for states that are not final; it does not look at all the jobs that are.
SELECT * FROM (
    SELECT *, sum(length(spec)) OVER (ORDER BY job DESC) - length(spec) AS bytes_before FROM (
        SELECT j.job, j.spec, j.submitted, c.state, c.held, c.tasks, c.is_open, c.changed,
            c.waiting, c.running, c.finished, c.failed, c.cancelled, c.assigned
        FROM (
            SELECT key FROM {schema}.jobs WHERE NOT EXISTS (SELECT FROM {schema}.done WHERE done.key = jobs.key)
            UNION SELECT key FROM {schema}.reopened
        ) AS candidate JOIN {schema}.jobs AS j USING (key),
            LATERAL (SELECT * FROM {schema}.changes WHERE key = j.key ORDER BY number DESC LIMIT 1) AS c
        WHERE j.job < %(before)s AND c.state = ANY (%(states)s::int[])
        ORDER BY j.job DESC LIMIT %(limit)s
    ) AS found
) AS page WHERE bytes_before <= %(bytes)s ORDER BY job DESC
