-- load_begins: runs of begun tasks of some jobs.
SELECT key, first, last, attempt FROM {schema}.begins WHERE key = ANY (%(keys)s::bigint[]) ORDER BY key, attempt, last
