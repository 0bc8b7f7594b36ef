-- beat: says that a foreman is there, which renews its leases, and reads all foremen, leases and parts.
WITH me AS (
    INSERT INTO {schema}.foremen AS f (id, name, version, machine, places, is_leaving, seen)
    VALUES (%(id)s, %(name)s, %(version)s, %(machine)s, %(places)s, %(is_leaving)s, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, places = excluded.places, is_leaving = excluded.is_leaving
    RETURNING id, seen
)
SELECT 'foreman', f.id, f.name, f.version, f.machine, f.places, f.is_leaving,
    greatest(extract(epoch FROM clock_timestamp() - f.seen), 0)::double precision, 0, 0::bigint
FROM {schema}.foremen AS f WHERE f.id <> (SELECT id FROM me)
UNION ALL
SELECT 'shard', s.owner, '', '', '', NULL, false,
    coalesce(extract(epoch FROM greatest(s.taken, me.seen, f.seen) - clock_timestamp()) + %(lease)s, -%(lease)s)::double precision,
    s.shard, s.epoch
FROM {schema}.shards AS s LEFT JOIN {schema}.foremen AS f ON f.id = s.owner LEFT JOIN me ON me.id = s.owner
WHERE NOT s.is_retired
UNION ALL
SELECT 'ring', '', '', '', '', NULL, false, 0, 0, coalesce(max(version), 0) FROM {schema}.ring
UNION ALL
SELECT 'part', family, '', '', '', NULL, false, 0, max(part), 0 FROM {schema}.parts GROUP BY family
