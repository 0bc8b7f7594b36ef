-- commit_ends: appends ends of attempts that left no account of failures, which is nearly all of them.
INSERT INTO {schema}.ends (key, task, attempt, step, state, at, ending)
SELECT %(ends_0)s[i], %(ends_1)s[i], %(ends_2)s[i], 0, %(ends_3)s[i], %(ends_4)s[i], %(ends_5)s[i] FROM fence{rows ends_5}
