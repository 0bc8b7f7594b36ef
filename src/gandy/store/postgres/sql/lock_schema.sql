-- lock_schema: lets one foreman at a time change tables, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('gandy ' || %(schema)s, 0))
