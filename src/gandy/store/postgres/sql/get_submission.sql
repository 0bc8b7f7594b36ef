-- get_submission: the key with which a job was submitted.
SELECT submission FROM {schema}.jobs WHERE job = %(job)s
