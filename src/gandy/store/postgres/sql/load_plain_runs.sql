-- load_plain_runs: runs of tasks that simply finished, of some jobs.
SELECT key, min(task), max(task) FROM (
    SELECT key, task, task - row_number() OVER (PARTITION BY key ORDER BY task) AS run FROM {schema}.ends
    WHERE key = ANY (%(keys)s::bigint[])
        AND attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL
) AS found GROUP BY key, run ORDER BY key, 2
