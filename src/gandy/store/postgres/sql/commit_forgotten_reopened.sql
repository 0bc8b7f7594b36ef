-- commit_forgotten_reopened: nor as final no longer.
DELETE FROM {schema}.reopened USING commit_forgotten AS gone WHERE reopened.key = gone.key
