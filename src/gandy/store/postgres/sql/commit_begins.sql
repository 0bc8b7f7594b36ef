-- commit_begins: appends runs of tasks that their worker has begun.
INSERT INTO {schema}.begins (key, first, last, attempt)
SELECT %(begins_0)s[i], %(begins_1)s[i], %(begins_2)s[i], %(begins_3)s[i] FROM fence{rows begins_0}
