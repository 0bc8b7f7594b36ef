-- commit_numbers: lets the numbers of jobs go on behind one that the foreman chose itself.
SELECT setval('{schema}.job_numbers', greatest(%(last_job)s, (SELECT last_value FROM {schema}.job_numbers))) FROM fence
