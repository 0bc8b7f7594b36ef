"""The marks that gandy sets itself, and whether the results meet them. Nothing here measures."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bench.figures import divide

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]  # what `records.load` gives
Measure: TypeAlias = Callable[[Tables, str], float | None]  # of medians, or of bests; None if it was not measured

SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "≥": operator.ge,
    ">": operator.gt,
    "≤": operator.le,
    "<": operator.lt,
}
# These are not peers: a limit does less work than the task requires, and a pool has no network.
LIMITS: Final = ("bare", "raw sockets", "ProcessPoolExecutor", "xargs")


@dataclass(frozen=True)
class Mark:
    """One mark. Without a measure, no workload measures it yet."""

    workload: str
    text: str
    sign: str
    bound: float
    measure: Measure | None = None
    unit: str = "times"
    cores: int = 0  # without which it cannot be met


@dataclass(frozen=True)
class Verdict:
    """Whether a mark is met. Medians decide."""

    mark: Mark
    median: float | None
    best: float | None
    cores: int = 0  # where it was measured

    @property
    def word(self) -> str:
        if self.median is None:
            return "not measured"
        if self.cores < self.mark.cores:
            return f"needs {self.mark.cores} cores"
        return "met" if SIGNS[self.mark.sign](self.median, self.mark.bound) else "not met"


def ratio(table: str, ours: str, theirs: str) -> Measure:
    def measure(tables: Tables, figure: str) -> float | None:
        rows = _get_rows(tables, table)
        return divide(rows[ours][figure], rows[theirs][figure]) if {ours, theirs} <= set(rows) else None

    return measure


def ratio_to_best_peer(table: str, ours: str = "gandy") -> Measure:
    """To the peer that comes nearest."""

    def measure(tables: Tables, figure: str) -> float | None:
        rows = _get_rows(tables, table)
        others = [row[figure] for name, row in rows.items() if not name.startswith(("gandy", *LIMITS))]
        if ours not in rows or not others:
            return None
        nearest = max(others) if tables[table]["kind"] == "rates" else min(others)
        return divide(rows[ours][figure], nearest)

    return measure


def late_ratio(table: str, ours: str) -> Measure:
    """Of the 99th percentile to the median."""

    def measure(tables: Tables, figure: str) -> float | None:
        row = _get_rows(tables, table).get(ours)
        return divide(row["p99"], row["median"]) if row and figure == "median" else None

    return measure


def figure(table: str, ours: str, name: str, scale: float = 1) -> Measure:
    """A figure that a contestant reported in addition to its rate or times."""

    def measure(tables: Tables, which: str) -> float | None:
        row = _get_rows(tables, table).get(ours)
        return row["figures"][name][which] * scale if row else None

    return measure


def own(table: str, ours: str, scale: float) -> Measure:
    """Times are kept in microseconds."""

    def measure(tables: Tables, which: str) -> float | None:
        row = _get_rows(tables, table).get(ours)
        return row[which] * scale if row else None

    return measure


def growth(table: str, large: str, small: str) -> Measure:
    """How much more CPU a foreman needs for a task."""

    def measure(tables: Tables, which: str) -> float | None:
        found = [figure(table, name, "foreman_us")(tables, which) for name in (large, small)]
        return divide(found[0], found[1]) if found[0] and found[1] else None

    return measure


def last_to_first(table: str, *names: str) -> Measure:
    """Of the sums of some figures, of the last row to the first."""

    def measure(tables: Tables, which: str) -> float | None:
        found = [sum(row["figures"][name][which] for name in names) for row in _get_rows(tables, table).values()]
        return divide(found[-1], found[0]) if len(found) > 1 else None

    return measure


def _get_rows(tables: Tables, table: str) -> Mapping[str, Any]:
    rows: Mapping[str, Any] = tables[table]["rows"] if table in tables else {}
    return rows


W1, W2, W3, W4, W5 = "functions", "call_latency", "calls_in_flight", "shell_tasks", "array_submit"
FINISHED, WAITING, WORKERS = "growth_finished", "growth_waiting", "growth_workers"
W8, BATCHES, FOREMEN, IDLE = "durable", "durable_batches", "durable_foremen", "durable_idle"
LATER, HELD = "durable_growth", "durable_held"
IDLE_CREW: Final = "gandy, 3 foremen, 2 workers"
MANY_CORES: Final = 8  # for two foremen, two workers, two clients and their PostgreSQL
BOTH: Final = "1,000 workers, 1,000,000 wait"
MIB: Final = 1.048576  # MB

MARKS: Final[Sequence[Mark]] = (
    Mark("W1", "tasks per second, to Dask", "≥", 10, ratio(W1, "gandy", "Dask")),
    Mark("W1", "to ProcessPoolExecutor's submit", "≥", 1.5, ratio(W1, "gandy", "ProcessPoolExecutor(2), submit")),
    Mark("W1", "to the fastest of all peers", ">", 1, ratio_to_best_peer(W1)),
    Mark("W2", "p50, to the bare relay", "≤", 1.5, ratio(W2, "gandy", "bare relay")),
    Mark("W2", "p50, to the fastest of all peers", "<", 1, ratio_to_best_peer(W2)),
    Mark("W2", "p99, to p50", "<", 5, late_ratio(W2, "gandy")),
    Mark("W3", "calls per second, to the bare relay", "≥", 0.5, ratio(W3, "gandy", "bare relay")),
    Mark("W3", "to NATS by nats-py's request API", "≥", 3, ratio(W3, "gandy", "NATS, request API")),
    Mark("W3", "to NATS by a shared inbox", "≥", 1.5, ratio(W3, "gandy", "NATS, shared inbox by hand")),
    Mark("W4", "tasks per second, to xargs -P2", "≥", 0.9, ratio(W4, "gandy", "xargs -P2")),
    Mark("W4", "to HyperQueue", ">", 1, ratio(W4, "gandy", "HyperQueue")),
    Mark("W4", "to GNU parallel", ">", 1, ratio(W4, "gandy", "GNU parallel -j2")),
    Mark("W5", "1,000,000 tasks, to 1", "≤", 3, ratio(W5, "gandy, 1,000,000 tasks", "gandy, 1 task")),
    Mark("W7", "cost per task after 10⁶ others, to 10³", "≤", 1.3, growth(FINISHED, "1,000,000 done", "1,000 done")),
    Mark("W7", "while 10⁶ others wait, to 10³", "≤", 1.3, growth(WAITING, "1,000,000 wait", "1,000 wait")),
    Mark("W7", "with 1,000 workers, to 10", "≤", 2, growth(WORKERS, "1,000 workers", "10 workers")),
    Mark("W7", "foreman with 10⁶ tasks and 1,000 workers", "<", 300, figure(WORKERS, BOTH, "foreman_mib", MIB), "MB"),
    Mark("W7", "`gandy --help`", "<", 150, own("growth_start", "gandy --help", 1e-3), "ms"),
    Mark("W7", "an idle crew", "<", 1, own("growth_idle", "gandy, two slots", 1e-4), "% of a core"),
    Mark("W8", "tasks per second, to procrastinate", "≥", 10, ratio(W8, "gandy", "procrastinate")),
    Mark("W8", "to the fastest of all peers", "≥", 3, ratio_to_best_peer(W8)),
    Mark("W8", "in batches, to the fastest of all peers", "≥", 3, ratio_to_best_peer(BATCHES)),
    Mark("W8", "without chunks, to the fastest in batches", "≥", 3, ratio_to_best_peer(BATCHES, "gandy, no chunks")),
    Mark("W8", "to gandy on SQLite", "≥", 0.5, ratio(W8, "gandy", "gandy, SQLite")),
    Mark("W8", "two foremen, to one", "≥", 1.6, ratio(W8, "gandy, two foremen", "gandy"), cores=MANY_CORES),
    Mark("W8", "CPU of the busiest process with two foremen, to one", "≤", 0.625, last_to_first(FOREMEN, "busiest_us")),
    Mark("W8", "cost per task after many others", "≤", 1.3, last_to_first(LATER, "foreman_us", "postgres_us")),
    Mark("W8", "beside a transaction left open", "≥", 0.95, ratio(HELD, "a transaction held", "nothing held")),
    Mark("W8", "size of the database after that", "≤", 1.05, last_to_first(HELD, "bytes_per_row")),
    Mark("W8", "an idle crew with three foremen", "<", 1, own(IDLE, IDLE_CREW, 1e-4), "% of a core"),
    Mark("W8", "its statements", "≤", 2, figure(IDLE, IDLE_CREW, "statements_per_second"), "per second"),
    Mark("W9", "tasks per second with 100 viewers, to none", "≥", 0.97, ratio("watching", "100 viewers", "no viewers")),
)


def judge(tables: Tables, marks: Sequence[Mark] = MARKS) -> list[Verdict]:
    return [_judge(mark, tables) for mark in marks]


def _judge(mark: Mark, tables: Tables) -> Verdict:
    if mark.measure is None:
        return Verdict(mark, None, None)
    cores = min((table["where"]["cores"] for table in tables.values()), default=0)
    return Verdict(mark, mark.measure(tables, "median"), mark.measure(tables, "best"), cores)
