-- commit_claims: appends runs of tasks that workers are about to get.
INSERT INTO {schema}.claims (key, first, last, attempt, state, at, worker)
SELECT u.* FROM fence, unnest(%(claims_0)s::bigint[], %(claims_1)s::int[], %(claims_2)s::int[], %(claims_3)s::int[],
    %(claims_4)s::int[], %(claims_5)s::double precision[], %(claims_6)s::bytea[]) AS u
