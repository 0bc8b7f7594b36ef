-- commit_uploaded: an upload is over: its job has come, or its lines are dropped.
DELETE FROM {schema}.uploads USING fence WHERE shard = %(shard)s AND key = ANY (%(uploaded_0)s::bigint[])
