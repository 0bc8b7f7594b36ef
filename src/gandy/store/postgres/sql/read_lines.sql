-- read_lines: chunks of lines, beginning with the one that holds the first line.
SELECT first, packed FROM {schema}.lines
WHERE key = %(key)s AND first < %(first)s::bigint + %(count)s
    AND first >= (SELECT max(first) FROM {schema}.lines WHERE key = %(key)s AND first <= %(first)s)
ORDER BY first
