-- commit_drops: notes that older results are no longer kept. Two shards that do so at once share a row.
INSERT INTO {schema}.drops AS d (number, before)
SELECT coalesce((SELECT max(number) FROM {schema}.drops), 0) + u.place, u.before
FROM fence, unnest(%(drops_0)s::double precision[]) WITH ORDINALITY AS u (before, place)
ON CONFLICT (number) DO UPDATE SET before = greatest(d.before, excluded.before)
