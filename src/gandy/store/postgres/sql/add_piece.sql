-- add_piece: a piece of arguments.
INSERT INTO {schema}.pieces (id, first, data) VALUES (%(id)s, %(first)s, %(data)s)
