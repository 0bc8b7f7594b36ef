-- find_arguments: arguments that are not whole yet, locked.
SELECT id, size FROM {schema}.arguments WHERE name = %(name)s AND NOT is_whole FOR UPDATE
