-- list_audit: the last lines of the audit, the newest first.
SELECT line FROM {schema}.audit ORDER BY at DESC LIMIT %(limit)s
