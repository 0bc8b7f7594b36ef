-- commit_forgotten_done: a forgotten job is no longer known as final.
DELETE FROM {schema}.done USING commit_forgotten AS gone WHERE done.key = gone.key
