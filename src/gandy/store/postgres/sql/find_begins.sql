-- find_begins: the runs of begun tasks that have some attempts.
SELECT DISTINCT b.first, b.last, b.attempt
FROM unnest(%(tasks)s::int[], %(attempts)s::int[]) AS t (task, attempt), LATERAL (
    SELECT * FROM {schema}.begins
    WHERE key = %(key)s AND attempt = t.attempt AND last >= t.task AND last < t.task::bigint + %(longest)s
    ORDER BY last LIMIT 1
) AS b WHERE b.first <= t.task ORDER BY b.attempt, b.last
