-- draw_number: the number of a new job.
SELECT nextval('{schema}.job_numbers')
