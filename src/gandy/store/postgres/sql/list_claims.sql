-- list_claims: runs of claims that touch a range of tasks. A run has a bounded length, so that the index finds them.
SELECT first, last, attempt, state, at, worker FROM {schema}.claims
WHERE key = %(key)s AND last > %(after)s AND last < %(last)s::bigint + %(longest)s AND first <= %(last)s
ORDER BY attempt, last
