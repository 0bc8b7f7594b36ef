"""Charts of a report as SVG, and the map of tasks as a picture. Pure. Lengths are in pixels of the widest page."""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from gandy.cli.report.html import Html, element, text
from gandy.cli.report.png import encode_png
from gandy.cli.report.style import COLOURS
from gandy.core.model import Counts, TaskState
from gandy.terminal.people import format_count, format_seconds
from gandy.viewer.summary import Bar
from gandy.viewer.timeline import Attempt

WIDTH: Final = 1_000
CHART: Final = (440, 130)  # of a histogram, without its axis
AXIS: Final = 18
MAX_BARS: Final = 44
WIDEST: Final = 44  # of a bar, if there are few
MAX_LANES: Final = 200  # of a timeline; a page shows no more
LABELS: Final = 150  # left of a timeline: names of workers
TICKS: Final = 8  # at most

_STEPS: Final = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)

_SHOWN: Final = (
    TaskState.FINISHED,
    TaskState.FAILED,
    TaskState.CANCELLED,
    TaskState.RUNNING,
    TaskState.ASSIGNED,
    TaskState.WAITING,
)


def _draw_svg(width: float, height: float, label: str, *parts: Html) -> Html:
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label)


def _draw_rect(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> Html:
    hint = element("title", text(title)) if title else Html("")
    return Html(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">{hint}</rect>')


def _draw_text(x: float, y: float, words: str, anchor: str = "start") -> Html:
    return Html(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>')


def count_states(counts: Counts) -> list[tuple[TaskState, int]]:
    """The states that tasks are in, and how many are in each."""
    numbers = [(state, int(getattr(counts, state.name.lower()))) for state in _SHOWN]
    return [(state, number) for state, number in numbers if number]


def draw_legend(counts: Counts) -> Html:
    states = count_states(counts)
    items = (element("li", text(f"{format_count(n)} {_name(state)}"), class_=_name(state)) for state, n in states)
    return element("ul", *items, class_="legend")


def _name(state: TaskState) -> str:
    return state.name.lower()


def draw_progress(counts: Counts) -> Html:
    """All tasks side by side, by state."""
    rects: list[Html] = []
    x = 0.0
    for state, number in count_states(counts):
        width = WIDTH * number / counts.total
        rects.append(_draw_rect(x, 0, max(width, 1.0), 14, _name(state), f"{format_count(number)} {_name(state)}"))
        x += width
    return _draw_svg(WIDTH, 14, "how many tasks are in each state", *rects)


# Histograms


def draw_histogram(bars: Sequence[Bar], show: Callable[[float], str], label: str) -> Html:
    """Bars side by side, each as high as its number of values."""
    bars = _add_up(bars)
    width, height = CHART
    most = max(count for _, _, count in bars)
    step = min(width / len(bars), WIDEST)
    rects = [
        _draw_rect(
            place * step + 0.5, height - tall, max(1.0, step - 1), tall, "bar finished", _describe_bar(bar, show)
        )
        for place, bar in enumerate(bars)
        if (tall := max(1.5, height * bar[2] / most) if bar[2] else 0.0)
    ]
    axis = Html(f'<line x1="0" x2="{width}" y1="{height}" y2="{height}"/>')
    marks = [(0.0, show(bars[0][0]), "start"), (step * len(bars), show(bars[-1][1]), "end")]
    if len(bars) > 8:
        marks.insert(1, (step * (len(bars) // 2), show(bars[len(bars) // 2][0]), "middle"))
    elif len(bars) < 4:  # there is no room for two
        marks = [(0.0, f"{marks[0][1]} to {marks[1][1]}", "start")]
    texts = [_draw_text(x, height + AXIS - 4, words, anchor) for x, words, anchor in marks]
    return _draw_svg(width, height + AXIS, label, *rects, axis, *texts)


def _describe_bar(bar: Bar, show: Callable[[float], str]) -> str:
    begin, end, count = bar
    return f"{show(begin)} to {show(end)}: {format_count(count)}"


def _add_up(bars: Sequence[Bar]) -> Sequence[Bar]:
    size = -(-len(bars) // MAX_BARS)
    parts = (bars[first : first + size] for first in range(0, len(bars), size))
    return [(part[0][0], part[-1][1], sum(count for _, _, count in part)) for part in parts]


# The map


def draw_map(states: bytes) -> Html:
    """A picture with a pixel for each task, which is shown larger if there are few."""
    cell, columns = next(
        (cell, WIDTH // cell) for cell, most in ((12, 2_400), (4, 40_000), (1, 1 << 40)) if len(states) <= most
    )
    columns = max(1, min(columns, len(states)))
    palette = [COLOURS[TaskState(number)] for number in range(len(TaskState))]
    data = base64.b64encode(encode_png(states, columns, [*palette, (0, 0, 0)])).decode()
    counted = Counter(states)
    words = ", ".join(f"{format_count(number)} {_name(TaskState(state))}" for state, number in counted.most_common())
    return Html(
        f'<img class="map" alt="{text(f"a map of all tasks: {words}")}" style="width: min(100%, {columns * cell}px)" '
        f'src="data:image/png;base64,{data}">'
    )


# The timeline


def draw_timeline(attempts: Sequence[Attempt], now: float) -> Html:
    """Attempts in lanes of their workers, from the first that began to the last that ended."""
    begin = min(float(each.began) for each in attempts)
    end = max(begin + 0.001, *(_find_end(each, now) for each in attempts))
    scale = (WIDTH - LABELS) / (end - begin)
    lanes = _list_lanes(attempts)
    tall = 14.0 if len(lanes) <= 16 else 8.0 if len(lanes) <= 64 else 4.0
    places = {lane: place for place, lane in enumerate(lanes[:MAX_LANES])}
    height = tall * len(places)
    rects = [
        _draw_attempt(each, LABELS + (float(each.began) - begin) * scale, tall * place, scale, tall, now)
        for each in attempts
        if (place := places.get((each.worker, each.lane))) is not None
    ]
    ground = _draw_rect(LABELS, 0, WIDTH - LABELS, height, "lane")
    parts = [ground, *_draw_axis(end - begin, scale, height), *rects, *_draw_names(places, tall)]
    svg = _draw_svg(WIDTH, height + AXIS, "which attempt ran when, and on which worker", *parts)
    return element("div", svg, class_="wide timeline")


def _find_end(attempt: Attempt, now: float) -> float:
    return max(now, float(attempt.began)) if attempt.ended is None else float(attempt.ended)


def _list_lanes(attempts: Iterable[Attempt]) -> list[tuple[str, int]]:
    return sorted({(each.worker, each.lane) for each in attempts})


def count_hidden_lanes(attempts: Iterable[Attempt]) -> int:
    """Lanes that a timeline has no room for."""
    return max(0, len(_list_lanes(attempts)) - MAX_LANES)


def _draw_attempt(attempt: Attempt, x: float, y: float, scale: float, tall: float, now: float) -> Html:
    seconds = _find_end(attempt, now) - float(attempt.began)
    where = f"task {attempt.task}, attempt {attempt.attempt} on {attempt.worker}"
    title = f"{where}: {attempt.state}, {format_seconds(seconds)}"
    return _draw_rect(x, y + 0.5, max(0.8, seconds * scale - 0.4), tall - 1, attempt.state, title)


def _draw_names(places: dict[tuple[str, int], int], tall: float) -> Iterator[Html]:
    """The name of each worker beside its first lane, if there is room."""
    last = -1_000.0
    for worker, group in groupby(places.items(), lambda item: item[0][0]):
        y = tall * next(group)[1] + max(tall, 11.0) - 2
        if y >= last + 11:
            last = y
            yield _draw_text(LABELS - 8, y, worker if len(worker) <= 22 else f"{worker[:21]}…", "end")


def _draw_axis(seconds: float, scale: float, height: float) -> Iterator[Html]:
    step = next((step for step in _STEPS if seconds / step <= TICKS), seconds / TICKS)
    for number in range(int(seconds / step) + 1):
        x = LABELS + number * step * scale
        yield Html(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height:.1f}"/>')
        anchor = "start" if number == 0 else "end" if x > WIDTH - 40 else "middle"
        yield _draw_text(x, height + AXIS - 5, _format_tick(number * step), anchor)


def _format_tick(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 60 else format_seconds(seconds)
