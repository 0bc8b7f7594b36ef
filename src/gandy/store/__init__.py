"""Stores of jobs: one interface, and behind it memory, SQLite or PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gandy.errors import StoreError
from gandy.store.base import Store
from gandy.store.crew import CrewStore
from gandy.store.memory import MemoryStore
from gandy.store.postgres.url import KINDS, parse_url
from gandy.store.sqlite import SqliteStore


def make_store(url: str) -> Store:
    """The store that a URL names; it is not opened yet.

    Raises: StoreError: no store of a single foreman has such a URL.
    """
    kind, _, place = url.partition(":")
    if kind == "memory" and not place:
        return MemoryStore()
    if kind == "sqlite" and place:
        return SqliteStore(Path(place).expanduser())
    raise StoreError(f"no store is called {_hide(url)!r}: write 'memory:' or 'sqlite:PATH', or 'postgresql://…'")


def make_crew_store(url: str) -> CrewStore | None:
    """The database that a URL names, not opened yet; None if the URL is one of a store for a single foreman.

    Raises: StoreError: it has no usable schema, or the driver is not installed.
    """
    if not _is_shared(url):
        return None
    parsed = parse_url(url)
    with _driver_wanted():
        from gandy.store.postgres.crew import PostgresCrew  # late: few users have the driver, and it takes time
    return PostgresCrew(parsed)


def make_lone_store(url: str) -> Store:
    """A store that no foreman uses meanwhile, for commands. Raises: StoreError: as above."""
    if not _is_shared(url):
        return make_store(url)
    parsed = parse_url(url)
    with _driver_wanted():
        from gandy.store.postgres.crew import PostgresCrew
        from gandy.store.postgres.lone import LoneStore
    return LoneStore(PostgresCrew(parsed))


@contextmanager
def _driver_wanted() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise StoreError(f"PostgreSQL needs one more package: pip install 'gandy[postgres]' ({error})") from None


def describe_store(url: str) -> str:
    """Where jobs are kept, for people: without a password."""
    return f"PostgreSQL at {parse_url(url)}" if _is_shared(url) else url


def _is_shared(url: str) -> bool:
    return url.startswith(tuple(f"{kind}://" for kind in KINDS))


def _hide(url: str) -> str:
    """Without what may be a password."""
    kind, separator, rest = url.partition("://")
    return f"{kind}{separator}{rest.rpartition('@')[2]}" if separator else url
