-- find_by_key: the same job as find_job gives, by its key; a constant key makes the server look into one part only.
SELECT j.job, j.spec, j.submitted, c.state, c.held, c.tasks, c.is_open, c.changed,
    c.waiting, c.running, c.finished, c.failed, c.cancelled, c.assigned, j.key, c.number, c.fresh, j.shard,
    EXISTS (SELECT FROM {schema}.done WHERE done.key = j.key)
FROM {schema}.jobs AS j, {schema}.changes AS c
WHERE j.key = %(key)s AND c.key = %(key)s ORDER BY c.number DESC LIMIT 1
