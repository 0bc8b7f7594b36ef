-- find_claims: the runs of claims that have some attempts. Runs of the same attempt do not overlap.
SELECT DISTINCT c.first, c.last, c.attempt, c.state, c.at, c.worker
FROM unnest(%(tasks)s::int[], %(attempts)s::int[]) AS t (task, attempt), LATERAL (
    SELECT * FROM {schema}.claims
    WHERE key = %(key)s AND attempt = t.attempt AND last >= t.task AND last < t.task::bigint + %(longest)s
    ORDER BY last LIMIT 1
) AS c WHERE c.first <= t.task ORDER BY c.attempt, c.last
