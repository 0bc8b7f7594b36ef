"""The store in PostgreSQL, which all foremen of a crew share. Nothing here is imported without a postgresql: URL.

It is a journal: the owner of a shard decides in memory, and appends what it decided, fenced by the shard's epoch.
"""
