-- find_ends: all that was appended about the last attempt at each of some tasks, as much as fits a page, and how much
-- there is.
SELECT task, attempt, step, state, at, due, failures, crashes, ending, total FROM (
    SELECT *, count(*) OVER () AS total,
        sum(length(ending)) OVER (ORDER BY task) - sum(length(ending)) OVER (PARTITION BY task) AS bytes
    FROM (
        SELECT e.* FROM unnest(%(tasks)s::int[]) AS t (task), LATERAL (
            SELECT * FROM {schema}.ends WHERE key = %(key)s AND ends.task = t.task
                AND attempt = (SELECT max(attempt) FROM {schema}.ends WHERE key = %(key)s AND ends.task = t.task)
        ) AS e
    ) AS found
) AS measured WHERE coalesce(bytes, 0) <= %(bytes)s ORDER BY task, attempt, step
