-- grow_arguments: arguments have more bytes now, and may be whole.
UPDATE {schema}.arguments SET size = %(size)s, is_whole = %(is_whole)s, used = now() WHERE id = %(id)s
