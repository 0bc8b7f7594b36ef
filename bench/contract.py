"""What workloads and peers say about themselves. Every environment imports this, so it needs nothing but Python.

A module in bench/workloads has TABLES, and a module in bench/peers has CONTESTANTS, each for one table. A workload that
no peer shares may have its contestants in its own module.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

SLOTS: Final = 2  # workers of everybody, on the two cores that the marks are for


@dataclass(frozen=True)
class Done:
    """What came of some work, where there is more to tell than how many operations it was."""

    operations: int
    seconds: float  # that count; the others were to get ready
    figures: Mapping[str, float] = field(default_factory=dict)  # the fewer the better; names end with their units


# Does so many operations. An int says how many it did, a list has the seconds that each took.
Work: TypeAlias = Callable[[int], int | list[float] | Done]


class Missing(Exception):
    """A contestant cannot run here, and why."""


class Kind(Enum):
    """What is compared."""

    RATES = "rates"  # operations per second, the more the better
    TIMES = "times"  # seconds of each operation, the fewer the better


@dataclass(frozen=True)
class Table:
    """One comparison."""

    key: str
    title: str
    unit: str  # what is counted: tasks, calls
    count: int  # operations in a repeat, where a contestant names no other number
    reference: str  # the contestant that the ratios are to
    kind: Kind = Kind.RATES
    note: str = ""
    repeats: int = 3  # unless somebody asks for another number; more where noise is near what is to be seen


@dataclass(frozen=True)
class Place:
    """Where a contestant runs."""

    folder: Path  # on the disk where the project is; goes away afterwards
    programs: Mapping[str, str]  # the paths of those that it needs


@dataclass(frozen=True)
class Contestant:
    """One row: how one peer does the work of one table."""

    table: str
    name: str
    start: Callable[[Place], AbstractContextManager[Work]]  # runs in a process of its own
    durability: str = "none"
    environment: str = ""  # of bench/requirements; the project's own if empty
    packages: tuple[str, ...] = ()  # that it needs, and whose versions are told
    programs: tuple[str, ...] = ()  # the same
    count: int | None = None  # fewer operations, where the table's number would take too long
    warm_count: int | None = None  # operations before it is measured; a fifth of the others if None
    stays: bool = (
        True  # between repeats; else it is started for each, where two of its kind would be in each other's way
    )
    spins: bool = False  # it looks for work all the time, and so is stopped while others run
    note: str = ""
