"""The three consoles of the round-robin queue: a server, a worker and a client to control by hand."""
