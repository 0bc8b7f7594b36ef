-- load_other_ends: all that was appended about tasks of some jobs, without those that simply finished.
SELECT key, task, attempt, step, state, at, due, failures, crashes, ending FROM {schema}.ends
WHERE key = ANY (%(keys)s::bigint[])
    AND NOT (attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL)
ORDER BY key, task, attempt, step
