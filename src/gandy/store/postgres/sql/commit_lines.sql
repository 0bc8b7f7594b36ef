-- commit_lines: adds lines of tasks.
INSERT INTO {schema}.lines (key, first, packed)
SELECT u.* FROM fence, unnest(%(lines_0)s::bigint[], %(lines_1)s::int[], %(lines_2)s::bytea[]) AS u
