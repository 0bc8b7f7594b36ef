"""All workloads and contestants, found by looking into the folders: a new file is enough."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.contract import Contestant, Table

HERE: Final = Path(__file__).parent
FIRST: Final = (
    "functions",
    "call_latency",
    "calls_in_flight",
    "shell_tasks",
    "array_submit",
    "bus",
    "growth",
    "durable",
    "watching",
)


@dataclass(frozen=True)
class Entry:
    """A contestant, and where its driver finds it."""

    module: str
    contestant: Contestant

    @property
    def peer(self) -> str:
        return self.module.rpartition(".")[2]


def list_workloads() -> dict[str, tuple[Table, ...]]:
    """The tables of each, in the order of the report: W1 to W9, then all other workloads."""
    names = [path.stem for path in sorted((HERE / "workloads").glob("[!_]*.py"))]
    ordered = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return {name: tables for name in ordered if (tables := _load(f"bench.workloads.{name}", "TABLES"))}


def list_entries() -> list[Entry]:
    modules = [f"bench.{folder}.{path.stem}" for folder, path in _list_files()]
    return [Entry(module, found) for module in modules for found in _load(module, "CONTESTANTS")]


def check(workloads: Mapping[str, Iterable[Table]], entries: Iterable[Entry]) -> None:
    """Raises: ValueError, if a contestant has no table, or a table has no reference."""
    tables = {table.key: table for found in workloads.values() for table in found}
    rows = {(entry.contestant.table, entry.contestant.name) for entry in entries}
    if strangers := {key for key, _ in rows} - set(tables):
        raise ValueError(f"no such table: {', '.join(sorted(strangers))}")
    for table in tables.values():
        if (table.key, table.reference) not in rows:
            raise ValueError(f"{table.key} has no reference: no contestant is named {table.reference}")


def _list_files() -> list[tuple[str, Path]]:
    return [(folder, path) for folder in ("peers", "workloads") for path in sorted((HERE / folder).glob("[!_]*.py"))]


def _load(module: str, name: str) -> tuple[Any, ...]:
    return getattr(import_module(module), name, ())
