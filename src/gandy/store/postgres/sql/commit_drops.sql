-- commit_drops: notes that older results are no longer kept.
INSERT INTO {schema}.drops (number, before)
SELECT coalesce((SELECT max(number) FROM {schema}.drops), 0) + u.place, u.before
FROM fence, unnest(%(drops_0)s::double precision[]) WITH ORDINALITY AS u (before, place)
