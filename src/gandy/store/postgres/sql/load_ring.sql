-- load_ring: the last version of the keyring.
SELECT version, content FROM {schema}.ring ORDER BY version DESC LIMIT 1
