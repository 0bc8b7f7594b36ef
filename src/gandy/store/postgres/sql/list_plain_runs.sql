-- list_plain_runs: runs of tasks that simply finished at the first attempt.
SELECT min(task), max(task) FROM (
    SELECT task, task - row_number() OVER (ORDER BY task) AS run FROM {schema}.ends
    WHERE key = %(key)s AND task > %(after)s AND task <= %(last)s
        AND attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL
) AS found GROUP BY run ORDER BY 1
