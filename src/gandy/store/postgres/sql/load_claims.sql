-- load_claims: runs of claims of some jobs.
SELECT key, first, last, attempt, state, at, worker FROM {schema}.claims
WHERE key = ANY (%(keys)s::bigint[]) ORDER BY key, attempt, last
