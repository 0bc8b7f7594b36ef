-- list_ends: all that was appended about the tasks of a range, as much as fits a page, and how much there is.
SELECT task, attempt, step, state, at, due, failures, crashes, ending, total FROM (
    SELECT *, count(*) OVER () AS total, sum(length(ending)) OVER (ORDER BY task, attempt, step) AS bytes
    FROM {schema}.ends WHERE key = %(key)s AND task > %(after)s AND task <= %(last)s
) AS found WHERE coalesce(bytes - length(ending), bytes, 0) <= %(bytes)s ORDER BY task, attempt, step
