-- sweep_claims: deletes some of what a forgotten job left in this table.
DELETE FROM {schema}.claims WHERE key = %(key)s
    AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM {schema}.claims WHERE key = %(key)s LIMIT %(rows)s)
