"""Tables and lists of fields for people. It is given words, and decides only how they stand on the page."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from gandy.cli.people import make_printable

# Columns of a page that nobody looks at: a pipe or a file. Nothing is cut there.
_UNBOUNDED: Final = 100_000

_GAP: Final = 2  # columns between two cells
_LEAST_WIDTH: Final = 10  # of the last cell, however narrow the page is

_STYLES: Final[Mapping[str, str]] = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "cancelled": "yellow",
    "paused": "magenta",
    "absent": "yellow",
    "draining": "yellow",
}


def draw_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table. A header that begins with > is that of numbers, which stand on the right."""
    cells = [[_make_cell(text) for text in row] for row in rows]
    console = _make_console()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for place, header in enumerate(headers):
        width = max([len(header.removeprefix(">")), *(row[place].cell_len for row in cells)])
        if place == len(headers) - 1:  # the last one gives way where the page is narrow
            used = sum((column.width or 0) + _GAP for column in table.columns)
            width = min(width, max(_LEAST_WIDTH, console.width - used))
            console.width = max(console.width, used + width)  # better a broken line than a column without numbers
        justify: JustifyMethod = "right" if header.startswith(">") else "left"
        title = header.removeprefix(">").upper()
        table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        table.add_row(*row)
    _print(console, table)


def draw_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names with their values, one on each line; those without a value are left out."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(name, _make_cell(value))
    _print(_make_console(), table)


def _make_cell(text: str) -> Text:
    return Text(make_printable(text), style=_STYLES.get(text, ""))


def _make_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_UNBOUNDED, color_system=None)


def _print(console: Console, table: Table) -> None:
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))
