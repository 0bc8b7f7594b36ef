-- set_version: writes the version of our tables, which had one or none.
WITH gone AS (DELETE FROM {schema}.version)
INSERT INTO {schema}.version VALUES (%(number)s)
