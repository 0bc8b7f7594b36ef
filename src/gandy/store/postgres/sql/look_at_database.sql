-- look_at_database: tells whether our tables are there, and what kind of server this is. It reads the catalog itself:
-- to_regclass may answer from a cache that does not know what another foreman did while we waited for the lock.
SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'version'),
    EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s),
    current_setting('server_version_num')::int, current_setting('server_encoding'),
    current_setting('synchronous_commit'), pg_is_in_recovery(),
    EXISTS (SELECT FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'hourly')
