"""Describes the results of `make bench` in Markdown and as plots: docs/benchmarks.md takes its tables from here."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from bench.catalogue import FIRST
from bench.marks import Verdict, judge

from tools.draw_bars import Bar, draw, format_figure
from tools.markdown import table

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]  # what `bench.records.load` gives

FIGURES: Final = {"rates": ("median", "best"), "times": ("median", "p99", "best")}
NOTHING: Final = "-"


def list_marks(tables: Tables) -> str:
    rows = [_make_mark_row(verdict) for verdict in judge(tables)]
    return table(["", "gandy's", "mark", "by medians", "by bests", ""], rows)


def _make_mark_row(verdict: Verdict) -> list[str]:
    mark = verdict.mark
    bound = f"{mark.sign} {mark.bound:g}{'' if mark.unit == 'times' else ' ' + mark.unit}"
    figures = [format_optional(value) for value in (verdict.median, verdict.best)]
    return [mark.workload, mark.text, bound, *figures, "**met**" if verdict.word == "met" else verdict.word]


def describe_tables(tables: Tables) -> str:
    """A section for each, W1 to W8 first."""
    return "\n\n".join(describe_table(found) for found in sort_tables(tables))


def sort_tables(tables: Tables) -> list[Mapping[str, Any]]:
    def rank(found: Mapping[str, Any]) -> int:
        workload = found["where"]["workload"]
        return FIRST.index(workload) if workload in FIRST else len(FIRST)

    return sorted(tables.values(), key=rank)


def describe_table(found: Mapping[str, Any]) -> str:
    columns = FIGURES[found["kind"]]
    more = list_figures(found)
    named = [name.replace("_us", " µs").replace("_mib", " MiB").replace("_", " ") for name in more]
    head = ["", *columns, "ratio", "best ratio", "CPU µs", *named, "operations", "durability", "versions"]
    rows = [_make_row(name, row, columns, more) for name, row in sort_rows(found)]
    where = found["where"]
    machine = f"{where['cores']} cores, {where['machine']}, {where['kernel']}, Python {where['python']}"
    parts = [
        f"## {found['title']}",
        f"{describe_unit(found)} {found['note']} Ratios are to {found['reference']}.".replace("  ", " "),
        f"![{found['title']}](benchmarks/{found['key']}.svg)",
        table(head, rows),
        *([f"Missing: {_list_missing(found)}."] if found["missing"] else []),
        f"{where['date']}: {machine}, {found['repeats']} interleaved repeats{_describe_stolen(found)}.",
    ]
    return "\n\n".join(parts)


def list_figures(found: Mapping[str, Any]) -> list[str]:
    """Additional figures of some workloads. All contestants of a table have the same."""
    rows = list(found["rows"].values())
    return list(rows[0].get("figures", ())) if rows else []


def describe_unit(found: Mapping[str, Any]) -> str:
    if found["kind"] == "rates":
        return f"{found['unit'].capitalize()} per second: more is better."
    return "Microseconds each: fewer is better."


def sort_rows(found: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The best first."""
    return sorted(found["rows"].items(), key=lambda item: item[1]["median"], reverse=found["kind"] == "rates")


def _make_row(name: str, row: Mapping[str, Any], columns: tuple[str, ...], more: list[str]) -> list[str]:
    versions = ", ".join(f"{package} {version}" for package, version in row["versions"].items())
    return [
        f"**{name}**" if name.startswith("gandy") else name,
        *(format_figure(row[column]) for column in columns),
        format_optional(row["ratio"]),
        format_optional(row["best_ratio"]),
        format_figure(row["cpu_us"]),
        *(format_figure(row["figures"][figure]["median"]) for figure in more),
        f"{row['operations']:,}",
        f"{row['durability']}; {row['note']}" if row["note"] else row["durability"],
        versions or NOTHING,
    ]


def _describe_stolen(found: Mapping[str, Any]) -> str:
    """CPU time that the host of a virtual machine gave to other machines, if it was measured."""
    return f"; CPU steal {found['stolen_percent']:g} %" if "stolen_percent" in found else ""


def _list_missing(found: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} ({reason})" for name, reason in found["missing"].items())


def format_optional(value: float | None) -> str:
    return NOTHING if value is None else format_figure(value)


def draw_table(found: Mapping[str, Any]) -> str:
    bars = [Bar(name, row["median"], _choose_look(name, found)) for name, row in sort_rows(found)]
    return draw(f"{found['title']}: {describe_unit(found).lower().rstrip('.')}", bars)


def _choose_look(name: str, found: Mapping[str, Any]) -> str:
    if name == found["reference"]:
        return "reference"
    return "gandy" if name.startswith("gandy") else "other"
