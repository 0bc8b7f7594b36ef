-- read_arguments: a range of arguments, in the pieces that have it.
SELECT p.first, substr(p.data, greatest(%(offset)s - p.first, 0)::int + 1,
        least(%(offset)s + %(limit)s - greatest(p.first, %(offset)s), 1 << 30)::int)
FROM {schema}.arguments AS a JOIN {schema}.pieces AS p USING (id)
WHERE a.name = %(name)s AND a.is_whole
    AND p.first < %(offset)s + %(limit)s AND p.first >= (
        SELECT coalesce(max(q.first), 0) FROM {schema}.pieces AS q WHERE q.id = a.id AND q.first <= %(offset)s)
ORDER BY p.first
