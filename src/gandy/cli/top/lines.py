"""Lines of styled text for a terminal: cut, aligned, and as bars and sparklines. Pure.

Text is made printable where it becomes a piece of a line: nothing that a peer chose can control the terminal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from gandy.terminal.people import make_printable

_GAP: Final = 2  # columns between two cells of a table

# Select Graphic Rendition, attributes first. Colours alone say nothing: each state also has a letter or a word.
STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "": ("", ""),
    "bold": ("1", ""),
    "dim": ("2", ""),
    "chosen": ("7", ""),
    "title": ("1", ""),
    "bad": ("1", "31"),
    "warning": ("", "33"),
    "number": ("1", ""),
    "waiting": ("2", ""),
    "assigned": ("", "36"),
    "running": ("", "96"),
    "finished": ("", "94"),
    "failed": ("1", "31"),
    "cancelled": ("", "33"),
    "paused": ("", "35"),
    "absent": ("1", "31"),
    "draining": ("", "33"),
    "short": ("", "33"),
}

SPARKS: Final = "▁▂▃▄▅▆▇█"
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

# For terminals that show ASCII only.
_ASCII: Final = str.maketrans(
    {
        **dict(zip(SPARKS, "_.,-=+*#", strict=True)),
        **dict(zip(EIGHTHS, "  .-=+**#", strict=True)),
        **dict(zip("▓▒░·✗○…▸↑↓≤µ", "%>:.Xo~>^v<u", strict=True)),
    }
)


class Styled(NamedTuple):
    """A part of a line, in one style."""

    text: str
    style: str = ""


Line = tuple[Styled, ...]
Part = str | Styled


def make_line(*parts: Part) -> Line:
    pieces = (Styled(part) if isinstance(part, str) else part for part in parts)
    return tuple(Styled(make_printable(text), style) for text, style in pieces if text)


def count_columns(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def measure(line: Line) -> int:
    """The columns that a line takes."""
    return sum(count_columns(text) for text, _ in line)


def get_text(line: Line) -> str:
    return "".join(text for text, _ in line)


def cut(line: Line, width: int) -> Line:
    """The line, if it fits; else as much of it as does, and an ellipsis."""
    if measure(line) <= width:
        return line
    kept: list[Styled] = []
    left = width - 1
    for text, style in line:
        columns = count_columns(text)
        if columns > left:
            return (*kept, Styled(set_cell_size(text, max(0, left)) + "…", style)) if width > 0 else ()
        kept.append(Styled(text, style))
        left -= columns
    raise AssertionError("the line is too long")


def pad(line: Line, width: int) -> Line:
    """The line with exactly this width."""
    line = cut(line, width)
    missing = width - measure(line)
    return (*line, Styled(" " * missing)) if missing > 0 else line


def choose(line: Line, width: int) -> Line:
    """The line as one that is chosen: it looks so without colours, too."""
    return tuple(Styled(text, "chosen") for text, _ in pad(line, width))


def join(left: Line, right: Line, width: int) -> Line:
    """Two texts at both ends of a line. The right one is kept if there is no room for both."""
    return (*pad(left, width - measure(right)), *right)


def encode_line(line: Line, has_colours: bool, is_ascii: bool = False) -> str:
    """The line as a terminal takes it."""
    parts = []
    for text, style in line:
        attributes, colour = STYLES[style]
        codes = ";".join(filter(None, (attributes, colour if has_colours else "")))
        parts.append(f"\x1b[{codes}m{text}\x1b[0m" if codes else text)
    encoded = "".join(parts)
    return to_ascii(encoded) if is_ascii else encoded


def to_ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "replace").decode()


# Tables


class Column(NamedTuple):
    """A column of a table. Those of numbers are aligned to the right."""

    title: str
    width: int = 0  # at least
    is_number: bool = False


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[Part]], width: int) -> list[Line]:
    """The titles and the rows, as lines. What does not fit into the width is cut from the last column."""
    cells = [[Styled(*((part, "") if isinstance(part, str) else part)) for part in row] for row in rows]
    cells = [[Styled(make_printable(text), style) for text, style in row] for row in cells]
    titles = [Styled(column.title.upper(), "title") for column in columns]
    widths = [
        max(column.width, *(count_columns(row[number].text) for row in (titles, *cells)))
        for number, column in enumerate(columns)
    ]
    return [cut(_make_row(columns, row, widths), width) for row in (titles, *cells)]


def _make_row(columns: Sequence[Column], row: Sequence[Styled], widths: Sequence[int]) -> Line:
    pieces: list[Styled] = []
    for column, piece, width in zip(columns, row, widths, strict=True):
        gap = Styled(" " * (width - count_columns(piece.text)))
        pieces += [gap, piece] if column.is_number else [piece, gap]
        pieces.append(Styled(" " * _GAP))
    return tuple(piece for piece in pieces[:-1] if piece.text)


def find_window(count: int, chosen: int, room: int) -> range:
    """Which of so many rows are shown, at least one, so that the chosen one is among them."""
    room = max(1, room)
    first = max(0, min(chosen - room // 2, count - room))
    return range(first, min(count, first + room))


# Bars


def draw_spark(values: Iterable[float], width: int, most: float | None = None) -> str:
    """The last values, each as high as it is large. Nothing is drawn where there are none yet."""
    last = list(values)[-width:] if width > 0 else []
    top = max(last, default=0.0) if most is None else most
    marks = (SPARKS[min(len(SPARKS) - 1, int(value / top * len(SPARKS)))] if top > 0 else SPARKS[0] for value in last)
    return "".join(marks).rjust(width)


def draw_fill(part: float, whole: float, width: int) -> str:
    """How much of something is used."""
    eighths = round(min(1.0, part / whole) * width * 8) if whole > 0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def share_out(counts: Sequence[int], width: int) -> list[int]:
    """Share so many cells out among counts; each that is not zero gets at least one, as long as there are enough."""
    total = sum(counts)
    if not total or width <= 0:
        return [0] * len(counts)
    cells = [max(1, count * width // total) if count else 0 for count in counts]
    while (excess := sum(cells) - width) != 0:
        largest = max(range(len(cells)), key=lambda number: (cells[number], counts[number]))
        cells[largest] -= excess if 0 < excess < cells[largest] or excess < 0 else 1
    return cells
