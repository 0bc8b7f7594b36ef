"""Doors for peers that speak other protocols: they translate between those and the jobs and calls of the crew.

Nothing above a door knows by which one a worker is connected.
"""
