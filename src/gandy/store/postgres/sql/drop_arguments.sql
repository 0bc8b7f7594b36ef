-- drop_arguments: removes arguments that were not put or read for long.
WITH gone AS (
    DELETE FROM {schema}.arguments
    WHERE used < now() - CASE WHEN is_whole THEN %(seconds)s ELSE %(part_seconds)s END * interval '1 second' RETURNING id
)
DELETE FROM {schema}.pieces USING gone WHERE pieces.id = gone.id
