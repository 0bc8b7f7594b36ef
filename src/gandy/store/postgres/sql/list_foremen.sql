-- list_foremen: names of foremen that were heard of within a lease, but for one.
SELECT name FROM {schema}.foremen
WHERE id <> %(id)s AND seen > clock_timestamp() - %(lease)s * interval '1 second' ORDER BY name
