-- count_first_ends: how many tasks of each block of a range have ended a first attempt. An index has all of it.
SELECT b.first, (
    SELECT count(*) FROM {schema}.ends
    WHERE key = %(key)s AND task >= b.first AND task < b.first + %(block)s AND task <= %(last)s
        AND attempt = 1 AND step = 0
)
FROM generate_series(%(first)s::int, %(last)s::int, %(block)s::int) AS b (first)
