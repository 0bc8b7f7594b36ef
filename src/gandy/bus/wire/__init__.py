"""The bytes of the bus and of OSC. No sockets, no memory."""
