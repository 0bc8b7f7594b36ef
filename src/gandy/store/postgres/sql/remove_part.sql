-- remove_part: notes that a part is gone.
DELETE FROM {schema}.parts WHERE family = %(family)s AND part = %(part)s
