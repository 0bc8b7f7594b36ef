"""Prints tables and lists of fields. It gets text, and only lays it out."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gandy.terminal.people import make_printable

# Columns if standard output is a pipe or a file, where nothing is cut.
_UNBOUNDED: Final = 100_000

PAGE_ROWS: Final = 1_000  # of a table, laid out and printed together

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
    """Print a table, page by page: there may be a million rows. Columns may become wider from one page to the next.

    A header that begins with > is for numbers, which are aligned to the right.
    """
    console = _make_console()
    has_colours = console.is_terminal and console.color_system is not None and not console.no_color
    lefts = [not header.startswith(">") for header in headers]
    titles = [header.removeprefix(">").upper() for header in headers]
    widths = [0] * len(headers)
    rest = iter(rows)
    page = [titles, *islice(rest, PAGE_ROWS)]
    while page:
        cells = [[make_printable(text) for text in row] for row in page]
        columns = zip(*cells, strict=True)
        widths = [max(width, *map(_count_columns, column)) for width, column in zip(widths, columns, strict=True)]
        room = max(_LEAST_WIDTH, console.width - sum(widths[:-1]) - _GAP * (len(widths) - 1))
        fitting = [*widths[:-1], min(widths[-1], room)]  # the last one is cut if the page is narrow
        lines = [_make_line(row, fitting, lefts) for row in cells]
        if page[0] is titles:
            lines[0] = click.style(lines[0], bold=True)
        click.echo("\n".join(lines), color=has_colours)
        page = list(islice(rest, PAGE_ROWS))


def _count_columns(text: str) -> int:
    """Count the columns that a printable text takes. ASCII is handled first, since nearly all cells are ASCII."""
    return len(text) if text.isascii() else cell_len(text)


def _make_line(row: Iterable[str], widths: Iterable[int], lefts: Iterable[bool]) -> str:
    cells = []
    for text, width, is_left in zip(row, widths, lefts, strict=True):
        shown, left = text, width - _count_columns(text)
        if left < 0:
            shown, left = set_cell_size(text, width - 1) + "…", 0
        gap = " " * left
        if text in _STYLES:
            shown = click.style(shown, fg=_STYLES[text])
        cells.append(shown + gap if is_left else gap + shown)
    return (" " * _GAP).join(cells).rstrip()


def draw_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names with their values, one per line; those without a value are left out."""
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
