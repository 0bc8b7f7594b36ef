-- load_first_ends: the simple ends of tasks about which other rows exist, too.
SELECT e.key, e.task, e.attempt, e.step, e.state, e.at, e.due, e.failures, e.crashes, e.ending
FROM unnest(%(keys)s::bigint[], %(tasks)s::int[]) AS u (key, task) JOIN {schema}.ends AS e USING (key, task)
WHERE e.key = ANY (%(keys)s::bigint[])
    AND attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL
