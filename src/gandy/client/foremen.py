"""Finds one of the foremen of a crew by what the user calls it, and describes what they own."""

from collections.abc import Sequence

from gandy.core.requests import ForemanRow
from gandy.errors import Rejected


def shorten_id(foreman: str) -> str:
    """The part of a foreman's id that differs even between foremen on one machine: an id begins with the name."""
    return foreman.rpartition("-")[2]


def describe_owners(rows: Sequence[ForemanRow]) -> str:
    """Which foremen own the shards of the crew, in words."""
    return ", ".join(
        f"{row.name} ({shorten_id(row.id)}) owns {_format_shards(row.shards)}" for row in rows if row.shards
    )


def _format_shards(shards: Sequence[int]) -> str:
    *most, last = map(str, shards)
    return f"shards {', '.join(most)} and {last}" if most else f"shard {last}"


def choose_foreman(rows: Sequence[ForemanRow], name: str) -> ForemanRow:
    """Return the foreman with this id, short id or name; without a name, the one that was asked.

    A foreman that is gone leaves its name to the one that was started after it. Raises: Rejected.
    """
    found = [row for row in rows if (name in (row.id, row.name, shorten_id(row.id)) if name else row.is_here)]
    found = [row for row in found if not row.is_gone] or found
    if not found:
        raise Rejected(f"no foreman is called {name}" if name else "the foreman does not know itself")
    if len(found) > 1:
        ids = " or ".join(shorten_id(row.id) for row in found)
        raise Rejected(f"{len(found)} foremen are called {name}: use the id, {ids}")
    return found[0]
