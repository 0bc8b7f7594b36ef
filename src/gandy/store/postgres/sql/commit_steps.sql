-- commit_steps: appends all other ends, and what users did to tasks.
INSERT INTO {schema}.ends (key, task, attempt, step, state, at, due, failures, crashes, ending)
SELECT u.key, u.task, u.attempt, u.step, u.state, u.at, nullif(u.due, 0), nullif(u.failures, 0), nullif(u.crashes, 0), u.ending
FROM fence, unnest(%(steps_0)s::bigint[], %(steps_1)s::int[], %(steps_2)s::int[], %(steps_3)s::int[], %(steps_4)s::int[],
    %(steps_5)s::double precision[], %(steps_6)s::double precision[], %(steps_7)s::int[], %(steps_8)s::int[],
    %(steps_9)s::bytea[]) AS u (key, task, attempt, step, state, at, due, failures, crashes, ending)
