"""Stores of jobs: one interface, and behind it memory or SQLite."""

from pathlib import Path

from gandy.errors import StoreError
from gandy.store.base import Store
from gandy.store.crew import CrewStore
from gandy.store.memory import MemoryStore
from gandy.store.sqlite import SqliteStore


def make_store(url: str) -> Store:
    """The store that a URL names; it is not opened yet.

    Raises: StoreError: no store has such a URL.
    """
    kind, _, place = url.partition(":")
    if kind == "memory" and not place:
        return MemoryStore()
    if kind == "sqlite" and place:
        return SqliteStore(Path(place).expanduser())
    raise StoreError(f"no store is called {url!r}: write 'memory:' or 'sqlite:PATH'")


def make_crew_store(url: str) -> CrewStore | None:
    """The database that foremen share, if the URL names one; it is not opened yet. Raises: StoreError."""
    return None
