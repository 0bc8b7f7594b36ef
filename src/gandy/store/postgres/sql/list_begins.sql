-- list_begins: runs of begun tasks that touch a range.
SELECT first, last, attempt FROM {schema}.begins
WHERE key = %(key)s AND last > %(after)s AND last < %(last)s::bigint + %(longest)s AND first <= %(last)s
ORDER BY attempt, last
