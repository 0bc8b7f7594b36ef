"""Keys: made, kept in files that nobody else can read, and turned into TLS. Who is let in is decided in `core`."""
