-- list_other_ends: the same without tasks that simply finished at the first attempt.
SELECT task, attempt, step, state, at, due, failures, crashes, ending, 0 FROM {schema}.ends
WHERE key = %(key)s AND task > %(after)s AND task <= %(last)s
    AND NOT (attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL)
ORDER BY task, attempt, step
