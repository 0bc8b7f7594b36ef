-- commit_steps: appends all other ends, and what users did to tasks.
INSERT INTO {schema}.ends (key, task, attempt, step, state, at, due, failures, crashes, ending)
SELECT %(steps_0)s[i], %(steps_1)s[i], %(steps_2)s[i], %(steps_3)s[i], %(steps_4)s[i], %(steps_5)s[i],
    nullif(%(steps_6)s[i], 0), nullif(%(steps_7)s[i], 0), nullif(%(steps_8)s[i], 0), %(steps_9)s[i]
FROM fence{rows steps_9}
