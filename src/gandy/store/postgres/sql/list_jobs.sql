-- list_jobs: jobs below a number and in some states, the newest first, as many as fit a page.
SELECT * FROM (
    SELECT *, sum(length(spec)) OVER (ORDER BY job DESC) - length(spec) AS bytes_before FROM (
        SELECT j.job, j.spec, j.submitted, c.state, c.held, c.tasks, c.is_open, c.changed,
            c.waiting, c.running, c.finished, c.failed, c.cancelled, c.assigned
        FROM {schema}.jobs AS j,
            LATERAL (SELECT * FROM {schema}.changes WHERE key = j.key ORDER BY number DESC LIMIT 1) AS c
        WHERE j.job < %(before)s AND c.state = ANY (%(states)s::int[])
        ORDER BY j.job DESC LIMIT %(limit)s
    ) AS found
) AS page WHERE bytes_before <= %(bytes)s ORDER BY job DESC
