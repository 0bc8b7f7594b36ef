-- leave: forgets a foreman. What it owned has no owner any more.
WITH gone AS (DELETE FROM {schema}.foremen WHERE id = %(id)s)
UPDATE {schema}.shards SET owner = '', epoch = epoch + 1, taken = clock_timestamp() WHERE owner = %(id)s
