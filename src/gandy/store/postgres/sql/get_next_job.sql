-- get_next_job: the number that the next job will have.
SELECT last_value + is_called::int, (SELECT coalesce(max(number), 0) FROM {schema}.drops) FROM {schema}.job_numbers
