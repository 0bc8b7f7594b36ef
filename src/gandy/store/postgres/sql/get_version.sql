-- get_version: gets the version of our tables.
SELECT number FROM {schema}.version
