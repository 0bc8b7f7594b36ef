"""The bytes of the bus and of OSC: encoders and decoders, without sockets and without state."""
