-- trim_drops: forgets rows that a later one includes, so that few are left to look at.
DELETE FROM {schema}.drops AS d
WHERE EXISTS (SELECT FROM {schema}.drops AS later WHERE later.number > d.number AND later.before >= d.before)
