-- save_ring: appends the next version of the keyring, unless another foreman has.
INSERT INTO {schema}.ring (version, content)
SELECT %(version)s, %(content)s
WHERE (SELECT coalesce(max(version), 0) FROM {schema}.ring) = %(version)s - 1
ON CONFLICT DO NOTHING
