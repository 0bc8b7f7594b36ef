"""The foreman as a program: sockets and a store around `core.foreman`."""
