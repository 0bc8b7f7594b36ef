-- commit_results: appends what functions returned.
INSERT INTO {schema}.results (part, drops, key, task, attempt, at, value)
SELECT %(result_part)s::int, %(drops)s::int + u.drops, u.key, u.task, u.attempt, u.at, u.value
FROM fence, unnest(%(results_0)s::bigint[], %(results_1)s::int[], %(results_2)s::int[],
    %(results_3)s::double precision[], %(results_4)s::bytea[], %(results_5)s::int[])
    AS u (key, task, attempt, at, value, drops)
