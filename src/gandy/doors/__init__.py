"""Doors for peers that speak other protocols: their messages become jobs and calls of the crew, and back.

Nothing above a door knows which one a worker came in by.
"""
