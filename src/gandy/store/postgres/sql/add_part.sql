-- add_part: notes that there is a part.
INSERT INTO {schema}.parts (family, part) VALUES (%(family)s, %(part)s)
