-- list_results: what the tasks of a range returned, unless it is no longer kept, as much as fits a page.
SELECT task, attempt, value, total FROM (
    SELECT task, attempt, value, count(*) OVER () AS total,
        sum(length(value)) OVER (ORDER BY task, attempt) - length(value) AS bytes_before
    FROM {schema}.results AS r WHERE key = %(key)s AND task > %(after)s AND task <= %(last)s
        AND NOT EXISTS (SELECT FROM {schema}.drops AS d WHERE d.number > r.drops AND d.before > r.at)
) AS found WHERE bytes_before <= %(bytes)s ORDER BY task, attempt
