"""Finds one of the foremen of a crew by what the user calls it."""

from collections.abc import Sequence

from gandy.core.requests import ForemanRow
from gandy.errors import Rejected


def shorten_id(foreman: str) -> str:
    """The part of a foreman's id that differs even between foremen on one machine: an id begins with the name."""
    return foreman.rpartition("-")[2]


def choose_foreman(rows: Sequence[ForemanRow], name: str) -> ForemanRow:
    """Return the foreman with this id, short id or name; without a name, the one that was asked.

    Raises: Rejected.
    """
    found = [row for row in rows if (name in (row.id, row.name, shorten_id(row.id)) if name else row.is_here)]
    if not found:
        raise Rejected(f"no foreman is called {name}" if name else "the foreman does not know itself")
    if len(found) > 1:
        ids = " or ".join(shorten_id(row.id) for row in found)
        raise Rejected(f"{len(found)} foremen are called {name}: use the id, {ids}")
    return found[0]
