-- sweep_begins: deletes some of what a forgotten job left in this table.
DELETE FROM {schema}.begins WHERE key = %(key)s
    AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM {schema}.begins WHERE key = %(key)s LIMIT %(rows)s)
