-- list_forgotten: keys of forgotten jobs.
SELECT key FROM {schema}.forgotten LIMIT 1000
