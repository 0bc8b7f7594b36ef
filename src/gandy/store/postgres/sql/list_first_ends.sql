-- list_first_ends: ends of first attempts at some tasks, for those about which other rows exist.
SELECT task, attempt, step, state, at, due, failures, crashes, ending, 0 FROM {schema}.ends
WHERE key = %(key)s AND task = ANY (%(tasks)s::int[])
    AND attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL
