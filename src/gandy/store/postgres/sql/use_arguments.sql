-- use_arguments: tells whether there are such arguments, and notes, once an hour at most, that they were read.
WITH used AS (
    UPDATE {schema}.arguments SET used = now() WHERE name = %(name)s AND is_whole AND used < now() - interval '1 hour'
)
SELECT EXISTS (SELECT FROM {schema}.arguments WHERE name = %(name)s AND is_whole)
