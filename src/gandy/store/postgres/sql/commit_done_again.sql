-- commit_done_again: jobs that had been reopened are final again.
DELETE FROM {schema}.reopened USING fence WHERE key = ANY (%(done_again_0)s::bigint[])
