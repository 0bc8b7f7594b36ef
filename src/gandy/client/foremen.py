"""Finds one of the foremen of a crew by what the user calls it."""

from collections.abc import Sequence

from gandy.core.requests import ForemanRow
from gandy.errors import Rejected


def choose_foreman(rows: Sequence[ForemanRow], name: str) -> ForemanRow:
    """Return the foreman with this id, or the beginning of an id, or this name; without a name, the one that was asked.

    Raises: Rejected.
    """
    exact = [row for row in rows if (row.is_here if not name else name in (row.id, row.name))]
    found = exact or [row for row in rows if name and row.id.startswith(name)]
    if not found:
        raise Rejected(f"no foreman is called {name}" if name else "the foreman does not know itself")
    if len(found) > 1:
        raise Rejected(f"{len(found)} foremen are called {name}: use the id, {' or '.join(row.id for row in found)}")
    return found[0]
