"""Makes keys, stores them in files that only their user can read, and uses them for TLS. `core` admits peers."""
