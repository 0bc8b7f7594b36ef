-- add_arguments: a place for arguments that are not whole yet.
INSERT INTO {schema}.arguments (name, is_whole, size, used) VALUES (%(name)s, false, 0, now()) RETURNING id, size
