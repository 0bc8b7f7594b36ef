"""Draws figures as an SVG with horizontal bars on a logarithmic scale.

It owns the look: a card of its own colour, so that it can be read on light and on dark pages.
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final, NamedTuple

# All lengths are in pixels. A letter is 0.6 of its size wide in each of the monospace fonts that the style names.
LETTER: Final = 0.6
SIZE: Final = 12
LINE: Final = 22
BAR: Final = 14
MARGIN: Final = 20
GAP: Final = 8  # between a name and its bar, and a bar and its figure
HEAD: Final = 64  # for the title and the numbers of the scale
FIELD: Final = 400  # for the bars
FIGURE: Final = 90  # for the text after a bar

STYLE: Final = """
text { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #2b2b2b; font-size: 12px }
.title { font-size: 14px; font-weight: 700 }
.name { text-anchor: end }
.scale { font-size: 11px; fill: #6b675f; text-anchor: middle }
.card { fill: #fbfaf6; stroke: #d9d4c8 }
.line { stroke: #d9d4c8 }
.gandy { fill: #a3470a }
.reference { fill: #1b5a86 }
.other { fill: #8d887c }
"""


class Bar(NamedTuple):
    """One figure, and its look: gandy, reference or other."""

    name: str
    value: float
    look: str


def draw(title: str, bars: Sequence[Bar]) -> str:
    """The whole picture, in the order of the bars. Figures must be above zero."""
    low, high = find_decades(bar.value for bar in bars)
    left = MARGIN + ceil(max(len(bar.name) for bar in bars) * SIZE * LETTER) + GAP
    width, height = left + FIELD + FIGURE + MARGIN, HEAD + len(bars) * LINE + MARGIN

    def place(value: float) -> int:
        return left + round((log10(value) - low) / (high - low) * FIELD)

    scale = [_draw_line(place(10**power), power, height) for power in range(low, high + 1)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 8}">{escape(title)}</text>',
        *scale,
        *(_draw_bar(bar, HEAD + number * LINE, left, place(bar.value)) for number, bar in enumerate(bars)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def find_decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten around all values. The least value has a bar, too."""
    powers = [log10(value) for value in values]
    low = floor(min(powers) - 0.1)
    return low, max(ceil(max(powers)), low + 1)


def format_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw_line(x: int, power: int, height: int) -> str:
    words = format_figure(10**power)
    line = f'<path class="line" d="M{x} {HEAD - 6} L{x} {height - MARGIN}"/>'
    return f'{line}\n<text class="scale" x="{x}" y="{HEAD - 12}">{words}</text>'


def _draw_bar(bar: Bar, top: int, left: int, right: int) -> str:
    words_y = top + BAR - 3  # capital letters are lower than their size
    return "\n".join(
        [
            f'<text class="name" x="{left - GAP}" y="{words_y}">{escape(bar.name)}</text>',
            f'<rect class="{bar.look}" x="{left}" y="{top}" width="{right - left}" height="{BAR}" rx="2"/>',
            f'<text x="{right + GAP}" y="{words_y}">{format_figure(bar.value)}</text>',
        ]
    )
