-- sweep_key: nothing is left of a forgotten job.
DELETE FROM {schema}.forgotten WHERE key = %(key)s
