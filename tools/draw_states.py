"""Draws a law table as an SVG.

It owns the look. A plan says on which square of a grid each state stands; every word and every arrow comes from the
table. It refuses a step that the plan has no room for: a diagram must be complete.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from html import escape
from math import ceil
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from gandy.talk.law import Role, Step
from gandy.wire.messages import Message, Request

S = TypeVar("S", bound=Enum)
Law: TypeAlias = Mapping[tuple[S, Role, Step], S]
Square: TypeAlias = tuple[int, int]  # column and row
Point: TypeAlias = tuple[int, int]
Said: TypeAlias = dict[Role, list[Step]]

# All lengths are in pixels. A letter is 0.6 of its size wide in each of the monospace fonts that the style names.
LETTER: Final = 0.6
NAME_SIZE: Final = 16
BODY_SIZE: Final = 11
LABEL_SIZE: Final = 12
LINE: Final = 16
PADDING: Final = 14
MARGIN: Final = 32
HEAD: Final = 64  # above the first row, for the way in
FOOT: Final = 76  # below the last row, for the note
ROW_GAP: Final = 104
LANE: Final = 11  # two arrows between the same boxes run on both sides of the middle, this far from it
CLEAR: Final = 8  # between a label and its arrow
ENDS: Final = 18  # between a label and the boxes left and right of it
ROUND: Final = 10  # radius of a box's corners
INSET: Final = 3  # a round corner is this far inside the square one

STYLE: Final = """
text { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #2b2b2b }
.name { font-size: 16px; font-weight: 700; text-anchor: middle }
.body { font-size: 11px }
.label { font-size: 12px }
.note { font-size: 11px; fill: #6b675f }
.worker { fill: #a3470a; font-weight: 700 }
.foreman { fill: #1b5a86; font-weight: 700 }
.either { fill: #5d3b86; font-weight: 700 }
.card { fill: #fbfaf6; stroke: #d9d4c8 }
.box { fill: #ffffff; stroke: #4a4a4a; stroke-width: 1.5 }
.dot { fill: #4a4a4a }
.arrow { fill: none; stroke: #4a4a4a; stroke-width: 1.5; marker-end: url(#head) }
"""
HEAD_MARKER: Final = """\
<marker id="head" viewBox="0 0 10 10" refX="9.5" refY="5" markerWidth="9" markerHeight="9"
 markerUnits="userSpaceOnUse" orient="auto"><path class="dot" d="M0 0.5 L10 5 L0 9.5 z"/></marker>"""
NOTE: Final = (
    "Inside a box: messages that do not change the state.",
    "Anything that is not drawn here is a protocol error.",
)


class LayoutError(Exception):
    """The plan has no room for something in the table."""


class Plan(NamedTuple, Generic[S]):
    """Where the states stand, and which one a new link begins in."""

    title: str
    start: S
    squares: Mapping[S, Square]


class Phrase(NamedTuple):
    """What one sender, or either, may send."""

    who: str
    what: str


class Box(NamedTuple):
    """A state in the drawing."""

    name: str
    phrases: Sequence[Phrase]
    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height

    @property
    def centre(self) -> Point:
        return self.left + self.width // 2, self.top + self.height // 2


class Arrow(NamedTuple, Generic[S]):
    """All steps from one state to another, `right` columns and `down` rows away."""

    source: S
    target: S
    phrases: Sequence[Phrase]
    is_paired: bool  # another arrow leads back
    corner: Square  # the upper left one of the squares that it connects
    right: int
    down: int

    @property
    def lane(self) -> int:
        return LANE if self.is_paired else 0

    @property
    def label_width(self) -> int:
        return _text_width(self.phrases, LABEL_SIZE)


class Route(NamedTuple):
    """An arrow in the drawing: its two ends, and where the first line of its label begins."""

    begin: Point
    end: Point
    label: Point


def draw(law: Law[S], plan: Plan[S]) -> str:
    """The whole diagram.

    Raises: LayoutError.
    """
    said = _group_steps(law)
    _check_squares(said, plan)
    arrows = _make_arrows(said, plan)
    _check_diagonals(arrows)
    boxes = _place_boxes(said, arrows, plan)
    parts = [
        *_draw_paper(boxes.values(), plan.title),
        *_draw_start(boxes[plan.start]),
        *(part for box in boxes.values() for part in _draw_box(box)),
        *(part for arrow in arrows for part in _draw_arrow(arrow, boxes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# Words


def _group_steps(law: Law[S]) -> dict[tuple[S, S], Said]:
    """All steps by where they lead from and to."""
    said: dict[tuple[S, S], Said] = {}
    for (state, sender, step), following in law.items():
        said.setdefault((state, following), {}).setdefault(sender, []).append(step)
    return said


def _phrase(said: Said) -> list[Phrase]:
    """What may be sent, by sender; messages that both may send appear once."""
    lines = {role: _word_steps(said.get(role, ())) for role in Role}
    shared = [what for what in lines[Role.WORKER] if what in lines[Role.FOREMAN]]
    own = [Phrase(role.value, what) for role in Role for what in lines[role] if what not in shared]
    return own + [Phrase("either", what) for what in shared]


def _word_steps(steps: Iterable[Step]) -> list[str]:
    """One line for the requests, and one for all requests that are answered alike."""
    plain: list[str] = []
    answers: dict[type[Request], list[str]] = {}
    for message, asked in steps:
        words = plain if asked is None else answers.setdefault(asked, [])
        words.append(_name(message))
    alike: dict[str, list[str]] = {}
    for asked, words in answers.items():
        alike.setdefault(_list(words), []).append(_name(asked))
    requests = [_list(plain)] if plain else []
    return requests + [f"{words} to {_list(asked)}" for words, asked in alike.items()]


def _name(message: type[Message]) -> str:
    return message.__name__.upper()


def _list(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _text_width(phrases: Iterable[Phrase], size: int) -> int:
    return max((ceil(len(f"{who}: {what}") * size * LETTER) for who, what in phrases), default=0)


# Places


def _check_squares(said: Iterable[tuple[S, S]], plan: Plan[S]) -> None:
    missing = {state.name for pair in said for state in pair if state not in plan.squares}
    if missing:
        raise LayoutError(f"no square for {', '.join(sorted(missing))}")
    if len(set(plan.squares.values())) < len(plan.squares):
        raise LayoutError("two states on one square")


def _make_arrows(said: Mapping[tuple[S, S], Said], plan: Plan[S]) -> list[Arrow[S]]:
    arrows = []
    for (source, target), steps in said.items():
        if source is target:
            continue
        (column, row), (next_column, next_row) = plan.squares[source], plan.squares[target]
        right, down = next_column - column, next_row - row
        if max(abs(right), abs(down)) > 1:
            raise LayoutError(f"{source.name} and {target.name} are not neighbours")
        corner = min(column, next_column), min(row, next_row)
        arrows.append(Arrow(source, target, _phrase(steps), (target, source) in said, corner, right, down))
    return arrows


def _check_diagonals(arrows: Iterable[Arrow[S]]) -> None:
    corners = [arrow.corner for arrow in arrows if arrow.right and arrow.down]
    if len(set(corners)) < len(corners):
        raise LayoutError("between four squares there is room for one diagonal arrow only")


def _place_boxes(said: Mapping[tuple[S, S], Said], arrows: Sequence[Arrow[S]], plan: Plan[S]) -> dict[S, Box]:
    """Columns as wide and rows as high as need be, and each box in the middle of its square."""
    boxes = {state: _make_box(state.name, _phrase(said.get((state, state), {}))) for state in plan.squares}
    widths, heights = _measure_squares(boxes, arrows, plan)
    gaps = _measure_gaps(arrows, len(widths))
    for state, (column, row) in plan.squares.items():
        box = boxes[state]
        left = MARGIN + sum(widths[:column]) + sum(gaps[:column]) + (widths[column] - box.width) // 2
        top = HEAD + sum(heights[:row]) + ROW_GAP * row + (heights[row] - box.height) // 2
        boxes[state] = box._replace(left=left, top=top)
    return boxes


def _make_box(name: str, phrases: Sequence[Phrase]) -> Box:
    width = max(ceil(len(name) * NAME_SIZE * LETTER), _text_width(phrases, BODY_SIZE))
    height = NAME_SIZE + len(phrases) * LINE + (LINE // 2 if phrases else 0)
    return Box(name, phrases, 0, 0, width + 2 * PADDING, height + 2 * PADDING)


def _measure_squares(boxes: Mapping[S, Box], arrows: Iterable[Arrow[S]], plan: Plan[S]) -> tuple[list[int], list[int]]:
    """Widths of columns and heights of rows. A label beside a vertical arrow stays inside its column."""
    columns, rows = zip(*plan.squares.values(), strict=True)
    widths, heights = [0] * (1 + max(columns)), [0] * (1 + max(rows))
    for state, (column, row) in plan.squares.items():
        widths[column] = max(widths[column], boxes[state].width)
        heights[row] = max(heights[row], boxes[state].height)
    for arrow in arrows:
        if not arrow.right:
            column, _ = arrow.corner
            widths[column] = max(widths[column], 2 * (arrow.lane + CLEAR + arrow.label_width))
    return widths, heights


def _measure_gaps(arrows: Iterable[Arrow[S]], columns: int) -> list[int]:
    """Gaps right of each column. Labels of horizontal and diagonal arrows stay inside them."""
    gaps = [0] * columns
    for arrow in arrows:
        if arrow.right:
            column, _ = arrow.corner
            room = 2 * (arrow.label_width + ENDS) if arrow.down else arrow.label_width + 2 * ENDS
            gaps[column] = max(gaps[column], room)
    return gaps


# Arrows


def _route(arrow: Arrow[S], source: Box, target: Box) -> Route:
    if not arrow.down:
        return _route_across(arrow, source, target)
    if not arrow.right:
        return _route_along(arrow, source, target)
    return _route_diagonal(arrow, source, target)


def _route_across(arrow: Arrow[S], source: Box, target: Box) -> Route:
    """To the right above the middle, to the left below it, with the label on the outer side."""
    y = source.centre[1] - arrow.right * arrow.lane
    begin, end = (source.right, target.left) if arrow.right > 0 else (source.left, target.right)
    is_above = arrow.right > 0 or not arrow.is_paired
    label_y = y - CLEAR - _label_drop(arrow) if is_above else y + CLEAR + LABEL_SIZE
    return Route((begin, y), (end, y), ((begin + end - arrow.label_width) // 2, label_y))


def _route_along(arrow: Arrow[S], source: Box, target: Box) -> Route:
    """Down on the right of the middle, up on the left of it, with the label on the outer side."""
    x = source.centre[0] + arrow.down * arrow.lane
    begin, end = (source.bottom, target.top) if arrow.down > 0 else (source.top, target.bottom)
    label_y = (begin + end) // 2 + LABEL_SIZE // 3 - _label_drop(arrow) // 2
    return Route((x, begin), (x, end), (_beside(x, arrow.down, arrow), label_y))


def _route_diagonal(arrow: Arrow[S], source: Box, target: Box) -> Route:
    """From corner to corner, with the label above it."""
    begin, end = _corner(source, arrow.right, arrow.down), _corner(target, -arrow.right, -arrow.down)
    x, y = (begin[0] + end[0]) // 2, (begin[1] + end[1]) // 2
    return Route(begin, end, (_beside(x, arrow.right * arrow.down, arrow), y - CLEAR - _label_drop(arrow)))


def _corner(box: Box, right: int, down: int) -> Point:
    x = box.right - INSET if right > 0 else box.left + INSET
    y = box.bottom - INSET if down > 0 else box.top + INSET
    return x, y


def _beside(x: int, side: int, arrow: Arrow[S]) -> int:
    """Where a label begins that stands right (1) or left (-1) of its arrow."""
    return x + CLEAR if side > 0 else x - CLEAR - arrow.label_width


def _label_drop(arrow: Arrow[S]) -> int:
    """From the first line of a label to its last."""
    return (len(arrow.phrases) - 1) * LINE


# Paper


def _draw_paper(boxes: Iterable[Box], title: str) -> list[str]:
    left, right, bottom = zip(*((box.left, box.right, box.bottom) for box in boxes), strict=True)
    width, height = min(left) + max(right), max(bottom) + FOOT
    note_y = height - FOOT // 2
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f"<defs>{HEAD_MARKER}</defs>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="{ROUND}"/>',
        *(f'<text class="note" x="{MARGIN}" y="{note_y + n * LINE}">{text}</text>' for n, text in enumerate(NOTE)),
    ]


def _draw_start(box: Box) -> list[str]:
    x, y = box.centre[0], HEAD // 3
    return [
        f'<circle class="dot" cx="{x}" cy="{y}" r="5"/>',
        f'<path class="arrow" d="M{x} {y} L{x} {box.top}"/>',
        f'<text class="note" x="{x + 12}" y="{y + 4}">new link</text>',
    ]


def _draw_box(box: Box) -> list[str]:
    name_y = box.top + PADDING + NAME_SIZE - 3  # capital letters are lower than their size
    return [
        f'<rect class="box" x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" rx="{ROUND}"/>',
        f'<text class="name" x="{box.centre[0]}" y="{name_y}">{escape(box.name)}</text>',
        *_draw_phrases(box.phrases, (box.left + PADDING, name_y + LINE * 3 // 2), "body"),
    ]


def _draw_arrow(arrow: Arrow[S], boxes: Mapping[S, Box]) -> list[str]:
    (x1, y1), (x2, y2), label = _route(arrow, boxes[arrow.source], boxes[arrow.target])
    return [f'<path class="arrow" d="M{x1} {y1} L{x2} {y2}"/>', *_draw_phrases(arrow.phrases, label, "label")]


def _draw_phrases(phrases: Sequence[Phrase], first: Point, look: str) -> list[str]:
    x, y = first
    return [
        f'<text class="{look}" x="{x}" y="{y + line * LINE}"><tspan class="{who}">{who}:</tspan> {escape(what)}</text>'
        for line, (who, what) in enumerate(phrases)
    ]
