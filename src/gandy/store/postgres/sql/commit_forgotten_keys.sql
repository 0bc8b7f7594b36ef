-- commit_forgotten_keys: notes that the rest of a forgotten job can be swept.
INSERT INTO {schema}.forgotten (key) SELECT key FROM commit_forgotten
