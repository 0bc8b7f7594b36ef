-- has_jobs: tells whether a part has anything of a job, or of one that is still to come.
SELECT EXISTS (SELECT FROM {schema}.jobs WHERE key >= %(first)s AND key < %(end)s)
    OR EXISTS (SELECT FROM {schema}.uploads WHERE key >= %(first)s AND key < %(end)s)
