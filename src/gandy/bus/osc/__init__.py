"""Bridges between OSC programs and an ensemble: their messages go to a service, and messages of a service to them.

They send no bundles and no answers. docs/how-to/use-the-bus.md has the table of types.
"""
