-- commit_changes: appends what jobs are like after this commit.
INSERT INTO {schema}.changes
    (key, number, state, held, tasks, is_open, fresh, changed, waiting, running, finished, failed, cancelled, assigned)
SELECT u.key, u.number, u.state, u.flags & 1 = 1, u.tasks, u.flags & 2 = 2, u.fresh, u.changed, u.c0, u.c1, u.c2, u.c3, u.c4, u.c5
FROM fence, unnest(%(changes_0)s::bigint[], %(changes_1)s::int[], %(changes_2)s::int[], %(changes_3)s::int[],
    %(changes_4)s::int[], %(changes_5)s::int[], %(changes_6)s::double precision[], %(changes_7)s::int[],
    %(changes_8)s::int[], %(changes_9)s::int[], %(changes_10)s::int[], %(changes_11)s::int[], %(changes_12)s::int[])
    AS u (key, number, state, flags, tasks, fresh, changed, c0, c1, c2, c3, c4, c5)
