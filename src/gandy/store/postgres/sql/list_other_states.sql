-- list_other_states: the tasks of a range that did not simply finish, four bytes each, by what became of them last.
SELECT state, string_agg(int4send(task), '') FROM (
    SELECT DISTINCT ON (task) task, attempt, state FROM {schema}.ends
    WHERE key = %(key)s AND task >= %(first)s AND task <= %(last)s
        AND NOT (attempt = 1 AND step = 0 AND state = 2 AND failures IS NULL AND crashes IS NULL)
    ORDER BY task, attempt DESC, step DESC
) AS other
WHERE attempt > 0 OR NOT EXISTS (
    SELECT FROM {schema}.ends AS e WHERE e.key = %(key)s AND e.task = other.task AND e.attempt = 1 AND e.step = 0
)
GROUP BY state
