"""`gandy bus status` and `gandy bus clock`: show an ensemble and its time as seen from here."""

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from gandy.cli.bus.joining import TICK, EnsembleOptions, bus_options, explain, explain_visibility, join
from gandy.clocks import read_monotonic
from gandy.terminal.options import Format, Seconds, output_option
from gandy.terminal.people import make_printable
from gandy.terminal.say import print_json, say

if TYPE_CHECKING:
    from gandy.bus import Ensemble


QUIET: Final = 0.5  # seconds without changes until a look at an ensemble is over
POLL: Final = 0.01  # seconds between two looks


class View(NamedTuple):
    """An ensemble as seen from here. The keys of the JSON are never renamed or removed."""

    ensemble: str
    process: str
    processes: list[dict[str, Any]]
    services: dict[str, str]
    clock: dict[str, Any]

    @property
    def stable_part(self) -> tuple[Any, ...]:
        """Everything except for what changes with every look."""
        return self.processes, self.services, self.clock["leader"]


def _look(ensemble: "Ensemble") -> View:
    processes = [
        {"process": name, "state": state.name.lower(), "services": list(services)}
        for name, state, services in ensemble.neighbours()
    ]
    return View(ensemble.name, ensemble.process, processes, ensemble.services(), _look_at_clock(ensemble))


def _look_at_clock(ensemble: "Ensemble") -> dict[str, Any]:
    """`offset`: the shared time minus this machine's monotonic clock. Unknown values are None."""
    is_synced, error = ensemble.is_synced, ensemble.clock_error()
    now, local = (ensemble.now(), float(read_monotonic())) if is_synced else (None, 0.0)
    return {
        "leader": ensemble.clock_leader,
        "leads": ensemble.clock_leader == ensemble.process,
        "time": now,
        "offset": None if now is None else now - local,
        "round_trip": ensemble.clock_round_trip(),
        "error": error if math.isfinite(error) else None,
    }


@click.command(epilog=explain("gandy bus status", "gandy bus status --watch", "gandy bus status --output json"))
@click.option("--watch", is_flag=True, help="Keep running, and show what changes.")
@click.option(
    "--wait", type=Seconds(), default="2s", show_default=True, metavar="TIME", help="How long to look for processes."
)
@bus_options
@output_option
def status(watch: bool, wait: float, output: Format, options: EnsembleOptions) -> None:
    """Show which processes and services an ensemble has, and what its clock shows.

    To see them, this command takes part in the ensemble for some seconds. If there are many processes on one
    machine, a longer --wait finds more of them.

    With --output json, an object with the keys ensemble, process (this one), processes, services and clock is printed;
    with --watch, one each second. With --output quiet, only the names of processes are printed.
    """
    with join(options) as ensemble:
        if watch:
            _watch(ensemble, output)
        _settle(ensemble, wait)
        view = _look(ensemble)
        _print_view(view, output)
        if not view.processes:
            say(explain_visibility(options), err=True)


def _settle(ensemble: "Ensemble", wait: float) -> None:
    """Wait for processes to be found; one found at the end has a moment to announce its services."""
    seen, began = _look(ensemble).stable_part, read_monotonic()
    until = began + wait
    while read_monotonic() < until:
        time.sleep(POLL)
        if seen != (seen := _look(ensemble).stable_part):
            until = min(max(until, read_monotonic() + QUIET), began + wait + TICK)
    if ensemble.clock_leader is not None:
        ensemble.wait_for_clock(TICK)


def _watch(ensemble: "Ensemble", output: Format) -> None:
    if output == "table" and sys.stdout.isatty():
        _draw_live(ensemble)
    seen: Any = None
    while True:
        view = _look(ensemble)
        if output == "json" or view.stable_part != seen:
            _print_view(view, output)
        seen = view.stable_part
        time.sleep(TICK)


def _draw_live(ensemble: "Ensemble") -> None:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            live.update(_render(_look(ensemble)), refresh=True)
            time.sleep(TICK)


def _render(view: View) -> Any:
    """Render the table and the fields for a live display."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(str.upper, HEADERS), box=None, pad_edge=False)
    for row in _make_rows(view):
        table.add_row(*(Text(make_printable(cell)) for cell in row))
    fields = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _make_fields(view):
        fields.add_row(Text(name, style="bold"), Text(make_printable(value)))
    return Group(table, Text(), fields)


HEADERS: Final = ("process", "state", "services")


def _print_view(view: View, output: Format) -> None:
    if output == "json":
        print_json(view._asdict())
    elif output == "quiet":
        for process in view.processes:
            say(process["process"])
    else:
        from gandy.terminal.table import draw_fields, draw_table

        if view.processes:
            draw_table(HEADERS, _make_rows(view))
            say()
        draw_fields(_make_fields(view))


def _make_rows(view: View) -> list[tuple[str, ...]]:
    return [
        (process["process"], process["state"].replace("_", " "), ", ".join(process["services"]))
        for process in view.processes
    ]


def _make_fields(view: View) -> list[tuple[str, str]]:
    clock, count = view.clock, len(view.processes)
    return [
        ("ensemble", f"{view.ensemble}: {count or 'no'} other process{'' if count == 1 else 'es'}"),
        ("clock", _format_leader(clock)),
        ("time", "" if clock["time"] is None else f"{clock['time']:.6f} s"),
        ("offset", "" if clock["offset"] is None else f"{clock['offset']:+.6f} s to this machine's monotonic clock"),
        ("round trip", _format_ms(clock["round_trip"])),
        ("error", f"at most {_format_ms(clock['error'])}" if clock["error"] is not None else ""),
    ]


def _format_leader(clock: dict[str, Any]) -> str:
    if clock["leader"] is None:
        return "no process leads it" + ("" if clock["time"] is None else ", and it goes on by itself")
    if clock["leads"]:
        return "this process leads it"
    return f"{clock['leader']} leads it" + (", and has not sent the time yet" if clock["time"] is None else "")


def _format_ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.3f} ms"


@click.command(epilog=explain("gandy bus clock", "gandy bus clock --lead", "gandy bus clock --json | head -60"))
@click.option("--lead", is_flag=True, help="Lead the clock, unless another process does.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects: leader, leads, time, offset, ...")
@bus_options
def clock(lead: bool, as_json: bool, options: EnsembleOptions) -> None:
    """Follow the clock of an ensemble, or lead it, and print a line each second.

    The offset is the shared time minus this machine's monotonic clock; the time is wrong by no more than the error. In
    the JSON all values are in seconds, and null if they are not known; round_trip is the least of the last five.
    """
    with join(options, "lead" if lead else "follow") as ensemble:
        while True:
            now = _look_at_clock(ensemble)
            if as_json:
                print_json(now)
            else:
                say(_clock_to_line(now))
            time.sleep(TICK)


def _clock_to_line(clock: dict[str, Any]) -> str:
    if clock["time"] is None:
        return _format_leader(clock)
    time_and_offset = f"{clock['time']:.6f} s, offset {clock['offset']:+.6f} s"
    trip = f", round trip {_format_ms(clock['round_trip'])}" if clock["round_trip"] is not None else ""
    error = f", error {_format_ms(clock['error'])}" if clock["error"] is not None else ""
    return f"{time_and_offset}{trip}{error}: {_format_leader(clock)}"
