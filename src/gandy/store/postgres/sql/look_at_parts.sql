-- look_at_parts: the parts of a family, how large and old each is, and how long ago the one after it was made.
SELECT p.part, coalesce((
        SELECT sum(pg_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND c.relname ~ ('^[a-z]+_' || p.part || '$')
            AND substring(c.relname FROM '^[a-z]+') = ANY (CASE p.family
                WHEN 'jobs' THEN ARRAY['changes', 'claims', 'begins', 'ends', 'lines'] ELSE ARRAY[p.family] END)
    ), 0)::bigint,
    extract(epoch FROM now() - p.made)::double precision,
    coalesce(extract(epoch FROM now() - lead(p.made) OVER (ORDER BY p.part)), 0)::double precision
FROM {schema}.parts AS p WHERE p.family = %(family)s ORDER BY p.part
