-- has_commit: tells whether a commit was done. It must follow the lock of find_commit: it needs a later snapshot.
SELECT EXISTS (
    SELECT FROM {schema}.commits WHERE shard = %(shard)s AND epoch = %(epoch)s AND number = %(number)s)
