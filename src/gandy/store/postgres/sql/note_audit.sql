-- note_audit: appends lines to the audit.
INSERT INTO {schema}.audit (part, line) SELECT %(part)s, unnest(%(lines)s::text[])
