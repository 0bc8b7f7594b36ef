"""What workloads and peers say about themselves. Every environment imports this, so it needs nothing but Python.

A module in bench/workloads has TABLES, and a module in bench/peers has CONTESTANTS, each for one table. A workload that
no peer shares may have its contestants in its own module.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

SLOTS: Final = 2  # workers of every contestant, for the two cores that the marks assume


@dataclass(frozen=True)
class Done:
    """The outcome of some work, if there is more to report than the number of operations."""

    operations: int
    seconds: float  # that count; all before them were preparation
    figures: Mapping[str, float] = field(default_factory=dict)  # less is better; names end with their units
    cpu: float | None = None  # seconds of all processes; None if all that they did counts
    times: Sequence[float] = ()  # seconds of each operation, if that is compared


# Does this many operations. Returns how many it did, or a list of the seconds that each took.
Work: TypeAlias = Callable[[int], int | list[float] | Done]


class Missing(Exception):
    """A contestant cannot run here, and why."""


class Kind(Enum):
    """What is compared."""

    RATES = "rates"  # operations per second, more is better
    TIMES = "times"  # seconds of each operation, less is better


@dataclass(frozen=True)
class Table:
    """One comparison."""

    key: str
    title: str
    unit: str  # what is counted: tasks, calls
    count: int  # operations in a repeat, unless a contestant names another number
    reference: str  # the contestant that the ratios are to
    kind: Kind = Kind.RATES
    note: str = ""
    repeats: int = 3  # unless the user asks for another number; more if the noise is close to the effect
    patience: float = 0.0  # seconds more than usual for which a contestant may start or be measured
    server: str = ""  # that all contestants share: postgres; each has a database of its own there


@dataclass(frozen=True)
class Server:
    """A server that contestants share, and the database there that is this contestant's own."""

    url: str
    process: int
    log: Path


@dataclass(frozen=True)
class Place:
    """Where a contestant runs."""

    folder: Path  # on the disk where the project is; goes away afterwards
    programs: Mapping[str, str]  # the paths of the programs that it needs
    server: Server | None = None  # that the table says its contestants share


@dataclass(frozen=True)
class Contestant:
    """One row: how one peer does the work of one table."""

    table: str
    name: str
    start: Callable[[Place], AbstractContextManager[Work]]  # runs in a process of its own
    durability: str = "none"
    environment: str = ""  # of bench/requirements; the project's own if empty
    packages: tuple[str, ...] = ()  # that it needs; the report names their versions
    programs: tuple[str, ...] = ()  # the same
    count: int | None = None  # fewer operations, if the table's number would take too long
    warm_count: int | None = None  # operations before it is measured; a fifth of those measured if None
    stays: bool = (
        True  # between repeats; otherwise it is started for each repeat, if two of its kind would disturb each other
    )
    spins: bool = False  # it polls all the time, and so is stopped while other contestants run
    note: str = ""
