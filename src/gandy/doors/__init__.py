"""Doors for peers that speak other protocols: what they say becomes calls on the switchboard, and back. No sockets.

Nothing above a door knows which one a worker came in by.
"""
