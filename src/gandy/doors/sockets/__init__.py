"""ZeroMQ sockets for the doors of a foreman, and for workers and consoles that speak their protocols."""
