-- trim_ring: forgets versions of the keyring that no foreman can need any more.
DELETE FROM {schema}.ring WHERE version < (SELECT max(version) - 10 FROM {schema}.ring)
