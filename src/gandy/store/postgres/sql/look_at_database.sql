-- look_at_database: tells whether our tables are there, and what kind of server this is.
SELECT to_regclass(%(table)s) IS NOT NULL, to_regnamespace(%(schema)s) IS NOT NULL,
    current_setting('server_version_num')::int, current_setting('server_encoding'),
    current_setting('synchronous_commit'), pg_is_in_recovery()
