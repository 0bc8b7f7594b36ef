"""What a run leaves: tables on the screen, and one JSON file for each workload in bench/results."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.contract import Kind
from bench.figures import Row
from bench.harness import Outcome

BUSY_PERCENT: Final = 2.0  # of a core; a contestant that uses more between turns disturbs the others
STOLEN_PERCENT: Final = 2.0  # of all cores; the 99th percentile suffers first
RESULTS: Final = Path(__file__).parent / "results"


def show(outcome: Outcome) -> str:
    """A table for the screen. `cpu us` is of all processes of a contestant, for each operation."""
    table = outcome.table
    is_rates = table.kind is Kind.RATES
    unit = f"{table.unit} per second" if is_rates else "microseconds each"
    columns = ("best", "median") if is_rates else ("best", "median", "p99")
    head = "".join(f"{name:>12}" for name in (*columns, "cpu us", "ratio", "best ratio"))
    lines = [f"\n{table.title} ({unit}; ratios to {table.reference})", f"  {'':36}{head}  count, durability, versions"]
    for name, row in outcome.rows.items():
        figures = "".join(f"{row[column]:12,.0f}" for column in (*columns, "cpu_us"))
        ratios = "".join(f"{_show_ratio(row[column]):>12}" for column in ("ratio", "best_ratio"))
        lines.append(f"  {name:36}{figures}{ratios}  {row['operations']:,}; {row['durability']}; {show_versions(row)}")
        lines += [
            f"    {figure:34}{told['best']:12,.1f}{told['median']:12,.1f}"
            for figure, told in row.get("figures", {}).items()
        ]
    busy = [
        f"{name} {row['idle_percent']} %" for name, row in outcome.rows.items() if row["idle_percent"] > BUSY_PERCENT
    ]
    lines += [f"  not idle while others ran: {', '.join(busy)} of a core"] if busy else []
    if outcome.stolen_percent > STOLEN_PERCENT:
        lines.append(f"  CPU steal {outcome.stolen_percent} %: do not trust these figures")
    lines += [f"  {name:36}missing: {reason}" for name, reason in outcome.missing.items()]
    return "\n".join(lines)


def show_versions(row: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in row["versions"].items()) or "-"


def _show_ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3g}"


def keep(workload: str, outcomes: Sequence[Outcome]) -> None:
    RESULTS.mkdir(exist_ok=True)
    record = {"workload": workload, **describe_machine(), "tables": [_record(o) for o in outcomes]}
    (RESULTS / f"{workload}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def load() -> dict[str, dict[str, Any]]:
    """Every table that was kept, by its key, with what its file says about the machine."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        where = {name: value for name, value in record.items() if name != "tables"}
        tables |= {table["key"]: {**table, "where": where} for table in record["tables"]}
    return tables


def _record(outcome: Outcome) -> dict[str, Any]:
    table = outcome.table
    about = {"key": table.key, "title": table.title, "unit": table.unit, "kind": table.kind.value}
    return {
        **about,
        "count": table.count,
        "repeats": outcome.repeats,
        "reference": table.reference,
        "note": table.note,
        "rows": outcome.rows,
        "missing": outcome.missing,
        "stolen_percent": outcome.stolen_percent,
    }


def describe_machine() -> dict[str, Any]:
    """Facts that figures depend on, and nothing that identifies the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
