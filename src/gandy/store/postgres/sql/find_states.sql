-- find_states: the states of some jobs.
SELECT j.job, c.state
FROM {schema}.jobs AS j, LATERAL (SELECT state FROM {schema}.changes WHERE key = j.key ORDER BY number DESC LIMIT 1) AS c
WHERE j.job = ANY (%(jobs)s::bigint[])
