-- find_key: the key of a job, by which all of its parts are found.
SELECT key, shard FROM {schema}.jobs WHERE job = %(job)s
