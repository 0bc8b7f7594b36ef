-- list_given_states: the tasks of a range that a worker has, four bytes each, by whether it has begun them.
SELECT state, string_agg(int4send(task), '') FROM (
    SELECT task, CASE WHEN EXISTS (
        SELECT FROM {schema}.begins AS b WHERE b.key = %(key)s AND b.attempt = c.attempt
            AND b.first <= task AND b.last >= task AND b.last < task::bigint + %(longest)s
    ) THEN 1 ELSE c.state END AS state
    FROM {schema}.claims AS c,
        generate_series(greatest(c.first, %(first)s::int), least(c.last, %(last)s::int)) AS t (task)
    WHERE c.key = %(key)s AND c.last >= %(first)s AND c.last < %(last)s::bigint + %(longest)s AND c.first <= %(last)s
        AND NOT EXISTS (
            SELECT FROM {schema}.ends AS e WHERE e.key = %(key)s AND e.task = t.task AND e.attempt >= c.attempt
        )
) AS given
GROUP BY state
