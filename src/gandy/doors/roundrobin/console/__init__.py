"""The three consoles of seed 002: a server, a worker and a client to talk to by hand."""
