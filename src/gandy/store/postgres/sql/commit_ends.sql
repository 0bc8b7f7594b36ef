-- commit_ends: appends ends of attempts that left no account of failures, which is nearly all of them.
INSERT INTO {schema}.ends (key, task, attempt, step, state, at, ending)
SELECT u.key, u.task, u.attempt, 0, u.state, u.at, u.ending
FROM fence, unnest(%(ends_0)s::bigint[], %(ends_1)s::int[], %(ends_2)s::int[], %(ends_3)s::int[],
    %(ends_4)s::double precision[], %(ends_5)s::bytea[]) AS u (key, task, attempt, state, at, ending)
