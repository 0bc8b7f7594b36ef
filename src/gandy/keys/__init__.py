"""Keys: made, kept in files that only their user can read, and used for TLS. `core` decides which peers are let in."""
