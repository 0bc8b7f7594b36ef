-- commit_results: appends what functions returned.
INSERT INTO {schema}.results (part, drops, key, task, attempt, at, value)
SELECT %(result_part)s::int, %(drops)s::int + %(results_5)s[i], %(results_0)s[i], %(results_1)s[i], %(results_2)s[i],
    %(results_3)s[i], %(results_4)s[i]
FROM fence{rows results_4}
