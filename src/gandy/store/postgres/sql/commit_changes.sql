-- commit_changes: appends what jobs are like after this commit.
INSERT INTO {schema}.changes
    (key, number, state, held, tasks, is_open, fresh, changed, waiting, running, finished, failed, cancelled, assigned)
SELECT %(changes_0)s[i], %(changes_1)s[i], %(changes_2)s[i], %(changes_3)s[i] & 1 = 1, %(changes_4)s[i],
    %(changes_3)s[i] & 2 = 2, %(changes_5)s[i], %(changes_6)s[i], %(changes_7)s[i], %(changes_8)s[i], %(changes_9)s[i],
    %(changes_10)s[i], %(changes_11)s[i], %(changes_12)s[i]
FROM fence{rows changes_0}
