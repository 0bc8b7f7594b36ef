-- find_submission: the job that was submitted with a key.
SELECT job FROM {schema}.jobs WHERE submission = %(submission)s AND submission <> 0
