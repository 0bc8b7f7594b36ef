-- cut_arguments: removes what is behind an offset, because its client sends it again.
WITH gone AS (DELETE FROM {schema}.pieces WHERE id = %(id)s AND first >= %(offset)s)
UPDATE {schema}.pieces SET data = substr(data, 1, (%(offset)s - first)::int)
WHERE id = %(id)s AND first < %(offset)s AND first + length(data) > %(offset)s
