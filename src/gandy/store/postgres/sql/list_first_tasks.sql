-- list_first_tasks: the tasks of some blocks that have ended a first attempt, four bytes each.
SELECT string_agg(tasks, '') FROM unnest(%(firsts)s::int[]) AS b (first), LATERAL (
    SELECT string_agg(int4send(task), '') AS tasks FROM {schema}.ends
    WHERE key = %(key)s AND task >= b.first AND task < b.first + %(block)s AND task <= %(last)s
        AND attempt = 1 AND step = 0
) AS found
