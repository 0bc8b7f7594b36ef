-- commit_unlined: removes lines whose job never came.
DELETE FROM {schema}.lines USING fence WHERE key = ANY (%(unlined_0)s::bigint[])
