-- commit_claims: appends runs of tasks that workers are about to get.
INSERT INTO {schema}.claims (key, first, last, attempt, state, at, worker)
SELECT %(claims_0)s[i], %(claims_1)s[i], %(claims_2)s[i], %(claims_3)s[i], %(claims_4)s[i], %(claims_5)s[i], %(claims_6)s[i]
FROM fence{rows claims_6}
