-- drop_old_whole: makes place for arguments that become whole under a name which exists.
WITH gone AS (DELETE FROM {schema}.arguments WHERE name = %(name)s AND is_whole RETURNING id)
DELETE FROM {schema}.pieces USING gone WHERE pieces.id = gone.id
