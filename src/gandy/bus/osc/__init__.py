"""Bridges between OSC programs and an ensemble: their messages go to a service, and messages of a service to them.

One thread serves all sockets that must be waited for. It starts with the first of them and ends with the ensemble. It
sends no bundles and no answers. docs/how-to/use-the-bus.md has the table of types.
"""
