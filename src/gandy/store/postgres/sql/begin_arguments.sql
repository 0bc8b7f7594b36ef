-- begin_arguments: begins new arguments, in place of what came of them before.
WITH gone AS (DELETE FROM {schema}.arguments WHERE name = %(name)s AND NOT is_whole RETURNING id)
DELETE FROM {schema}.pieces USING gone WHERE pieces.id = gone.id
