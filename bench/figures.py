"""From samples to figures: best, median, percentiles, and ratios to a reference. Nothing here measures."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.contract import Kind


@dataclass(frozen=True)
class Sample:
    """One repeat of one contestant."""

    operations: int
    seconds: float
    cpu: float  # seconds, of all its processes together
    times: Sequence[float] = field(default=())  # seconds of each operation
    figures: Mapping[str, float] = field(default_factory=dict)  # what else was measured; less is better


Samples = Sequence[Sample]
Row = dict[str, Any]


def summarize(kind: Kind, samples: Samples) -> Row:
    """The figures of one contestant. Times are in microseconds, rates are operations per second."""
    operations = sum(sample.operations for sample in samples)
    cpu = sum(sample.cpu for sample in samples) / operations * 1e6
    shared = {"operations": samples[0].operations, "repeats": len(samples), "cpu_us": _round(cpu)}
    figures = _summarize_rates(samples) if kind is Kind.RATES else _summarize_times(samples)
    rounded = {name: _round(value) for name, value in figures.items()}
    more = _summarize_figures(samples)
    return {**rounded, **shared, "figures": more} if more else {**rounded, **shared}


def _summarize_rates(samples: Samples) -> dict[str, float]:
    rates = [sample.operations / sample.seconds for sample in samples]
    return {"best": max(rates), "median": statistics.median(rates)}


def _summarize_times(samples: Samples) -> dict[str, float]:
    times = sorted(seconds * 1e6 for sample in samples for seconds in sample.times)
    late = times[min(len(times) - 1, len(times) * 99 // 100)]
    return {"best": times[0], "median": statistics.median(times), "p99": late}


def _summarize_figures(samples: Samples) -> dict[str, dict[str, float]]:
    found = {name: [sample.figures[name] for sample in samples] for name in samples[0].figures}
    return {
        name: {"best": _round(min(values)), "median": _round(statistics.median(values))}
        for name, values in found.items()
    }


def add_ratios(rows: Mapping[str, Row], reference: str) -> None:
    """To the reference: of medians, and of bests, which a busy machine disturbs less. None without a reference."""
    base = rows.get(reference)
    for row in rows.values():
        row["ratio"] = divide(row["median"], base["median"]) if base else None
        row["best_ratio"] = divide(row["best"], base["best"]) if base else None


def divide(ours: float, theirs: float) -> float | None:
    """Rounded; None if there is nothing to divide by."""
    return _round(ours / theirs) if theirs else None


def _round(value: float) -> float:
    """Four digits are more than the precision of any of these figures."""
    return float(f"{value:.4g}")
