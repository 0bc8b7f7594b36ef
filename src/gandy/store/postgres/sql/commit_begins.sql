-- commit_begins: appends runs of tasks that their worker has begun.
INSERT INTO {schema}.begins (key, first, last, attempt)
SELECT u.* FROM fence, unnest(%(begins_0)s::bigint[], %(begins_1)s::int[], %(begins_2)s::int[], %(begins_3)s::int[]) AS u
