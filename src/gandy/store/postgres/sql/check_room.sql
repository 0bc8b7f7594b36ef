-- check_room: has the server write a megabyte to a temporary file, for which a full disk has no room. New rows may fit into
-- the last pages of their tables, but results need those. It writes nothing else, and no temp_file_limit is exceeded.
WITH room AS MATERIALIZED (
    SELECT repeat('x', 8192) AS page FROM generate_series(1, (
        SELECT CASE WHEN setting::bigint BETWEEN 0 AND 2048 THEN 0 ELSE 128 END
        FROM pg_settings WHERE name = 'temp_file_limit'))
)
SELECT sum(length(page)) FROM room
