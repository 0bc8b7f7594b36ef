"""How things are measured: interleaved repeats, best and median, and a record of where it ran."""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def race(contestants: dict[str, Callable[[], int]], repeats: int = 7) -> dict[str, list[float]]:
    """Operations per second of each, in turns, so that a slow moment of the machine hits all alike."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, work in contestants.items():
            begin = time.perf_counter()
            operations = work()
            rates[name].append(operations / (time.perf_counter() - begin))
    return rates


def report(title: str, unit: str, rates: dict[str, list[float]], limit: str) -> None:
    """Print a table with ratios to the limit, and keep it in bench/results."""
    print(f"\n{title} ({unit} per second, {len(rates[limit])} interleaved repeats)")
    print(f"  {'':34} {'best':>12} {'median':>12} {'of the limit':>13}")
    rows = {}
    for name, values in rates.items():
        best, median = max(values), statistics.median(values)
        # The repeats stand in pairs, so their ratios are less noisy than the rates.
        ratio = statistics.median(ours / theirs for ours, theirs in zip(values, rates[limit], strict=True))
        print(f"  {name:34} {best:12,.0f} {median:12,.0f} {ratio:13.2f}")
        rows[name] = {"best": round(best), "median": round(median), "ratio": round(ratio, 3)}
    _keep(title, {"unit": unit, "limit": limit, "rows": rows, **_where()})


def report_times(title: str, times: dict[str, list[float]], limit: str) -> None:
    """Print best, median and 99th percentile of single operations, and keep them.

    Ratios to the limit are those of medians, and of bests, which a busy machine disturbs less.
    """
    print(f"\n{title} (microseconds, {len(times[limit]):,} each, in turns)")
    print(f"  {'':34} {'best':>12} {'p50':>12} {'p99':>12} {'of the limit':>13} {'best of best':>13}")
    rows = {}
    for name, seconds in times.items():
        median, late = (statistics.quantiles(seconds, n=100)[at] * 1e6 for at in (49, 98))
        ratio = statistics.median(seconds) / statistics.median(times[limit])
        best, best_ratio = min(seconds) * 1e6, min(seconds) / min(times[limit])
        print(f"  {name:34} {best:12,.1f} {median:12,.1f} {late:12,.1f} {ratio:13.2f} {best_ratio:13.2f}")
        values = {"best": best, "p50": median, "p99": late, "ratio": ratio, "best_ratio": best_ratio}
        rows[name] = {key: round(value, 2) for key, value in values.items()}
    _keep(title, {"unit": "microseconds", "limit": limit, "rows": rows, **_where()})


def _keep(title: str, result: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{title.replace(' ', '-').lower()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


def _where() -> dict[str, Any]:
    packages = {name: version(name) for name in ("gandy", "msgspec")}
    return {"python": platform.python_version(), "machine": platform.machine(), "os": sys.platform, **packages}
